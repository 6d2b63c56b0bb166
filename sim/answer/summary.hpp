// The answer in numbers: everything that text, JSON and CSV of `run` and `measure` say, drawn from a timeline.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "answer/served.hpp"
#include "answer/tiers.hpp"
#include "answer/traffic.hpp"
#include "job/whole_run.hpp"
#include "timeline/breakdown.hpp"
#include "timeline/memory.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

struct MemoryFigures {
  double allocated = 0;  // bytes; abstract scenarios: their unit
  std::optional<double> reserved, device;
  friend bool operator==(const MemoryFigures&, const MemoryFigures&) = default;
};

struct RankSummary {
  std::uint32_t rank = 0, count = 1, node = 0;  // `count` real ranks do the same as this one
  std::vector<std::uint32_t> stages;
  Time busy;
  MemoryFigures peak;
  std::uint32_t allocator_retries =
      0;  // the device was full, cached memory went back; the time it takes is not modelled
  timeline::MemoryByCategory memory{};
  friend bool operator==(const RankSummary&, const RankSummary&) = default;
};

struct PathSegment {  // of the critical path: neighbouring tasks of one rank and pass
  std::uint32_t rank = 0;
  std::string what;
  Time start, end;
  std::uint64_t tasks = 0;
};

struct Contended {
  std::string name;  // "node 0 GPU 0 multiprocessors"
  std::uint32_t count = 1;
  Time slowed;  // of each
  double busy = 0;
  friend bool operator==(const Contended&, const Contended&) = default;
};

struct Summary {
  // Of what, and who says so.
  std::string name, file, digest;  // of the scenario
  bool abstract = false;           // times were given; memory is in the unit of the scenario
  scenario::ErrorBand error_band;  // of predictions like this one
  std::string framework;            // the framework's profile; empty of an abstract scenario
  bool framework_named = false;     // by the scenario
  std::string backend, engine;     // as in the timeline, likewise:
  timeline::Fidelity fidelity = timeline::Fidelity::simulated;

  Time iteration;
  std::optional<double> samples_per_s, tokens_per_s, model_tflops_per_gpu, hardware_tflops_per_gpu, mfu, hfu;
  // Where the loss is scaled: of all steps so many train nothing, each of which takes so long; and what a step that
  // trains takes with its share of them. Rates of samples, tokens and FLOPs are by that.
  struct Useful {
    double overflow_rate = 0;
    Time skipped, step;
    friend bool operator==(const Useful&, const Useful&) = default;
  };
  std::optional<Useful> useful;
  double bubble_rate = 0;
  MemoryFigures peak;               // the largest of each over the ranks
  std::optional<bool> fits;         // on every tier
  std::optional<double> capacity;   // of the device, which `fits` compares with
  std::optional<bool> fits_device;  // there
  std::vector<TierSummary> tiers;   // beyond it
  std::optional<OffloadEfficiency> offload_efficiency;
  std::int64_t gpus = 0, microbatches = 0;
  timeline::Breakdown breakdown{};
  std::uint32_t breakdown_rank = 0;
  std::vector<RankSummary> ranks;
  TrafficSummary traffic;
  std::vector<PathSegment> critical_path;
  std::optional<Served> served;      // with parameter servers
  std::optional<job::WholeRun> job;  // of a step that was predicted
  std::optional<Time> contention;    // by which the iteration is longer because works share what they use
  std::vector<Contended> contended;  // the worst of what they share
};

// Whether the same step comes out, number by number: times, rates, memory on every tier, traffic, and what a job makes
// of them. Not of what, by whom, or along which path.
bool same_answer(const Summary& a, const Summary& b);

// What may be left out of a summary, because it takes a while: peaks of memory with what fits (a framework's allocator
// is replayed), and the critical path.
struct SummaryParts {
  bool memory = true, critical_path = true;
  unsigned threads = 1;  // that share the ranks
};
Summary summarize(const LoweredJob& lowered, const timeline::Timeline& timeline, const SummaryParts& parts = {});

}  // namespace rehearsal::answer
