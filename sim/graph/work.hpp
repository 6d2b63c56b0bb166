// What a task does, without when and where: interned, so that a step of a 405B model has a few hundred works, each
// priced once. `durations` is one Time per WorkId throughout.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/kernels.hpp"
#include "base/tier.hpp"
#include "base/units.hpp"

namespace rehearsal::graph {

using rehearsal::GroupShape;

// `size` in the sense of nccl-tests: the whole array, also for all-gather and reduce-scatter.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  GroupShape group;
  std::uint32_t tensors = 1;              // consecutive calls that add up to the size (DeepSpeed ZeRO-3 of 2021)
  Precision precision = Precision::fp32;  // of the elements that are summed, in graphs that compute
  std::uint32_t pieces = 1;               // this is one of `pieces` equal parts, moved by copy engines
  Axis inside = Axis::tensor;             // within a pass: the axis of its group (kInside)
  // The kernel that it was started with leaves it multiprocessors: it has as many thread blocks fewer.
  bool room_kept = false;
  friend auto operator<=>(const Collective&, const Collective&) = default;
};

// Tokens sent to the experts that they are routed to, or back: a copy for every expert (an all-to-all), or, by kernels
// that know where experts are, one copy to every rank of the own NVLink domain that has one of them, and one to every
// other such domain, where it is forwarded (DeepEP, HybridEP; cost/dispatch.cpp).
struct Dispatch {
  std::int64_t tokens = 0;  // of each rank
  Bytes each;               // of a token
  std::int64_t experts = 0, per_token = 0;
  std::int64_t most_domains = 0;  // domains that a token is sent to at most; 0: any number
  bool two_hop = true;
  GroupShape group;
  double load = 1;  // tokens of the rank that gets most, over the mean
  // Of every rank likewise, the busiest first; empty: all have `load`.
  std::vector<double> loads = {};
  bool back = false;  // from the experts; of uneven loads only, as even ones are alike both ways
  friend auto operator<=>(const Dispatch&, const Dispatch&) = default;
};

// A kernel and a collective that one rank starts together; lasts as long as the longer of them, which may be longer
// than either is alone. In a finer graph they are two tasks on two lanes.
struct Overlapped {
  WorkId kernel, collective;
  friend auto operator<=>(const Overlapped&, const Overlapped&) = default;
};

// Point to point. The send carries the time; the receive only waits for it.
struct Message {
  Bytes size;                      // what one rank sends
  std::uint32_t from = 0, to = 1;  // GPUs: of all equivalent pairs, the first (cluster::Machine::alike)
  Bytes gathered;            // all-gathered inside the receiving tensor group afterwards (sharded sends); 0 = nothing
  GroupShape gather = {};    // that group
  bool copied = false;       // by copy engines and NICs alone: takes no multiprocessors (parameter servers)
  std::uint32_t chunks = 1;  // number of messages that it stands for, in sequence
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct Receive {
  friend auto operator<=>(const Receive&, const Receive&) = default;
};

// The optimizer's pass over its shard: memory traffic plus a fixed cost of many small kernels.
struct OptimizerStep {
  double parameters = 0;  // updated by this rank
  Bytes traffic;
  friend auto operator<=>(const OptimizerStep&, const OptimizerStep&) = default;
};

// A fixed time: abstract scenarios and timed tasks.
struct FixedDelay {
  Time duration;
  friend auto operator<=>(const FixedDelay&, const FixedDelay&) = default;
};

// The GPU idles while the host still launches: the time by which `host` exceeds the kernels of `busy` (a Sequence).
// Where the host is behind of some kernels and ahead of others (`uneven`), the GPU waits even if the host has the
// shorter sum.
struct HostBound {
  Time host;
  WorkId busy;
  bool uneven = false;
  friend auto operator<=>(const HostBound&, const HostBound&) = default;
};

// Several works back to back: a coarse task is the sequence of its operators, and costs exactly their sum.
struct Sequence {
  struct Item {
    WorkId work;
    std::uint32_t count = 1;
    bool recompute = false;
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
  friend auto operator<=>(const Sequence&, const Sequence&) = default;
};

// A part of a buffer, in bytes: count[0] x count[1] runs at fixed strides, concatenated; of these bytes, the `size`
// ones from `first` on.
struct Region {
  std::int64_t offset = 0, run = 0;
  std::array<std::int64_t, 2> count{1, 1}, stride{0, 0};
  std::int64_t first = 0, size = 0;
  friend auto operator<=>(const Region&, const Region&) = default;
};

// A rank's own copying for a message: out of its memory, or into it. If the host moves the bytes (loopback, MPI), this
// takes the rank's time; the way between belongs to the transport. `offset`: its start in the buffer; `region`: if it
// is not contiguous.
struct StagingCopy {
  Bytes size;
  bool incoming = false;
  Bytes offset = {};
  std::optional<Region> region = {};
  friend auto operator<=>(const StagingCopy&, const StagingCopy&) = default;
};

// A copy from one memory tier to the next. `turns`: as many ranks take turns, this one with its part (each tensor has
// an owner, which hands it to the others); it takes the time of one of them and loads its own path once in `turns`.
struct Copy {
  Bytes size;
  Tier from = Tier::device, to = Tier::host;
  std::uint32_t turns = 1;
  // The buffer on the device holds the shards of all replicas along this axis, and the own one is copied; otherwise the
  // first bytes of each buffer are. For graphs that compute.
  std::optional<Axis> shard = {};
  friend auto operator<=>(const Copy&, const Copy&) = default;
};

// An optimizer step on the cores of the host, on states in its memory. When performed: AdamW on the buffers that its
// task names, all on the host: (gradient; moments[2,e], parameters in fp32[, the same as they are stored]).
struct HostStep {
  double parameters = 0;  // updated
  Bytes traffic;
  Precision stored = Precision::fp32;  // what the network computes with
  bool late = false;                   // uses gradients of the previous step: the first of a run does nothing
  friend auto operator<=>(const HostStep&, const HostStep&) = default;
};

using Work = std::variant<Gemm, FusedAttention, MemoryBound, Collective, Message, Receive, OptimizerStep, FixedDelay,
                          HostBound, Sequence, Kernel, StagingCopy, Overlapped, Dispatch, Copy, HostStep>;

// Where time goes, in the words of `breakdown_s` (contract, section 4).
enum class Category : std::uint8_t {
  compute,
  recompute,
  tensor_comm,
  pipeline_comm,
  data_comm,
  optimizer,
  host,
  contention,  // longer than alone, because of what ran beside it
  bubble,
  context_comm,
  expert_comm,
  offload  // copies between tiers, disks, what hosts compute
};
inline constexpr std::size_t kCategories = 12;
const char* name(Category category);

std::string describe(const Work& work);  // "gemm 2048x12288x1536 bf16"

}  // namespace rehearsal::graph
