// The result in numbers: the content of text, JSON and CSV of `run` and `measure`, computed from a timeline.
#pragma once
#include <cmath>
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
      0;  // the device was full and cached memory was returned; the time that takes is not modelled
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
  Time slowed;  // each
  double busy = 0;
  friend bool operator==(const Contended&, const Contended&) = default;
};

struct Summary {
  // What was predicted or measured, and by what.
  std::string name, file, digest;  // of the scenario
  bool abstract = false;           // times were given; memory is in the unit of the scenario
  struct Model {
    std::string name;
    double parameters = 0, active = 0;  // all; those that a token meets
    std::int64_t layers = 0, hidden = 0, sequence = 0;
  };
  std::optional<Model> model;      // nothing: abstract
  scenario::ErrorBand error_band;  // of predictions like this one
  std::string framework;           // name of the framework's profile; empty for an abstract scenario
  bool framework_named = false;    // whether the scenario names it
  std::string backend, engine;     // as in the timeline:
  timeline::Fidelity fidelity = timeline::Fidelity::simulated;

  Time iteration;
  std::optional<double> samples_per_s, tokens_per_s, model_tflops_per_gpu, hardware_tflops_per_gpu, mfu, hfu;
  // With loss scaling: the share of steps that are skipped, the time of a skipped step, and the time of a training step
  // including its share of skipped ones. Samples, tokens and FLOPs per second are based on the latter.
  struct Useful {
    double overflow_rate = 0;
    Time skipped, step;
    friend bool operator==(const Useful&, const Useful&) = default;
  };
  std::optional<Useful> useful;
  double bubble_rate = 0;
  MemoryFigures peak;               // the largest of each over the ranks
  std::optional<bool> fits;         // on every tier
  std::optional<double> capacity;   // of the device; compared by `fits`
  std::optional<bool> fits_device;  // on the device alone
  // Whether the peak is so near to the memory of the device that published runs went either way (docs/accuracy.md).
  static constexpr double kNearLimit = .05;
  bool narrow() const { return fits_device && peak.device && std::abs(*peak.device / *capacity - 1) <= kNearLimit; }
  std::vector<TierSummary> tiers;  // beyond the device
  std::optional<OffloadEfficiency> offload_efficiency;
  std::int64_t gpus = 0, microbatches = 0;
  timeline::Breakdown breakdown{};
  std::uint32_t breakdown_rank = 0;
  std::vector<RankSummary> ranks;
  TrafficSummary traffic;
  std::vector<PathSegment> critical_path;
  std::optional<Served> served;      // with parameter servers
  std::optional<job::WholeRun> job;  // of a predicted step
  std::optional<Time> contention;    // by which contention lengthens the iteration
  std::vector<Contended> contended;  // the most contended resources
};

// Whether two steps have the same numbers: times, rates, memory on every tier, traffic, and the results of the job.
// Ignores names, sources and the critical path.
bool same_answer(const Summary& a, const Summary& b);

// Slow parts of a summary that may be left out: memory peaks with `fits` (a framework's allocator is replayed), and the
// critical path.
struct SummaryParts {
  bool memory = true, critical_path = true;
  bool job = true;       // the whole training, where the scenario has one: a prediction for each of its phases
  unsigned threads = 1;  // to split the ranks among
};
// Parameters, gradients and optimizer states on the GPU that holds most of them, at the peak of its memory; nothing for
// given pipelines, or if memory was left out.
std::optional<double> model_states(const Summary& summary);
// The share of the step in which the rank of the breakdown computes nothing.
double waiting(const Summary& summary);
Summary summarize(const LoweredJob& lowered, const timeline::Timeline& timeline, const SummaryParts& parts = {});

}  // namespace rehearsal::answer
