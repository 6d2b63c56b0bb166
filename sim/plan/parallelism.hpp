// The parallelism of a job: its degrees, the batch, and which layers go to which stage. Structs as users write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshard/sharding.hpp"
#include "reshard/strategy.hpp"

namespace rehearsal::plan {

// The layout of a stage that differs from others.
struct StageLayout {
  std::int64_t tensor = 1;
  bool sequence = false;
  std::int64_t context = 1;
  std::int64_t data = 1;
  std::vector<std::uint32_t>
      gpus;  // of its ranks, data outermost, tensor innermost; empty: those behind the stage before
  // The part of the activation at its boundaries that each rank sends and receives, over (data x context, tensor): a
  // part of what it computes with. Empty: all of that.
  std::optional<reshard::ShardingSpec> sharding = {};

  std::int64_t ranks() const { return tensor * context * data; }
  // Equal layouts, wherever their GPUs are.
  bool like(const StageLayout& o) const {
    return tensor == o.tensor && sequence == o.sequence && context == o.context && data == o.data &&
           sharding == o.sharding;
  }
};

// How an activation gets to a stage with another layout; or to any stage, if the user says how.
struct Resharding {
  bool asked = false;
  reshard::Strategy strategy = reshard::Strategy::automatic;
  std::string planner = "best";
  std::int64_t chunks = 0;  // of a broadcast; 0: the fastest number
};

struct Parallelism {
  std::int64_t tensor = 1;
  bool sequence = false;     // Megatron sequence parallelism, inside the tensor group
  std::int64_t context = 1;  // GPUs that share a sequence
  std::int64_t pipeline = 1;
  std::int64_t chunks = 1;  // stages per pipeline rank
  std::int64_t data = 1;
  // Not factors: they fold tensor x context x data once more (plan/mesh.hpp).
  std::int64_t expert = 1;         // GPUs that share the experts of a layer
  std::int64_t expert_tensor = 1;  // GPUs that share one expert
  std::int64_t shard = 0;  // replicas that share their states, of `data`, which then has data / shard copies; 0: all
  // GPUs that hold a second copy of the parameters among them, in what they compute with (hpZ of ZeRO++); 0: none.
  std::int64_t secondary_shard = 0;
  // Set by the plan: replicas that gather parameters again, and that reduce gradients in a first hop.
  std::int64_t again = 1, near = 1;
  int zero = 0;  // 1: optimizer states sharded over the data-parallel group, 2: gradients too, 3: parameters too
  // One for each stage, if their layouts differ; this struct is then the first one.
  std::vector<StageLayout> layouts = {};

  std::int64_t gpus() const {
    if (layouts.empty()) return tensor * context * pipeline * data;
    std::int64_t all = 0;
    for (const auto& layout : layouts) all += layout.ranks();
    return all;
  }
  std::int64_t stages() const { return pipeline * chunks; }
  // The parallelism with all stages laid out like this one.
  Parallelism as(const StageLayout& layout) const {
    Parallelism p = *this;
    p.layouts.clear();
    p.tensor = layout.tensor, p.sequence = layout.sequence, p.context = layout.context, p.data = layout.data;
    return p;
  }
};

struct Batch {
  std::int64_t global = 1;    // sequences per iteration
  std::int64_t micro = 1;     // sequences per micro-batch
  std::int64_t sequence = 0;  // tokens per sequence
  // Tokens of documents, as often as each, cut to the sequence; empty: every sequence is one document. Packed:
  // documents fill sequences, else each has one of its own, whose rest is padding. The mask hides other documents of a
  // sequence.
  std::vector<std::int64_t> lengths = {};
  bool packed = false, document_mask = false;

  double mean_length() const;
  // Of the tokens that are computed, those of documents.
  double useful() const { return lengths.empty() || packed ? 1 : mean_length() / double(sequence); }
  // Of the square of the sequence: the scores that documents need, on average; and those that kernels of the replica
  // with most of them compute, whose sequences are every `replicas`-th of a step.
  double needed() const;
  double attended(std::int64_t replicas) const;
};

// How replicas get equal parameters: they add up their gradients among themselves, or each of several servers does it
// for a part of the parameters (Li et al., OSDI 2014).
struct DataParallel {
  enum class Kind : std::uint8_t { all_reduce, parameter_server };
  enum class Placement : std::uint8_t { dedicated, colocated };
  enum class Update : std::uint8_t { server, worker };
  static constexpr std::int64_t kUnbounded = -1;

  Kind kind = Kind::all_reduce;
  std::int64_t servers = 1;
  Placement placement = Placement::dedicated;
  Update update = Update::server;
  // Iterations by which a worker may be ahead of the slowest gradient that has arrived (Ho et al., NeurIPS 2013).
  // Without servers, on one rank: the age of its parameters, as a reference for workers with a delay.
  std::int64_t delay = 0;
  // Native kernels with a delay: as many iterations are one graph, which is then called an iteration.
  int performed = 0;

  bool served() const { return kind == Kind::parameter_server; }
  bool unbounded() const { return delay == kUnbounded; }
  bool synchronous() const { return delay == 0; }
  // Nodes of the cluster in addition to those of the workers; without NICs, GPUs.
  std::int64_t own_nodes() const { return served() && placement == Placement::dedicated ? servers : 0; }
  // An asynchronous server has a thread for each worker; any other one has a single thread.
  std::int64_t threads(std::int64_t workers) const { return unbounded() ? workers : 1; }
};

// Whether the embedding and the head count as layers when layers are dealt out.
enum class Ends : std::uint8_t { free, layer };
struct Partition {
  enum class Kind : std::uint8_t { uniform, listed, balanced } kind = Kind::uniform;
  std::vector<std::int64_t> layers = {};  // listed: one entry per stage
  std::string layout = {};                // listed, in place of `layers` (stages_of_layout)
  Ends embedding = Ends::free, head = Ends::free;
};

}  // namespace rehearsal::plan
