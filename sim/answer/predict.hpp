// The result for a scenario: the step in numbers, the assumptions, and the graph and timeline behind the numbers.
// Used by command line, sweeps and tests; needs no hardware, no writer and no file.
//
// A result owns what it points to: it may outlive the scenario, be copied and be stored. Results of one lowered job
// share its graph.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer/faulted.hpp"
#include "answer/lowered_job.hpp"
#include "answer/other_framework.hpp"
#include "answer/summary.hpp"
#include "backend/backend.hpp"
#include "timeline/compare.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

// Whether a distributed training computed the same as a single rank (explore/verify.hpp compares them).
struct Verification {
  int steps = 0;
  std::vector<double> loss, reference_loss, gradient_norm, reference_gradient_norm;  // one per step
  // Largest over tensors of |w - ref|_2 / max(|ref|_2, kSmallestWeight sqrt(n)).
  double max_relative_difference = 0;
  std::string worst_tensor;  // tensor with the largest difference: "layer 1 qkv_weight"
  // The same, after subtracting from each element the difference that rounding of gradients explains
  // (explore::Limits::gradients). Equal to the above if the optimizer does not divide by gradients.
  // `ill_conditioned`: elements that rounding may move by a full step every time.
  double max_unexplained_difference = 0;
  std::string worst_unexplained;
  std::size_t elements = 0, ill_conditioned = 0;
  double tolerance = 0;            // for max_unexplained_difference
  double replica_difference = 0;   // largest absolute difference between ranks that hold the same tensor
  double max_loss_difference = 0;  // relative, over all steps; limit kLossTolerance, also for the norms
  double max_norm_difference = 0;
  // AdamW, bf16: of the optimizer's accumulated gradients; largest over tensors, relative.
  double max_gathered_difference = 0;
  bool ok = false;
  std::vector<std::string> failures;  // in sentences; empty when ok
  std::vector<std::string> warnings;  // suspicious but not failing: a loss that does not fall
};

// The additional data of a performed (not predicted) step.
struct Measured {
  timeline::Spread iterations;
  Time predicted;                                    // length of an iteration
  std::vector<Bytes> predicted_allocated;            // peak per rank, to compare with Timeline::peak_bytes
  std::vector<std::vector<Bytes>> predicted_beyond;  // per rank and tier, to compare with Timeline::beyond_bytes
  std::optional<Verification> verification;
  std::optional<backend::Collectives> collectives;  // nothing where none moved bytes
  // Over hosts of this machine: what passed a link, one way, in an iteration. Counted with headers, by the kernel.
  struct Link {
    std::string name;
    double predicted = 0, counted = 0;
  };
  std::vector<Link> links;
};

struct Result {
  Summary summary;
  std::vector<std::string> assumptions, warnings;
  std::shared_ptr<const LoweredJob> lowered;
  timeline::Timeline timeline;                 // simulated, or measured
  std::optional<Measured> measured;            // nothing: predicted
  std::optional<Faulted> faulted;              // Options::faults, if the scenario has any
  std::vector<FrameworkTime> other_framework;  // Options::other_framework, if the scenario names none

  const scenario::Scenario& scenario() const { return lowered->scenario; }
  const graph::TaskGraph& graph() const { return lowered->graph; }

  // Without graph and timeline, to keep a hundred thousand variants. Sufficient for JSON, CSV and tables.
  Result brief() &&;
};

// Reads the scenario again with further KEY=VALUE settings; throws UserError.
using Reread = std::function<scenario::Scenario(const std::vector<std::string>& sets)>;

struct Options {
  std::string engine = "auto";      // backend::RunOptions
  const Effect* without = nullptr;  // one effect of the cost model left out
  SummaryParts summary = {};        // parts of the summary that may be left out
  bool assumptions = true;          // also which unmeasured constants the step depends on; restages it for each
  bool chosen = false;              // choices that depend on the step (resharding auto) have been made
  Reread reread = {};               // if given: warn of settings without effect; costs a few predictions
  bool faults = false;              // also the cost of each fault: one prediction without it
  bool other_framework = false;     // also the step with each candidate framework: one prediction each

  // All parts of the result, as `rehearse run` shows it.
  static Options whole(Reread reread = {}) {
    return {.reread = std::move(reread), .faults = true, .other_framework = true};
  }
  // For one of many steps, of which the summary counts, or only the time.
  static Options summary_alone() { return {.summary = {.critical_path = false}, .assumptions = false}; }
  static Options time_alone() {
    return {.summary = {.memory = false, .critical_path = false, .job = false}, .assumptions = false};
  }
};

// Throws UserError as prepare() does.
Result predict(const scenario::Scenario& scenario, const Options& options = {});

// The lowered job of `predicted`, as it was performed.
Result performed(const Result& predicted, timeline::Timeline timeline);

}  // namespace rehearsal::answer
