// What a scenario is answered with: the step in numbers, what was assumed, and the graph and the timeline that the
// numbers are drawn from. Command line, sweeps and tests share it; it needs no hardware, no writer and no file.
//
// An answer owns what it points to: it may outlive the scenario, be copied and be kept. Answers of one lowered share
// its graph.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer/faulted.hpp"
#include "answer/other_framework.hpp"
#include "answer/lowered_job.hpp"
#include "answer/summary.hpp"
#include "backend/backend.hpp"
#include "timeline/compare.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

// Whether a training is the one of a single rank (explore/verify.hpp finds it out).
struct Verification {
  int steps = 0;
  std::vector<double> loss, reference_loss, gradient_norm, reference_gradient_norm;  // one per step
  // Largest over tensors of |w - ref|_2 / max(|ref|_2, kSmallestWeight sqrt(n)).
  double max_relative_difference = 0;
  std::string worst_tensor;  // "layer 1 qkv_weight"
  // The same of what is left of each element's difference when that is taken off which rounded gradients explain
  // (explore::Limits::gradients). Equal to the above where the optimizer does not divide by gradients.
  // `ill_conditioned`: elements that rounding may move by a step of full length every time.
  double max_unexplained_difference = 0;
  std::string worst_unexplained;
  std::size_t elements = 0, ill_conditioned = 0;
  double tolerance = 0;            // for max_unexplained_difference
  double replica_difference = 0;   // largest absolute difference between ranks that hold the same tensor
  double max_loss_difference = 0;  // relative, over all steps; limit kLossTolerance, also for the norms
  double max_norm_difference = 0;
  // AdamW, bf16: of what the optimizer gathered of the gradients, largest over tensors, relative.
  double max_gathered_difference = 0;
  bool ok = false;
  std::vector<std::string> failures;  // in sentences; empty when ok
  std::vector<std::string> warnings;  // what does not fail but is odd: a loss that does not fall
};

// What a step that was performed has beyond one that was predicted.
struct Measured {
  timeline::Spread iterations;
  Time predicted;                                    // length of an iteration
  std::vector<Bytes> predicted_allocated;            // peak per rank, to be set beside Timeline::peak_bytes
  std::vector<std::vector<Bytes>> predicted_beyond;  // per rank and tier, beside Timeline::beyond_bytes
  std::optional<Verification> verification;
};

struct Result {
  Summary summary;
  std::vector<std::string> assumptions, warnings;
  std::shared_ptr<const LoweredJob> lowered;
  timeline::Timeline timeline;               // simulated, or measured
  std::optional<Measured> measured;          // nothing: predicted
  std::optional<Faulted> faulted;            // Options::faults, where the scenario has any
  std::vector<FrameworkTime> other_framework;  // Options::other_framework, where the scenario names none

  const scenario::Scenario& scenario() const { return lowered->scenario; }
  const graph::TaskGraph& graph() const { return lowered->graph; }

  // Without graph and timeline: what one of a hundred thousand variants is kept as. Enough for JSON, CSV and tables.
  Result brief() &&;
};

// The scenario as it is read with further values, KEY=VALUE; throws UserError.
using Reread = std::function<scenario::Scenario(const std::vector<std::string>& sets)>;

struct Options {
  std::string engine = "auto";      // backend::RunOptions
  const Effect* without = nullptr;  // one effect of the cost model left out
  SummaryParts summary = {};        // what the summary may leave out
  bool chosen = false;              // what the scenario leaves to the step (resharding auto) has been chosen
  Reread reread = {};               // given: warn of keys that are set and change nothing; costs a few predictions
  bool faults = false;              // what each costs: a prediction without it
  bool other_framework = false;      // the step with each framework that may be meant: a prediction each

  // The whole answer, as `rehearse run` shows it.
  static Options whole(Reread reread = {}) {
    return {.reread = std::move(reread), .faults = true, .other_framework = true};
  }
};

// Throws UserError as prepare() does.
Result predict(const scenario::Scenario& scenario, const Options& options = {});

// The lowered of `predicted` as it was performed.
Result performed(const Result& predicted, timeline::Timeline timeline);

}  // namespace rehearsal::answer
