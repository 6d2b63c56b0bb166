// What a task does, apart from when and where: interned, so that a step of a 405B model has a few hundred works, each
// priced once. `durations` anywhere in the house is one Time per WorkId.
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
  std::uint32_t tensors = 1;  // the size is that of so many calls, one after the other (DeepSpeed ZeRO-3 of 2021)
  Precision precision = Precision::fp32;  // of the elements, in graphs that compute: what is added up
  std::uint32_t pieces = 1;               // this is one of so many equal parts of it, moved by copy engines
  Axis inside = Axis::tensor;             // of a pass: along which axis its group is (kInside)
  // Its multiprocessors are kept free by the kernel that it was started with, whose blocks are as many fewer.
  bool room_kept = false;
  friend auto operator<=>(const Collective&, const Collective&) = default;
};

// Tokens on their way to the experts that they are routed to, or back: a copy for every expert (an all-to-all), or by
// kernels that know where experts stand: once to every rank of its own NVLink domain that has one of them, and once to
// every other such domain, where it is handed on (DeepEP, HybridEP; cost/dispatch.cpp).
struct Dispatch {
  std::int64_t tokens = 0;  // of each rank
  Bytes each;               // of a token
  std::int64_t experts = 0, per_token = 0;
  std::int64_t most_domains = 0;  // that a token is sent to; 0: any number
  bool two_hop = true;
  GroupShape group;
  double load = 1;  // of the rank that most is sent to, over the mean
  friend auto operator<=>(const Dispatch&, const Dispatch&) = default;
};

// A kernel and a collective that one rank runs beside each other, started together; it lasts as long as the longer of
// them, which may be longer than either is alone. In a finer graph they are two tasks on two lanes.
struct Overlapped {
  WorkId kernel, collective;
  friend auto operator<=>(const Overlapped&, const Overlapped&) = default;
};

// Point to point. The send carries the time; the receive only waits for it.
struct Message {
  Bytes size;                      // what one rank sends
  std::uint32_t from = 0, to = 1;  // GPUs: of all pairs that nothing tells apart, the first (cluster::Machine::alike)
  Bytes gathered;            // all-gathered inside the receiving tensor group afterwards (sharded sends); 0 = nothing
  GroupShape gather = {};    // that group
  bool copied = false;       // by copy engines and NICs alone: takes no multiprocessors (parameter servers)
  std::uint32_t chunks = 1;  // it stands for so many, one after the other
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

// The GPU idles while the host still launches: what is missing to `host` beyond the kernels of `busy` (a Sequence).
struct HostBound {
  Time host;
  WorkId busy;
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

// A part of a buffer, in bytes: of count[0] x count[1] runs at even distances, one behind the other, those from `first`
// on, `size` of them.
struct Region {
  std::int64_t offset = 0, run = 0;
  std::array<std::int64_t, 2> count{1, 1}, stride{0, 0};
  std::int64_t first = 0, size = 0;
  friend auto operator<=>(const Region&, const Region&) = default;
};

// A rank's own share of a message: copying it out of its memory, or into it. Where the host moves the bytes (loopback,
// MPI) this takes the rank's time; what lies between belongs to the transport. `offset`: where it begins in the buffer;
// `region`: where it is no single run.
struct StagingCopy {
  Bytes size;
  bool incoming = false;
  Bytes offset = {};
  std::optional<Region> region = {};
  friend auto operator<=>(const StagingCopy&, const StagingCopy&) = default;
};

// From one tier of memory to the next. `turns`: so many ranks do it one after the other, this one its part (an owner of
// each tensor, which hands it to the others); it takes what one of them takes and loads its own way once in so many.
struct Copy {
  Bytes size;
  Tier from = Tier::device, to = Tier::host;
  std::uint32_t turns = 1;
  // The buffer on the device has the shards of all replicas along this axis, of which the own one is copied; else the
  // first bytes of each buffer are. Of graphs that compute.
  std::optional<Axis> shard = {};
  friend auto operator<=>(const Copy&, const Copy&) = default;
};

// An optimizer's step by the cores of the host, on states in its memory. Where it computes, AdamW on the buffers that
// its task names, all of the host: (gradient; moments[2,e], parameters in fp32[, the same as they are stored]).
struct HostStep {
  double parameters = 0;  // updated
  Bytes traffic;
  Precision stored = Precision::fp32;  // what the network computes with
  bool late = false;                   // with gradients of the step before: the first of a run is none
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
