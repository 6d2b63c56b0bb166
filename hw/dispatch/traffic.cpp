#include "dispatch/traffic.hpp"

#include <algorithm>
#include <cmath>

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

namespace {

// Every rank sends every other a copy of a token for each of its experts there: as many bytes to a rank as it is busy,
// and back from it. The busiest is the first of its group.
Lengths lengths_of(const graph::Dispatch& work, std::size_t members, std::size_t me) {
  constexpr std::size_t kWidth = 2;  // bytes of an element, whatever the tokens have
  const double even = double(work.tokens) * double(work.per_token * work.each.count()) / double(members) / kWidth;
  const auto block = [&](std::size_t m) {
    const double load = work.loads.empty() ? work.load : work.loads[m];
    return std::max<std::size_t>(static_cast<std::size_t>(std::llround(even * load)), 1) * kWidth;
  };
  Lengths all{
      CollectiveKind::all_to_all, Precision::bf16, members * block(me), 0, std::int64_t(block(me) / kWidth), {}};
  all.out = all.in;
  if (work.loads.empty()) return all;
  std::vector<std::size_t> of_each;
  for (std::size_t m = 0; m < members; ++m) of_each.push_back(block(m));
  const std::vector<std::size_t> own(members, block(me));
  all.blocks = work.back ? Blocks{own, of_each} : Blocks{of_each, own};
  all.in = all.blocks.sent(), all.out = all.blocks.received();
  return all;
}

}  // namespace

Lengths timed_lengths(const graph::TaskGraph& graph, RankId rank, LocalTask task) {
  const graph::Program& program = graph.program_of(graph.ranks()[rank.index()]);
  const auto& work = graph.work(program.work[task.index()]);
  if (const auto* tokens = std::get_if<graph::Dispatch>(&work); tokens && !tokens->two_hop) {
    const auto meeting = graph.meeting(rank, task).value();
    std::size_t me = 0;
    while (meeting[me].rank != rank) ++me;
    return lengths_of(*tokens, meeting.size(), me);
  }
  const auto* collective = std::get_if<graph::Collective>(&work);
  if (!collective) return {};
  const std::size_t members = graph.meeting(rank, task).value().size();
  const auto width = static_cast<std::size_t>(bytes_per_element(collective->precision));
  const auto elements = static_cast<std::size_t>(collective->size.count()) / width / collective->pieces;
  const std::size_t all = std::max<std::size_t>(elements, 1), one = std::max<std::size_t>(elements / members, 1);
  const std::size_t whole = width * all, part = width * one;
  const auto of = [&](std::size_t in, std::size_t out, std::size_t unit) -> Lengths {
    return {collective->kind, collective->precision, in, out, static_cast<std::int64_t>(unit)};
  };
  switch (collective->kind) {
    case CollectiveKind::all_gather:
      return of(part, part * members, one);
    case CollectiveKind::reduce_scatter:
      return of(part * members, part, one);
    case CollectiveKind::all_to_all:
      return of(part * members, part * members, one);
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::shift:
      return of(whole, whole, all);
  }
  return {};
}

bool by_steps(const backend::RunOptions& options) {
  return options.collectives == backend::Collectives::own && !options.executions.empty();
}

const collective::Execution* execution(const graph::TaskGraph& graph, const backend::RunOptions& options, RankId rank,
                                       LocalTask task) {
  if (!by_steps(options)) return nullptr;
  const auto [first, its_task] = graph.meeting(rank, task).value()[0];
  const auto& found = options.executions[graph.program_of(graph.ranks()[first.index()]).work[its_task.index()].index()];
  return found.algorithm ? &found : nullptr;
}

}  // namespace rehearsal::dispatch
