// A message occupies the wire on which it leaves its rank, and the next one waits: no step is shorter than its busiest
// wire needs. In all evaluators, at every detail, for every schedule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "schedule/registry.hpp"

using namespace rehearsal;

namespace {

// Two nodes, a stage in each: 64 activations of 4096 x 4096 in bf16 go out of rank 0 while it computes, and as many
// gradients out of rank 1.
scenario::Scenario between_nodes(std::vector<std::string> sets) {
  sets.push_back("simulate.contention=off");
  return scenario::load_text(
      "version: 1\nmodel: llama2-7b\ncluster: {use: dgx-h100, nodes: 2, links: {scale_out: {bandwidth: 1Gb/s}}}\n"
      "parallelism: {tensor: 8, pipeline: 2}\nbatch: {global: 64, micro: 1}\nschedule: gpipe\n"
      "training: {recompute: full}\n",
      "test.yaml", sets);
}
double iteration(const std::vector<std::string>& sets) {
  return to_seconds(answer::predict(between_nodes(sets)).summary.iteration);
}
constexpr double kSent = 64 * 4096. * 4096 * 2;  // bytes, one way

// Four stages, two in each node: the inner ranks send over their port and over their NIC, both slow.
scenario::Scenario both_wires(const std::string& schedule, const std::vector<std::string>& more) {
  std::vector<std::string> sets{"schedule=" + schedule, "simulate.contention=off"};
  sets.insert(sets.end(), more.begin(), more.end());
  return scenario::load_text(
      "version: 1\nmodel: llama2-7b\n"
      "cluster: {use: dgx-h100, nodes: 2, links: {scale_out: {bandwidth: 2Gb/s}, scale_up: {p2p_bandwidth: 0.3GB/s}}}\n"
      "parallelism: {tensor: 4, pipeline: 4}\nbatch: {global: 16, micro: 1}\nframework: titan-2024\n",
      "test.yaml", sets);
}

// Sends of every rank in program order: they become ready in this order, and no wire holds two at once. Returns how
// many waited for their wire.
std::size_t check_wires(const answer::Result& prediction, std::set<graph::Lane>& lanes) {
  const auto& graph = prediction.graph();
  const auto& timeline = prediction.timeline;
  std::size_t waited = 0;
  for (const auto& rank : graph.ranks()) {
    const auto& program = graph.program_of(rank);
    std::array<Time, graph::kLanes> free{};
    Time ready_before;
    for (std::size_t i = 0; i < program.size(); i++) {
      const auto lane = program.lane[i];
      if (!graph::is_send(lane)) continue;
      lanes.insert(lane);
      Time ready;
      for (const auto before : program.dependencies[i])
        ready = std::max(ready, timeline.end[rank.first_task + before.index()]);
      REQUIRE(ready >= ready_before);
      ready_before = ready;
      auto& wire = free[static_cast<std::size_t>(lane)];
      REQUIRE(timeline.start[rank.first_task + i] == std::max(ready, wire));
      waited += wire > ready;
      wire = timeline.start[rank.first_task + i] + prediction.lowered->held[program.work[i].index()];
    }
  }
  return waited;
}

}  // namespace

TEST_CASE("a step is not shorter than its wires need") {
  const double wire = kSent / 125e6;  // 17.2 s at 1 Gb/s
  REQUIRE(wire > 17.1);
  // GPipe sends all activations and then all gradients; 1F1B both at once, each over a wire of its own rank.
  CHECK(iteration({}) > 2 * wire);
  CHECK(iteration({"schedule=1f1b"}) > wire);
  const std::string slow = "cluster.links.scale_out.bandwidth=0.1Gb/s";
  CHECK(iteration({slow}) > 20 * wire);
  CHECK(iteration({slow, "schedule=1f1b"}) > 10 * wire);
}

TEST_CASE("where sending decides, half the bandwidth takes twice the time") {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    CAPTURE(schedule);
    const auto at = [&](const char* rate) {
      return iteration(
          {fmt::format("schedule={}", schedule), fmt::format("cluster.links.scale_out.bandwidth={}", rate)});
    };
    const double whole = at("0.2Gb/s"), half = at("0.1Gb/s");
    CHECK(half / whole > 1.95);
    CHECK(half / whole <= 2);
  }
  // And where it does not wait, there is little to send.
  const double fast = iteration({"cluster.links.scale_out.bandwidth=400Gb/s"});
  CHECK(iteration({"cluster.links.scale_out.bandwidth=200Gb/s"}) < 1.02 * fast);
}

TEST_CASE("every evaluator and every form of the graph: the same wires, in program order") {
  std::size_t schedules = 0, waited = 0;
  std::set<graph::Lane> lanes;
  for (const auto& [name, schedule] : schedule::registry()) {
    if (name == "exact" || name == "best") continue;  // find what their time allows
    CAPTURE(name);
    std::vector<std::string> sets;
    if (schedule.min_chunks > 1 || schedule.max_chunks > 1)
      sets.push_back(fmt::format("parallelism.chunks={}", std::max(2u, schedule.min_chunks)));
    scenario::Scenario scenario;
    answer::Result whole;
    try {
      scenario = both_wires(name, sets);
      whole = answer::predict(scenario);
    } catch (const UserError&) {
      continue;  // not of such a run
    }
    schedules++;
    waited += check_wires(whole, lanes);
    const auto expected = whole.timeline.makespan();
    CHECK(answer::predict(scenario, {.engine = "events"}).timeline.end == whole.timeline.end);
    CHECK(answer::estimate(scenario).iteration == expected);
    for (const char* form : {"simulate.detail=layer", "simulate.detail=operator", "simulate.symmetry=off"}) {
      CAPTURE(form);
      auto other = sets;
      other.push_back(form);
      const auto fine = answer::predict(both_wires(name, other));
      CHECK(fine.timeline.makespan() == expected);
      check_wires(fine, lanes);
    }
  }
  MESSAGE(schedules << " schedules, " << waited << " messages waited for their wire");
  CHECK(schedules > 10);
  CHECK(waited > 100);
  CHECK(lanes.size() == 2);
}

TEST_CASE("own kernels") {
  std::set<graph::Lane> lanes;
  std::size_t waited = 0;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "chimera"}) {
    CAPTURE(schedule);
    const auto scenario = scenario::load_text(
        fmt::format("version: 1\nsimulate: {{contention: off}}\nmodel: {{family: gpt, layers: 8, hidden: 256, "
                    "heads: 4, vocabulary: 512, sequence: 64}}\n"
                    "cluster: {{use: dgx-h100, nodes: 2, links: {{scale_out: {{bandwidth: 0.01Gb/s}}}}}}\n"
                    "parallelism: {{tensor: 4, pipeline: 4}}\nbatch: {{global: 16, micro: 1}}\nschedule: {}\n"
                    "framework: native\n",
                    schedule),
        "test.yaml");
    const auto replayed = answer::predict(scenario);
    CHECK(answer::predict(scenario, {.engine = "events"}).timeline.end == replayed.timeline.end);
    waited += check_wires(replayed, lanes);
  }
  CHECK(waited > 20);
  CHECK(lanes.size() == 2);
}

TEST_CASE("steps that overlap") {
  for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"}) {
    CAPTURE(schedule);
    const auto scenario = both_wires(schedule, {"training.optimizer_sync=post-validation", "simulate.iterations=3"});
    const auto replayed = answer::predict(scenario);
    const auto events = answer::predict(scenario, {.engine = "events"});
    CHECK(events.timeline.end == replayed.timeline.end);
    CHECK(events.timeline.iteration_end == replayed.timeline.iteration_end);
  }
}
