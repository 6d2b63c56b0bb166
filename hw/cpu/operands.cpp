#include "cpu/operands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::cpu {
namespace {

using graph::Access;

std::size_t size_of(const graph::Program& program, BufferId id) {
  return static_cast<std::size_t>(program.buffers[id.index()].size.count());
}

// Parts are in the order of the group's members, which is that of the ranks' places: kernels find their own part by
// those.
std::size_t index_in_group(const graph::TaskGraph& graph, RankId id, const graph::Group& group) {
  const auto me = std::find_if(group.members.begin(), group.members.end(), [&](const auto& m) { return m.rank == id; });
  INVARIANT(me != group.members.end(), "a rank is a member of the groups it joins");
  const auto index = static_cast<std::uint32_t>(me - group.members.begin());
  const RankPlace& place = graph.ranks()[id.index()].place;
  const auto listed = [&](Axes axes, std::uint32_t at) {
    INVARIANT(group.axes != axes || index == at, "a group lists its members by their places");
  };
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::expert, Axis::expert_tensor}) listed(axis, place[axis]);
  for (const Axes shares : {Axes(Axis::shard), Axis::context | Axis::shard}) listed(shares, place.share);
  listed(Axis::copy, place[Axis::copy]);
  for (const Axes also : {Axes(), Axes(Axis::pipeline)}) {  // of one direction, or of both
    listed(Axis::expert_data | also, place.expert_replica);
    for (const Axes replicas : {Axes(Axis::data), Axis::context | Axis::data}) listed(replicas | also, place.replica);
  }
  return index;
}

}  // namespace

std::vector<BufferId> operands_of(const graph::Program& program, LocalTask task) {
  std::vector<BufferId> result;
  for (const graph::BufferUse& use : program.uses[task.index()])
    if (use.how() == Access::read || use.how() == Access::write) result.push_back(use.id());
  return result;
}

KernelOperands kernel_operands(const graph::TaskGraph& graph, RankId id, LocalTask task) {
  const graph::Rank& rank = graph.ranks()[id.index()];
  const graph::Program& program = graph.program_of(rank);
  const Kernel* kernel = std::get_if<Kernel>(&graph.work(program.work[task.index()]));
  INVARIANT(kernel, "only kernels compute for real, not '" + graph.label(id, task) + "'");
  const std::vector<BufferId> buffers = operands_of(program, task);
  const OperandElements needed = operand_elements(*kernel, rank.place.among(replicas(*kernel)));
  INVARIANT(buffers.size() == needed.count,
            fmt::format("'{}' has {} operands, {} are named", graph.label(id, task), needed.count, buffers.size()));
  KernelOperands result{.count = needed.count};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::int64_t width = bytes_per_element(operand_precision(*kernel, i));
    const std::int64_t from = kernel->offsets[i], to = from + needed.elements[i];
    const std::size_t size = size_of(program, buffers[i]);
    INVARIANT(from >= 0 && to * width <= static_cast<std::int64_t>(size),
              fmt::format("operand {} of '{}' is elements {} to {} of a buffer of {}", i, graph.label(id, task), from,
                          to, size / static_cast<std::size_t>(width)));
    result.at[i] = {buffers[i], static_cast<std::size_t>(from * width), static_cast<std::size_t>((to - from) * width)};
  }
  return result;
}

CollectiveOperands collective_operands(const graph::TaskGraph& graph, RankId id, LocalTask task) {
  const graph::Rank& rank = graph.ranks()[id.index()];
  const graph::Program& program = graph.program_of(rank);
  const auto* work = std::get_if<graph::Collective>(&graph.work(program.work[task.index()]));
  INVARIANT(work, "'" + graph.label(id, task) + "' is no collective");
  const auto meeting = graph.meeting(id, task);
  INVARIANT(meeting, "a collective has a group");
  const std::size_t members = meeting->size();
  const auto width = static_cast<std::size_t>(bytes_per_element(work->precision));

  const std::vector<BufferId> buffers = operands_of(program, task);
  INVARIANT(!buffers.empty() && buffers.size() <= 2, "a collective works in place, or from one buffer into another");
  const auto all_of = [&](BufferId buffer) { return Extent{buffer, 0, size_of(program, buffer)}; };
  const auto elements = [&](const Extent& e) { return static_cast<std::int64_t>(e.size / width); };
  const Extent first = all_of(buffers.front());
  if (work->kind == CollectiveKind::all_reduce || work->kind == CollectiveKind::shift) {
    const Extent out = all_of(buffers.back());
    return {first, out, elements(out)};
  }
  if (work->kind == CollectiveKind::all_to_all) {
    const Extent out = all_of(buffers.back());
    INVARIANT(buffers.size() == 2 && first.size == out.size && first.size % (members * width) == 0,
              "'" + graph.label(id, task) + "' has equal blocks, and goes from one buffer into another");
    return {first, out, elements(out) / static_cast<std::int64_t>(members)};
  }
  const bool gathers = work->kind == CollectiveKind::all_gather;
  if (buffers.size() == 2) {  // memory that is reused may be larger than its content
    const Extent out = all_of(buffers.back());
    if (!gathers) return {first, out, elements(out)};
    const Extent own{first.buffer, 0, out.size / members};
    INVARIANT(out.size % (members * width) == 0 && own.size <= first.size,
              "'" + graph.label(id, task) + "' gathers equal parts");
    return {own, out, elements(own)};
  }
  INVARIANT(first.size % (members * width) == 0,
            "'" + graph.label(id, task) + "' divides its buffer evenly among its group");
  const std::size_t part = first.size / members;
  const Extent own{first.buffer, index_in_group(graph, id, meeting->group()) * part, part};
  return gathers ? CollectiveOperands{own, first, elements(own)} : CollectiveOperands{first, own, elements(own)};
}

CopyOperands copy_operands(const graph::TaskGraph& graph, RankId id, LocalTask task) {
  const graph::Rank& rank = graph.ranks()[id.index()];
  const graph::Program& program = graph.program_of(rank);
  const auto* copy = std::get_if<graph::Copy>(&graph.work(program.work[task.index()]));
  const std::vector<BufferId> buffers = operands_of(program, task);
  INVARIANT(copy && buffers.size() == 2, "'" + graph.label(id, task) + "' copies from one buffer to another");
  const auto size = static_cast<std::size_t>(copy->size.count());
  const auto extent = [&](BufferId buffer, Tier tier) {
    INVARIANT(program.buffers[buffer.index()].tier == tier,
              "'" + graph.label(id, task) + "' goes from and to the tiers of its buffers");
    const bool part = copy->shard && tier == Tier::device;
    const Extent result{buffer, part ? static_cast<std::size_t>(rank.place.among(*copy->shard)) * size : 0, size};
    INVARIANT(result.offset + size <= size_of(program, buffer),
              "'" + graph.label(id, task) + "' stays inside its buffers");
    return result;
  };
  return {extent(buffers[0], copy->from), extent(buffers[1], copy->to)};
}

std::vector<Extent> host_operands(const graph::TaskGraph& graph, RankId id, LocalTask task) {
  const graph::Program& program = graph.program_of(graph.ranks()[id.index()]);
  const auto* step = std::get_if<graph::HostStep>(&graph.work(program.work[task.index()]));
  const std::vector<BufferId> buffers = operands_of(program, task);
  INVARIANT(step && (buffers.size() == 3 || buffers.size() == 4),
            "'" + graph.label(id, task) + "' names a gradient, moments and parameters");
  const auto elements = static_cast<std::size_t>(step->parameters);
  const std::array<std::size_t, 4> each{4, 8, 4, static_cast<std::size_t>(bytes_per_element(step->stored))};
  std::vector<Extent> result;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    INVARIANT(
        program.buffers[buffers[i].index()].tier == Tier::host && each[i] * elements <= size_of(program, buffers[i]),
        "'" + graph.label(id, task) + "' works on buffers of the host that hold its shard");
    result.push_back({buffers[i], 0, each[i] * elements});
  }
  return result;
}

Extent payload_of(const graph::TaskGraph& graph, RankId id, LocalTask task) {
  const graph::Program& program = graph.program_of(graph.ranks()[id.index()]);
  const std::vector<BufferId> buffers = operands_of(program, task);
  INVARIANT(!buffers.empty(), "'" + graph.label(id, task) + "' names no buffer");
  const auto* staging_copy = std::get_if<graph::StagingCopy>(&graph.work(program.work[task.index()]));
  const auto from = static_cast<std::size_t>(staging_copy ? staging_copy->offset.count() : 0);
  const auto size = size_of(program, buffers.front());
  INVARIANT(from <= size, "'" + graph.label(id, task) + "' begins within its buffer");
  return {buffers.front(), from, size - from};
}

}  // namespace rehearsal::cpu
