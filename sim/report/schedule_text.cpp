// A schedule's evaluation as text for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "report/schedule_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostRanksInText = 32;

std::string moment(Time time) { return time == Time() ? "0" : show(time); }

std::string stages_text(const schedule::Evaluation& result, std::uint32_t rank) {
  std::string text;
  for (std::uint32_t c = 0; c < result.problem.chunks; c++) {
    if (c == 4) return text + " ...";
    text += (c ? " " : "") + std::to_string(stage_of(result.schedule.placement, result.problem, rank, c));
  }
  return text;
}

std::string rank_table(const schedule::Evaluation& result, const Paint& paint, int width) {
  const auto& r = result.replay;
  std::vector<std::vector<std::string>> rows{{"rank", result.problem.chunks > 1 ? "stages" : "stage", "start", "end",
                                              "busy", "idle", "F..I", "F..W", "memory"}};
  const ElidedRows fold = elided_rows(result.problem.ranks, kMostRanksInText);
  for (std::uint32_t rank = 0; rank < result.problem.ranks; rank++) {
    if (fold.hidden && rank == fold.first) {
      rows.push_back({"...", "", "", "", "", "", "", "", ""});
      rank += fold.hidden;
    }
    rows.push_back({std::to_string(rank), stages_text(result, rank), moment(result.first_start[rank]),
                    show(result.last_end[rank]), show(r.busy[rank]),
                    fmt::format("{:.1f} %", 100 * ((r.cost - r.busy[rank]) / r.cost)),
                    std::to_string(r.in_flight_FB[rank]), std::to_string(r.in_flight_FW[rank]),
                    fmt::format("{:g}", r.peak_memory[rank])});
  }
  return table(rows, paint, width) +
         paint.dim("F..I, F..W: most activations held at once, from forward to input or weight gradient") + "\n";
}

// Odd chunks of a rank are in lower case.
std::vector<GridSpan> grid_spans(const schedule::Evaluation& result) {
  std::vector<GridSpan> spans;
  const auto chunks = schedule::chunks_of_stages(result);
  const std::uint32_t pieces = schedule::pieces(result.schedule, result.problem);
  std::vector<bool> in_pair(result.problem.ranks);  // the previous action overlaps with this one
  for (const auto& a : result.actions) {
    const char kind = "FIWB"[static_cast<std::size_t>(a.action.op)];
    const bool odd = chunks[a.action.stage] % 2 == 1;
    // A pair shares its time: the forward is drawn in the first half.
    const Time middle = a.start + Time((a.end - a.start).count() / 2);
    const Time start = in_pair[a.rank] ? middle : a.start, end = a.action.overlaps_next ? middle : a.end;
    in_pair[a.rank] = a.action.overlaps_next;
    spans.push_back(
        {a.rank, start, end, odd ? static_cast<char>(kind - 'A' + 'a') : kind, a.action.microbatch / pieces});
  }
  return spans;
}

}  // namespace

std::string to_text(const schedule::Evaluation& result, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& p = result.problem;
  const auto& r = result.replay;
  const std::size_t width = std::size_t(std::max(40, style.width));

  std::string title = fmt::format("{}: {} rank{}, ", result.schedule.name, p.ranks, p.ranks == 1 ? "" : "s");
  if (p.chunks > 1) title += fmt::format("{} chunks each, ", p.chunks);
  title += fmt::format("{} micro-batch{}", p.microbatches, p.microbatches == 1 ? "" : "es");
  std::string text = paint.bold(title) + "\n" + paint.dim(wrap(result.schedule.summary, width)) + "\n\n";
  const auto worst = std::max_element(r.peak_memory.begin(), r.peak_memory.end());
  text += fmt::format("cost {}  bubble {}  peak memory {} (rank {})  lower bound {}\n", paint.bold(show(r.cost)),
                      paint.bold(fmt::format("{:.2f} %", 100 * r.bubble_rate())),
                      paint.bold(fmt::format("{:g}", *worst)), worst - r.peak_memory.begin(), show(result.lower_bound));
  if (p.memory_limit && *worst > *p.memory_limit)
    text += fmt::format("the memory limit of {:g} is exceeded: this schedule does not look at it\n", *p.memory_limit);
  if (result.schedule.asynchrony) {
    const auto late = result.schedule.asynchrony(p);
    text +=
        fmt::format("no flush: {} per micro-batch once full; up to {} weight versions, gradients up to {} steps late\n",
                    paint.bold(show(late.steady_state)),
                    *std::max_element(late.weight_versions.begin(), late.weight_versions.end()),
                    *std::max_element(late.staleness.begin(), late.staleness.end()));
  }
  text += "\n";
  if (result.actions.empty()) {
    text += paint.dim(fmt::format("no picture: {} actions are more than {}", grouped(r.actions),
                                  grouped(schedule::kPictureLimit))) +
            "\n";
  } else {
    GridOptions grid;
    grid.width = style.width, grid.color = style.color, grid.max_rows = kMostRanksInText;
    text += draw_grid(grid_spans(result), p.ranks, grid);
  }
  text += "\n" + rank_table(result, paint, style.width);
  text += paint.dim(fmt::format("{} actions, order sha256 {}", grouped(r.actions), result.sha256)) + "\n";
  if (result.order) {
    text += "\n";
    for (std::uint32_t rank = 0; rank < p.ranks; rank++)
      text += fmt::format("rank {}: {}\n", rank, (*result.order)[rank]);
  }
  return fit(text, style.width);
}

}  // namespace rehearsal::report
