#include "report/run_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "plan/mesh.hpp"
#include "report/groups_report.hpp"
#include "report/job_report.hpp"
#include "report/measured_text.hpp"
#include "report/memory_colors.hpp"
#include "report/perfetto.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostGroupedGpus = 256;  // larger jobs show their groups only in `rehearse groups`

class RunPage {
 public:
  RunPage(const Result& answer, const Asked& asked) : run_(answer), s_(answer.summary), asked_(asked) {
    page_.title = s_.name;
    page_.made_by = fmt::format("rehearse {}, {}, {}", program_version(), s_.backend, timeline::name(s_.fidelity));
    page_.subtitle = fmt::format("{} GPU{}, {} micro-batch{} a pipeline; {}", grouped(std::uint64_t(s_.gpus)),
                                 s_.gpus == 1 ? "" : "s", s_.microbatches, s_.microbatches == 1 ? "" : "es",
                                 run_.measured ? "measured on this machine" : "predicted");
  }

  Page write() {
    section("The answer", {headline()});
    framework();
    if (!run_.timeline.disturbances.empty()) add({kDisturbed, Entries{run_.timeline.disturbances}});
    if (s_.job) add({"The whole training", Verbatim{job_text(*s_.job, 100)}});
    if (!run_.warnings.empty()) add({"Warnings", Entries{run_.warnings}});
    time();
    memory();
    communication();
    groups();
    path();
    section("What was assumed", {});
    if (!run_.measured && !s_.abstract) add({"", Paragraph{"Error band: " + s_.error_band.basis}});
    add({"", Entries{run_.assumptions}});
    page_.sections.push_back(scenario_section(asked_));
    return std::move(page_);
  }

 private:
  void section(std::string title, std::vector<Block> blocks) {
    page_.sections.push_back({std::move(title), std::move(blocks)});
  }
  void add(Block block) { page_.sections.back().blocks.push_back(std::move(block)); }

  // If no framework was given: the step with each candidate.
  void framework() {
    if (run_.other_framework.empty()) return;
    auto table = shown_.table("/other_software", {"software", "iteration_s", "iteration_change"});
    table.rows.insert(table.rows.begin(),
                      {{s_.framework}, shown_.value("/iteration_s"), {"assumed: the scenario names none"}});
    add({"The same step with each framework that may be meant", std::move(table), "",
         std::all_of(run_.other_framework.begin(), run_.other_framework.end(), [](auto& o) { return o.contention; })
             ? ""
             : "Before contention."});
  }

  Block headline() const {
    std::string band;
    if (s_.error_band.low && !run_.measured)
      band = fmt::format("{}{} to {} by its band", s_.error_band.comparable ? "" : "no comparable run; ",
                         shown_.value("/error_band/low_s").text, shown_.value("/error_band/high_s").text);
    if (run_.measured) band = iterations_note(run_.measured->iterations);
    const auto executed = shown_.value("/hardware_tflops_per_gpu").text;
    const auto fits = !s_.fits ? "" : *s_.fits ? "fits" : "does not fit";
    std::vector<Fact> facts{
        shown_.fact("/iteration_s", band), shown_.fact("/iterations/predicted_s"), shown_.fact("/samples_per_s"),
        shown_.fact("/tokens_per_s"),
        shown_.fact("/model_tflops_per_gpu", executed.empty() ? "" : executed + " with recomputation"),
        shown_.fact("/mfu"),
        // As in the text: "bubble" is time spent waiting for the pipeline, "idle" all waiting.
        shown_.fact("/bubble_rate",
                    s_.abstract ? "of the busiest rank" : "of the busiest rank: waits for others or for data")};
    if (s_.abstract) facts.back().name = "bubble";
    if (s_.peak.device)
      facts.push_back(shown_.fact(
          "/peak_memory_bytes/device",
          s_.capacity ? fmt::format("of {}: {}", shown_.value("/tiers/device/capacity_bytes").text, fits) : ""));
    else if (s_.peak.allocated > 0)
      facts.push_back({"memory at the peak",
                       {fmt::format("{:g}", s_.peak.allocated), s_.peak.allocated, "/peak_memory_bytes/allocated"},
                       fits});
    std::erase_if(facts, [](const Fact& fact) { return fact.value.text.empty(); });
    return {"", Facts{std::move(facts)}};
  }

  void time() {
    section("Where the time goes", {});
    add({"Each rank, by what it does or waits for", breakdown_bars(run_), "breakdown",
         "Bubble: it waits for other ranks while nothing is on its way to it. Communication counts where a rank waits "
         "for it."});
    Table table{{fmt::format("rank {}, which ends last", s_.breakdown_rank), "time", "share"}, {}};
    for (const auto& [name, part] : find(json_, "/breakdown_s")->members())
      if (part.real() > 0)
        table.rows.push_back({{name},
                              shown_.value("/breakdown_s/" + name),
                              {show_amount(part.real() / to_seconds(s_.iteration), Unit::share)}});
    add({"", std::move(table)});
    auto [drawing, note] = timed(run_);
    add({"Who works when", Timeline{std::move(drawing)}, "timeline", std::move(note)});
  }

  void memory() {
    if (s_.peak.allocated <= 0) return;
    section("Memory", {});
    add({"", Picture{memory_svg(run_)}, "memory"});
    Bars bars;
    const double unit = s_.abstract ? scenario::kMemoryUnit : 1;
    bars.unit = s_.abstract ? Unit::none : Unit::bytes;
    bars.json = "/ranks/{row}/memory_bytes/{part}";
    for (std::size_t c = 0; c < graph::kMemoryCategories; ++c)
      bars.parts.push_back(graph::name(static_cast<graph::MemoryCategory>(c)));
    bars.colors = memory_colors();
    for (const auto& rank : s_.ranks) {
      Bars::Row row{fmt::format("rank {}{}", rank.rank, rank.count > 1 ? fmt::format(" x {}", rank.count) : ""), {}};
      for (const Bytes held : rank.memory) row.values.push_back(double(held.count()) / unit);
      bars.rows.push_back(std::move(row));
    }
    if (s_.capacity) bars.limit = *s_.capacity, bars.limit_name = "capacity";
    add({"Each rank at its peak, by what it holds", std::move(bars), "memory-by-rank"});
    if (s_.tiers.empty()) return;
    auto table = shown_.table("/tiers", {"peak_per_gpu_bytes", "peak_bytes", "capacity_bytes", "fits"}, "tier");
    table.rows.erase(table.rows.begin());  // the device
    add({"Beyond the device", std::move(table)});
  }

  void communication() {
    const auto& t = s_.traffic;
    Bars bars;
    bars.unit = Unit::bytes, bars.parts = {"bytes"}, bars.json = "";
    Table sums{{"along", "a GPU sends", "all GPUs send"}, {}};
    for (const auto& [name, part] : answer::AxisBytes::parts()) {
      if (t.per_gpu.*part <= 0) continue;
      bars.rows.push_back({name, {t.per_gpu.*part}});
      sums.rows.push_back({{name},
                           shown_.value(fmt::format("/traffic/per_gpu_bytes/{}", name)),
                           shown_.value(fmt::format("/traffic/all_gpus_bytes/{}", name))});
    }
    if (sums.rows.empty()) return;
    section("Communication", {});
    std::string note;
    if (t.data_parallel)
      note = fmt::format("Along data, theory says {} = {} (Psi = {} parameters).", t.data_parallel->form,
                         show(bytes(t.data_parallel->closed_form_bytes)),
                         grouped(std::uint64_t(t.data_parallel->parameters)));
    add({"What a GPU sends in a step", std::move(bars), "traffic", std::move(note)});
    add({"", std::move(sums)});
    if (!t.links.empty()) add({"", shown_.table("/traffic/links", {"name", "count", "bytes", "busy_share"})});
  }

  void groups() {
    const auto& sc = run_.scenario();
    if (!sc.concrete || !sc.parallelism.layouts.empty()) return;
    GroupMap map{sc.name, plan::mesh_of(sc.parallelism, sc.placement),
                 static_cast<std::uint32_t>(sc.concrete->cluster.gpus_per_node)};
    if (map.mesh.ranks() < 2) return;
    section("Who is in which group", {});
    Table table;
    table.head = {"axis", "groups"};
    table.words = {true, true};
    for (const Axis axis : kShownAxes)
      if (is_shown(map.mesh, axis)) table.rows.push_back({{name(axis)}, {group_words(map, axis)}});
    add({"", std::move(table)});
    if (map.mesh.ranks() <= kMostGroupedGpus)
      add({"", Picture{to_svg(map)}, "groups"});
    else
      add({"", Paragraph{fmt::format("More than {} GPUs are not drawn here; `rehearse groups` draws up to 1,024 and "
                                     "lists all.",
                                     kMostGroupedGpus)}});
  }

  void path() {
    if (s_.critical_path.empty()) return;
    section("What decides the end", {});
    auto table = shown_.table("/critical_path", {"what", "rank", "start_s", "end_s", "tasks"});
    const auto pieces = table.rows.size();
    add({fmt::format("{} pieces, from the first task to the last", pieces), std::move(table), "", "", pieces > 12});
  }

  const Result& run_;
  const answer::Summary& s_;
  const Asked& asked_;
  const Json json_ = to_json(run_);
  const Showing shown_{json_, run_answer().items()};
  Page page_;
};

}  // namespace

std::vector<Rgb> category_colors() {
  return {{66, 122, 214}, {132, 170, 226}, {214, 110, 80},  {110, 120, 135}, {170, 70, 110}, {120, 94, 170},
          {190, 178, 40}, {200, 60, 60},   {205, 210, 218}, {150, 120, 60},  {60, 140, 190}, {90, 150, 120}};
}

Bars breakdown_bars(const Result& answer) {
  Bars bars;
  bars.unit = Unit::seconds, bars.colors = category_colors();
  for (std::size_t c = 0; c < graph::kCategories; ++c)
    bars.parts.push_back(graph::name(static_cast<graph::Category>(c)));
  const auto& graph = answer.graph();
  const auto count = std::uint32_t(graph.ranks().size());
  const auto fold = elided_rows(count, kMostBars);
  for (std::uint32_t r = 0; r < count; ++r) {
    if (fold.hidden && r == fold.first) r += fold.hidden;
    const auto& rank = graph.ranks()[r];
    Bars::Row row{
        fmt::format("rank {}{}", rank.job_rank, rank.multiplicity > 1 ? fmt::format(" x {}", rank.multiplicity) : ""),
        {}};
    for (const Time part : timeline::breakdown(graph, answer.timeline, RankId(r), answer.lowered->durations))
      row.values.push_back(to_seconds(part));
    bars.rows.push_back(std::move(row));
  }
  return bars;
}

Section scenario_section(const Asked& asked) {
  Section section{"The question", {}};
  section.blocks.push_back({"Asked with", Verbatim{asked.command + "\n"}});
  if (!asked.scenario.empty()) section.blocks.push_back({"The scenario", Verbatim{asked.scenario}});
  return section;
}

Page run_page(const Result& answer, const Asked& asked, bool traced) {
  auto page = RunPage(answer, asked).write();
  if (traced && answer.graph().tasks() <= kMostTraced)
    write_trace(answer, [&](std::string_view piece) { page.trace += piece; });
  return page;
}

}  // namespace rehearsal::report
