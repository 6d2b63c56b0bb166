// The interface between prediction and execution: the same graph is simulated or performed. The simulator is one
// backend.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "collective/routine.hpp"
#include "graph/resource_table.hpp"
#include "graph/task_graph.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::backend {

using timeline::Fidelity;
using timeline::Timeline;

enum class Compute : std::uint8_t {
  timed,  // compute tasks only wait for their duration; order, messages and waiting are real
  real    // kernels compute on real buffers: only for graphs with segments (framework: native)
};

// Own: the steps of the algorithm that the prediction chose are sent, received and added up, so that what is measured
// is what was predicted. Library: by that of the transport (MPI, NCCL), or inside one process by one thread for all.
enum class Collectives : std::uint8_t { own, library };
inline const char* name(Collectives how) { return how == Collectives::own ? "own" : "library"; }

// Training data of real compute: synthetic, a function of the seed alone, the same for every layout of ranks. The
// data set is one global batch, repeated at every step, so that the loss must fall.
struct TrainingData {
  std::uint64_t seed = 0;
  std::int64_t micro_batch = 1;  // sequences (rows, if vocabulary = 0) per micro-batch, of `sequence` tokens each
  std::int64_t sequence = 1;
  std::int64_t context = 1;       // ranks that share a sequence
  std::int64_t pieces = 1;        // of a sequence, processed in turn: tasks are numbered micro-batch x pieces + piece
  bool balanced = false;          // the cut balances work under a causal mask (kernels/cut.hpp)
  std::int64_t microbatches = 1;  // per data-parallel rank; rank d has the global ones d m .. (d+1) m
  // Tokens of documents, which fill each sequence one after the other, any of these as likely; the last one is cut
  // where the sequence ends. Empty: a sequence is one document.
  std::vector<std::int64_t> documents = {};
  std::int64_t vocabulary = 0;  // 0: real-valued rows of `width` entries with a squared error
  std::int64_t width = 0;
  // With per-stage layouts, for each pipeline rank: the number of replicas that share a micro-batch, and of ranks that
  // share a sequence. `micro_batch` is then that of all replicas together, and replica d of D has the d-th part of
  // each.
  struct Cut {
    std::int64_t data = 1, context = 1;
  };
  std::vector<Cut> stages = {};
  // From a rank's point of view: its share of a micro-batch, and the index of that share.
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

// For tests of verification: breaks a run on purpose.
struct FaultInjection {
  std::function<bool(RankId, LocalTask, int step)> skip;                            // omit a task
  std::function<std::uint32_t(RankId, LocalTask, std::uint32_t)> other_microbatch;  // use data of another micro-batch
};

// The trained network of real compute.
struct TrainedTensor {
  graph::TensorKind kind{};
  std::uint32_t layer = 0;
  std::vector<float> values;     // whole, assembled from its shards, without padding
  float replica_difference = 0;  // largest difference between replicas, or from the rounded master copy
  // Assembled likewise: below fp32 the optimizer's fp32 copy (empty if it keeps none), and its accumulated
  // gradients: AdamW's first moment, or below fp32 for others the total change of the parameters.
  std::vector<float> master = {}, gathered = {};
  // RunOptions::responses: the first-order change of each parameter for an error of one in every gradient.
  std::vector<float> response = {};
};
struct TrainingResult {
  std::vector<double> loss;            // mean over the global batch, at each step before its update
  std::vector<double> gradient_norm;   // 2-norm over all parameters, at each step
  std::vector<TrainedTensor> tensors;  // ordered by layer and kind
};

struct RunOptions {
  // One Time per WorkId of the graph. The simulator uses them as prices; timed tasks wait for them; real compute
  // ignores them. Plain numbers, so that hw depends on neither cost nor engine.
  std::span<const Time> durations;
  // One Time per WorkId: how long a message occupies its outgoing wire, as part of its duration. The next one on the
  // lane starts when the wire is free. Empty: wires are never occupied. Transports that move bytes have real wires.
  std::span<const Time> held;
  // How collectives are performed; their steps by these algorithms, one per WorkId, and by the library where there is
  // none. The same on all ranks.
  Collectives collectives = Collectives::own;
  std::span<const collective::Execution> executions;
  // One Time per TaskId: its start in the simulation. A thread that issues the work of several lanes or ranks uses this
  // order; empty: by id. Dependencies do not depend on it.
  std::span<const Time> starts;
  Compute compute = Compute::timed;
  TrainingData learning;  // real compute; one step per iteration, warm-up included
  FaultInjection fault_injection;
  // False (verification): real compute may use more ranks than cores; measured times are then meaningless.
  bool times_matter = true;
  // Whether Session::trained() returns the weights. Assembling them from all ranks takes longer than a step.
  bool weights = true;
  int warmup = 0, iterations = 1;
  // Record the second iteration and replay it from then on, if the backend supports it (CUDA graphs): that removes the
  // host's share of the time.
  bool recorded = false;
  // One more iteration after all others, under the device's profiler if there is one (Timeline::devices).
  bool observed = false;
  std::string tier_directory = {};  // folder for files of the disk tier; empty: the machine's default
  // Real compute on CPUs: record how each parameter responds to errors of its gradients, if AdamW divides by
  // them.
  bool responses = false;
  // Called from time to time by the thread that called run(): iterations completed by all ranks, including warm-up.
  std::function<void(int ended)> progress;
  Time timeout = seconds(60);   // real backends abort after this time without progress and report unmatched messages
  std::string engine = "auto";  // simulator: "auto", "replay", "events" or "fluid"
  // The resources that each work uses, one entry per WorkId, and their locations; without locations no contention.
  std::span<const graph::Footprint> footprints;
  const graph::ResourceTable* places = nullptr;
};

// A backend's support for a kind of work, with the reason if it is unsupported.
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
  // What this machine lacks for any graph, such as a GPU; nothing if available.
  virtual std::optional<std::string> why_unavailable() const { return std::nullopt; }
  // GPUs used by its ranks, one per rank process; 0 if they compute on CPUs.
  virtual std::size_t devices() const { return 0; }
  // Validates, allocates, connects. The graph must outlive the session.
  // Throws MachineError if this machine cannot perform the graph.
  virtual std::unique_ptr<Session> prepare(const graph::TaskGraph& graph) = 0;
};

}  // namespace rehearsal::backend
