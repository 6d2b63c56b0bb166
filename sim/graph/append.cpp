// Several graphs as one: jobs that run beside each other.
#include <array>
#include <optional>

#include "graph/builder.hpp"
#include "graph/repeat.hpp"

namespace rehearsal::graph {
namespace {

WorkId shifted(WorkId work, std::size_t by) { return WorkId(work.index() + by); }

Work shifted(Work work, std::size_t by) {
  if (auto* sequence = std::get_if<Sequence>(&work))
    for (auto& item : sequence->items) item.work = shifted(item.work, by);
  if (auto* both = std::get_if<Overlapped>(&work))
    both->kernel = shifted(both->kernel, by), both->collective = shifted(both->collective, by);
  if (auto* host = std::get_if<HostBound>(&work)) host->busy = shifted(host->busy, by);
  return work;
}

// Iterations with a barrier of all ranks after each, as for consecutive steps. The last endpoint is the barrier's.
Program repeated(const Program& one, std::uint32_t iterations, std::size_t first_work, WorkId nothing) {
  ProgramBuilder program(one.name);
  Repeat copies(one, program);
  const auto barrier = program.endpoint(EndpointKind::group);
  std::optional<LocalTask> met;
  for (std::uint32_t k = 0; k < iterations; ++k) {
    copies.begin();
    const auto base = program.size();
    std::array<bool, kLanes> begun{};
    for (std::size_t i = 0; i < one.size(); ++i) {
      auto after = copies.dependencies(i);
      auto& lane = begun[static_cast<std::size_t>(one.lane[i])];
      if (!lane && met) after.push_back(*met);
      lane = true;
      copies.add(i, shifted(one.work[i], first_work), after);
    }
    std::vector<LocalTask> ends;
    for (std::size_t i = base; i < program.size(); ++i)
      if (is_send(one.lane[i - base]) || program.last(one.lane[i - base]) == LocalTask(i)) ends.emplace_back(i);
    met = program.add({nothing, Lane::compute, {Pass::optimizer, 0, kNoLayer, kNoMicrobatch}, barrier.value}, ends);
  }
  return std::move(program).finish();
}

}  // namespace

void GraphBuilder::append(const TaskGraph& other, std::uint32_t iterations) {
  const auto first_work = graph_.works_.size(), first_program = graph_.programs_.size();
  const auto first_rank = graph_.ranks_.size();
  for (const auto& work : other.works_) graph_.works_.push_back(shifted(work, first_work));
  graph_.conditions_.insert(graph_.conditions_.end(), other.conditions_.begin(), other.conditions_.end());
  const WorkId nothing(graph_.works_.size());
  graph_.works_.push_back(FixedDelay{}), graph_.conditions_.emplace_back();
  for (const auto& program : other.programs_) add(repeated(program, iterations, first_work, nothing));
  const auto moved = [&](RankId rank) { return RankId(rank.index() + first_rank); };
  for (const auto& rank : other.ranks_)
    add_rank(ProgramId(rank.program.index() + first_program), rank.multiplicity, rank.job_rank, rank.node, rank.place);
  for (std::size_t r = 0; r < other.ranks_.size(); ++r) {
    const auto& rank = other.ranks_[r];
    const auto& kinds = other.program_of(rank).endpoints;
    for (std::size_t e = 0; e < kinds.size(); ++e)
      if (kinds[e] == EndpointKind::send)
        connect(moved(RankId(r)), EndpointId(e), moved(rank.attachments[e].peer), rank.attachments[e].peer_endpoint);
  }
  for (const auto& group : other.groups_) {
    auto members = group.members;
    for (auto& member : members) member.rank = moved(member.rank);
    add_group(group.axes, std::move(members));
  }
  std::vector<GroupMember> all;
  for (std::size_t r = first_rank; r < graph_.ranks_.size(); ++r)
    all.push_back({RankId(r), EndpointId(graph_.program_of(graph_.ranks_[r]).endpoints.size() - 1)});
  add_group({}, std::move(all));
}

}  // namespace rehearsal::graph
