// Stages that do not form a chain, or have different layouts, simulated: evaluators, symmetry and details agree; equal
// layouts change nothing; features that need a chain are refused by name.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "engine/sim.hpp"
#include "lower/lowering.hpp"
#include "scenario/scenario.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/stage_graph.hpp"

using namespace rehearsal;
using Sets = std::vector<std::string>;

namespace {

const std::string kText = R"(version: 1
model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 512, tie_embeddings: false}
cluster: {use: p3-8xlarge, nodes: 4}
parallelism: {tensor: 4, pipeline: 4}
batch: {global: 64, micro: 4}
schedule: 1f1b
training: {precision: fp16, attention: unfused}
framework: {use: megatron-2021, sharded_sends: false}
)";

const char* const kLayouts =
    "stages=[{parallelism: {tensor: 4}}, {parallelism: {tensor: 2, data: 2}}, {parallelism: {tensor: 1, data: 4}}, "
    "{parallelism: {tensor: 4}}]";

answer::Result predicted(const Sets& sets) { return answer::predict(scenario::load_text(kText, "test", sets)); }
std::int64_t iteration(Sets sets, std::initializer_list<std::string> more = {}) {
  sets.insert(sets.end(), more.begin(), more.end());
  return predicted(sets).summary.iteration.count();
}

schedule::Problem random_graph(std::mt19937& random, std::uint32_t ranks, std::uint32_t chunks, std::uint32_t m,
                               bool chain, bool wires) {
  const auto time = [&] { return Time(std::int64_t(random() % 4 == 0 ? 0 : 1 + random() % 1'000'003)); };
  auto problem = schedule::uniform_problem(ranks, m, chunks, {}, {}, {}, {});
  for (std::uint32_t s = 0; s < problem.stages(); ++s)
    problem.forward[s] = time(), problem.input_gradient[s] = time(), problem.weight_gradient[s] = time();
  for (std::uint32_t from = 0; from < problem.stages(); ++from)
    for (std::uint32_t to = from + 1; to < problem.stages(); ++to) {
      if (!(to == from + 1 && (chain || random() % 3 > 0)) && !(to > from + 1 && !chain && random() % 4 == 0)) continue;
      const auto transfer = time();
      problem.edges.push_back(
          {from, to, transfer, wires ? Time(transfer.count() / 3) : Time{}, static_cast<std::uint8_t>(random() % 2)});
    }
  return problem;
}

}  // namespace

TEST_CASE("random graphs of stages: the engine on the task graph = replay of the schedule, to the picosecond") {
  std::mt19937 random(17);
  std::size_t tried = 0, schedules = 0;
  for (const auto& [name, schedule] : schedule::registry()) {
    if (!schedule.any_graph) continue;
    ++schedules;
    for (int round = 0; round < 40; ++round) {
      const std::uint32_t p = 2 + random() % 4, v = schedule.max_chunks > 1 ? 1 + random() % 3 : 1,
                          m = 1 + random() % 9;
      const bool wires = random() % 2 == 0, blocking = random() % 3 == 0;
      auto problem = random_graph(random, p, v, m, false, wires);
      if (problem.edges.empty()) continue;
      CAPTURE(name);
      CAPTURE(round);
      try {
        schedule::check(schedule, problem);
      } catch (const UserError& error) {  // a rule about counts, never about edges
        CHECK(std::string(error.what()).find("chain") == std::string::npos);
        continue;
      }
      schedule::ReplayOptions options;
      options.transfers = blocking ? schedule::Transfers::blocking : schedule::Transfers::free;
      const auto replayed = schedule::replay(schedule, problem, options);

      lower::GivenPipeline pipeline{p, v, m, {}, {}, blocking};
      for (std::uint32_t s = 0; s < problem.stages(); ++s)
        pipeline.stages.push_back({problem.forward[s], problem.input_gradient[s], problem.weight_gradient[s]});
      pipeline.edges = problem.edges;
      lower::Lowering lowering(pipeline);
      const auto lowered = std::move(lowering).lower(schedule, problem, {});
      std::vector<Time> durations, held;
      for (const auto& work : lowered.graph.works()) {
        const auto* wait = std::get_if<graph::FixedDelay>(&work);
        durations.push_back(wait ? wait->duration : Time{});
        held.push_back(wires && wait ? Time(wait->duration.count() / 3) : Time{});
      }
      const auto session = engine::make_sim()->prepare(lowered.graph);
      for (const char* engine : {"replay", "events"}) {
        CAPTURE(engine);
        backend::RunOptions run;
        run.durations = durations, run.held = held, run.engine = engine;
        CHECK(session->run(run).makespan() == replayed.makespan);
      }
      ++tried;
    }
  }
  CHECK(schedules == 7);
  CHECK(tried > 150);
}

TEST_CASE("a graph that is a chain is a chain; more edges and longer transfers are never faster in order") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t p = 2 + random() % 5, m = 1 + random() % 8;
    auto graph = random_graph(random, p, 1, m, true, false);
    auto chain = graph;
    chain.edges.clear();
    for (const auto& edge : graph.edges) chain.transfer[edge.from] = edge.transfer;
    for (const char* name : {"1f1b", "gpipe", "eager-1f1b"}) {
      const auto& schedule = schedule::registry().at(name);
      const auto one = schedule::replay(schedule, graph);
      CHECK(one.makespan == schedule::replay(schedule, chain).makespan);
      auto more = graph;
      if (p > 2) more.edges.push_back({0, p - 1, Time(1'000)});
      CHECK(schedule::replay(schedule, more).makespan >= one.makespan);
      for (auto& edge : more.edges) edge.transfer += Time(77);
      CHECK(schedule::replay(schedule, more).makespan >= one.makespan);
    }
  }
}

TEST_CASE("a diamond and a U by hand") {
  // Stage 0 feeds 1 and 2, both feed 3; F 1, B 2, transfers of 0-1 and 1-3 take 1, those of 0-2 and 2-3 take 5.
  auto problem = schedule::uniform_problem(4, 1, 1, Time(1), Time(2), Time(0), Time(0));
  problem.edges = {{0, 1, Time(1)}, {0, 2, Time(5)}, {1, 3, Time(1)}, {2, 3, Time(5)}};
  // F0 1, F1 2-3, F2 6-7, F3 12-13, B3 15, B1 16-18, B2 20-22, B0 27-29.
  CHECK(schedule::replay(schedule::registry().at("1f1b"), problem).makespan == Time(29));
  // Without the long way it is a chain 0-1-3, and stage 2 starts at once.
  problem.edges = {{0, 1, Time(1)}, {1, 3, Time(1)}};
  CHECK(schedule::replay(schedule::registry().at("1f1b"), problem).makespan ==
        Time(1 + 1 + 1 + 1 + 1 + 2 + 1 + 2 + 1 + 2));
  // U: 0-1-2 and the skip 0-2 of 10: F0 1, F1 1-2, F2 11-12, B2 14, B1 14-16, B0 24-26.
  auto u = schedule::uniform_problem(3, 1, 1, Time(1), Time(2), Time(0), Time(0));
  u.edges = {{0, 1}, {1, 2}, {0, 2, Time(10)}};
  CHECK(schedule::replay(schedule::registry().at("gpipe"), u).makespan == Time(26));
  const schedule::StageGraph graph(schedule::registry().at("1f1b"), u);
  CHECK(graph.into(2).size() == 2);
  CHECK(graph.into(2)[0].from == 0);
  CHECK(graph.out_of(0)[1].to == 2);
}

TEST_CASE("schedules that need a chain, and edges that are none, are refused by name") {
  const auto refusal = [](const char* name, std::vector<schedule::Edge> edges) -> std::string {
    const auto& schedule = schedule::registry().at(name);
    auto problem = schedule::uniform_problem(4, 8, schedule.min_chunks, Time(1), Time(1), Time(1), Time(0));
    problem.edges = std::move(edges);
    try {
      schedule::check(schedule, problem);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<schedule::Edge> skips{{0, 1}, {1, 2}, {2, 3}, {0, 3}};
  CHECK(refusal("1f1b", skips).empty());
  std::size_t refused = 0;
  for (const auto& [name, schedule] : schedule::registry()) {
    if (schedule.any_graph || schedule.min_chunks > 1) continue;
    CAPTURE(name);
    CHECK(refusal(name.c_str(), skips).find("needs stages that form a chain, but stage 0 also feeds stage 3") !=
          std::string::npos);
    CHECK(refusal(name.c_str(), {{0, 1}, {1, 2}, {2, 3}}).find("chain") == std::string::npos);
    ++refused;
  }
  CHECK(refused >= 8);
  CHECK(refusal("zb-h1", {{0, 1}, {2, 3}}).find("stage 1 does not feed stage 2") != std::string::npos);
  CHECK(refusal("1f1b", {{1, 0}}).find("an edge leads to a later stage") != std::string::npos);
  CHECK(refusal("1f1b", {{0, 4}}).find("the last stage is 3") != std::string::npos);
  CHECK(refusal("1f1b", {{0, 1}, {0, 1}}).find("listed twice") != std::string::npos);
}

TEST_CASE("with and without symmetry, at every detail: the same answer") {
  for (const Sets& sets : std::vector<Sets>{{kLayouts},
                                            {kLayouts, "resharding.strategy=broadcast"},
                                            {kLayouts, "resharding.strategy=send-recv", "schedule=eager-1f1b"},
                                            {kLayouts, "training.overlap.pipeline=true"},
                                            {"model.family=u-transformer"},
                                            {"model.family=u-transformer", kLayouts, "training.recompute=full"}}) {
    CAPTURE(sets.back());
    for (const char* network : {"simulate.contention=off", "simulate.contention=auto"}) {
      CAPTURE(network);
      const auto one = iteration(sets, {network});
      CHECK(iteration(sets, {network, "simulate.symmetry=off"}) == one);
    }
    const auto alone = iteration(sets, {"simulate.contention=off"});
    CHECK(iteration(sets, {"simulate.contention=off", "simulate.detail=layer"}) == alone);
    // Operators meet in their tensor groups, whose ranks may have other messages to wait for.
    CHECK(iteration(sets, {"simulate.contention=off", "simulate.detail=operator"}) >= alone);
  }
}

TEST_CASE("memory is the same at every detail, skip connections included") {
  for (const Sets& sets : std::vector<Sets>{{"model.family=u-transformer"},
                                            {"model.family=u-transformer", "training.recompute=full"},
                                            {"model.family=u-transformer", "model.layers=9", "schedule=gpipe"},
                                            {kLayouts}}) {
    const auto peak = [&](const char* detail) {
      auto all = sets;
      all.push_back(std::string("simulate.detail=") + detail);
      return predicted(all).summary.peak.allocated;
    };
    CAPTURE(sets.front());
    CHECK(peak("layer") == peak("stage"));
    CHECK(peak("operator") == peak("stage"));
  }
}

TEST_CASE("stages that are all cut alike are no layouts of their own") {
  const auto plain = predicted({});
  const auto listed = predicted(
      {"stages=[{}, {parallelism: {tensor: 4}}, {parallelism: {data: 1}}, {parallelism: {sequence: false}}]"});
  CHECK(listed.graph().digest() == plain.graph().digest());
  CHECK(listed.summary.iteration == plain.summary.iteration);
  CHECK(listed.lowered->scenario.digest == plain.lowered->scenario.digest);
  // On GPUs that are listed they are cut alike too: as many messages, and the same time.
  const auto seated = predicted(
      {"stages=[{gpus: [0, 1, 2, 3]}, {gpus: [4, 5, 6, 7]}, {gpus: [8, 9, 10, 11]}, {gpus: [12, 13, 14, 15]}]",
       "simulate.contention=off"});
  CHECK(seated.summary.iteration == predicted({"simulate.contention=off"}).summary.iteration);
}

TEST_CASE("every setting changes the answer") {
  const auto base = iteration({kLayouts});
  CHECK(iteration({kLayouts, "resharding.strategy=send-recv"}) > base);
  CHECK(iteration({kLayouts, "training.overlap.pipeline=true"}) < base);
  CHECK(iteration({kLayouts, "cluster.links.scale_out.bandwidth=1Gb/s"}) > base);
  CHECK(iteration({kLayouts, "resharding.strategy=signal"}) < base);
  // Stages on one node are nearer to each other than on two.
  const Sets pair{"parallelism={}", "cluster.nodes=2"};
  const auto near = iteration(pair, {"stages=[{parallelism: {tensor: 2}, gpus: [0, 1]}, {parallelism: {data: 2}, gpus: "
                                     "[2, 3]}]"});
  const auto far = iteration(pair, {"stages=[{parallelism: {tensor: 2}, gpus: [0, 1]}, {parallelism: {data: 2}, gpus: "
                                    "[4, 5]}]"});
  CHECK(near < far);
}

TEST_CASE("resharding: auto is least in the step, and signal a bound, whatever the stages") {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<const char*> from) {
    return std::string(from.begin()[random() % from.size()]);
  };
  std::size_t layouts = 0;
  while (layouts < 20) {
    std::vector<std::string> stages;
    for (int s = 0; s < 4; s++)
      stages.push_back(
          fmt::format("{{parallelism: {{{}}}}}", pick({"tensor: 4", "tensor: 2, data: 2", "tensor: 1, data: 4"})));
    if (std::count(stages.begin(), stages.end(), stages.front()) == 4) continue;
    layouts++;
    const Sets sets{fmt::format("stages=[{}]", fmt::join(stages, ", ")),
                    "batch.global=16",
                    "model.sequence=" + pick({"256", "512", "1024"}),
                    "schedule=" + pick({"1f1b", "eager-1f1b", "gpipe"}),
                    "training.overlap.pipeline=" + pick({"true", "false"}),
                    "cluster.links.scale_out.bandwidth=" + pick({"2Gb/s", "10Gb/s", "50Gb/s"})};
    CAPTURE(fmt::format("{}", fmt::join(sets, " ")));
    const auto by = [&](const char* strategy) {
      return iteration(sets, {std::string("resharding.strategy=") + strategy});
    };
    const auto chosen = by("auto"), bound = by("signal");
    CHECK(bound <= chosen);
    for (const char* strategy : {"broadcast", "send-recv", "local-allgather", "alpa-allgather", "global-allgather"}) {
      CAPTURE(strategy);
      CHECK(chosen <= by(strategy));
    }
  }
}
