// The answer in numbers: everything that text, JSON and CSV of `run` and `measure` say, drawn from a timeline.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "timeline/breakdown.hpp"
#include "timeline/memory.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::report {

// What the report draws from. Everything outlives the call.
struct Run {
  const scenario::Scenario& scenario;
  const graph::TaskGraph& graph;
  const timeline::Timeline& timeline;
  std::span<const Time> durations;
  Flops model_flops, hardware_flops;  // of one iteration, all GPUs
  std::span<const std::string> assumptions, warnings;
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
  MemoryFigures peak;  // worst rank
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
