// The drawing of a schedule's evaluation.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"
#include "report/schedule_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using schedule::Op;

// The memory that an action takes at its start and releases at its end; the maximum of a rank is its peak_memory.
std::vector<std::vector<MemoryStep>> memory_curves(const schedule::Evaluation& result) {
  const auto& p = result.problem;
  std::vector<std::vector<MemoryStep>> curves(p.ranks);
  std::vector<double> held(p.ranks, 0);
  const std::uint32_t pieces = schedule::pieces(result.schedule, p);
  for (const auto& a : result.actions) {
    const double activation = p.activation[a.action.stage] / pieces, hold = p.weight_hold[a.action.stage] / pieces;
    double taken = 0;
    switch (a.action.op) {
      case Op::forward:
        taken = activation;
        break;
      case Op::input_gradient:
        taken = hold - activation;
        break;
      case Op::weight_gradient:
        taken = -hold;
        break;
      case Op::backward:
        taken = -activation;
        break;
    }
    if (taken == 0) continue;
    curves[a.rank].push_back({taken > 0 ? a.start : a.end, held[a.rank] += taken});
  }
  return curves;
}

}  // namespace

Drawing drawing_of(const schedule::Evaluation& result) {
  const auto& p = result.problem;
  const auto& r = result.replay;
  if (result.actions.empty())
    throw UserError(fmt::format("a picture has at most {} actions, but this order has {}; choose fewer micro-batches",
                                grouped(schedule::kPictureLimit), grouped(r.actions)));
  Drawing drawing;
  drawing.title = fmt::format("{}: {} rank{}, ", result.schedule.name, p.ranks, p.ranks == 1 ? "" : "s");
  if (p.chunks > 1) drawing.title += fmt::format("{} chunks each, ", p.chunks);
  drawing.title += fmt::format("{} micro-batch{}", p.microbatches, p.microbatches == 1 ? "" : "es");
  drawing.subtitle = fmt::format("cost {} · bubble {:.2f} % · peak memory {:g}", show(r.cost), 100 * r.bubble_rate(),
                                 *std::max_element(r.peak_memory.begin(), r.peak_memory.end()));
  drawing.rows = p.ranks;
  drawing.chunks = p.chunks;
  const auto chunks = schedule::chunks_of_stages(result);
  const std::uint32_t pieces = schedule::pieces(result.schedule, p);
  std::vector<bool> in_pair(p.ranks);  // the previous action overlaps with this one
  for (const auto& a : result.actions) {
    const Half half = a.action.overlaps_next ? Half::upper : in_pair[a.rank] ? Half::lower : Half::whole;
    in_pair[a.rank] = a.action.overlaps_next;
    std::string label = std::to_string(a.action.microbatch / pieces);
    if (pieces > 1) label += "." + std::to_string(a.action.microbatch % pieces);
    const char kind = "FIWB"[static_cast<std::size_t>(a.action.op)];
    auto tip =
        fmt::format("{}{}{} on rank {}: {} to {}", a.action.stage, kind, label, a.rank, show(a.start), show(a.end));
    drawing.boxes.push_back(
        {a.rank, a.start, a.end, kind, half, chunks[a.action.stage], std::move(label), std::move(tip)});
  }
  if (result.schedule.placement == schedule::Placement::bidirectional) drawing.tints = "the two directions";
  drawing.memory = memory_curves(result);
  drawing.memory_limit = p.memory_limit;
  return drawing;
}

std::string to_svg(const schedule::Evaluation& result) { return draw_svg(drawing_of(result)); }

}  // namespace rehearsal::report
