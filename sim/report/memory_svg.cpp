// Memory over time: a panel for each tier, stacked by category.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "page/drawn_time.hpp"
#include "plan/mesh.hpp"
#include "report/memory_colors.hpp"
#include "report/picture.hpp"
#include "report/run_report.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using timeline::MemoryByCategory;
using timeline::MemoryPoint;

constexpr Length kHeight = px(190), kColumn = px(1);
// A memory level and the time at which it starts.
struct Panel {
  std::string heading, more;
  std::vector<MemoryPoint> curve;
  std::optional<double> capacity;
};

MemoryPoint highest(const std::vector<MemoryPoint>& curve) {
  return *std::max_element(curve.begin(), curve.end(),
                           [](const MemoryPoint& a, const MemoryPoint& b) { return a.level < b.level; });
}

// The sum of the curves of several ranks, each with a multiplicity.
std::vector<MemoryPoint> added_up(const std::vector<std::pair<std::vector<MemoryPoint>, std::int64_t>>& curves) {
  struct Change {
    Time when;
    std::size_t curve, point;
  };
  std::vector<Change> changes;
  for (std::size_t c = 0; c < curves.size(); ++c)
    for (std::size_t i = 0; i < curves[c].first.size(); ++i) changes.push_back({curves[c].first[i].when, c, i});
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.when < b.when; });
  std::vector<MemoryPoint> sum;
  MemoryPoint now;
  for (const auto& change : changes) {
    const auto& [curve, times] = curves[change.curve];
    const auto add = [&](const MemoryPoint& point, std::int64_t factor) {
      now.level += Bytes(factor * point.level.count());
      for (std::size_t c = 0; c < now.live.size(); ++c) now.live[c] += Bytes(factor * point.live[c].count());
    };
    if (change.point > 0) add(curve[change.point - 1], -times);
    add(curve[change.point], times);
    now.when = change.when;
    sum.push_back(now);
  }
  return sum;
}

class MemoryPicture {
 public:
  MemoryPicture(const Result& answer, Length room)
      : answer_(answer),
        summary_(answer.summary),
        margin_(room <= kNarrow ? px(4) : kMargin),
        left_(margin_ + px(72)),
        width_(room <= kNarrow ? room - left_ - px(18) : px(960)) {
    const auto& graph = answer.graph();
    span_ = std::max<std::int64_t>(1, answer.timeline.makespan().count());
    for (std::uint32_t r = 1; r < summary_.ranks.size(); ++r)
      if (summary_.ranks[r].peak.allocated > summary_.ranks[fullest_].peak.allocated) fullest_ = r;
    const auto& rank = summary_.ranks[fullest_];
    Panel device{fmt::format("Device of rank {}", rank.rank), "",
                 timeline::memory_curve(graph, answer.timeline, RankId(fullest_)), summary_.capacity};
    if (summary_.abstract && device.capacity) *device.capacity *= scenario::kMemoryUnit;
    if (rank.peak.reserved && rank.peak.device)
      device.more = fmt::format("; {} reserved, {} with context and communicators", show(bytes(*rank.peak.reserved)),
                                show(bytes(*rank.peak.device)));
    panels_.push_back(std::move(device));
    for (const auto& tier : summary_.tiers) panels_.push_back(of_node(tier));
  }

  std::string draw() {
    Length y = px(36);
    const auto title = fmt::format("{}: memory", summary_.name);
    paragraph(out_, margin_, y, left_ + width_ - margin_, title, px(17), "font-weight=\"600\"");
    y += px(22);
    const auto subtitle = fmt::format("{} of rank {}, one of {} GPU{}", show(answer_.timeline.makespan()),
                                      summary_.ranks[fullest_].rank, summary_.gpus, summary_.gpus == 1 ? "" : "s");
    paragraph(out_, margin_, y, left_ + width_ - margin_, subtitle, px(13), kMuted);
    y += px(18);
    work(y);
    for (const auto& panel : panels_) draw(panel, y);
    legends(y);
    return svg_document(left_ + width_ + px(18) + margin_, y + px(14), title + ", " + subtitle, out_);
  }

 private:
  Length x(Time time) const { return left_ + place_in(span_, time.count(), width_); }
  std::string amount(double size) const {
    return summary_.abstract ? fmt::format("{:.4g}", size / scenario::kMemoryUnit) : show(bytes(size));
  }

  // For the node that holds most: the curves of its GPUs, given that ranks of one pipeline rank hold the same.
  Panel of_node(const answer::TierSummary& tier) const {
    const auto& graph = answer_.graph();
    const auto& scenario = answer_.scenario();
    std::map<std::uint32_t, std::pair<std::uint32_t, Bytes>> of_stage;  // the rank that holds most, and how much
    for (std::uint32_t r = 0; r < graph.ranks().size(); ++r) {
      const auto peak = timeline::memory_peak(graph, answer_.timeline, RankId(r), tier.tier).peak;
      const auto [most, fresh] = of_stage.try_emplace(graph.ranks()[r].place[Axis::pipeline], r, peak);
      if (!fresh && peak > most->second.second) most->second = {r, peak};
    }
    const plan::Mesh mesh = plan::mesh_of(scenario.parallelism, scenario.placement);
    const std::int64_t each = scenario.concrete->cluster.gpus_per_node;
    std::map<std::int64_t, std::map<std::uint32_t, std::int64_t>> nodes;  // number of ranks per pipeline rank
    for (std::uint32_t r = 0; r < mesh.ranks(); ++r) ++nodes[r / each][mesh.at(r)[Axis::pipeline]];
    const auto holds = [&](const auto& node) {
      double sum = 0;
      for (const auto& [stage, ranks] : node.second) sum += double(ranks) * double(of_stage.at(stage).second.count());
      return sum;
    };
    const auto node =
        std::max_element(nodes.begin(), nodes.end(), [&](const auto& a, const auto& b) { return holds(a) < holds(b); });
    std::vector<std::pair<std::vector<MemoryPoint>, std::int64_t>> curves;
    std::int64_t gpus = 0;
    for (const auto& [stage, ranks] : node->second) {
      curves.emplace_back(timeline::memory_curve(graph, answer_.timeline, RankId(of_stage.at(stage).first), tier.tier),
                          ranks);
      gpus += ranks;
    }
    return {fmt::format("{} of node {}, for its {} GPU{}", tier.tier == Tier::host ? "Host memory" : "Disks (NVMe)",
                        node->first, gpus, gpus == 1 ? "" : "s"),
            "", added_up(curves), tier.capacity};
  }

  // The rank's computation over the same time.
  void work(Length& y) {
    const Length height = px(18);
    out_.label(left_ - px(8), y + px(13), "computes", "font-size=\"11\" text-anchor=\"end\"");
    out_.rectangle(left_, y, width_, height, "fill=\"#eef1f5\"");
    struct Span {
      Time start, end;
      char kind;
    };
    std::optional<Span> open;
    const auto close = [&] {
      if (!open || x(open->end) == x(open->start)) return;
      out_.rectangle(x(open->start), y, x(open->end) - x(open->start), height,
                     fmt::format("fill=\"{}\"", color_of(open->kind).text()));
      if (kinds_.find(open->kind) == std::string::npos) kinds_ += open->kind;
    };
    const auto& rank = answer_.graph().ranks()[fullest_];
    const auto& program = answer_.graph().program_of(rank);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const char letter = cell_letter_of(program.coordinates[i].pass);
      const Span span{answer_.timeline.start[rank.first_task + i], answer_.timeline.end[rank.first_task + i],
                      letter == 'c' ? 'o' : letter};  // gradients and optimizer share a kind here
      if (program.lane[i] != graph::Lane::compute || span.start == span.end) continue;
      if (open && open->kind == span.kind && x(span.start) - x(open->end) < kColumn) {
        open->end = std::max(open->end, span.end);
        continue;
      }
      close();
      open = span;
    }
    close();
    y += height + px(14);
  }

  // Per column of the picture the highest level, so that no peak is lost.
  std::vector<MemoryByCategory> columns(const std::vector<MemoryPoint>& curve) const {
    const auto count = static_cast<std::size_t>(width_ / kColumn);
    std::vector<MemoryByCategory> all(count);
    std::vector<Bytes> level(count, Bytes(-1));
    const auto take = [&](std::size_t column, const MemoryPoint& point) {
      if (point.level > level[column]) level[column] = point.level, all[column] = point.live;
    };
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const auto at = [&](Time when) {
        return std::min(count - 1, static_cast<std::size_t>((x(when) - left_) / kColumn));
      };
      const auto from = at(curve[i].when), to = i + 1 < curve.size() ? at(curve[i + 1].when) : count - 1;
      // A level also counts in the column where the next one begins, unless that begins at the column's edge.
      for (auto c = from; c <= to; ++c)
        if (c == from || c < to || i + 1 == curve.size() || x(curve[i + 1].when) - left_ > Length(to) * kColumn)
          take(c, curve[i]);
    }
    return all;
  }

  void draw(const Panel& panel, Length& y) {
    y += px(12);
    const auto peak = highest(panel.curve);
    const double most = std::max(1., double(peak.level.count()));
    const bool in_sight = panel.capacity && *panel.capacity <= 3 * most;
    const double top = 1.08 * std::max(most, in_sight ? *panel.capacity : 0);
    auto heading = fmt::format("{}{}", amount(most), panel.more);
    if (panel.capacity) heading += fmt::format("; capacity {}", amount(*panel.capacity));
    out_.label(margin_, y, panel.heading, "font-size=\"13\" font-weight=\"600\"");
    y += px(17);
    paragraph(out_, margin_, y, left_ + width_ - margin_, "high water " + heading, px(12), kMuted);
    y += px(8);
    const Length bottom = y + kHeight;
    const auto level = [&](double size) { return bottom - Length(std::llround(size / top * double(kHeight))); };
    grid(top, level, bottom);
    areas(columns(panel.curve), level, bottom);
    const Length at = level(most), when = x(peak.when);
    const bool right = when < left_ + width_ / 2;  // of its peak the label
    if (in_sight) {
      const Length limit = level(*panel.capacity);
      out_.line(left_, limit, left_ + width_, limit, fmt::format("stroke=\"{}\" stroke-dasharray=\"5 3\"", kLimitInk));
      // Below its line where the label of the peak would be in its way, and there is no room beside that.
      const bool near = limit <= at && at - limit < px(16) && margin_ < kMargin;
      out_.label(
          right ? left_ + width_ - px(4) : left_ + px(4), near ? limit + px(12) : limit - px(4),
          "capacity " + amount(*panel.capacity),
          fmt::format("font-size=\"11\" text-anchor=\"{}\" fill=\"{}\" {}", right ? "end" : "start", kLimitInk, kHalo));
    }
    out_.line(left_, at, left_ + width_, at, "stroke=\"#1b2430\" stroke-width=\"0.7\" stroke-dasharray=\"2 3\"");
    out_.triangle(when, at, when - px(4), at - px(7), when + px(4), at - px(7), "");
    const bool changes = std::any_of(panel.curve.begin(), panel.curve.end(),
                                     [&](const MemoryPoint& point) { return point.level != peak.level; });
    out_.label(when + (right ? px(8) : -px(8)), at - px(3),
               amount(most) + (changes ? " at " + show(peak.when) : " throughout"),
               fmt::format("font-size=\"11\" text-anchor=\"{}\" {}", right ? "start" : "end", kHalo));
    time_axis(out_, left_, width_, bottom, span_);
    y = bottom + px(36);
  }

  template <class Level>
  void grid(double top, const Level& level, Length bottom) {
    struct Unit {
      const char* name;
      double size;
    };
    static constexpr Unit kUnits[] = {{"TiB", 1024. * 1024 * 1024 * 1024},
                                      {"GiB", 1024. * 1024 * 1024},
                                      {"MiB", 1024. * 1024},
                                      {"KiB", 1024},
                                      {"B", 1}};
    Unit unit{"", double(scenario::kMemoryUnit)};
    if (!summary_.abstract)
      unit = *std::find_if(std::begin(kUnits), std::end(kUnits) - 1, [&](const Unit& u) { return top >= 4 * u.size; });
    const auto step = round_step(std::max<std::int64_t>(1, std::llround(std::ceil(top / unit.size / 6))));
    for (std::int64_t tick = 0; double(tick) * unit.size <= top; tick += step) {
      const Length at = level(double(tick) * unit.size);
      out_.line(left_, at, left_ + width_, at, tick ? "stroke=\"#e3e7ec\"" : "stroke=\"#8a94a3\"");
      out_.label(left_ - px(8), at + px(4), tick ? fmt::format("{} {}", tick, unit.name) : "0",
                 fmt::format("font-size=\"11\" text-anchor=\"end\" {}", kMuted));
    }
    out_.line(left_, bottom, left_, bottom - kHeight, "stroke=\"#8a94a3\"");
  }

  // Stacked, with permanent memory at the bottom.
  template <class Level>
  void areas(const std::vector<MemoryByCategory>& columns, const Level& level, Length bottom) {
    std::vector<double> below(columns.size(), 0);
    for (std::size_t c = 0; c < graph::kMemoryCategories; ++c) {
      auto above = below;
      bool any = false;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        above[i] += double(columns[i][c].count());
        any = any || columns[i][c] > Bytes{};
      }
      if (!any) continue;
      drawn_[c] = true;
      std::string path = fmt::format("M{} {}", text_of(left_), text_of(bottom));
      const auto edge = [&](const std::vector<double>& heights, bool back) {
        Length now = -1;
        for (std::size_t k = 0; k < heights.size(); ++k) {
          const std::size_t i = back ? heights.size() - 1 - k : k;
          const Length at = level(heights[i]);
          if (at == now) continue;
          path += fmt::format("H{}V{}", text_of(left_ + Length(back ? i + 1 : i) * kColumn), text_of(at));
          now = at;
        }
        path += "H" + text_of(back ? left_ : left_ + width_);
      };
      edge(above, false), edge(below, true);
      const auto name = graph::name(static_cast<graph::MemoryCategory>(c));
      out_.raw(
          fmt::format("<path d=\"{}Z\" fill=\"{}\"><title>{}</title></path>\n", path, memory_colors()[c].text(), name));
      below = std::move(above);
    }
  }

  void legends(Length& y) {
    std::vector<LegendEntry> entries;
    for (std::size_t c = 0; c < graph::kMemoryCategories; ++c)
      if (drawn_[c]) entries.push_back({memory_colors()[c], graph::name(static_cast<graph::MemoryCategory>(c))});
    legend(out_, left_, left_ + width_ + px(18), y += px(2), entries, kLargeLegend);
    y += px(22);
    out_.label(left_ - px(8), y, "computes", fmt::format("font-size=\"11\" text-anchor=\"end\" {}", kMuted));
    entries.clear();
    for (const auto& kind : kFillings)
      if (kinds_.find(kind.letter) != std::string::npos) entries.push_back({kind.color, std::string(kind.name)});
    if (kinds_.find('o') != std::string::npos) entries.push_back({color_of('o'), "gradients and optimizer"});
    legend(out_, left_, left_ + width_, y, entries, kLargeLegend);
  }

  const Result& answer_;
  const answer::Summary& summary_;
  const Length margin_, left_, width_;  // of the picture; of the curves
  std::uint32_t fullest_ = 0;           // index of the rank that holds most
  std::int64_t span_ = 1;
  std::vector<Panel> panels_;
  std::array<bool, graph::kMemoryCategories> drawn_{};
  std::string kinds_;  // kinds of computation that occur
  Canvas out_;
};

}  // namespace

std::string memory_svg(const Result& answer, Length room) {
  if (answer.summary.peak.allocated <= 0)
    throw UserError("--svg draws memory over time, and nothing says how much this takes: give the scenario a 'memory'");
  return MemoryPicture(answer, room).draw();
}

}  // namespace rehearsal::report
