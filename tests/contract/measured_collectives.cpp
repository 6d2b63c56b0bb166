// Measured collectives are exact at their points and scale from there; machines of links written out are as large as
// one likes. What an interconnect decides: tests/cli/interconnects.cli.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>

#include "cost/communication.hpp"
#include "scenario/cluster_file.hpp"

using namespace rehearsal;
using doctest::Approx;

TEST_CASE("measured collectives act at any number of nodes, exactly at their points") {
  auto cluster = scenario::load_named_cluster("dgx-a100-80g");
  cluster.spec.nodes = 8;
  cluster.curves.measured[{CollectiveKind::all_reduce, 16}] = {{Bytes(1 << 20), seconds(300e-6)},
                                                               {Bytes(1 << 28), seconds(6e-3)}};
  const cost::CommunicationModel measured(cluster.spec, cluster.curves);
  cluster.curves.measured.erase({CollectiveKind::all_reduce, 16});
  const cost::CommunicationModel plain(cluster.spec, cluster.curves);
  const auto time = [&](const auto& model, std::uint32_t ranks, std::int64_t size) {
    return model.choose({ranks, 1}, CollectiveKind::all_reduce, Bytes(size)).seconds;
  };
  CHECK(time(measured, 16, 1 << 20) == Approx(300e-6).epsilon(1e-12));
  CHECK(time(measured, 16, 1 << 28) == Approx(6e-3).epsilon(1e-12));
  CHECK(time(measured, 8, 1 << 28) == time(plain, 8, 1 << 28));
  // Four nodes are as far from their price as two, and so are sizes in between.
  CHECK(time(measured, 32, 1 << 28) / time(plain, 32, 1 << 28) ==
        Approx(time(measured, 16, 1 << 28) / time(plain, 16, 1 << 28)).epsilon(1e-9));
}

TEST_CASE("links written out: as many GPUs as one likes") {
  const auto routed = [](std::int64_t gpus, bool star) {
    cluster::ClusterSpec spec;
    spec.name = "written", spec.topology.name = "links", spec.gpus_per_node = gpus;
    const auto add = [&](std::int64_t a, const std::string& b) {
      spec.written.push_back({fmt::format("gpu{}", a), b, Bandwidth(25e9), seconds(1e-6)});
    };
    for (std::int64_t a = 0; a < gpus; ++a)
      if (star)
        add(a, "switch");
      else
        for (std::int64_t b = a + 1; b < gpus; ++b) add(a, fmt::format("gpu{}", b));
    const auto begin = std::clock();
    const cluster::Machine machine(spec);
    const auto& reach = machine.reach(GroupShape{static_cast<std::uint32_t>(gpus), 1});
    CHECK(reach.port == Bandwidth(25e9));
    for (std::int64_t a = 0; a < gpus; ++a) CHECK(machine.route(a, (a + 7) % gpus).size() == (star ? 2 : 1));
    return double(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  CHECK(routed(192, false) < 1);  // s of CPU time; it takes a tenth of that
  CHECK(routed(1024, true) < 1);
}
