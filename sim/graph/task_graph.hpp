// The one task graph: what runs, where, after what, on which buffers. Every backend, simulated or real, gets this
// object.
//
// Ranks of one class share one Program; a rank adds only its peers and groups. A task of the whole graph is
// TaskId = first task of its rank + LocalTask. Immutable once built (builder.hpp); owns everything it points to.
//
// Order. Local ids are a topological order of the program. Tasks of one lane start in id order: a serial lane runs them
// one at a time, so program order on a lane needs no edges. Edges (`dependencies`) join lanes of one rank. Ranks are
// joined by endpoints: the k-th send of a channel meets the k-th receive at the other end (as NCCL does: no tags), and
// the k-th collective of a group slot joins the k-th of every other member.
//
// Memory is derived: a task allocates buffers when it starts and frees buffers when it ends; nothing else knows a peak.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/axes.hpp"
#include "base/csr.hpp"
#include "base/ids.hpp"
#include "base/tensor.hpp"
#include "base/units.hpp"
#include "graph/condition.hpp"
#include "graph/lanes.hpp"
#include "graph/work.hpp"

namespace rehearsal::graph {

enum class Pass : std::uint8_t {
  forward,
  recompute,
  input_gradient,
  weight_gradient,
  backward,
  gradient_reduce,  // data-parallel reduction
  optimizer,
  parameter_gather,  // ZeRO-1: parameters back from the shards
  embedding_reduce,  // tied embedding: first and last stage
  norm_backward      // a backward for the norm of the gradients alone (LOMO)
};
const char* name(Pass pass);

// Where in the model and the step a task belongs: labels are computed from this on export, never stored.
struct Coordinates {
  Pass pass = Pass::forward;
  std::uint16_t stage = 0;
  std::uint16_t layer = 0;  // within the stage; kNoLayer for coarse tasks
  std::uint32_t microbatch = 0;
};
inline constexpr std::uint16_t kNoLayer = 0xffff;
inline constexpr std::uint32_t kNoMicrobatch = 0xffffffff;

// What a buffer holds. Recomputed: activations brought back for one backward. Communication: parameters gathered and
// whole gradients on their way (ZeRO-2 and 3), inputs gathered over a tensor group. Loss: logits and what becomes of
// them. Workspace: results between the kernels of one pass, and what libraries ask for.
enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  recomputed,
  loss,
  communication,
  workspace,
  buffers
};
inline constexpr std::size_t kMemoryCategories = 9;
const char* name(MemoryCategory category);
using MemoryByCategory = std::array<Bytes, kMemoryCategories>;
using rehearsal::Tier;

struct Buffer {
  Bytes size;
  MemoryCategory category = MemoryCategory::activations;
  std::uint32_t tensors = 0;  // what it consists of: index into Program::tensors; 0 = one tensor
  Tier tier = Tier::device;
  bool contiguous =
      false;  // in a block that was allocated once for all buffers of its category (models::Training::defragment)
};

// The tensors that a buffer consists of. No backend looks at them.
using TensorList = std::vector<Bytes>;

// What a fused task does to memory. Tensors that live within it are not among its buffers.
struct AllocationStep {
  static constexpr std::uint32_t kWithin = 0x80000000;
  std::uint32_t use = 0;     // the buffer, as a use of the task; from kWithin on, a tensor that lives within it
  std::uint32_t tensor = 0;  // of that buffer, counted as they were allocated
  Bytes size;                // allocated; 0: freed
};
struct FusedTask {
  std::vector<AllocationStep> steps;  // those of the replaced tasks, so that an allocator sees the same sequence
  // At its high-water mark, relative to all that it allocates: tensors that live within it, minus buffers that are
  // freed by then or not yet allocated.
  MemoryByCategory highest{};
};

enum class Access : std::uint8_t { read, write, allocate, free };
struct BufferUse {  // 4 bytes
  std::uint32_t buffer : 30;
  std::uint32_t access : 2;
  BufferUse(BufferId b, Access a) : buffer(b.value & 0x3fffffffu), access(static_cast<std::uint32_t>(a) & 3u) {}
  BufferId id() const { return BufferId(buffer); }
  Access how() const { return static_cast<Access>(access); }
};

// One end of a channel or of a group, as seen by a program. Its tasks, in id order, are its 0th, 1st, ... use.
enum class EndpointKind : std::uint8_t { send, receive, group };
using EndpointId = Id<struct EndpointTag>;
inline constexpr std::uint32_t kNoEndpoint = 0xffffffff;

// What the resident buffers mean, for backends that compute: absent from graphs that are only rehearsed.
//
// A Segment is a run of parameters that is held, reduced and updated as one flat array; its tensors follow each other.
// Its length is a multiple of `shards`: with ZeRO the data-parallel ranks share the optimizer's states (1), the
// gradients (2) and the parameters (3) of it evenly.
using rehearsal::Split, rehearsal::Tensor, rehearsal::TensorKind;

struct Segment {
  BufferId parameters;  // all of it, or the own shard (ZeRO-3)
  std::int64_t elements = 0;
  std::int64_t shards = 1;  // data-parallel ranks that share states of it
  bool sharded_parameters = false;
  std::optional<BufferId> previous = {};  // the version before the last update, for schedules that compute with it
  bool copy = false;                      // of a tied embedding: the original counts, this one must equal it
  std::vector<Tensor> tensors;
  Precision precision = Precision::fp32;  // of the parameters
  // The fp32 master copy, if the optimizer keeps one beside the parameters that the network uses: the last elements of
  // the buffer, as many as the rank updates, possibly after the moments of AdamW.
  std::optional<BufferId> master = {};
  std::optional<BufferId> moments = {};     // both moments of AdamW, for what the rank updates: the first elements
  std::optional<LocalTask> host_step = {};  // the task that updates them, if no kernel names `parameters`
  bool copied = false;  // shards are along Axis::shard, and ranks along Axis::copy hold copies of each

  Axis replicas() const { return replicas_of(tensors); }
  Axis shared_along() const { return copied ? Axis::shard : replicas(); }
};

// The template of a class of ranks. Structure of arrays, indexed by LocalTask.
struct Program {
  std::string name;  // "stage 0"
  std::vector<WorkId> work;
  std::vector<Lane> lane;
  std::vector<Coordinates> coordinates;
  std::vector<std::uint32_t> endpoint;  // EndpointId or kNoEndpoint
  std::vector<std::uint32_t> sequence;  // index of this use of its endpoint
  Csr<LocalTask> dependencies;          // all smaller than the task itself
  Csr<BufferUse> uses;

  std::vector<EndpointKind> endpoints;  // indexed by EndpointId
  Csr<LocalTask> endpoint_tasks;
  std::vector<Buffer> buffers;  // indexed by BufferId
  std::uint32_t residents = 0;  // the first of them live for the whole run: parameters, optimizer states
  std::vector<Segment> segments;
  std::vector<TensorList> tensors = {{}};  // of buffers, for models of an allocator; [0]: none
  std::vector<std::uint32_t> fold;         // of each task, into `folds`; may be empty
  std::vector<FusedTask> folds = {{}};     // [0]: of tasks that are not fused

  std::span<const Buffer> resident() const { return {buffers.data(), residents}; }

  std::size_t size() const { return work.size(); }
  const FusedTask& fold_of(std::size_t task) const { return folds[fold.empty() ? 0 : fold[task]]; }
  std::size_t bytes() const;  // memory that this program takes
};

// A rank's view of an endpoint: the other end of a channel, or the group it belongs to.
struct Attachment {
  RankId peer;               // send, receive
  EndpointId peer_endpoint;  // its matching receive or send
  GroupId group;             // group
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

struct Rank {
  ProgramId program;
  std::uint64_t first_task = 0;
  std::uint32_t multiplicity = 1;       // how many real ranks this one stands for (symmetry)
  std::uint32_t job_rank = 0;           // the (first) rank number in the job
  std::uint32_t node = 0;               // the machine it sits in
  RankPlace place = {};                 // along the axes of the job; with symmetry that of the first it stands for
  std::vector<Attachment> attachments;  // indexed by EndpointId of the program
};

struct GroupMember {
  RankId rank;
  EndpointId endpoint;
  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};
struct Group {
  Axes axes;                         // along which its members differ
  std::vector<GroupMember> members;  // those present in the graph; with symmetry one stands for all
};

class TaskGraph;

struct Participant {
  RankId rank;
  LocalTask task;
};
// The participants in one use of a group, each with its task there. Refers to the graph.
class Meeting {
 public:
  Meeting(const TaskGraph& graph, const Group& group, std::uint32_t use) : graph_(graph), group_(group), use_(use) {}

  const Group& group() const { return group_; }
  std::uint32_t use() const { return use_; }
  std::size_t size() const { return group_.members.size(); }
  Participant operator[](std::size_t member) const;

  class Iterator {
   public:
    Iterator(const Meeting& meeting, std::size_t at) : meeting_(&meeting), at_(at) {}
    Participant operator*() const { return (*meeting_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Meeting* meeting_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  const TaskGraph& graph_;
  const Group& group_;
  std::uint32_t use_;
};

class TaskGraph {
 public:
  std::span<const Work> works() const { return works_; }
  std::span<const Condition> conditions() const { return conditions_; }  // under which each work runs
  const Work& work(WorkId id) const { return works_[id.index()]; }
  std::span<const Program> programs() const { return programs_; }
  std::span<const Rank> ranks() const { return ranks_; }
  std::span<const Group> groups() const { return groups_; }
  const Program& program_of(const Rank& rank) const { return programs_[rank.program.index()]; }

  std::uint64_t tasks() const { return tasks_; }  // over all ranks present
  std::uint64_t represented_tasks() const;        // with multiplicities
  TaskId task(RankId rank, LocalTask local) const { return TaskId(ranks_[rank.index()].first_task + local.value); }
  RankId rank_of(TaskId task) const;
  LocalTask local(TaskId task) const { return LocalTask(task.value - ranks_[rank_of(task).index()].first_task); }

  // The task at the other end of a channel: the receive of a send and the send of a receive.
  TaskId partner(RankId rank, LocalTask local) const;
  // The participants in a collective and their tasks; nothing for tasks that join no group.
  std::optional<Meeting> meeting(RankId rank, LocalTask local) const;
  Meeting meeting(GroupId group, std::uint32_t use) const { return {*this, groups_[group.index()], use}; }
  // How many collectives the members of a group perform.
  std::uint32_t uses(const Group& group) const;

  std::size_t bytes() const;   // memory of the whole object
  std::string digest() const;  // SHA-256 over structure and works: equal graphs, equal digest
  std::string label(RankId rank, LocalTask local) const;  // "F3 s2 l5 gemm"

 private:
  friend class GraphBuilder;
  std::vector<Work> works_;
  std::vector<Condition> conditions_;
  std::vector<Program> programs_;
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;
  std::uint64_t tasks_ = 0;
};

inline Participant Meeting::operator[](std::size_t member) const {
  const GroupMember& m = group_.members[member];
  return {m.rank, graph_.program_of(graph_.ranks()[m.rank.index()]).endpoint_tasks[m.endpoint.index()][use_]};
}

}  // namespace rehearsal::graph
