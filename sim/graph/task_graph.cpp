#include "graph/task_graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

template <class T>
std::size_t size_in_bytes(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

// "F3": how pipeline papers write it. Passes without a micro-batch are written out.
std::string pass_text(const Coordinates& at) {
  const char* letter = nullptr;
  switch (at.pass) {
    case Pass::forward:
      letter = "F";
      break;
    case Pass::recompute:
      letter = "R";
      break;
    case Pass::input_gradient:
      letter = "I";
      break;
    case Pass::weight_gradient:
      letter = "W";
      break;
    case Pass::backward:
      letter = "B";
      break;
    case Pass::norm_backward:
      letter = "N";
      break;
    case Pass::gradient_reduce:
    case Pass::optimizer:
    case Pass::parameter_gather:
    case Pass::embedding_reduce:
      break;
  }
  std::string text = letter ? letter : name(at.pass);
  if (at.microbatch == kNoMicrobatch) return text;
  return text + (letter ? "" : " ") + std::to_string(at.microbatch);
}

struct Noun {
  const char* operator()(const Gemm&) const { return " gemm"; }
  const char* operator()(const FusedAttention&) const { return " attention"; }
  const char* operator()(const MemoryBound&) const { return " memory-bound"; }
  std::string operator()(const Collective& w) const { return std::string(" ") + rehearsal::name(w.kind); }
  const char* operator()(const Dispatch&) const { return " dispatch"; }
  const char* operator()(const Overlapped&) const { return " kernel beside collective"; }
  const char* operator()(const Message&) const { return " send"; }
  const char* operator()(const Receive&) const { return " receive"; }
  const char* operator()(const OptimizerStep&) const { return " step"; }
  const char* operator()(const FixedDelay&) const { return ""; }
  const char* operator()(const HostBound&) const { return " host"; }
  const char* operator()(const Sequence&) const { return ""; }
  const char* operator()(const StagingCopy& w) const { return w.incoming ? " take" : " post"; }
  std::string operator()(const Copy& w) const { return std::string(" ") + graph::name(lane_between(w.from, w.to)); }
  const char* operator()(const HostStep&) const { return " host step"; }
  std::string operator()(const Kernel& w) const { return std::string(" ") + rehearsal::name(w.kind); }
};

}  // namespace

const char* name(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::recompute:
      return "recompute";
    case Pass::input_gradient:
      return "input_gradient";
    case Pass::weight_gradient:
      return "weight_gradient";
    case Pass::backward:
      return "backward";
    case Pass::gradient_reduce:
      return "gradient_reduce";
    case Pass::optimizer:
      return "optimizer";
    case Pass::parameter_gather:
      return "parameter_gather";
    case Pass::embedding_reduce:
      return "embedding_reduce";
    case Pass::norm_backward:
      return "norm_backward";
  }
  return "?";
}

const char* name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters:
      return "parameters";
    case MemoryCategory::gradients:
      return "gradients";
    case MemoryCategory::optimizer:
      return "optimizer";
    case MemoryCategory::activations:
      return "activations";
    case MemoryCategory::recomputed:
      return "recomputed";
    case MemoryCategory::loss:
      return "loss";
    case MemoryCategory::communication:
      return "communication";
    case MemoryCategory::workspace:
      return "workspace";
    case MemoryCategory::buffers:
      return "buffers";
  }
  return "?";
}

std::size_t Program::bytes() const {
  std::size_t lists = size_in_bytes(tensors) + size_in_bytes(fold) + size_in_bytes(folds);
  for (const auto& list : tensors) lists += size_in_bytes(list);
  for (const auto& [steps, highest] : folds) lists += size_in_bytes(steps);
  return lists + sizeof(Program) + name.size() + size_in_bytes(work) + size_in_bytes(lane) +
         size_in_bytes(coordinates) + size_in_bytes(endpoint) + size_in_bytes(sequence) + dependencies.bytes() +
         uses.bytes() + size_in_bytes(endpoints) + endpoint_tasks.bytes() + size_in_bytes(buffers) +
         size_in_bytes(segments);
}

std::uint64_t TaskGraph::represented_tasks() const {
  std::uint64_t total = 0;
  for (const Rank& rank : ranks_) total += std::uint64_t{rank.multiplicity} * program_of(rank).size();
  return total;
}

RankId TaskGraph::rank_of(TaskId task) const {
  INVARIANT(task.value < tasks_, "no task with this number");
  // The last rank that begins at or before the task; ranks without tasks share their beginning with the next one.
  auto after = std::upper_bound(ranks_.begin(), ranks_.end(), task.value,
                                [](std::uint64_t value, const Rank& rank) { return value < rank.first_task; });
  return RankId(static_cast<std::size_t>(after - ranks_.begin()) - 1);
}

TaskId TaskGraph::partner(RankId rank, LocalTask local) const {
  const Rank& mine = ranks_[rank.index()];
  const Program& program = program_of(mine);
  const std::uint32_t endpoint = program.endpoint[local.index()];
  INVARIANT(endpoint != kNoEndpoint && program.endpoints[endpoint] != EndpointKind::group,
            "only messages have a partner");
  const Attachment& other = mine.attachments[endpoint];
  const Program& theirs = program_of(ranks_[other.peer.index()]);
  return task(other.peer, theirs.endpoint_tasks[other.peer_endpoint.index()][program.sequence[local.index()]]);
}

std::optional<Meeting> TaskGraph::meeting(RankId rank, LocalTask local) const {
  const Rank& mine = ranks_[rank.index()];
  const Program& program = program_of(mine);
  const std::uint32_t endpoint = program.endpoint[local.index()];
  if (endpoint == kNoEndpoint || program.endpoints[endpoint] != EndpointKind::group) return std::nullopt;
  return meeting(mine.attachments[endpoint].group, program.sequence[local.index()]);
}

std::uint32_t TaskGraph::uses(const Group& group) const {
  if (group.members.empty()) return 0;
  const GroupMember& first = group.members.front();
  const Program& program = program_of(ranks_[first.rank.index()]);
  return static_cast<std::uint32_t>(program.endpoint_tasks[first.endpoint.index()].size());
}

std::size_t TaskGraph::bytes() const {
  std::size_t total = sizeof(TaskGraph) + size_in_bytes(works_) + size_in_bytes(ranks_) + size_in_bytes(groups_);
  for (const Work& work : works_)
    if (const auto* sequence = std::get_if<Sequence>(&work)) total += size_in_bytes(sequence->items);
  for (const Program& program : programs_) total += program.bytes();
  for (const Rank& rank : ranks_) total += size_in_bytes(rank.attachments);
  for (const Group& group : groups_) total += size_in_bytes(group.members);
  return total;
}

std::string TaskGraph::label(RankId rank, LocalTask local) const {
  const Program& program = program_of(ranks_[rank.index()]);
  const Coordinates& at = program.coordinates[local.index()];
  std::string text = fmt::format("{} s{}", pass_text(at), at.stage);
  if (at.layer != kNoLayer) text += fmt::format(" l{}", at.layer);
  return text + std::visit([](const auto& work) { return std::string(Noun{}(work)); },
                           works_[program.work[local.index()].index()]);
}

}  // namespace rehearsal::graph
