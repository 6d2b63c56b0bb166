#include "report/trace_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
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
                letter_of(l, at.pass),
                word(fmt::format("predicted: {}, stage {}{}", graph::name(at.pass), at.stage,
                                 of_microbatch(at.microbatch))));
      }
    }
  }

  static std::string of_microbatch(std::uint32_t microbatch) {
    return microbatch == graph::kNoMicrobatch ? "" : fmt::format(", micro-batch {}", microbatch);
  }

  // As the prediction's where the pass is known.
  static char letter(traces::Kind kind, traces::Pass pass) {
    if (kind == traces::Kind::copy) return 'M';
    switch (pass) {
      case traces::Pass::forward:
        return letter_of(graph::Pass::forward);
      case traces::Pass::backward:
        return letter_of(graph::Pass::backward);
      case traces::Pass::optimizer:
        return letter_of(graph::Pass::optimizer);
      default:
        return kind == traces::Kind::optimizer ? letter_of(graph::Pass::optimizer) : 'K';
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
        const auto& label = trace.labels[kernel.label];
        const bool told = label.pass != traces::Pass::unknown && kind != traces::Kind::copy;
        const auto what = told ? traces::name(label.pass) : traces::info(kind).words;
        row.add(start, end, letter(kind, label.pass),
                word(fmt::format("measured: {}{}", what, of_microbatch(label.microbatch))));
      });
    }
    for (const auto& group : rank.measured.groups) {
      const auto called = words_of(group.category);
      Row row(drawing_, called.row, true, finest);
      each([&](const auto& k) { return !computes(k) && report_.group_of(trace, k) == group.category; },
           [&](const auto& kernel, Time start, Time end) {
             const auto text = kernel.moves ? trace.transfers[kernel.fact].name : trace.names[kernel.name].text;
             row.add(start, end, called.letter, word("measured: " + text));
           });
    }
  }

  const TraceReport& report_;
  Drawing drawing_;
  std::map<std::string, std::uint32_t> words_;
};

// Where the step goes, predicted and measured one below the other.
Bars bars_of(const TraceReport& report) {
  Bars bars;
  bars.unit = Unit::seconds;
  bars.parts = {"computing", "exposed communication", "copies", "idle or waiting"};
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
  const auto json = validate_trace_answer().json(report);
  const Showing shown(json, validate_trace_answer().items());
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
    std::string title = fmt::format("Rank {}: {}", *rank.trace->rank, rank.trace->file);
    for (const auto& [list, head] :
         std::initializer_list<std::pair<const char*, const char*>>{{"/parts", "where the step goes"},
                                                                    {"/passes", "passes, kernels that compute"},
                                                                    {"/microbatches", "micro-batches"},
                                                                    {"/kinds", "kernels, summed"},
                                                                    {"/communication", "communication, summed"},
                                                                    {"/exposed", "of it exposed, not waiting"}}) {
      auto table = beside_table(shown, at + list, head);
      if (!table.rows.empty()) section.blocks.push_back({std::exchange(title, ""), std::move(table)});
    }
    if (auto words = launching_words(rank.measured.launching); !words.empty())
      section.blocks.push_back({"Launches", Entries{std::move(words)}});
  }
  section.blocks.push_back(
      {"What kernel names do not tell", Entries{{traces::kNotToldApart.begin(), traces::kNotToldApart.end()}}});
  if (!report.warnings.empty()) section.blocks.push_back({"Warnings", Entries{report.warnings}});
  page.sections.insert(page.sections.begin(), std::move(section));
  return page;
}

}  // namespace rehearsal::report
