#include "dispatch/traffic.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace rehearsal::dispatch {

Bytes message_size(const graph::TaskGraph& graph, RankId rank, LocalTask message) {
  const graph::Program* program = &graph.program_of(graph.ranks()[rank.index()]);
  LocalTask send = message;
  if (program->endpoints[program->endpoint[message.index()]] == graph::EndpointKind::receive) {
    const TaskId partner = graph.partner(rank, message);
    program = &graph.program_of(graph.ranks()[graph.rank_of(partner).index()]);
    send = graph.local(partner);
  }
  const auto* work = std::get_if<graph::Message>(&graph.work(program->work[send.index()]));
  return work ? std::max(work->size, Bytes(1)) : Bytes(1);
}

Lengths timed_lengths(const graph::TaskGraph& graph, RankId rank, LocalTask task) {
  const graph::Program& program = graph.program_of(graph.ranks()[rank.index()]);
  const auto* collective = std::get_if<graph::Collective>(&graph.work(program.work[task.index()]));
  if (!collective) return {};
  const std::size_t members = graph.meeting(rank, task).value().size();
  const auto width = static_cast<std::size_t>(bytes_per_element(collective->precision));
  const auto elements = static_cast<std::size_t>(collective->size.count()) / width / collective->pieces;
  const std::size_t whole = width * std::max<std::size_t>(elements, 1);
  const std::size_t part = width * std::max<std::size_t>(elements / members, 1);
  switch (collective->kind) {
    case CollectiveKind::all_reduce:
      return {collective->kind, collective->precision, whole, whole};
    case CollectiveKind::all_gather:
      return {collective->kind, collective->precision, part, part * members};
    case CollectiveKind::reduce_scatter:
      return {collective->kind, collective->precision, part * members, part};
    case CollectiveKind::all_to_all:
      return {collective->kind, collective->precision, part * members, part * members};
    case CollectiveKind::shift:
      return {collective->kind, collective->precision, whole, whole};
    case CollectiveKind::broadcast:
      break;
  }
  INVARIANT(false, std::string("no backend performs a collective ") + name(collective->kind));
  return {};
}

}  // namespace rehearsal::dispatch
