#include "lower/vocabulary.hpp"

#include <algorithm>

#include "lower/rank_program.hpp"

namespace rehearsal::lower {

using graph::Coordinates;
using graph::Lane;
using graph::Pass;

// The sum of input gradients at one rank is a broadcast backwards: the same bytes over the same links.
VocabularyWorks vocabulary_works(const plan::Plan& plan, graph::GraphBuilder& builder) {
  if (plan.vocabulary_parts() == 0) return {};
  const auto& group = plan.group(Axis::pipeline);
  const auto collective = [&](CollectiveKind kind, Bytes size) {
    return builder.intern(graph::Collective{kind, size, group});
  };
  constexpr std::int64_t kSums = 2 * 4;  // bytes of a token: two numbers in fp32
  return {collective(CollectiveKind::broadcast, plan.message),
          collective(CollectiveKind::all_reduce, Bytes(plan.shard.tokens() * kSums)),
          collective(CollectiveKind::broadcast, plan.message)};
}

std::vector<schedule::Edge> vocabulary_edges(std::uint32_t ranks, Time in, Time sums, Time out) {
  schedule::Problem problem;
  problem.ranks = ranks, problem.chunks = 2;
  problem.transfer.assign(2 * ranks - 1, Time{});
  auto edges = schedule::vocabulary_edges(problem, true);
  std::erase_if(edges, [&](const schedule::Edge& edge) { return edge.to < ranks; });
  for (auto& edge : edges) edge.transfer = edge.turns ? sums : std::max(in, out);
  return edges;
}

LocalTask VocabularyMeetings::meet(const Meeting& meeting, const Coordinates& at, const std::vector<LocalTask>& after) {
  return program_.add({meeting.work, meeting.lane, at, ends_.group(meeting.end, program_)}, after);
}

void VocabularyMeetings::before(const Coordinates& at, std::vector<LocalTask>& waits) {
  const auto await = [&](std::map<std::uint32_t, LocalTask>& meetings) {
    if (const auto met = meetings.extract(at.microbatch)) waits.push_back(met.mapped());
  };
  if (part(at) && at.pass == Pass::forward && rank_ + 1 < ranks_)
    waits.push_back(meet({works_.in, Lane::vocabulary_in, index(Axis::pipeline)}, at, {}));
  if (part(at) && at.pass != Pass::forward && (!splits_ || at.pass == Pass::weight_gradient)) await(sums_);
  if (last_stage(at) && at.pass != Pass::forward) {
    await(out_);
    if (const auto agreed = sums_.find(at.microbatch); agreed != sums_.end()) waits.push_back(agreed->second);
  }
}

void VocabularyMeetings::after(const Coordinates& at, LocalTask done) {
  if (last_stage(at) && at.pass == Pass::forward)
    meet({works_.in, Lane::vocabulary_in, index(Axis::pipeline)}, at, {done});
  if (!part(at)) return;
  const auto sums = [&] {
    sums_[at.microbatch] = meet({works_.sums, Lane::vocabulary_sums, Ends::kVocabularySums}, at, {done});
  };
  const auto out = [&] {
    const auto met = meet({works_.out, Lane::vocabulary_out, Ends::kVocabularyOut}, at, {done});
    if (rank_ + 1 == ranks_) out_[at.microbatch] = met;
  };
  if (at.pass == Pass::forward && !splits_) sums();
  if (at.pass == Pass::input_gradient) sums(), out();
  if (at.pass == Pass::backward) out();
}

}  // namespace rehearsal::lower
