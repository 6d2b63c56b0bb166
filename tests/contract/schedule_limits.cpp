// Memory limits of schedules from the file to the simulated step: in the unit that the user gave, and never a limit
// that was not given.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "timeline/memory.hpp"

using namespace rehearsal;

namespace {

scenario::Scenario scenario_of(const std::string& text, const std::string& schedule) {
  return scenario::load_text(text + "schedule: " + schedule + "\n", "test.yaml");
}
struct Outcome {
  double seconds = 0, peak = 0;  // of the rank that holds most, in bytes
  double weight_hold = 0;        // of one micro-batch on the rank where it is most, in bytes
};
Outcome outcome(const std::string& text, const std::string& schedule) {
  const auto run = answer::predict(scenario_of(text, schedule));
  const auto& hold = run.lowered->problem.weight_hold;
  Outcome found{to_seconds(run.timeline.makespan()), 0, hold.empty() ? 0 : *std::ranges::max_element(hold)};
  for (std::size_t r = 0; r < run.graph().ranks().size(); ++r)
    found.peak = std::max(found.peak, double(timeline::memory_peak(run.graph(), run.timeline, RankId(r)).peak.count()));
  return found;
}

// With everything recomputed a stage keeps only what enters its layers, 64 MiB a micro-batch; the last one also keeps
// the logits of 128,256 words for 8,192 tokens, 30 times as much.
const std::string kHeavyHead =
    "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 1}\nparallelism: {pipeline: 8}\n"
    "batch: {global: 32, micro: 1}\ntraining: {precision: bf16, recompute: full}\nframework: titan-2024\n";
// A limit of 8 such inputs of the layers is less than the logits of two micro-batches here.
const std::string kShallow =
    "version: 1\nmodel: {family: gpt, layers: 48, hidden: 1024, heads: 8, vocabulary: 128256, sequence: 1024}\n"
    "cluster: v100-32g-opa\nparallelism: {tensor: 4, pipeline: 8}\nbatch: {global: 16, micro: 4}\n"
    "training: {precision: fp32, recompute: full, attention: unfused, kernels: unfused}\n";

}  // namespace

TEST_CASE("without a limit nothing is refused, and nothing costs more than 1f1b") {
  for (const auto& [what, text] : {std::pair{"llama3-8b", kHeavyHead}, {"48 layers of 1024", kShallow}}) {
    CAPTURE(what);
    const auto peer = outcome(text, "1f1b"), once = outcome(text, "zb-1p"), twice = outcome(text, "zb-2p");
    CHECK(once.seconds < peer.seconds);
    CHECK(twice.seconds <= once.seconds);
    // With the memory of 1F1B, as its name says, and what one weight gradient holds that comes later: what was
    // recomputed, and the gradient of the logits.
    CHECK(once.peak <= 1.01 * peer.peak + once.weight_hold);
  }
}

// Four stages, F = I = W = 10 ms, 8 micro-batches. A forward holds 3 units until its input gradient, 1 of them until
// its weight gradient. Room for 6 units is room for two micro-batches.
TEST_CASE("limits of given pipelines are in the unit of their memory") {
  const std::string given =
      "version: 1\nparallelism: {pipeline: 4}\nbatch: {microbatches: 8}\n"
      "costs: {forward: 10ms, backward: 10ms, weight: 10ms}\n";
  const std::string memory = "memory: {activation: 3, weight_hold: 1}\n";
  const auto run = answer::predict(scenario_of(given + memory, "{name: zb-auto, memory_limit: 6}"));
  CHECK(run.lowered->problem.activation == std::vector<double>(4, 3));
  CHECK(run.lowered->problem.weight_hold == std::vector<double>(4, 1));
  const auto limited =
      answer::predict(scenario_of(given + "memory: {activation: 3, weight_hold: 1, limit: 6}\n", "zb-auto"));
  CHECK(limited.timeline.makespan() == run.timeline.makespan());
  // As `rehearse schedule` has it: more room, less time.
  CHECK(answer::predict(scenario_of(given + memory, "zb-auto")).timeline.makespan() < run.timeline.makespan());
  CHECK_THROWS_WITH_AS(
      answer::predict(scenario_of(given + memory, "{name: zb-auto, memory_limit: 2}")),
      doctest::Contains("memory_limit 2 is too small for the activations of one micro-batch on every rank; "
                        "give at least 3"),
      UserError);
  // Fractions and sizes are units, too.
  for (const auto& [unit, limit] : {std::pair{"0.3", "0.6"}, {"300MB", "600MB"}}) {
    CAPTURE(unit);
    const auto same = fmt::format("memory: {{activation: {}, limit: {}}}\n", unit, limit);
    CHECK(answer::predict(scenario_of(given + same, "zb-auto")).timeline.makespan() ==
          answer::predict(scenario_of(given + "memory: {activation: 1, limit: 2}\n", "zb-auto")).timeline.makespan());
  }
}
