// rehearse collective as its users meet it: steps, bytes on links, prices that are those of every scenario, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../rehearse.hpp"
#include "cost/one_collective.hpp"
#include "scenario/cluster_file.hpp"

namespace fs = std::filesystem;
using namespace rehearsal;
using doctest::Approx;
using nlohmann::json;

namespace {

Run collective_of(const std::string& arguments) { return rehearse("collective " + arguments); }

json answer(const std::string& arguments) {
  const auto run = collective_of(arguments + " --format json");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  CHECK(run.err.empty());
  return json::parse(run.out);
}

// Bytes on links whose ends begin and contain these, and how many there are.
std::pair<double, int> carried(const json& one, const std::string& from, const std::string& to) {
  std::pair<double, int> sum{0, 0};
  for (const auto& link : one["links"])
    if (contains(link["from"], from) && contains(link["to"], to))
      sum.first += link["bytes"].get<double>(), ++sum.second;
  return sum;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

constexpr double kGiB = 1 << 30;

}  // namespace

TEST_CASE("a ring of four: three steps that add, three that copy") {
  const auto text = collective_of("ring-all-reduce --ranks 4");
  REQUIRE(text.status == 0);
  CHECK(count(text.out, "  adds ") == 3);
  CHECK(count(text.out, "  copies ") == 3);
  CHECK(contains(text.out, "  1  adds     0 > 1: 3  1 > 2: 0  2 > 3: 1  3 > 0: 2\n"));
  CHECK(contains(text.out, "  6  copies   0 > 1: 2  1 > 2: 3  2 > 3: 0  3 > 0: 1\n"));

  const auto one = answer("ring-all-reduce --ranks 4");
  for (const char* key : {"collective", "algorithm", "ranks", "per_node", "size_bytes", "time_s", "algbw_bytes_per_s",
                          "busbw_bytes_per_s", "why", "closed_form", "candidates", "steps", "links"})
    CHECK_MESSAGE(one.contains(key), key);
  CHECK(one["collective"] == "all-reduce");
  REQUIRE(one["steps"].size() == 6);
  for (std::size_t k = 0; k < 6; ++k) {
    CHECK(one["steps"][k].size() == 4);
    for (const auto& transfer : one["steps"][k]) CHECK(transfer["reduce"] == (k < 3));
  }
  // 6 steps x 4 ranks x a quarter, once to the NVSwitch and once from it; every link a sixth... of four: 1.5 arrays.
  CHECK(carried(one, "GPU", "NVSwitch") == std::pair{6 * kGiB, 4});
  CHECK(carried(one, "NVSwitch", "GPU") == std::pair{6 * kGiB, 4});
  for (const auto& link : one["links"]) CHECK((link["bytes"] == 1.5 * kGiB && link["rate_bytes_per_s"] == 450e9));
  // nccl-tests: algbw = size / time, busbw = algbw x 2 x 3/4.
  const double algbw = kGiB / one["time_s"].get<double>();
  CHECK(one["algbw_bytes_per_s"].get<double>() == Approx(algbw));
  CHECK(one["busbw_bytes_per_s"].get<double>() == Approx(1.5 * algbw));
  const auto csv = collective_of("ring-all-reduce --ranks 4 --format csv").out;
  CHECK(csv.starts_with("step,from,to,chunk,bytes,reduce\n1,0,1,3,268435456,yes\n"));
  CHECK(count(csv, "\n") == 25);
}

TEST_CASE("the closed form, by hand, and the curve that corrects it") {
  // dgx-h100, NVLink of 450 GB/s, .824 for rings, x 1.012 (fit): w = 1.5 x 512 MiB / 375.2496 GB/s = 2.146035 ms.
  // 3.7 us + 6 x 1.22 us + w + sqrt(35 us x w); the table of four GPUs says 2311.17 us.
  const auto one = answer("all-reduce --ranks 4 --size 512MiB");
  const double w = .75 * kGiB / (450e9 * .824 * 1.012);
  const auto& form = one["closed_form"];
  CHECK(form["fixed_s"].get<double>() == Approx(3.7e-6));
  CHECK(form["steps"] == 6);
  CHECK(form["latency_s"].get<double>() == Approx(1.22e-6));
  CHECK(form["inside_s"].get<double>() == Approx(w));
  CHECK(form["ramp_s"].get<double>() == Approx(std::sqrt(35e-6 * w)));
  CHECK(form["time_s"].get<double>() == Approx(3.7e-6 + 6 * 1.22e-6 + w + std::sqrt(35e-6 * w)));
  CHECK(one["time_s"].get<double>() == Approx(2311.17e-6));
  CHECK(form["measured_over_closed_form"].get<double>() * form["time_s"].get<double>() == Approx(2311.17e-6));
  // Four are too few for NVLS; a tree needs nodes; three phases are not in NCCL.
  std::map<std::string, json> candidates;
  for (const auto& c : one["candidates"]) candidates[c["algorithm"]] = c;
  CHECK(candidates.size() == 4);
  CHECK(candidates["ring-all-reduce"]["applies"] == true);
  for (const char* name : {"nvls-all-reduce", "tree-all-reduce", "hierarchical-all-reduce"})
    CHECK(candidates[name]["applies"] == false);
  CHECK(contains(candidates["nvls-all-reduce"]["why"], "needs one node"));
  CHECK(candidates["hierarchical-all-reduce"]["why"] == "not in NCCL");
  CHECK(answer("all-reduce --ranks 8")["algorithm"] == "nvls-all-reduce");
}

TEST_CASE("times are those that scenarios are priced with, and the choice is the fastest that applies") {
  for (const char* machine : {"dgx-h100", "dgx-a100-80g", "gb200-nvl72", "l40s-pcie", "dgx-v100-16g"})
    for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"})
      for (const auto& [ranks, per_node] : {std::pair{2U, 2}, {4U, 4}, {16U, 4}, {16U, 2}, {8U, 1}}) {
        CAPTURE(machine);
        CAPTURE(kind);
        CAPTURE(ranks);
        CAPTURE(per_node);
        auto question = cost::named_collective(kind);
        question.ranks = ranks, question.per_node = per_node, question.size = Bytes(1 << 26);
        auto cluster = scenario::load_named_cluster(machine);
        const auto group = cost::place(question, cluster.spec, cluster.sized);
        const cost::CommunicationModel model(cluster.spec, cluster.curves);
        const auto one = cost::step_by_step(model, question, group);
        const auto choice = model.choose(group, question.kind, question.size);
        CHECK(one.seconds == choice.seconds);
        CHECK(one.algorithm == choice.algorithm);
        const bool across = !model.machine().reach(group).out.empty();
        const double priced = one.form.seconds() * (across ? 1 : one.correction.value_or(1));
        CHECK(std::max(priced, one.shared) == Approx(one.seconds).epsilon(1e-9));
        for (const auto& c : one.quote.candidates)
          if (c.refusal == collective::Refusal::none) {
            REQUIRE(c.form);
            CHECK(std::max(c.form->seconds(), c.shared) == Approx(c.seconds).epsilon(1e-9));
            if (across) CHECK(c.seconds >= one.seconds);
          }
        // Whatever leaves a GPU arrives at one.
        double out = 0, in = 0, sent = 0;
        for (const auto& link : one.links) {
          if (link.from.kind == cluster::DeviceKind::gpu) out += link.bytes;
          if (link.to.kind == cluster::DeviceKind::gpu) in += link.bytes;
        }
        for (const auto& step : one.steps) sent += double(step.size()) * one.part_bytes();
        if (one.algorithm->switches == 0) CHECK(out >= Approx(sent).epsilon(1e-9));
        CHECK(out == Approx(in).epsilon(1e-9));
      }
  const auto one = answer("all-reduce --ranks 16 --cluster dgx-a100-80g --size 256MiB");
  auto question = cost::named_collective("all-reduce");
  question.ranks = 16, question.size = Bytes(1 << 28);
  auto cluster = scenario::load_named_cluster("dgx-a100-80g");
  const auto group = cost::place(question, cluster.spec, cluster.sized);
  CHECK(one["time_s"] == cost::CommunicationModel(cluster.spec, cluster.curves)
                             .choose(group, CollectiveKind::all_reduce, question.size)
                             .seconds);
}

TEST_CASE("what leaves a node is dealt out to the NICs of its ranks") {
  // 16 ranks in two nodes: 30 steps, in each of which one rank of a node sends a 16th to the other node.
  const auto one = answer("ring-all-reduce --ranks 16");
  CHECK(one["per_node"] == 8);
  const auto [bytes, nics] = carried(one, "node 0 NIC", "leaf");
  CHECK(bytes == Approx(30. / 16 * kGiB));
  CHECK(nics == 8);
  for (const auto& link : one["links"])
    if (contains(link["from"], "NIC") && contains(link["to"], "leaf"))
      CHECK(link["bytes"].get<double>() == Approx(30. / 128 * kGiB));
  // Two of each node: every fourth GPU, and as many NICs.
  const auto two = answer("all-gather --ranks 4 --per-node 2");
  CHECK(two["per_node"] == 2);
  CHECK(carried(two, "node 0 NIC 0", "leaf").first == Approx(3. / 8 * kGiB));
  CHECK(carried(two, "node 0 NIC 4", "leaf").first == Approx(3. / 8 * kGiB));
  CHECK(carried(two, "node 0 NIC", "leaf").second == 2);
}

TEST_CASE("a slower link moves the answer; a machine may be larger than the ranks") {
  const double fast = answer("all-reduce --ranks 16")["time_s"];
  const double slow = answer("all-reduce --ranks 16 --set links.scale_out.bandwidth=100Gb/s")["time_s"];
  CHECK(slow > 2 * fast);
  CHECK(answer("all-reduce --ranks 16 --set nodes=4")["time_s"] == fast);
  CHECK(answer("all-reduce --ranks 16 --set nodes=4 --per-node 4")["per_node"] == 4);
}

TEST_CASE("many ranks: the closed form alone") {
  const auto one = answer("all-reduce --ranks 1024");
  CHECK(one["steps"].empty());
  CHECK(one["links"].empty());
  CHECK(one["time_s"] > 0);
  CHECK(contains(collective_of("all-reduce --ranks 1024").out, "up to 256 ranks"));
  CHECK(collective_of("all-reduce --ranks 1024 --format csv").status == 2);
  CHECK(collective_of("all-reduce --ranks 1024 --svg /tmp/never.svg").status == 2);
  CHECK_FALSE(fs::exists("/tmp/never.svg"));
}

TEST_CASE("every algorithm has a text and a picture") {
  Scratch scratch;
  const auto svg = scratch.folder / "x.svg";
  for (const auto& [name, algorithm] : collective::registry()) {
    if (algorithm.point_to_point) continue;
    CAPTURE(name);
    const auto run = collective_of(name + (name.starts_with("pat") ? " --ranks 6 --per-node 1" : " --ranks 6") +
                                   " --svg '" + svg.string() + "'");
    CHECK_MESSAGE(run.status == 0, run.err);
    CHECK(contains(run.out, algorithm.name));
    CHECK(contains(read(svg), "</svg>"));
    CHECK(contains(collective_of("--help").out, "\n  " + name + "\n"));
  }
}

// rehearse collective ring-all-reduce --ranks 4 --svg docs/ring-all-reduce.svg
TEST_CASE("the picture of the README is what the program draws, to the byte") {
  Scratch scratch;
  const auto svg = scratch.folder / "x.svg";
  REQUIRE(collective_of("ring-all-reduce --ranks 4 --svg '" + svg.string() + "'").status == 0);
  const auto drawn = read(svg);
  CHECK(drawn == read(PROJECT_ROOT "/docs/ring-all-reduce.svg"));
  CHECK(count(drawn, "Z\" fill") == 24);  // heads of arrows: 6 steps x 4
  CHECK(count(drawn, "font-weight=\"700\"") ==
        4 * (1 + 2 + 3 + 4));  // sums: one each after step 3, two after step 4, ...
}

TEST_CASE("wrong questions: status 2, nothing on standard output") {
  const auto refused = [](const std::string& line, const std::string& hint) {
    CAPTURE(line);
    const auto run = collective_of(line);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK_MESSAGE(contains(run.err, hint), run.err);
  };
  refused("", "the name of a collective");
  refused("all-reduce", "missing --ranks");
  refused("all-redcue --ranks 4", "unknown collective 'all-redcue'; did you mean 'all-reduce'?");
  refused("rnig-all-reduce --ranks 4", "did you mean 'ring-all-reduce'?");
  refused("send-recv --ranks 2", "one message and no collective");
  for (const char* ranks : {"0", "-3", "1.5", "four", "1e3", "''", "99999999999999999999"})
    refused("all-reduce --ranks " + std::string(ranks), "--ranks");
  refused("all-reduce --ranks 1", "at least 2");
  for (const char* size : {"0B", "0", "-1MiB", "5", "nan", "2PB", "1e300GB"})
    refused("all-reduce --ranks 4 --size " + std::string(size), "--size");
  refused("all-reduce --ranks 4 --per-node 0", "--per-node");
  refused("all-reduce --ranks 16 --per-node 9", "more than the 8 GPUs of a node");
  refused("all-reduce --ranks 4 --per-node 8", "more than the 4 ranks");
  refused("all-reduce --ranks 12", "no whole number of nodes with 8 each; --per-node 4 would fit");
  refused("all-reduce --ranks 12 --per-node 3",
          "do not divide the 8 GPUs of a node of dgx-h100; --per-node 4 would fit");
  refused("all-reduce --ranks 32 --set nodes=2", "need 4 nodes; the cluster has 2");
  refused("all-reduce --ranks 80 --cluster gb200-nvl72",
          "no whole number of nodes with 72 each; --per-node 8 would fit");
  refused("all-reduce --ranks 24 --set node_topology.name=nvl-rack --set node_topology.gpus=16",
          "no whole number of domains: NVLink joins 16");
  refused("nvls-all-reduce --ranks 16", "cannot run here: it needs one node");
  refused("nvls-all-reduce --ranks 8 --cluster dgx-a100-80g", "cannot run here");
  refused("all-reduce --ranks 4 --cluster dgx-h10", "did you mean 'dgx-h100'?");
  refused("all-reduce --ranks 4 --set links.scale_pu.bandwidth=3GB/s", "did you mean 'scale_up'?");
  refused("all-reduce --ranks 4 --set links.scale_up.bandwidth=1B/s", "more than 90 days");
  refused("all-reduce --ranks 2048 --cluster this-machine", "NICs");
}
