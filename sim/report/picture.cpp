#include "report/picture.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

// True for reductions hidden under the backward pass, which are not drawn over it.
bool overlaps_compute(const graph::Program& program, const graph::Rank& rank, const timeline::Timeline& timeline,
                      std::size_t i) {
  const Time start = timeline.start[rank.first_task + i];
  for (std::size_t j = i + 1; j < program.size(); j++)
    if (program.lane[j] == graph::Lane::compute)
      return timeline.start[rank.first_task + j] < timeline.end[rank.first_task + i] &&
             timeline.end[rank.first_task + j] > start;
  return false;
}

}  // namespace

// In the order of graph::Pass; D: what ranks add up and gather.
char letter_of(graph::Pass pass) { return "FAIWBDODDB"[std::size_t(pass)]; }
char cell_letter_of(graph::Pass pass) { return "FBIWBcoccB"[std::size_t(pass)]; }

char letter_of(graph::Lane lane, graph::Pass pass) {
  using graph::Lane, graph::LaneKind;
  const auto kind = graph::info(lane).kind;
  if (kind == LaneKind::sends || kind == LaneKind::receives) return 'P';
  if (kind == LaneKind::tiers) return 'M';
  if (kind == LaneKind::collectives)
    return lane == Lane::tensor_comm ? 'T' : lane == Lane::data_comm ? 'D' : lane == Lane::context_comm ? 'C' : 'E';
  return letter_of(pass);
}

std::vector<GridSpan> pipeline_spans(const graph::TaskGraph& graph, const timeline::Timeline& timeline,
                                     std::uint32_t rows_per_rank, std::uint32_t row) {
  std::vector<GridSpan> spans;
  const auto ranks = graph.ranks();
  for (std::uint32_t r = 0; r < ranks.size(); r++) {
    const auto& program = graph.program_of(ranks[r]);
    std::uint32_t previous = graph::kNoMicrobatch, previous_stage = 0;
    char previous_kind = 0;
    for (std::size_t i = 0; i < program.size(); i++) {
      const bool collective = program.lane[i] == graph::Lane::data_comm;
      if (program.lane[i] != graph::Lane::compute && !collective) continue;
      const auto& at = program.coordinates[i];
      const auto task = ranks[r].first_task + i;
      if (std::holds_alternative<graph::Message>(graph.work(program.work[i]))) continue;
      const bool step = at.microbatch == graph::kNoMicrobatch;
      if (collective && overlaps_compute(program, ranks[r], timeline, i)) continue;
      const char k = cell_letter_of(at.pass);
      if (!step && k == previous_kind && previous == at.microbatch && previous_stage == at.stage) {
        spans.back().end = timeline.end[task];
      } else {
        spans.push_back(
            {r * rows_per_rank + row, timeline.start[task], timeline.end[task], k, step ? kNoLabel : at.microbatch});
      }
      previous = at.microbatch, previous_kind = k, previous_stage = at.stage;
    }
  }
  return spans;
}

}  // namespace rehearsal::report
