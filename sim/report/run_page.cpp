// `run` and `measure` as a page; their text is that page without drawings, in a terminal's width.
#include "report/run_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/decimal.hpp"
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
#include "report/picture.hpp"
#include "report/question_words.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostGroupedGpus = 256;  // larger jobs show their groups only in `rehearse groups`
constexpr std::uint32_t kMaxRows = 16;           // of a text's picture and of tables; the middle is left out

// In the unit of links: GB = 1e9 bytes.
std::string sent(double bytes) { return decimal(bytes, "B", 3); }

class RunPage {
 public:
  // `asked`: null for a text, which is then in this style.
  RunPage(const Result& answer, const Asked* asked, const TextStyle& style, bool all_assumptions)
      : run_(answer), s_(answer.summary), asked_(asked), style_(style), all_assumptions_(all_assumptions) {
    page_.title = s_.name;
    page_.subtitle = question_words(answer);
    page_.made_by = fmt::format("rehearse {}, {}, {}", program_version(), s_.backend, timeline::name(s_.fidelity));
  }

  Page write() {
    section("The answer");
    headline();
    if (run_.measured) {
      if (!run_.timeline.disturbances.empty()) add({kDisturbed, Entries{run_.timeline.disturbances}});
      if (run_.measured->verification) verification(*run_.measured->verification);
    }
    if (s_.job) add({"The whole training", Verbatim{job_text(*s_.job, asked_ ? 100 : style_.width)}});
    if (asked_) entries("Warnings", run_.warnings);
    section("Where the time goes");
    time();
    if (run_.faulted) faults(*run_.faulted);
    section("Communication");
    edges();
    traffic();
    section("Who works when");
    who_works_when();
    section(s_.peak.allocated > 0 ? "Memory" : "Each rank");
    memory();
    section("Who is in which group");
    if (asked_) groups();
    section("What decides the end");
    if (asked_ && !s_.critical_path.empty()) {
      auto table = shown_.table("/critical_path", {"what", "rank", "start_s", "end_s", "tasks"});
      const auto pieces = table.rows.size();
      add({fmt::format("{} pieces, from the first task to the last", pieces), std::move(table), "", "", pieces > 12});
    }
    section("What was assumed");
    if (!asked_) entries("Warnings", run_.warnings);
    assumptions();
    if (!run_.measured && !s_.abstract)
      entries(s_.error_band.low ? "Error band: 80 % of the published runs named here were measured within it"
                                : "Error band",
              {s_.error_band.basis});
    std::erase_if(page_.sections, [](const Section& section) { return section.blocks.empty(); });
    if (asked_) page_.sections.push_back(scenario_section(*asked_));
    return std::move(page_);
  }

 private:
  void section(const char* title) { page_.sections.push_back({title, {}}); }
  void add(Block block) { page_.sections.back().blocks.push_back(std::move(block)); }
  void entries(const char* title, const std::vector<std::string>& all) {
    if (!all.empty()) add({title, Entries{all}});
  }

  Value value(const std::string& pointer, std::string_view words) const { return shown_.value(pointer, words); }
  // Without a value there is nothing to say.
  void say(const char* name, Value value, std::vector<Value> beside = {}, std::string more = "") {
    if (!value.text.empty()) facts_.push_back({name, std::move(value), std::move(more), std::move(beside)});
  }

  void headline() {
    std::string expected;
    if (run_.measured)
      expected = iterations_note(run_.measured->iterations);
    else if (s_.error_band.low && s_.error_band.high)
      expected =
          fmt::format("80 % band {:.3f} .. {:.3f} s{}", find(json_, "/error_band/low_s")->real(),
                      find(json_, "/error_band/high_s")->real(), s_.error_band.comparable ? "" : ", no comparable run");
    else if (!s_.abstract)
      expected = "no comparable published runs";
    auto iteration = shown_.value("/iteration_s");
    iteration.strong = true;
    say("Iteration", iteration, {}, expected);
    if (!run_.other_framework.empty()) frameworks();
    if (s_.useful)
      say("Useful", value("/useful/step_s", "{} for a step that trains"),
          {{fmt::format("; {:.2g} % overflow", 100 * s_.useful->overflow_rate), s_.useful->overflow_rate,
            "/useful/overflow_rate"},
           value("/useful/skipped_step_s", "after {}")});
    say("Throughput", value("/samples_per_s", "{:.2f} sequences/s"),
        {s_.tokens_per_s ? Value{grouped(std::uint64_t(std::llround(*s_.tokens_per_s))) + " tokens/s", s_.tokens_per_s,
                                 "/tokens_per_s"}
                         : Value{}});
    say("Model", tflops("/model_tflops_per_gpu"), {value("/mfu", "MFU {}")});
    say("Executed", tflops("/hardware_tflops_per_gpu"), {value("/hfu", "HFU {} (with recomputation)")});
    // "bubble" is time spent waiting for the pipeline, "idle" all waiting.
    say(s_.abstract ? "Bubble" : "Idle", shown_.value("/bubble_rate"),
        {{s_.abstract ? " of the iteration: the busiest rank waits for other stages"
                      : " of the step: the busiest rank waits for others or for data"}});
    if (!s_.contended.empty())
      say("Contention", value("/contention_s", "{} of the iteration"),
          {value("/contention/0/resource", "; worst on {}"),
           s_.contended.front().count > 1 ? value("/contention/0/count", " (one of {} alike)") : Value{}});
    memory_facts();
    say("Servers", value("/servers/count", "{}"),
        {value("/servers/steps_per_s", "; {:.3g} steps/s"),
         value("/servers/updates_per_sample", "{:.3g} updates a sample")});
    say("Staleness", value("/servers/staleness/mean", "{:.3g} steps on average"),
        {value("/servers/staleness/max", "{:.3g} at most"),
         value("/servers/versions",
               s_.served && s_.served->versions == 1 ? "; {} version in use" : "; {} versions in use")});
    if (run_.measured) measured_facts(run_, facts_);
    add({"", Facts{std::move(facts_)}, "",
         fmt::format("{} backend, {} engine; {} tasks stand for {}", s_.backend, s_.engine,
                     grouped(run_.graph().tasks()), grouped(run_.graph().represented_tasks()))});
  }

  Value tflops(const char* pointer) const {
    auto rate = value(pointer, "{:.1f} TFLOP/s per GPU");
    if (rate.number && *rate.number < .5) rate.text = fmt::format("{:.1f} GFLOP/s per GPU", *rate.number * 1e3);
    return rate;
  }

  // If no framework was given: the step with each candidate.
  void frameworks() {
    std::vector<Value> with;
    bool alone = false;
    for (std::size_t i = 0; i < run_.other_framework.size(); i++) {
      const auto& other = run_.other_framework[i];
      with.push_back({(i ? "" : "; with ") + other.framework});
      with.push_back(value(fmt::format("/other_software/{}/iteration_s", i), " {}"));
      with.push_back({fmt::format(" ({:+.1f} %)", (other.iteration / s_.iteration - 1) * 100)});
      alone = alone || !other.contention;
    }
    if (alone) with.push_back({"before contention"});
    say("Framework", {fmt::format("none is named, {} is assumed", s_.framework)}, std::move(with));
  }

  Value fit(std::optional<bool> fits, bool narrow = false) const {
    if (!fits) return {};
    return {*fits ? narrow ? ": fits, narrowly" : ": fits" : ": DOES NOT FIT", {}, "", !*fits};
  }

  void memory_facts() {
    const std::string peak = "/peak_memory_bytes/";
    if (s_.abstract) {
      if (s_.peak.allocated > 0)
        say("Memory", value(peak + "allocated", "{:g} at the peak of the worst rank"),
            {s_.fits ? Value{fmt::format("; limit {:g}", *s_.capacity)} : Value{}, fit(s_.fits)});
      return;
    }
    say("Memory", value(peak + "allocated", "{} allocated"),
        {value(peak + "reserved", "{} reserved"), value(peak + "device", "{} on the device"),
         value("/tiers/device/capacity_bytes", " of {}"), fit(s_.fits_device, s_.narrow())});
    say("States", value("/model_states_bytes", "{}"), {}, "parameters, gradients, optimizer states of a GPU");
    for (const auto& t : s_.tiers) {
      const auto tier = fmt::format("/tiers/{}/", name(t.tier));
      say(t.tier == Tier::host ? "Host memory" : "NVMe", value(tier + "peak_bytes", "{} of a node"),
          {value(tier + "capacity_bytes", " of {}"), fit(t.fits)});
    }
    // Without overlap: if the rank's work were fully serialised, and for each offloaded state alone (ZeRO-Infinity, eq.
    // 6).
    const std::string form = "/offload_efficiency/closed_form/";
    std::vector<Value> alone{value(form + "together", "; without overlap {} (alone:")};
    for (const char* state : {"parameters", "optimizer", "activations"})
      if (auto share = value(form + state, fmt::format("{} {{}}", state)); !share.text.empty()) {
        if (alone.size() == 1) share.text.insert(0, " ");
        alone.push_back(std::move(share));
      }
    alone.push_back({")"});
    say("Offload", value("/offload_efficiency/simulated", "{} of the step computes"), std::move(alone));
    const auto most = std::max_element(s_.ranks.begin(), s_.ranks.end(), [](const auto& a, const auto& b) {
      return a.allocator_retries < b.allocator_retries;
    });
    if (most != s_.ranks.end() && most->allocator_retries > 0)
      say("Allocator", {fmt::format("gives cached memory back {} times an iteration on rank {}; what that costs is not "
                                    "modelled",
                                    most->allocator_retries, most->rank)});
  }

  void verification(const answer::Verification& v) {
    Table table{{"step", "loss", "serial", "gradient norm", "serial"}, {}, {}};
    for (std::size_t i = 0; i < std::max(v.loss.size(), v.reference_loss.size()); i++) {
      auto& row = table.rows.emplace_back();
      row.push_back({std::to_string(i + 1)});
      for (const char* of : {"loss", "reference_loss", "gradient_norm", "reference_gradient_norm"}) {
        row.push_back(value(fmt::format("/verify/{}/{}", of, i), "{:.8g}"));
        if (row.back().text.empty()) row.back().text = "-";
      }
    }
    elide(table, 12);
    auto note = fmt::format("weights differ by at most {:.2g} relative ({}); allowed are {:g}",
                            v.max_relative_difference, v.worst_tensor, v.tolerance);
    if (v.ill_conditioned > 0)
      note += fmt::format(
          "; of them {:.2g} are more than rounded gradients explain; {} of {} elements have gradients so near zero "
          "that "
          "AdamW turns their rounding into steps: these are judged by their gradients, which differ by {:.2g}",
          v.max_unexplained_difference, v.ill_conditioned, v.elements, v.max_gathered_difference);
    add({v.ok ? "Verified: trains what one rank alone trains" : "NOT VERIFIED", std::move(table), "", std::move(note)});
    entries("What differs", v.failures);
  }

  void time() {
    if (asked_) {
      auto all = breakdown_bars(run_);
      auto note = meanings(all);
      add({"Each rank, by what it does or waits for", std::move(all), "breakdown", std::move(note)});
    }
    Bars bars{.parts = {"time"}, .unit = Unit::seconds, .json = "/breakdown_s/{name}"};
    bars.limit = to_seconds(s_.iteration), bars.limit_name = "iteration";
    for (const auto& [name, part] : find(json_, "/breakdown_s")->members())
      if (part.real() > 0)
        bars.rows.push_back({name, {part.real()}, show_amount(part.real() / *bars.limit, Unit::share)});
    std::string waits;
    for (const auto category : {graph::Category::bubble, graph::Category::host, graph::Category::contention})
      if (s_.breakdown[std::size_t(category)] > Time{})
        waits += fmt::format("{}{}: {}", waits.empty() ? "" : "; ", graph::name(category), meaning(category));
    add({fmt::format("Where the time goes on rank {}, which ends last", s_.breakdown_rank), std::move(bars), "",
         waits});
  }

  void faults(const answer::Faulted& f) {
    const Time cost = s_.iteration - f.without;
    const auto size = [](Time time) { return show(time < Time{} ? Time{} - time : time); };
    std::vector<std::string> said{fmt::format("{} {} than the {} on a sound machine, {:.1f} %", size(cost),
                                              cost < Time{} ? "less" : "more", show(f.without),
                                              100 * (cost / f.without))};
    for (const auto& [fault, mended] : f.each)
      said.push_back(f.each.size() == 1 ? fault
                                        : fmt::format("{:>12} {} with this one mended: {}", size(mended),
                                                      mended < Time{} ? "more" : "less", fault));
    for (const auto& w : f.waits)
      said.push_back(fmt::format(
          "{} GPU{} {} on average in {} for rank {} (node {})", w.gpus, w.gpus == 1 ? " waits" : "s wait", show(w.mean),
          w.axes == Axes(Axis::pipeline) ? std::string("the pipeline") : name(w.axes) + " groups", w.awaited, w.node));
    lines("What the faults cost", said);
  }

  // Lines that belong together, and are no sentences.
  void lines(const char* title, const std::vector<std::string>& all) {
    std::string text;
    for (const auto& line : all) text += "  " + line + "\n";
    if (!all.empty()) add({title, Verbatim{std::move(text)}});
  }

  // If stages have layouts of their own, or inputs from stages other than their neighbours.
  void edges() {
    constexpr std::size_t kMost = 8;
    const auto& all = run_.lowered->edges;
    std::vector<std::string> said;
    const auto counted = [](auto n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); };
    for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
      const auto& e = all[i];
      const bool some_over_nics = e.forward.out_of_domains > 0 && e.forward.out_of_domains < e.forward.bytes;
      said.push_back(
          fmt::format("{} to {}: {}, {} of {}{}; back {} of {}; {} alone", e.from, e.to, counted(e.values, "value"),
                      counted(e.forward.messages, "message"), sent(double(e.forward.bytes)),
                      some_over_nics ? fmt::format(" ({} over NICs)", sent(double(e.forward.out_of_domains))) : "",
                      e.backward.messages, sent(double(e.backward.bytes)), show(e.transfer)));
    }
    if (all.size() > kMost) said.push_back(fmt::format("and {} more", all.size() - kMost));
    lines("Between stages, for each micro-batch", said);
  }

  void traffic() {
    const auto& t = s_.traffic;
    Bars bars{.parts = {"bytes"}, .unit = Unit::bytes, .json = "/traffic/per_gpu_bytes/{name}"};
    std::string text, all;
    for (const auto& [name, part] : answer::AxisBytes::parts()) {
      const double bytes = t.per_gpu.*part;
      if (bytes <= 0) continue;
      bars.rows.push_back({name, {bytes}});
      all += fmt::format("{} {} {}", all.empty() ? "All GPUs send:" : ",", name,
                         shown_.value(fmt::format("/traffic/all_gpus_bytes/{}", name)).text);
      text += fmt::format("{} {} {}", text.empty() ? "" : ",", name, sent(bytes));
      if (t.data_parallel && part == &answer::AxisBytes::data) text += " " + in_theory(*t.data_parallel);
    }
    if (text.empty()) return;
    if (!t.links.empty())
      text += fmt::format("; busiest link {}: {:.{}f} % of the step", t.links[0].name, t.links[0].busy_share * 100,
                          t.links[0].busy_share < .095 ? 1 : 0);
    add({"", Paragraph{"Traffic per GPU and step:" + text}});
    if (!asked_) return;
    add({"What a GPU sends in a step", std::move(bars), "traffic", std::move(all)});
    if (!t.links.empty()) add({"", shown_.table("/traffic/links", {"name", "count", "bytes", "busy_share"})});
    if (run_.measured && !run_.measured->links.empty())
      add({"What passed the links in a step",
           shown_.table("/link_bytes", {"name", "predicted_bytes", "counted_bytes", "counted_more"})});
  }

  // The closed form, with its bytes if these differ: trees and switches send other amounts than rings.
  std::string in_theory(const answer::DataParallelTraffic& data) const {
    if (asked_)
      return fmt::format("({} = {}, of Psi = {} parameters)", data.form, sent(data.closed_form_bytes),
                         grouped(std::uint64_t(data.parameters)));
    const bool same = std::abs(data.bytes / data.closed_form_bytes - 1) < .005;
    return same ? fmt::format("({})", data.form) : fmt::format("({}: {})", data.form, sent(data.closed_form_bytes));
  }

  void who_works_when() {
    if (asked_) return add(timed(run_));
    const auto ranks = run_.graph().ranks();
    GridOptions options;
    options.width = style_.width, options.color = style_.color, options.max_rows = kMaxRows;
    options.row_name = [&](std::uint32_t row) { return fmt::format("rank {}", ranks[row].job_rank); };
    options.lower_case = kPipelineLowerCase;
    add({"Pipeline",
         Verbatim{draw_grid(pipeline_spans(run_.graph(), run_.timeline), std::uint32_t(ranks.size()), options)}});
  }

  void memory() {
    const bool memory = s_.peak.allocated > 0;
    if (asked_ && memory) {
      add({"", Picture{memory_svg(run_), memory_svg(run_, kNarrow)}, "memory"});
      add({"Each rank at its peak, by what it holds", memory_bars(), "memory-by-rank"});
    }
    std::vector<std::string_view> columns{"rank", "count", "stages", "busy_s"};
    if (memory)
      columns.push_back(s_.abstract ? "peak_memory_bytes/allocated=peak memory" : "peak_memory_bytes/allocated=peak");
    if (memory && !s_.abstract)
      columns.insert(columns.end(),
                     {"memory_bytes/parameters=params", "memory_bytes/gradients=grads", "memory_bytes/optimizer=optim",
                      "memory_bytes/activations=activ", "memory_bytes/recomputed=recomp"});
    auto table = shown_.table("/ranks", columns);
    table.words = {};
    // One unit for the whole table: small networks would show zeros in GiB.
    const double most = s_.peak.allocated;
    const auto [unit, size] = most < 1e5   ? std::pair{"KiB", 0x1p10}
                              : most < 1e8 ? std::pair{"MiB", 0x1p20}
                                           : std::pair{"GiB", 0x1p30};
    const bool detailed = memory && !s_.abstract;
    if (detailed) table.head.emplace_back("other");
    for (std::size_t i = 0; i < table.rows.size(); i++) {
      auto& row = table.rows[i];
      row[0].text = std::to_string(s_.ranks[i].rank);  // a name, so without commas
      if (row[2].text.size() > 10) row[2].text = row[2].text.substr(0, 8) + "..";
      if (!detailed) {
        if (memory) row[4].text = fmt::format("{:g}", *row[4].number);
        continue;
      }
      double rest = 0;  // loss, communication, workspace, buffers
      for (const Bytes held : s_.ranks[i].memory) rest += double(held.count());
      for (std::size_t c = 5; c < row.size(); c++) rest -= row[c].number.value_or(0);
      row.push_back({"", rest});
      for (std::size_t c = 4; c < row.size(); c++)
        row[c].text = fmt::format("{:.2f}", row[c].number.value_or(0) / size);
    }
    // Categories that no rank uses are left out, and copies where there are none.
    for (std::size_t c = table.head.size(); c-- > 0;)
      if (std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
            return c == 1 ? row[1].text == "1" : row[c].text.empty() || row[c].text == "0.00";
          })) {
        table.head.erase(table.head.begin() + std::ptrdiff_t(c));
        for (auto& row : table.rows) row.erase(row.begin() + std::ptrdiff_t(c));
      }
    elide(table, kMaxRows);
    add({s_.abstract ? "Ranks" : fmt::format("Ranks (memory in {} at the peak of each)", unit), std::move(table)});
    if (!asked_ || s_.tiers.empty()) return;
    auto tiers = shown_.table("/tiers", {"peak_per_gpu_bytes", "peak_bytes", "capacity_bytes", "fits"}, "tier");
    tiers.rows.erase(tiers.rows.begin());  // the device
    add({"Beyond the device", std::move(tiers)});
  }

  Bars memory_bars() const {
    Bars bars{.colors = memory_colors(),
              .unit = s_.abstract ? Unit::none : Unit::bytes,
              .limit = s_.capacity,
              .limit_name = "capacity",
              .json = "/ranks/{row}/memory_bytes/{part}"};
    for (std::size_t c = 0; c < graph::kMemoryCategories; ++c)
      bars.parts.push_back(graph::name(static_cast<graph::MemoryCategory>(c)));
    for (const auto& rank : s_.ranks) {
      Bars::Row row{rank_name(rank.rank, rank.count), {}};
      for (const Bytes held : rank.memory)
        row.values.push_back(double(held.count()) / (s_.abstract ? scenario::kMemoryUnit : 1));
      bars.rows.push_back(std::move(row));
    }
    return bars;
  }

  void groups() {
    const auto& sc = run_.scenario();
    if (!sc.concrete || !sc.parallelism.layouts.empty()) return;
    GroupMap map{sc.name, plan::mesh_of(sc.parallelism, sc.placement),
                 static_cast<std::uint32_t>(sc.concrete->cluster.gpus_per_node)};
    if (map.mesh.ranks() < 2) return;
    Table table{{"axis", "groups"}, {}, {true, true}};
    for (const Axis axis : kShownAxes)
      if (is_shown(map.mesh, axis)) table.rows.push_back({{name(axis)}, {group_words(map, axis)}});
    add({"", std::move(table)});
    if (map.mesh.ranks() <= kMostGroupedGpus)
      add({"", Picture{to_svg(map), to_svg(map, kNarrow)}, "groups"});
    else
      add({"", Paragraph{fmt::format("More than {} GPUs are not drawn here; `rehearse groups` draws up to 1,024 and "
                                     "lists all.",
                                     kMostGroupedGpus)}});
  }

  // A text has ten lines of them; the assumptions with the largest effect come first.
  void assumptions() {
    constexpr std::ptrdiff_t kLines = 10;
    const auto& all = run_.assumptions;
    std::size_t shown = all.size();
    const auto lines = [&](std::size_t count) {
      const auto some = notes("", std::span(all).first(count), style_.width, {});
      return std::count(some.begin(), some.end(), '\n') - 2;  // minus a blank line and the heading
    };
    while (!asked_ && !all_assumptions_ && shown > 0 && lines(shown) > kLines - (shown < all.size())) shown--;
    if (asked_ && !all.empty())
      return add({"Assumptions", Entries{all}, "",
                  all.size() == 1 ? ""
                                  : "Numbers are sorted by how much 10 % of each moves the step; `rehearse explain` "
                                    "says by how much."});
    if (shown == all.size()) return entries("Assumptions", all);
    std::vector<std::string> some(all.begin(), all.begin() + std::ptrdiff_t(shown));
    some.push_back(fmt::format("{} more: --assumptions lists them", all.size() - shown));
    entries("Assumptions, those that move the answer most", some);
  }

  const Result& run_;
  const answer::Summary& s_;
  const Asked* const asked_;
  const TextStyle style_;
  const bool all_assumptions_;
  const Json json_ = to_json(run_);
  const Showing shown_{json_, run_answer().items()};
  std::vector<Fact> facts_;
  Page page_;
};

}  // namespace

Section scenario_section(const Asked& asked) {
  Section section{"The question", {}};
  section.blocks.push_back({"Asked with", Verbatim{asked.command + "\n"}});
  if (!asked.scenario.empty()) section.blocks.push_back({"The scenario", Verbatim{asked.scenario}});
  return section;
}

std::string run_text(const Result& answer, const TextStyle& style, bool all_assumptions) {
  return text(RunPage(answer, nullptr, style, all_assumptions).write(), style);
}

Page run_page(const Result& answer, const Asked& asked, bool traced) {
  auto page = RunPage(answer, &asked, {}, true).write();
  if (traced && answer.graph().tasks() <= kMostTraced)
    write_trace(answer, [&](std::string_view piece) { page.trace += piece; });
  return page;
}

}  // namespace rehearsal::report
