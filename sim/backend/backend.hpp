// The seam: the same graph is rehearsed or performed. The simulator is one backend among others.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "graph/resource_table.hpp"
#include "graph/task_graph.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::backend {

using timeline::Fidelity;
using timeline::Timeline;

enum class Compute : std::uint8_t {
  timed,  // compute tasks wait out their duration; order, messages and waiting are real
  real    // kernels compute on real buffers: graphs with segments only (framework: native)
};

// What real compute trains on: synthetic data, a function of the seed alone, the same for every layout of ranks. The
// data set is one global batch, seen again at every step, so that the loss must fall.
struct TrainingData {
  std::uint64_t seed = 0;
  std::int64_t micro_batch = 1;  // sequences (rows, where vocabulary = 0) of a micro-batch, times `sequence` tokens
  std::int64_t sequence = 1;
  std::int64_t context = 1;       // ranks that a sequence is cut over
  std::int64_t pieces = 1;        // that pass one after the other: tasks number micro-batch x pieces + piece
  bool balanced = false;          // so that a causal mask gives them the same work (kernels/cut.hpp)
  std::int64_t microbatches = 1;  // of one data-parallel rank; rank d has the global ones d m .. (d+1) m
  std::int64_t vocabulary = 0;    // 0: real-valued rows of `width` entries with a squared error
  std::int64_t width = 0;
  // Where stages have layouts of their own, of each pipeline rank: replicas that share a micro-batch, and ranks that
  // share a sequence. `micro_batch` is then that of all replicas together, and replica d of D has the d-th part of
  // each.
  struct Cut {
    std::int64_t data = 1, context = 1;
  };
  std::vector<Cut> stages = {};
  // As a rank sees it: its own share of a micro-batch, and which of all shares that is.
  TrainingData of(const RankPlace& place) const {
    TrainingData own = *this;
    if (stages.empty()) return own;
    const auto& cut = stages[place[Axis::pipeline]];
    own.micro_batch = micro_batch / cut.data, own.context = cut.context, own.balanced = balanced && cut.context > 1;
    own.stages = {cut};
    return own;
  }
  std::int64_t global(const RankPlace& place, std::int64_t microbatch) const {
    return stages.empty() ? place[Axis::data] * microbatches + microbatch
                          : microbatch * stages.front().data + place[Axis::data];
  }
  float learning_rate = 1e-3f, beta1 = .9f, beta2 = .999f, epsilon = 1e-8f, weight_decay = .01f;  // AdamW; SGD: rate
};

// For tests that show that a check can fail: breaks a run on purpose.
struct FaultInjection {
  std::function<bool(RankId, LocalTask, int step)> skip;                            // leave a task out
  std::function<std::uint32_t(RankId, LocalTask, std::uint32_t)> other_microbatch;  // data of another micro-batch
};

// What the network became, of real compute.
struct TrainedTensor {
  graph::TensorKind kind{};
  std::uint32_t layer = 0;
  std::vector<float> values;     // whole, put together from its slices, without padding
  float replica_difference = 0;  // largest between ranks that should hold the same, or from the rounded master copy
  // Put together likewise: below fp32 the optimizer's copy in fp32 (empty where it keeps none), and what it gathered of
  // the gradients: AdamW's first moment, below fp32 of others the way that the parameters went.
  std::vector<float> master = {}, gathered = {};
  // RunOptions::responses: how far an error of one in every gradient would have moved each parameter, to first order.
  std::vector<float> response = {};
};
struct TrainingResult {
  std::vector<double> loss;            // mean over the global batch, at each step before its update
  std::vector<double> gradient_norm;   // 2-norm over all parameters, at each step
  std::vector<TrainedTensor> tensors;  // ordered by layer and kind
};

struct RunOptions {
  // One Time per WorkId of the graph. The simulator takes its prices from here; timed tasks wait them out; real compute
  // ignores them. Plain numbers, so that hw needs neither cost nor engine.
  std::span<const Time> durations;
  // One Time per WorkId: how long a message holds the wire that it leaves by, of its duration. The next one on the lane
  // starts when the wire is free. Empty: nothing holds a wire. Transports that move bytes have wires of their own.
  std::span<const Time> held;
  // One Time per TaskId: when the simulation starts it. Where one thread issues the work of several lanes or ranks, it
  // goes by them; empty: by id. Who waits for whom does not depend on it.
  std::span<const Time> starts;
  Compute compute = Compute::timed;
  TrainingData learning;  // real compute; one step per iteration, warm-up included
  FaultInjection fault_injection;
  // False (verification): more ranks than cores may compute for real; what they measure means nothing then.
  bool times_matter = true;
  // Whether Session::trained() shows the weights. They are put together from all ranks, which takes longer than a step.
  bool weights = true;
  int warmup = 0, iterations = 1;
  // Record the second iteration and replay it from then on, where the backend can (CUDA graphs): the host's share of
  // the time is gone.
  bool recorded = false;
  // After all others one more iteration, under the profiler of the device where there is one (Timeline::devices).
  bool observed = false;
  std::string tier_directory = {};  // where files hold what is kept on disks; empty: the usual one of this machine
  // Real compute on processors: note how each parameter answers to errors of its gradients, where AdamW divides by
  // them.
  bool responses = false;
  // Told now and then, by the thread that has called run(): how many iterations all ranks have ended, with warm-up.
  std::function<void(int ended)> progress;
  Time timeout = seconds(60);   // real backends give up with the unmatched heads after this long without progress
  std::string engine = "auto";  // simulator: "auto", "replay", "events" or "fluid"
  // What works take from each other, one per WorkId, and where they do; without places nobody feels anybody.
  std::span<const graph::Footprint> footprints;
  const graph::ResourceTable* places = nullptr;
};

// What a backend can do with a kind of work, with the reason where it cannot.
struct Capability {
  std::string kind;  // "compute", "message", "collective"
  Fidelity fidelity = Fidelity::unsupported;
  std::string note;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual Timeline run(const RunOptions& options) = 0;
  // After a run with real compute; empty otherwise.
  virtual TrainingResult trained() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual std::vector<Capability> capabilities() const = 0;
  // What this machine lacks for any graph at all, a GPU for instance; nothing when it has it.
  virtual std::optional<std::string> why_unavailable() const { return std::nullopt; }
  // GPUs that its ranks compute on, one for each that is a process; 0 where they compute on the processor.
  virtual std::size_t devices() const { return 0; }
  // Validates, allocates, connects. The graph outlives the session.
  // Throws MachineError when this machine cannot perform the graph.
  virtual std::unique_ptr<Session> prepare(const graph::TaskGraph& graph) = 0;
};

}  // namespace rehearsal::backend
