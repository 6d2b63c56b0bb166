// The answer in numbers: everything that text, JSON and CSV of `run` and `measure` say, drawn from a timeline.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "timeline/breakdown.hpp"
#include "timeline/compare.hpp"
#include "timeline/memory.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::report {

// Whether a training is the one of a single rank (explore/verify.hpp says how that is found out).
struct Verification {
  int steps = 0;
  std::vector<double> loss, reference_loss, gradient_norm, reference_gradient_norm;  // one per step
  // The first as it is, the second without what rounded gradients explain, which `tolerance` is for; the third of what
  // the optimizer gathered of the gradients. `ill_conditioned`: elements that may differ by more than `tolerance`.
  double max_relative_difference = 0, max_unexplained_difference = 0, max_gathered_difference = 0;
  std::size_t elements = 0, ill_conditioned = 0;
  double tolerance = 0, replica_difference = 0;
  std::string worst_tensor;
  bool ok = false;
  std::vector<std::string> failures;
};

// What a performed run adds to a report.
struct Measured {
  timeline::Spread iterations;
  Time predicted;                          // length of an iteration
  std::vector<Bytes> predicted_allocated;  // peak per rank, to be set beside Timeline::peak_bytes
  std::optional<Verification> verification;
};

// What the report draws from. Everything outlives the call.
struct Run {
  const scenario::Scenario& scenario;
  const graph::TaskGraph& graph;
  const timeline::Timeline& timeline;
  std::span<const Time> durations;
  Flops model_flops, hardware_flops;  // of one iteration, all GPUs
  std::span<const std::string> assumptions, warnings;
  const Measured* measured = nullptr;         // performed runs
  std::span<const std::int64_t> layers = {};  // of each stage, in model order
};

struct MemoryFigures {
  double allocated = 0;  // bytes; abstract scenarios: their unit
  std::optional<double> reserved, device;
};

struct RankSummary {
  std::uint32_t rank = 0, count = 1, node = 0;  // `count` real ranks do the same as this one
  std::vector<std::uint32_t> stages;
  Time busy;
  MemoryFigures peak;
  std::uint32_t allocator_retries =
      0;  // the device was full, cached memory went back; the time it takes is not modelled
  timeline::MemoryByCategory memory{};
};

struct PathSegment {  // of the critical path: neighbouring tasks of one rank and pass
  std::uint32_t rank = 0;
  std::string what;
  Time start, end;
  std::uint64_t tasks = 0;
};

struct Summary {
  Time iteration;
  std::optional<double> samples_per_s, tokens_per_s, model_tflops_per_gpu, hardware_tflops_per_gpu, mfu, hfu;
  double bubble_rate = 0;
  MemoryFigures peak;  // the largest of each over the ranks
  std::optional<bool> fits;
  std::optional<double> capacity;  // what `fits` compares with
  std::int64_t gpus = 0, microbatches = 0;
  timeline::Breakdown breakdown{};
  std::uint32_t breakdown_rank = 0;
  std::vector<RankSummary> ranks;
  std::vector<PathSegment> critical_path;
};

Summary summarize(const Run& run);

}  // namespace rehearsal::report
