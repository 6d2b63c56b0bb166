#include "graph/builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/stopping.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::size_t kMaxBuffers = std::size_t{1} << 30;  // BufferUse keeps 30 bits

template <class T>
void fit(std::vector<T>& values) {
  values.shrink_to_fit();
}

}  // namespace

EndpointId ProgramBuilder::endpoint(EndpointKind kind) {
  program_.endpoints.push_back(kind);
  endpoint_tasks_.emplace_back();
  return EndpointId(program_.endpoints.size() - 1);
}

BufferId ProgramBuilder::buffer(Buffer buffer) {
  INVARIANT(program_.buffers.size() < kMaxBuffers, "too many buffers in one program");
  program_.buffers.push_back(buffer);
  return BufferId(program_.buffers.size() - 1);
}

BufferId ProgramBuilder::resident(Buffer resident) {
  INVARIANT(program_.buffers.size() == program_.residents, "residents come before other buffers");
  ++program_.residents;
  return buffer(resident);
}

std::uint32_t ProgramBuilder::tensors(TensorList list) {
  if (list.size() <= 1) return 0;
  program_.tensors.push_back(std::move(list));
  return static_cast<std::uint32_t>(program_.tensors.size() - 1);
}

std::uint32_t ProgramBuilder::fold(FusedTask fold) {
  program_.folds.push_back(std::move(fold));
  return static_cast<std::uint32_t>(program_.folds.size() - 1);
}

LocalTask ProgramBuilder::add(const TaskSpec& spec, std::span<const LocalTask> after, std::span<const BufferUse> uses) {
  const LocalTask id(program_.size());
  if (id.value % 4096 == 0) go_on();
  for (LocalTask before : after)
    INVARIANT(before < id,
              fmt::format("task {} of '{}' comes after a later one, {}", id.value, program_.name, before.value));
  for (const BufferUse& use : uses) INVARIANT(use.id().index() < program_.buffers.size(), "unknown buffer");

  std::uint32_t sequence = 0;
  if (spec.endpoint != kNoEndpoint) {
    INVARIANT(spec.endpoint < endpoint_tasks_.size(), "unknown endpoint");
    sequence = static_cast<std::uint32_t>(endpoint_tasks_[spec.endpoint].size());
    endpoint_tasks_[spec.endpoint].push_back(id);
  }
  program_.work.push_back(spec.work);
  program_.lane.push_back(spec.lane);
  program_.coordinates.push_back(spec.coordinates);
  program_.endpoint.push_back(spec.endpoint);
  program_.sequence.push_back(sequence);
  program_.dependencies.push_row(after);
  program_.uses.push_row(uses);
  program_.fold.push_back(spec.fold);
  last_[static_cast<std::size_t>(spec.lane)] = id;
  return id;
}

Program ProgramBuilder::finish() && {
  for (const auto& tasks : endpoint_tasks_) program_.endpoint_tasks.push_row(tasks);
  if (program_.folds.size() == 1) program_.fold.clear();
  fit(program_.fold);
  fit(program_.work), fit(program_.lane), fit(program_.coordinates), fit(program_.endpoint), fit(program_.sequence);
  fit(program_.buffers);
  return std::move(program_);
}

WorkId GraphBuilder::intern(const Work& work, const Condition& condition) {
  const auto [at, fresh] = interned_.try_emplace({work, condition}, WorkId(graph_.works_.size()));
  if (fresh) graph_.works_.push_back(work), graph_.conditions_.push_back(condition);
  return at->second;
}

WorkId GraphBuilder::under(WorkId work, const Condition& kernels, const Condition& links) {
  if (kernels.sound() && links.sound()) return work;
  const auto again = [&](WorkId part) { return under(part, kernels, links); };
  Work changed = graph_.works_[work.index()];  // interning moves the list
  if (auto* sequence = std::get_if<Sequence>(&changed)) {
    for (auto& item : sequence->items) item.work = again(item.work);
    return intern(changed);
  }
  if (auto* both = std::get_if<Overlapped>(&changed)) {
    both->kernel = again(both->kernel), both->collective = again(both->collective);
    return intern(changed, {.gpu = kernels.gpu});  // what they take from each other is that GPU's
  }
  if (auto* host = std::get_if<HostBound>(&changed)) {
    host->busy = again(host->busy);
    return intern(changed);
  }
  const bool waits = std::holds_alternative<FixedDelay>(changed) || std::holds_alternative<Receive>(changed);
  const bool moves = std::holds_alternative<Collective>(changed) || std::holds_alternative<Dispatch>(changed) ||
                     std::holds_alternative<Message>(changed);
  return waits ? work : intern(changed, moves ? links : kernels);
}

ProgramId GraphBuilder::add(Program program) {
  for (WorkId work : program.work)
    INVARIANT(work.index() < graph_.works_.size(), "program '" + program.name + "' uses a work that is not interned");
  graph_.programs_.push_back(std::move(program));
  return ProgramId(graph_.programs_.size() - 1);
}

RankId GraphBuilder::add_rank(ProgramId program, std::uint32_t multiplicity, std::uint32_t job_rank, std::uint32_t node,
                              const RankPlace& place) {
  INVARIANT(program.index() < graph_.programs_.size(), "unknown program");
  const Program& its = graph_.programs_[program.index()];
  graph_.ranks_.push_back(
      {program, graph_.tasks_, multiplicity, job_rank, node, place, std::vector<Attachment>(its.endpoints.size())});
  graph_.tasks_ += its.size();
  attached_.emplace_back(its.endpoints.size(), false);
  return RankId(graph_.ranks_.size() - 1);
}

void GraphBuilder::connect(RankId sender, EndpointId send, RankId receiver, EndpointId receive) {
  auto attach = [this](RankId rank, EndpointId end, EndpointKind kind, RankId peer, EndpointId peer_end) {
    INVARIANT(rank.index() < graph_.ranks_.size(), "unknown rank");
    Rank& mine = graph_.ranks_[rank.index()];
    INVARIANT(end.index() < mine.attachments.size() && graph_.program_of(mine).endpoints[end.index()] == kind,
              fmt::format("endpoint {} of rank {} cannot be this end of a channel", end.value, rank.value));
    INVARIANT(!attached_[rank.index()][end.index()],
              fmt::format("endpoint {} of rank {} is attached twice", end.value, rank.value));
    attached_[rank.index()][end.index()] = true;
    mine.attachments[end.index()] = {peer, peer_end, {}};
  };
  attach(sender, send, EndpointKind::send, receiver, receive);
  attach(receiver, receive, EndpointKind::receive, sender, send);
}

void GraphBuilder::add_group(Axes axes, std::vector<GroupMember> members) {
  const GroupId group(graph_.groups_.size());
  for (const auto& [rank, end] : members) {
    INVARIANT(rank.index() < graph_.ranks_.size(), "unknown rank");
    Rank& mine = graph_.ranks_[rank.index()];
    INVARIANT(
        end.index() < mine.attachments.size() && graph_.program_of(mine).endpoints[end.index()] == EndpointKind::group,
        fmt::format("endpoint {} of rank {} is no group endpoint", end.value, rank.value));
    INVARIANT(!attached_[rank.index()][end.index()],
              fmt::format("endpoint {} of rank {} is attached twice", end.value, rank.value));
    attached_[rank.index()][end.index()] = true;
    mine.attachments[end.index()] = {{}, {}, group};
  }
  graph_.groups_.push_back({axes, std::move(members)});
}

TaskGraph GraphBuilder::finish() && {
  auto uses = [this](RankId rank, EndpointId end) {
    return graph_.program_of(graph_.ranks_[rank.index()]).endpoint_tasks[end.index()].size();
  };
  for (std::size_t r = 0; r < graph_.ranks_.size(); ++r) {
    const Rank& rank = graph_.ranks_[r];
    const Program& program = graph_.program_of(rank);
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      INVARIANT(attached_[r][e], fmt::format("endpoint {} of rank {} ('{}') is left open", e, r, program.name));
      if (program.endpoints[e] != EndpointKind::send) continue;
      const Attachment& other = rank.attachments[e];
      const std::size_t sends = uses(RankId(r), EndpointId(e)), receives = uses(other.peer, other.peer_endpoint);
      INVARIANT(sends == receives, fmt::format("the channel from rank {} to rank {} has {} sends and {} receives", r,
                                               other.peer.value, sends, receives));
    }
  }
  for (const Group& group : graph_.groups_)
    for (const GroupMember& member : group.members) {
      const std::size_t first = uses(group.members.front().rank, group.members.front().endpoint);
      const std::size_t mine = uses(member.rank, member.endpoint);
      INVARIANT(mine == first,
                fmt::format("group '{}': rank {} joins {} times, rank {} joins {} times", name(group.axes),
                            group.members.front().rank.value, first, member.rank.value, mine));
    }
  return std::move(graph_);
}

}  // namespace rehearsal::graph
