// The interconnect between GPUs decides how their collectives run: by its name, never by its rate; and as measured,
// where there are measurements.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../rehearse.hpp"
#include "cost/communication.hpp"
#include "scenario/cluster_file.hpp"

using namespace rehearsal;
using doctest::Approx;
using nlohmann::json;

namespace {

json answer(const std::string& arguments) {
  const auto run = rehearse("collective " + arguments + " --format json");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  return json::parse(run.out);
}
double seconds_of(const std::string& arguments) { return answer(arguments)["time_s"].get<double>(); }

void refused(const std::string& arguments, const std::vector<std::string>& hints) {
  CAPTURE(arguments);
  const auto run = rehearse(arguments);
  CHECK(run.status == 2);
  for (const auto& hint : hints) CHECK_MESSAGE(contains(run.err, hint), run.err);
}

// Eight MI300X described inline, with AMD's specification: seven links of 64 GB/s.
const char* const kMi300x = R"(version: 1
model: {family: gpt, layers: 2, hidden: 4096, heads: 32, sequence: 2048}
cluster:
  gpu: {use: h100-80g-sxm, memory: 192GB}
  gpus_per_node: 8
  links: {scale_up: {bandwidth: 448GB/s, interconnect: {kind: xgmi}}}
  node_topology: full-mesh
parallelism: {data: 8}
batch: {global: 8}
)";

}  // namespace

TEST_CASE("where no switch is, none adds") {
  const std::string large = "all-reduce --ranks 8 --cluster dgx-h100 --size 1GiB";
  CHECK(answer(large)["algorithm"] == "nvls-all-reduce");
  const double ring = seconds_of("ring-all-reduce --ranks 8 --cluster dgx-h100 --size 1GiB");
  for (const char* topology : {"full-mesh", "pcie-host", "hybrid-cube-mesh"}) {
    CAPTURE(topology);
    const auto one = answer(large + " --set node_topology=" + topology);
    CHECK(one["algorithm"] == "ring-all-reduce");
    CHECK(one["time_s"].get<double>() == Approx(ring).epsilon(1e-9));  // curves measured in switches do not apply
  }
  // Changing the rate changes only the rate of the same links.
  for (const char* rate : {"150GB/s", "300GB/s", "900GB/s"})
    CHECK(answer(large + " --set links.scale_up.bandwidth=" + rate)["algorithm"] == "nvls-all-reduce");
  CHECK(answer("all-reduce --ranks 8 --cluster dgx-a100-80g --set links.scale_up.bandwidth=450GB/s")["algorithm"] ==
        "ring-all-reduce");
  CHECK(answer(large + " --set links.scale_up.interconnect=nvlink-3 --set collectives=null")["algorithm"] ==
        "ring-all-reduce");
}

TEST_CASE("an MI300X node runs RCCL's rings over xGMI, and says so") {
  Scratch scratch;
  const auto file = scratch.folder / "mi300x.yaml";
  std::ofstream(file) << kMi300x;
  const auto run = rehearse("run '" + file.string() + "' --format json");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  CHECK(contains(run.out, "Collectives run as RCCL would choose over xGMI: ring-all-reduce of 8 ranks in a node"));
  CHECK_FALSE(contains(run.out, "as NCCL would choose"));
  CHECK(contains(run.out, "links.scale_up.interconnect.ring_share = 0.7 is assumed"));
  // Its steps come from the interconnect, because no latency is given.
  const auto slower =
      rehearse("run '" + file.string() + "' --set cluster.links.scale_up.interconnect.step=50us --format json");
  REQUIRE_MESSAGE(slower.status == 0, slower.err);
  CHECK(json::parse(slower.out)["iteration_s"].get<double>() > json::parse(run.out)["iteration_s"].get<double>());
  // The shipped node: 0.75 of 448 GB/s, as AMD measured on its links, less the time of a call.
  const auto one = answer("all-reduce --ranks 8 --cluster mi300x --size 8GiB");
  CHECK(one["algorithm"] == "ring-all-reduce");
  CHECK(one["busbw_bytes_per_s"].get<double>() > 300e9);
  CHECK(one["busbw_bytes_per_s"].get<double>() < 336e9);
  const auto text = rehearse("collective all-reduce --ranks 8 --cluster mi300x").out;
  CHECK(contains(text, "RCCL's choice"));
  CHECK_FALSE(contains(text, "NCCL's choice: "));
}

TEST_CASE("a broadcast comes near the wire at any number of ranks") {
  // 1 GiB on DGX A100: 300 GB/s inside at .81, 170 GB/s between nodes.
  const auto rate = [](int ranks) {
    return answer(fmt::format("broadcast --ranks {} --per-node 8 --size 1GiB --cluster dgx-a100-80g",
                              ranks))["busbw_bytes_per_s"]
        .get<double>();
  };
  CHECK(rate(8) > .85 * 243e9);
  CHECK(rate(64) > .85 * 170e9);
  CHECK(rate(512) > .5 * 170e9);
}

TEST_CASE("few ranks are not many: between measured numbers of ranks and below them") {
  const auto time = [](const char* cluster, int ranks, const char* size) {
    return seconds_of(fmt::format("all-reduce --ranks {} --size {} --cluster {}", ranks, size, cluster));
  };
  // Four Blackwells start like four, 17 us on GB200, not like the eight that were measured, 46.
  for (const char* cluster : {"b200-sxm", "gb200-nvl72", "gb300-nvl72"}) {
    CHECK(time(cluster, 4, "64KiB") > 12e-6);
    CHECK(time(cluster, 4, "64KiB") < 20e-6);
  }
  // Tables have 2 and 4 ranks: 3 lie between, by the links that 3 have.
  CHECK(time("dgx-a100-80g", 2, "1KiB") < time("dgx-a100-80g", 3, "1KiB"));
  CHECK(time("dgx-a100-80g", 3, "1KiB") < time("dgx-a100-80g", 4, "1KiB"));
  CHECK(time("p3-8xlarge", 2, "1GiB") > time("p3-8xlarge", 3, "1GiB"));
  CHECK(time("p3-8xlarge", 3, "1GiB") > time("p3-8xlarge", 4, "1GiB"));
  CHECK(time("p3-8xlarge", 2, "1GiB") == Approx(47.610e-3));
  CHECK(time("p3-8xlarge", 4, "1GiB") == Approx(18.869e-3));
  // Nothing above the wire.
  CHECK(answer("all-reduce --ranks 3 --size 1GiB --cluster dgx-h100")["busbw_bytes_per_s"].get<double>() < 450e9);
}

TEST_CASE("measured collectives act at any number of nodes, exactly at their points") {
  Scratch scratch;
  const auto with = [&](double factor, const std::string& more = "") {
    const auto file = scratch.folder / "cluster.yaml";
    std::ofstream(file) << fmt::format(R"(version: 1
model: {{family: gpt, layers: 2, hidden: 4096, heads: 32, sequence: 2048}}
cluster:
  use: dgx-a100-80g
  nodes: 2
  collectives:
    measured_on: {{nvlink: 300GB/s, interconnect: nvlink-3{}}}
    measured: {{all_reduce: {{16: [[1MiB, {}us], [256MiB, {}us]]}}}}
parallelism: {{data: 16}}
batch: {{global: 16}}
)",
                                       more, 200 * factor, 4000 * factor);
    const auto run = rehearse("run '" + file.string() + "' --set training.overlap.gradients=false --format json");
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return json::parse(run.out)["iteration_s"].get<double>();
  };
  CHECK(with(10) > 1.05 * with(1));
  CHECK(with(1, ", nic: 100Gb/s") < with(1));  // measured with half the NICs: these are twice as fast

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

TEST_CASE("one leaf is no faster than adaptive routing") {
  const auto on = [](const char* fabric) {
    return seconds_of(std::string("all-reduce --ranks 32 --cluster dgx-h100 --set links.scale_out.fabric=") + fabric);
  };
  CHECK(on("ecmp-one-leaf") >= on("infiniband"));
  CHECK(on("roce-tuned") > on("ecmp-one-leaf"));
  CHECK(on("ecmp") > on("roce-tuned"));
}

TEST_CASE("an interconnect without its numbers, and curves that contradict the cluster: place and cure") {
  Scratch scratch;
  const auto file = scratch.folder / "mi300x.yaml";
  std::ofstream(file) << kMi300x;
  const std::string h100 = "collective all-reduce --ranks 8 --cluster dgx-h100";
  refused(h100 + " --set links.scale_up.interconnect=nvlink-9",
          {"unknown interconnect 'nvlink-9'", "did you mean 'nvlink-"});
  refused("run --set 'cluster.links.scale_up.interconnect={title: New}' '" + file.string() + "'", {"--set", "kind"});
  // As with a GPU: keys of a named interconnect can be overridden, and another name is another interconnect.
  CHECK(rehearse(h100 + " --set 'links.scale_up.interconnect={title: New}'").status == 0);
  CHECK(answer("all-reduce --ranks 8 --cluster dgx-h100 --set 'links.scale_up.interconnect={kind: xgmi}' --set "
               "collectives=null")["algorithm"] == "ring-all-reduce");
  refused(h100 + " --set 'links.scale_up.interconnect={kind: tape}'", {"nvlink", "xgmi", "pcie"});
  refused(h100 + " --set links.scale_up.interconnect.ring_share=1.5", {"ring_share"});
  refused(h100 + " --set links.scale_up.interconnect.library=mpi", {"unknown collective library 'mpi'", "nccl"});
  refused(h100 + " --set links.scale_up.interconnect=xgmi-mi300x",
          {"h100-nvswitch.yaml:", "were measured over NVLink 4", "joined by xGMI", "leave 'collectives' out"});
  CHECK(answer("all-reduce --ranks 8 --cluster dgx-h100 --set links.scale_up.interconnect=xgmi-mi300x --set "
               "collectives=null")["algorithm"] == "ring-all-reduce");
  refused(h100 + " --set collectives.measured_on.nvlink=100GB/s", {"measured_on", "'nvlink'"});
  refused(h100 + " --set collectives.measured_on.nic=100Gb/s", {"across nodes", "leave them out"});
  refused(h100 + " --set collectives.measured_on.gpus=3", {"no whole number of nodes", "'gpus'"});
  // A file of today that a later version reads too.
  const auto older = rehearse(
      "collective all-reduce --ranks 8 --cluster dgx-h100 --set "
      "'links.scale_up={bandwidth: 450GB/s, generation: 4}'");
  CHECK(older.status == 0);
  CHECK(contains(older.err, "'generation: 4' is now 'interconnect: nvlink-4'"));
}
