#include "report/trace_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "report/picture.hpp"
#include "report/validate_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::size_t kMostDrawnRanks = 16;  // of the picture
// A pause shorter than this part of the step is not seen: what stands on both sides of it is drawn as one.
constexpr std::int64_t kFinest = 4000;

// Puts what follows closely and is of one kind into one box.
class Row {
 public:
  Row(Drawing& drawing, std::string name, bool slim, Time finest)
      : drawing_(drawing), row_(drawing.rows++), finest_(finest) {
    drawing_.row_names.push_back(std::move(name)), drawing_.slim.push_back(slim);
  }
  void add(Time start, Time end, char kind, std::uint32_t what) {
    if (end <= start) return;
    if (last_ && last_->kind == kind && last_->what == what && start - last_->end < finest_) {
      last_->end = std::max(last_->end, end);
      return;
    }
    flush();
    if (last_end_ > start) start = last_end_;  // rows have no overlapping boxes
    if (end <= start) return;
    last_ = SvgBox{};
    last_->row = row_, last_->start = start, last_->end = end, last_->kind = kind, last_->what = what;
  }
  void flush() {
    if (!last_) return;
    last_end_ = last_->end;
    drawing_.boxes.push_back(*std::exchange(last_, std::nullopt));
  }
  ~Row() { flush(); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

 private:
  Drawing& drawing_;
  std::uint32_t row_;
  Time finest_, last_end_;
  std::optional<SvgBox> last_;
};

class BothTimelines {
 public:
  explicit BothTimelines(const TraceReport& report) : report_(report) {}

  Timeline run() {
    drawing_.title = report_.predicted.summary.name;
    drawing_.subtitle = "predicted, and below it measured";
    const auto fold = elided_rows(std::uint32_t(report_.ranks.size()), kMostDrawnRanks);
    for (std::uint32_t r = 0; r < report_.ranks.size(); ++r) {
      if (fold.hidden && r == fold.first) r += fold.hidden;
      predicted(report_.ranks[r]);
      measured(report_.ranks[r]);
    }
    return {std::move(drawing_)};
  }

 private:
  std::uint32_t word(std::string text) {
    const auto [found, fresh] = words_.try_emplace(text, std::uint32_t(drawing_.words.size()));
    if (fresh) drawing_.words.push_back(std::move(text));
    return found->second;
  }

  void predicted(const MeasuredRank& rank) {
    const auto& result = report_.predicted;
    const auto& graph = result.graph();
    const auto& self = graph.ranks()[rank.rank.index()];
    const auto& program = graph.program_of(self);
    Time begins;
    for (std::size_t i = 0; i < program.size(); ++i)
      begins = std::min(begins, result.timeline.start[self.first_task + i]);
    const Time finest(result.timeline.makespan().count() / kFinest);
    for (std::size_t lane = 0; lane < graph::kLanes; ++lane) {
      const auto l = static_cast<graph::Lane>(lane);
      if (graph::info(l).kind == graph::LaneKind::receives) continue;
      if (std::find(program.lane.begin(), program.lane.end(), l) == program.lane.end()) continue;
      const bool compute = l == graph::Lane::compute;
      Row row(drawing_, compute ? fmt::format("rank {}", *rank.trace->rank) : std::string(graph::name(l)), !compute,
              finest);
      for (std::size_t i = 0; i < program.size(); ++i) {
        if (program.lane[i] != l) continue;
        const auto& at = program.coordinates[i];
        row.add(result.timeline.start[self.first_task + i] - begins, result.timeline.end[self.first_task + i] - begins,
                letter_of(l, at.pass), word(fmt::format("predicted: {}, stage {}", graph::name(at.pass), at.stage)));
      }
    }
  }

  // The step of median length, from its start.
  void measured(const MeasuredRank& rank) {
    const auto& trace = *rank.trace;
    Time from, until = Time(trace.end() * 1000);
    if (!trace.steps.empty()) {
      const auto& lengths = rank.measured.lengths;
      const auto at = std::size_t(std::find(lengths.begin(), lengths.end(), rank.measured.step) - lengths.begin());
      from = Time(trace.steps[at].start * 1000), until = from + rank.measured.step;
    }
    const Time finest((until - from).count() / kFinest);
    const auto each = [&](const auto& wanted, const auto& add) {
      for (const auto& kernel : trace.kernels) {
        const Time start = std::max(Time(kernel.start * 1000), from), end = std::min(Time(kernel.end() * 1000), until);
        if (end > start && wanted(kernel)) add(kernel, start - from, end - from);
      }
    };
    const auto computes = [&](const traces::LaunchedKernel& k) { return !traces::communicates(trace.kind(k)); };
    {
      Row row(drawing_, fmt::format("measured {}", *trace.rank), false, finest);
      each(computes, [&](const auto& kernel, Time start, Time end) {
        const auto kind = trace.kind(kernel);
        row.add(start, end,
                kind == traces::Kind::copy        ? 'M'
                : kind == traces::Kind::optimizer ? 'O'
                                                  : 'K',
                word("measured: " + std::string(traces::info(kind).words)));
      });
    }
    for (const auto& group : rank.measured.groups) {
      const char* name = short_name(group.category);
      Row row(drawing_, name, true, finest);
      each([&](const auto& k) { return !computes(k) && report_.group_of(trace, k) == group.category; },
           [&](const auto& kernel, Time start, Time end) {
             const auto text = kernel.moves ? trace.transfers[kernel.fact].name : trace.names[kernel.name].text;
             row.add(start, end, letter(group.category), word("measured: " + text));
           });
    }
  }

  // Rows of pictures have room for ten letters.
  static const char* short_name(const std::optional<graph::Category>& category) {
    if (!category) return "others";
    switch (*category) {
      case graph::Category::data_comm:
        return "data";
      case graph::Category::tensor_comm:
        return "tensor";
      case graph::Category::context_comm:
        return "context";
      case graph::Category::expert_comm:
        return "experts";
      default:
        return "stages";
    }
  }

  static char letter(const std::optional<graph::Category>& category) {
    if (!category) return 'N';
    switch (*category) {
      case graph::Category::data_comm:
        return 'D';
      case graph::Category::tensor_comm:
        return 'T';
      case graph::Category::context_comm:
        return 'C';
      case graph::Category::expert_comm:
        return 'E';
      default:
        return 'P';
    }
  }

  const TraceReport& report_;
  Drawing drawing_;
  std::map<std::string, std::uint32_t> words_;
};

Table table_of(const std::vector<BesideRow>& rows, const std::string& head, const std::string& pointer) {
  Table table;
  table.head = {head, "predicted", "measured", "error"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    const auto value = [&](const std::optional<Time>& time, const char* key) {
      return time ? Value{show(*time), to_seconds(*time), fmt::format("{}/{}/{}", pointer, i, key)} : Value{"-"};
    };
    const auto error = row.error();
    table.rows.push_back(
        {{row.name},
         value(row.predicted, "predicted_s"),
         value(row.measured, "measured_s"),
         error ? Value{page::show_amount(*error, page::Unit::error), *error, fmt::format("{}/{}/error", pointer, i)}
               : Value{"-"}});
  }
  return table;
}

// Where the step goes, predicted and measured one below the other.
Bars bars_of(const TraceReport& report) {
  Bars bars;
  bars.unit = Unit::seconds;
  bars.parts = {"computing", "exposed communication", "copies", "idle and waiting"};
  bars.colors = {{66, 122, 214}, {170, 70, 110}, {90, 150, 120}, {205, 210, 218}};
  for (const auto& rank : report.ranks) {
    const auto add = [&](const char* which, const traces::Parts& parts) {
      Bars::Row row{fmt::format("rank {} {}", *rank.trace->rank, which), {}};
      for (const Time part : {parts.computing, parts.exposed, parts.offload, parts.idle})
        row.values.push_back(std::max(0., to_seconds(part)));
      bars.rows.push_back(std::move(row));
    };
    add("predicted", rank.predicted.parts), add("measured", traces::measured_parts(rank.measured));
  }
  return bars;
}

}  // namespace

Page trace_page(const TraceReport& report, const Asked& asked) {
  Page page = run_page(report.predicted, asked);
  page.title = "Predicted, and traced: " + report.predicted.summary.name;
  Section section{"Predicted beside measured", {}};
  Facts facts;
  const auto& summary = report.predicted.summary;
  facts.facts = {{"predicted", {show(summary.iteration), to_seconds(summary.iteration), "/trace/predicted_s"}},
                 {"measured",
                  {show(report.measured_step()), to_seconds(report.measured_step()), "/trace/measured_s"},
                  "median of the steps"},
                 {"error of the prediction",
                  {page::show_amount(report.error(), page::Unit::error), report.error(), "/trace/error"},
                  "negative: the run took longer"}};
  section.blocks.push_back({"", std::move(facts)});
  section.blocks.push_back(
      {"Both timelines on one scale", BothTimelines(report).run(), "both-timelines",
       "Predicted, and below it the measured step of median length. Pauses too short to be seen are not drawn."});
  section.blocks.push_back({"Where the step goes", bars_of(report), "parts"});
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const auto& rank = report.ranks[r];
    const auto at = fmt::format("/trace/ranks/{}", r);
    section.blocks.push_back({fmt::format("Rank {}: {}", *rank.trace->rank, rank.trace->file),
                              table_of(rank.parts(), "where the step goes", at + "/parts")});
    section.blocks.push_back({"", table_of(rank.kinds(), "kernels, added up", at + "/kinds")});
    if (const auto rows = rank.totals(); !rows.empty()) {
      section.blocks.push_back({"", table_of(rows, "communication, added up", at + "/communication")});
      section.blocks.push_back({"", table_of(rank.shown(), "of it exposed, without waiting", at + "/exposed")});
    }
  }
  section.blocks.push_back(
      {"What names of kernels do not tell", Entries{{traces::kNotToldApart.begin(), traces::kNotToldApart.end()}}});
  if (!report.warnings.empty()) section.blocks.push_back({"Warnings", Entries{report.warnings}});
  page.sections.insert(page.sections.begin(), std::move(section));
  return page;
}

}  // namespace rehearsal::report
