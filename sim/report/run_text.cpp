#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/decimal.hpp"
#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "report/job_report.hpp"
#include "report/measured_text.hpp"
#include "report/picture.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMaxRows = 16;  // of picture and table; the middle is left out

class TextReport {
 public:
  TextReport(const Result& answer, const page::TextStyle& style, bool all_assumptions)
      : run_(answer),
        s_(answer.summary),
        style_(style),
        all_assumptions_(all_assumptions),
        paint_{style.color},
        abstract_(answer.summary.abstract) {}

  std::string write() {
    title();
    headline();
    if (run_.measured) text_ += measured_text(run_, style_.width, paint_);
    whole_run();
    breakdown();
    if (run_.faulted) faults(*run_.faulted);
    edges();
    traffic();
    picture();
    ranks();
    list("Warnings", run_.warnings);
    assumptions();
    if (!abstract_ && !run_.measured) list("Error band", std::span(&s_.error_band.basis, 1));
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    while (text_.ends_with(' ')) text_.pop_back();
    text_ += '\n';
  }

  void title() {
    const auto& sc = run_.scenario();
    line("{}", paint_.bold(sc.name));
    const auto& p = sc.parallelism;
    std::string schedule = sc.schedule.name;
    if (p.chunks > 1) schedule += fmt::format(" with {} chunks", p.chunks);
    if (!sc.concrete) {
      line("{} pipeline ranks, {} micro-batches, {}, stage times given", p.pipeline, s_.microbatches, schedule);
      return;
    }
    const auto& c = *sc.concrete;
    const double parameters = models::parameters(c.model);
    line("{}: {} layers, hidden {}, {} parameters; sequences of {} tokens", c.model.name, c.model.layers,
         c.model.hidden,
         parameters < 5e7 ? fmt::format("{:.1f} M", parameters * 1e-6) : fmt::format("{:.1f} B", parameters * 1e-9),
         sc.batch.sequence);
    line("{} GPUs ({}) in {} node{} ({}); framework {}", s_.gpus, gpus_of(c.cluster), c.cluster.nodes,
         c.cluster.nodes == 1 ? "" : "s", c.cluster.name, c.framework.name);
    if (p.layouts.empty())
      line("tensor {}{}{} x pipeline {} x data {}{}; {} sequences = {} micro-batch{} of {} per pipeline; {}", p.tensor,
           p.sequence ? " (sequence)" : "", p.context > 1 ? fmt::format(" x context {}", p.context) : "", p.pipeline,
           p.data, p.zero ? fmt::format(" (ZeRO-{})", p.zero) : "", sc.batch.global, s_.microbatches,
           s_.microbatches == 1 ? "" : "es", sc.batch.micro, schedule);
    else
      line("{}{}; {} sequences = {} micro-batch{} of {}; {}", layouts(p.layouts),
           p.zero ? fmt::format(" (ZeRO-{})", p.zero) : "", sc.batch.global, s_.microbatches,
           s_.microbatches == 1 ? "" : "es", sc.batch.micro * p.data, schedule);
    const auto& layers = run_.lowered->layers;
    if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end())
      line("layers per stage: {}", counted(layers));
  }

  // "stages: tensor 4, 2 x (tensor 2 x data 2)": adjacent equal layouts are grouped, and repetitions counted.
  static std::string layouts(const std::vector<plan::StageLayout>& all) {
    std::vector<std::string> texts;
    for (std::size_t i = 0, next = 0; i < all.size(); i = next) {
      while (next < all.size() && all[next].like(all[i])) next++;
      const auto& l = all[i];
      std::string one;
      const auto add = [&](const char* what, std::int64_t degree, const char* more = "") {
        if (degree > 1) one += fmt::format("{}{} {}{}", one.empty() ? "" : " x ", what, degree, more);
      };
      add("tensor", l.tensor, l.sequence ? " (sequence)" : ""), add("context", l.context), add("data", l.data);
      if (one.empty()) one = "1 GPU";
      if (l.sharding) one += " as " + reshard::to_text(*l.sharding);
      texts.push_back(next - i > 1 ? fmt::format("{} x ({})", next - i, one) : one);
    }
    std::size_t period = 1;
    while (texts.size() % period != 0 ||
           !std::equal(texts.begin() + std::ptrdiff_t(period), texts.end(), texts.begin()))
      ++period;
    const auto times = texts.size() / period;
    texts.resize(period);
    return times > 1 ? fmt::format("stages: {} x ({})", times, fmt::join(texts, ", "))
                     : fmt::format("stages: {}", fmt::join(texts, ", "));
  }

  // "A100 80GB", or "32 x A100 80GB, 32 x H100" in node order.
  static std::string gpus_of(const cluster::ClusterSpec& cluster) {
    std::string text = cluster.groups.empty() ? cluster.gpu.name : "";
    for (const auto& group : cluster.groups)
      text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", group.nodes * cluster.gpus_per_node,
                          (group.gpu ? *group.gpu : cluster.gpu).name);
    return text;
  }

  // "7, 6 x 8, 7": adjacent equal values are grouped.
  static std::string counted(std::span<const std::int64_t> values) {
    std::string text;
    for (std::size_t i = 0, next = 0; i < values.size(); i = next) {
      while (next < values.size() && values[next] == values[i]) next++;
      text += text.empty() ? "" : ", ";
      text += next - i > 1 ? fmt::format("{} x {}", next - i, values[i]) : std::to_string(values[i]);
    }
    return text;
  }

  void headline() {
    line("");
    const auto& band = s_.error_band;
    const double seconds = to_seconds(s_.iteration);
    std::string expected;
    if (run_.measured)
      expected = iterations_note(run_.measured->iterations);
    else if (band.low && band.high)
      expected =
          fmt::format("{}: {:.3f} .. {:.3f} s", band.comparable ? "80 % of comparable runs" : "none comparable; 80 %",
                      seconds * *band.low, seconds * *band.high);
    else if (!abstract_)
      expected = "no comparable published runs";
    line("  Iteration    {:<16} {}", paint_.bold(show(s_.iteration)), paint_.dim(expected));
    if (!run_.other_framework.empty())
      line("{}", wrap(framework_choice(), std::size_t(style_.width), std::string(15, ' ')));
    if (s_.useful)
      line("  Useful       {} for a step that trains; {:.2g} % overflow, after {}", show(s_.useful->step),
           100 * s_.useful->overflow_rate, show(s_.useful->skipped));
    if (s_.tokens_per_s)
      line("  Throughput   {:.2f} sequences/s, {} tokens/s", *s_.samples_per_s,
           grouped(static_cast<std::uint64_t>(std::llround(*s_.tokens_per_s))));
    if (s_.model_tflops_per_gpu) {
      line("  Model        {} per GPU{}", rate(*s_.model_tflops_per_gpu),
           s_.mfu ? fmt::format(", MFU {:.1f} %", *s_.mfu * 100) : "");
      line("  Executed     {} per GPU{}", rate(*s_.hardware_tflops_per_gpu),
           s_.hfu ? fmt::format(", HFU {:.1f} % (with recomputation)", *s_.hfu * 100) : "");
    }
    // "bubble" is time spent waiting for the pipeline, "idle" all waiting.
    if (abstract_)
      line("  Bubble       {:.1f} % of the iteration: the busiest rank waits for other stages", s_.bubble_rate * 100);
    else
      line("  Idle         {:.1f} % of the step: the busiest rank waits for others or for data", s_.bubble_rate * 100);
    if (s_.contention && !s_.contended.empty()) {
      const auto& worst = s_.contended.front();
      line("  Contention   {} of the iteration; worst on {}{}", show(*s_.contention), worst.name,
           worst.count > 1 ? fmt::format(" (one of {} alike)", worst.count) : "");
    }
    memory();
    if (s_.served) servers(*s_.served);
    line("  {}", paint_.dim(fmt::format("{} backend, {} engine; {} tasks that stand for {}", s_.backend, s_.engine,
                                        grouped(run_.graph().tasks()), grouped(run_.graph().represented_tasks()))));
  }

  // If no framework was given: the step with each candidate.
  std::string framework_choice() const {
    auto text = fmt::format("  Framework     none is named, {} is assumed; with", s_.framework);
    const char* separator = " ";
    bool alone = false;
    for (const auto& other : run_.other_framework) {
      text += fmt::format("{}{} {} ({:+.1f} %)", std::exchange(separator, ", "), other.framework, show(other.iteration),
                          (other.iteration / s_.iteration - 1) * 100);
      alone = alone || !other.contention;
    }
    return text + (alone ? ", before contention" : "");
  }

  void servers(const answer::Served& s) {
    line("  Servers      {}; {:.3g} steps/s, {:.3g} updates a sample", s.servers, s.steps_per_s, s.updates_per_sample);
    line("  Staleness    {:.3g} steps in the mean, {:.3g} at most; {} version{} in use", s.staleness_mean,
         s.staleness_max, s.versions, s.versions == 1 ? "" : "s");
  }

  static std::string rate(double tflops) {
    return tflops < .5 ? fmt::format("{:.1f} GFLOP/s", tflops * 1e3) : fmt::format("{:.1f} TFLOP/s", tflops);
  }

  std::string fit(bool fits) const { return fits ? "fits" : paint_.bold("DOES NOT FIT"); }

  // Beside it, the efficiency if the rank's work were fully serialised, and for each offloaded state alone
  // (ZeRO-Infinity, eq. 6).
  void efficiency(const answer::OffloadEfficiency& e) {
    std::string parts;
    const auto add = [&](const char* state, const std::optional<double>& share) {
      if (share) parts += fmt::format("{} {} {:.1f} %", parts.empty() ? "" : ",", state, *share * 100);
    };
    add("parameters", e.parameters), add("optimizer", e.optimizer), add("activations", e.activations);
    line("  Offload      {:.1f} % of the step computes; without overlap {:.1f} % (alone:{})", e.simulated * 100,
         e.together * 100, parts);
  }

  void memory() {
    if (abstract_) {
      if (s_.peak.allocated > 0)
        line("  Memory       {:g} at the peak of the worst rank{}", s_.peak.allocated,
             s_.fits ? fmt::format("; limit {:g}: {}", *s_.capacity, fit(*s_.fits)) : "");
      return;
    }
    line("  Memory       {} allocated, {} reserved, {} on the device of {}: {}", show(bytes(s_.peak.allocated)),
         show(bytes(*s_.peak.reserved)), show(bytes(*s_.peak.device)), show(bytes(*s_.capacity)),
         fit(*s_.fits_device) + (s_.narrow() ? ", narrowly" : ""));
    for (const auto& t : s_.tiers)
      line("  {:<12} {} of a node{}", t.tier == Tier::host ? "Host memory" : "NVMe", show(bytes(t.per_node)),
           t.capacity ? fmt::format(" of {}: {}", show(bytes(*t.capacity)), fit(*t.fits)) : "");
    if (s_.offload_efficiency) efficiency(*s_.offload_efficiency);
    const auto most = std::max_element(s_.ranks.begin(), s_.ranks.end(), [](const auto& a, const auto& b) {
      return a.allocator_retries < b.allocator_retries;
    });
    if (most != s_.ranks.end() && most->allocator_retries > 0)
      line("  Allocator    gives cached memory back {} times an iteration on rank {}; what that costs is not modelled",
           most->allocator_retries, most->rank);
  }

  void whole_run() {
    if (!s_.job) return;
    line("");
    line("{}", paint_.bold("The whole training"));
    text_ += job_text(*s_.job, style_.width);
  }

  void breakdown() {
    line("");
    line("{}", paint_.bold(fmt::format("Where the time goes on rank {}, which ends last", s_.breakdown_rank)));
    const double total = to_seconds(s_.iteration);
    const int bar = std::max(10, std::min(40, style_.width - 44));
    for (std::size_t c = 0; c < s_.breakdown.size(); c++) {
      const double part = to_seconds(s_.breakdown[c]);
      if (part <= 0) continue;
      const auto filled = static_cast<std::size_t>(std::lround(part / total * bar));
      line("  {:<14} {:>12} {:>6.1f} %  {}", graph::name(static_cast<graph::Category>(c)), show(s_.breakdown[c]),
           part / total * 100, std::string(filled, '#'));
    }
    if (s_.breakdown[std::size_t(graph::Category::bubble)] > Time{})
      line("  {}", paint_.dim("bubble: waits for other ranks while nothing is on its way to this one"));
  }

  // If stages have layouts of their own, or inputs from stages other than their neighbours.
  void edges() {
    constexpr std::size_t kMost = 8;
    const auto& all = run_.lowered->edges;
    if (all.empty()) return;
    line("");
    line("{}", paint_.bold("Between stages, for each micro-batch"));
    for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
      const auto& e = all[i];
      line("  {} to {}: {} value{}, {} message{} of {}{}; back {} of {}; {} alone", e.from, e.to, e.values,
           e.values == 1 ? "" : "s", e.forward.messages, e.forward.messages == 1 ? "" : "s",
           sent(double(e.forward.bytes)),
           e.forward.out_of_domains > 0 && e.forward.out_of_domains < e.forward.bytes
               ? fmt::format(" ({} over NICs)", sent(double(e.forward.out_of_domains)))
               : "",
           e.backward.messages, sent(double(e.backward.bytes)), show(e.transfer));
    }
    if (all.size() > kMost) line("  and {} more", all.size() - kMost);
  }

  void traffic() {
    const auto& t = s_.traffic;
    std::string parts;
    for (const auto& [name, part] : answer::AxisBytes::parts()) {
      const double bytes = t.per_gpu.*part;
      if (bytes <= 0) continue;
      parts += fmt::format("{} {} {}", parts.empty() ? "" : ",", name, sent(bytes));
      if (t.data_parallel && part == &answer::AxisBytes::data) parts += " " + in_theory(*t.data_parallel);
    }
    if (parts.empty()) return;
    auto text = "Traffic a GPU and step:" + parts;
    if (!t.links.empty())
      text += fmt::format("; busiest link {}: {:.{}f} % of the step", t.links[0].name, t.links[0].busy_share * 100,
                          t.links[0].busy_share < .095 ? 1 : 0);
    line("");
    line("{}", wrap(text, static_cast<std::size_t>(style_.width), "  "));
  }

  // The closed form, with its bytes if these differ: trees and switches send other amounts than rings.
  static std::string in_theory(const answer::DataParallelTraffic& data) {
    const bool same = std::abs(data.bytes / data.closed_form_bytes - 1) < .005;
    return same ? fmt::format("({})", data.form) : fmt::format("({}: {})", data.form, sent(data.closed_form_bytes));
  }

  // In the unit of links: GB = 1e9 bytes.
  static std::string sent(double bytes) { return decimal(bytes, "B", 3); }

  void faults(const answer::Faulted& f) {
    line("");
    line("{}", paint_.bold("What the faults cost"));
    const Time cost = s_.iteration - f.without;
    const auto size = [](Time time) { return show(time < Time{} ? Time{} - time : time); };
    line("  {} {} than the {} on a sound machine, {:.1f} %", size(cost), cost < Time{} ? "less" : "more",
         show(f.without), 100 * (cost / f.without));
    if (f.each.size() > 1)
      for (const auto& [fault, mended] : f.each)
        line("  {:>12} {} with this one mended: {}", size(mended), mended < Time{} ? "more" : "less", fault);
    else
      for (const auto& [fault, mended] : f.each) line("  {}", fault);
    for (const auto& w : f.waits)
      line("  {} GPU{} wait{} {} on average in {} for rank {} (node {})", w.gpus, w.gpus == 1 ? "" : "s",
           w.gpus == 1 ? "s" : "", show(w.mean),
           w.axes == Axes(Axis::pipeline) ? std::string("the pipeline") : name(w.axes) + " groups", w.awaited, w.node);
  }

  void picture() {
    const auto ranks = run_.graph().ranks();
    const auto spans = pipeline_spans(run_.graph(), run_.timeline);
    GridOptions options;
    options.width = style_.width, options.color = style_.color, options.max_rows = kMaxRows;
    options.row_name = [&](std::uint32_t row) { return fmt::format("rank {}", ranks[row].job_rank); };
    options.lower_case = kPipelineLowerCase;
    line("");
    line("{}", paint_.bold("Pipeline"));
    text_ += draw_grid(spans, static_cast<std::uint32_t>(ranks.size()), options);
  }

  void ranks() {
    line("");
    line("{}", paint_.bold(abstract_ ? std::string("Ranks")
                                     : fmt::format("Ranks (memory in {} at the peak of each)", unit().first)));
    const bool memory = s_.peak.allocated > 0;
    const bool copies = std::any_of(s_.ranks.begin(), s_.ranks.end(), [](const auto& r) { return r.count > 1; });
    std::vector<std::vector<std::string>> rows{{"rank"}};
    if (copies) rows[0].push_back("copies");
    rows[0].insert(rows[0].end(), {"stages", "busy"});
    if (memory && abstract_) rows[0].push_back("peak memory");
    if (memory && !abstract_)
      rows[0].insert(rows[0].end(), {"peak", "params", "grads", "optim", "activ", "recomp", "other"});
    const auto row = [&](const answer::RankSummary& r) {
      std::vector<std::string> cells{std::to_string(r.rank)};
      if (copies) cells.push_back(std::to_string(r.count));
      cells.insert(cells.end(), {stage_list(r.stages), show(r.busy)});
      if (memory) cells.push_back(abstract_ ? fmt::format("{:g}", r.peak.allocated) : cell(r.peak.allocated));
      if (memory && !abstract_) {
        using graph::MemoryCategory;
        Bytes rest;  // loss, communication, workspace, buffers
        for (const Bytes size : r.memory) rest += size;
        for (const auto c : {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer,
                             MemoryCategory::activations, MemoryCategory::recomputed}) {
          const Bytes size = r.memory[static_cast<std::size_t>(c)];
          cells.push_back(cell(double(size.count())));
          rest -= size;
        }
        cells.push_back(cell(double(rest.count())));
      }
      rows.push_back(std::move(cells));
    };
    const auto n = static_cast<std::uint32_t>(s_.ranks.size());
    const ElidedRows fold = elided_rows(n, kMaxRows);
    for (std::uint32_t i = 0; i < n; i++) {
      if (fold.hidden && i == fold.first) {
        rows.push_back(std::vector<std::string>(rows[0].size()));
        rows.back()[0] = "...";
        i += fold.hidden;
      }
      row(s_.ranks[i]);
    }
    // Memory categories that no rank uses are left out.
    for (std::size_t c = rows[0].size(); c-- > 0;)
      if (std::all_of(rows.begin() + 1, rows.end(), [&](const auto& r) { return r[c].empty() || r[c] == "0.00"; }))
        for (auto& r : rows) r.erase(r.begin() + std::ptrdiff_t(c));
    text_ += table(rows, paint_, style_.width);
  }

  // One unit for the whole table: small networks would show zeros in GiB.
  std::pair<const char*, double> unit() const {
    if (s_.peak.allocated < 1e5) return {"KiB", 0x1p10};
    return s_.peak.allocated < 1e8 ? std::pair{"MiB", 0x1p20} : std::pair{"GiB", 0x1p30};
  }
  std::string cell(double size) const { return fmt::format("{:.2f}", size / unit().second); }

  static std::string stage_list(const std::vector<std::uint32_t>& stages) {
    std::string list;
    for (const auto s : stages) list += (list.empty() ? "" : ",") + std::to_string(s);
    return list.size() > 10 ? list.substr(0, 8) + ".." : list;
  }

  // Limited to ten lines; the assumptions with the largest effect come first.
  void assumptions() {
    constexpr std::ptrdiff_t kLines = 10;
    const auto text = notes("Assumptions", run_.assumptions, style_.width, paint_);
    std::size_t shown = run_.assumptions.size();
    const auto lines = [&](std::size_t count) {
      const auto some = notes("", std::span(run_.assumptions).first(count), style_.width, paint_);
      return std::count(some.begin(), some.end(), '\n') - 2;  // minus a blank line and the heading
    };
    while (!all_assumptions_ && shown > 0 && lines(shown) > kLines - (shown < run_.assumptions.size())) shown--;
    if (shown == run_.assumptions.size()) {
      text_ += text;
      return;
    }
    text_ += notes("Assumptions, those that move the answer most", std::span(run_.assumptions).first(shown),
                   style_.width, paint_);
    line("  - {} more: --assumptions lists them", run_.assumptions.size() - shown);
  }

  void list(const char* heading, std::span<const std::string> entries) {
    text_ += notes(heading, entries, style_.width, paint_);
  }

  const Result& run_;
  const answer::Summary& s_;
  page::TextStyle style_;
  bool all_assumptions_;
  Paint paint_;
  bool abstract_;
  std::string text_;
};

}  // namespace

std::string run_text(const Result& answer, const page::TextStyle& style, bool all_assumptions) {
  return fit(TextReport(answer, style, all_assumptions).write(), style.width);
}

}  // namespace rehearsal::report
