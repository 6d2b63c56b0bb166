#include "schedule/search/state.hpp"

#include <algorithm>
#include <limits>

namespace rehearsal::schedule::search {

State::State(const Model& problem)
    : model(&problem),
      stage(problem.stages),
      rank(problem.ranks),
      forward_end(std::size_t(problem.stages) * problem.microbatches),
      input_end(forward_end.size()),
      chunk_(problem.stages) {
  for (const auto& stages : problem.stages_of)
    for (std::uint32_t c = 0; c < stages.size(); ++c) chunk_[stages[c]] = c;
}

bool State::fits(Move move, double memory) const {
  const Model& m = *model;
  const double grows = m.growth(move);
  if (grows <= 0) return true;
  if (memory + grows > m.limit) return false;
  const auto& mine = m.stages_of[m.rank[move.stage]];
  if (mine.size() == 1) return true;  // the oldest micro-batch is here already, and needs no more room
  // Several stages: the rank must keep room for the oldest micro-batch to pass through all of its stages. Then that one
  // can be finished, gives back at least as much as the next one lacks, and so on.
  const std::uint32_t oldest = done(0, Kind::input);
  double reserve = grows;
  for (std::uint32_t s : mine) {
    const bool now = s == move.stage && move.kind == Kind::forward;
    if (done(s, Kind::forward) + (now ? 1u : 0u) <= oldest) reserve += m.activation[s];
    reserve -= double(done(s, Kind::input) - done(s, Kind::weight)) * m.hold[s];
  }
  return memory + reserve <= m.limit * (1 + 1e-12);
}

// A weight gradient ran although this action could have started in its place: with the two exchanged, it starts earlier
// and nothing ends later.
bool State::wasted_weight(Move move, Ticks arrival) const {
  const Rank& r = rank[model->rank[move.stage]];
  return r.weight_start >= 0 && move.kind != Kind::weight && arrival <= r.weight_start && r.free > r.weight_start &&
         fits(move, r.memory_before_weight);
}

void State::candidates(std::vector<Candidate>& found, bool never_empty) const {
  const Model& m = *model;
  found.clear();
  Candidate first;
  first.end = std::numeric_limits<Ticks>::max();
  for (std::uint32_t s = 0; s < m.stages; ++s)
    for (Kind kind : {Kind::input, Kind::forward, Kind::weight}) {
      Candidate c{{static_cast<std::uint16_t>(s), kind}};
      if (rank[m.rank[s]].waiting & bit(c.move)) continue;
      if (!reachable(c.move, c.start) || !fits(c.move)) continue;
      c.end = c.start + m.time(c.move);
      found.push_back(c);
      if (c.end < first.end || (c.end == first.end && c.start < first.start)) first = c;
    }
  if (found.empty()) return;
  const std::uint32_t r = m.rank[first.move.stage];
  std::erase_if(found, [&](const Candidate& c) {
    if (m.rank[c.move.stage] != r) return true;
    if (c.move == first.move) return false;
    return c.start >= first.end;
  });
  const auto wasted = [&](const Candidate& c) {
    if (c.move.kind == Kind::weight || rank[r].weight_start < 0) return false;
    if (!m.moving_ahead_is_safe && m.growth(c.move) > 0) return false;  // its delay must remain a choice
    Ticks arrival = c.start;
    if (arrival == rank[r].free) {  // it may have arrived long before
      const std::uint32_t s = c.move.stage, k = done(s, c.move.kind);
      if (c.move.kind == Kind::forward)
        arrival = s == 0 ? 0 : forward_end[m.at(s - 1, k)] + m.hop[s - 1];
      else
        arrival = s + 1 == m.stages ? 0 : input_end[m.at(s + 1, k)] + m.hop[s];
    }
    return wasted_weight(c.move, arrival);
  };
  if (never_empty && std::all_of(found.begin(), found.end(), wasted)) return;
  std::erase_if(found, wasted);
  std::stable_sort(found.begin(), found.end(), [&](const Candidate& a, const Candidate& b) {
    return (a.move == first.move) > (b.move == first.move);
  });
}

}  // namespace rehearsal::schedule::search
