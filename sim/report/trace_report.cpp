#include "report/trace_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cost/measured_gpu.hpp"
#include "report/validate_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::size_t kMostMoved = 8;  // rows of collectives in the text

std::vector<BesideRow> by_group(const MeasuredRank& rank, bool exposed) {
  std::vector<BesideRow> rows;
  const auto measured = [&](graph::Category category) -> const traces::GroupTime* {
    for (const auto& group : rank.measured.groups)
      if (group.category == category) return &group;
    return nullptr;
  };
  for (const auto category : traces::kGroupOrder) {
    const auto& predicted = rank.predicted.groups[static_cast<std::size_t>(category)];
    const auto* group = measured(category);
    if (predicted.total == Time{} && predicted.exposed == Time{} && !group) continue;
    BesideRow row{graph::name(category), words_of(category).words, exposed ? predicted.exposed : predicted.total,
                  Time{}};
    if (group) row.measured = exposed ? group->exposed - group->waiting : group->total, row.kernels = group->kernels;
    rows.push_back(std::move(row));
  }
  for (const auto& group : rank.measured.groups)
    if (!group.category)
      rows.push_back(
          {"unknown", words_of({}).words, {}, exposed ? group.exposed - group.waiting : group.total, group.kernels});
  return rows;
}

std::string machine_of(const traces::Trace& trace) {
  if (trace.gpu.name.empty()) return "GPU not named";
  std::string text = trace.gpu.name;
  if (trace.gpu.multiprocessors) text += fmt::format(", {} multiprocessors", trace.gpu.multiprocessors);
  if (trace.gpu.memory) text += ", " + show(Bytes(trace.gpu.memory));
  return text;
}

std::string steps_of(const MeasuredRank& rank) {
  const auto& lengths = rank.measured.lengths;
  if (rank.measured.step_count == 0)
    return fmt::format("no step marked: {} from first to last kernel", show(rank.measured.step));
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  return fmt::format("{} step{} of {}", lengths.size(), lengths.size() == 1 ? "" : "s",
                     lengths.size() == 1 ? show(*least) : fmt::format("{} to {}", show(*least), show(*most)));
}

std::string moved_table(const MeasuredRank& rank, const Paint& paint, int width) {
  std::vector<std::vector<std::string>> rows{{"collective", "size", "ranks", "count", "median", "transfer"}};
  for (const auto& one : rank.measured.moved) {
    if (rows.size() > kMostMoved) {
      rows.emplace_back(rows[0].size())[0] = fmt::format("... {} more", rank.measured.moved.size() - kMostMoved);
      break;
    }
    rows.push_back({one.what.name, one.what.bytes() > Bytes{} ? show(one.what.bytes()) : "-",
                    std::to_string(one.what.size), grouped(one.count), show(one.median),
                    one.transfer > Time{} ? show(one.transfer) : "-"});
  }
  return rows.size() == 1 ? "" : "\n" + table(rows, paint, width, {true});
}

std::string samples_table(const MeasuredRank& rank, const Paint& paint, int width) {
  constexpr std::size_t kMost = 5;
  std::vector<std::vector<std::string>> rows{{"kernels with shapes", "count", "median", "rate"}};
  const auto add = [&](const traces::Sample& sample, std::string what, std::string rate) {
    rows.push_back({std::move(what), grouped(sample.count), show(sample.median), std::move(rate)});
  };
  for (const auto& s : rank.samples.gemms) {
    if (rows.size() > kMost) break;
    add(s, graph::describe(s.gemm), fmt::format("{:.1f} TFLOP/s", s.flop_rate() / 1e12));
  }
  for (const auto& s : rank.samples.attention) {
    if (rows.size() > kMost + 2) break;
    add(s, graph::describe(s.attention), "");
  }
  for (const auto& s : rank.samples.memory_bound) {
    if (rows.size() > kMost + 4) break;
    add(s, fmt::format("{} of {}", s.name, show(s.traffic)),
        fmt::format("{:.2f} TB/s", double(s.traffic.count()) / to_seconds(s.median) / 1e12));
  }
  return rows.size() == 1 ? "" : "\n" + table(rows, paint, width, {true});
}

std::string rank_text(const MeasuredRank& rank, const Showing& shown, const std::string& at, const Paint& paint,
                      int width) {
  const auto& m = rank.measured;
  const auto beside = [&](const char* list, const char* head) {
    const auto table = beside_table(shown, at + list, head);
    return table.rows.empty() ? "" : "\n" + page::text(table, paint, width);
  };
  std::string text = "\n" + paint.bold(fmt::format("Rank {}", *rank.trace->rank)) +
                     fmt::format(", {}: {}; {}", rank.trace->file, machine_of(*rank.trace), steps_of(rank));
  text += beside("/parts", "where the step goes");
  text += fmt::format("Measured: busy {}, exposed communication with waiting {}, idle {} of the step.\n",
                      show_amount(m.steps.busy() / m.steps.window, Unit::share),
                      show_amount(m.steps.exposed / m.steps.window, Unit::share),
                      show_amount(m.steps.idle() / m.steps.window, Unit::share));
  const auto launching = launching_words(m.launching);
  for (const auto& sentence : launching) text += wrap(sentence, std::size_t(std::max(20, width)), "") + "\n";
  if (m.gaps.count && launching.empty())
    text += fmt::format("Between kernels of the busiest stream: {} pauses below {}, {} in all, {} each (median).\n",
                        grouped(m.gaps.count), show(traces::kLongestPause), show(m.gaps.total), show(m.gaps.median));
  text += beside("/passes", "passes, kernels that compute") + beside("/microbatches", "micro-batches");
  text += beside("/kinds", "kernels, summed") + beside("/communication", "communication, summed") +
          beside("/exposed", "of it exposed, not waiting");
  text += moved_table(rank, paint, width) + samples_table(rank, paint, width);
  if (!m.unknown.empty()) {
    Time all;
    for (const auto& one : m.classes) all += one.time * std::int64_t(std::max<std::size_t>(1, m.step_count));
    text += fmt::format("\nKernels of no class: {} of the time of all kernels (rules: configs/kernel_classes.yaml)\n",
                        show_amount(m.unknown_time / all, Unit::share));
    for (const auto& one : m.unknown)
      text += fmt::format("  {:>7} {}\n", show_amount(one.time / all, Unit::share),
                          one.name.substr(0, std::size_t(std::max(20, width - 12))));
  }
  return text;
}

// Whose kernels most of the time of attention is of.
std::optional<models::AttentionKernel> attention_kernel_of(const traces::Trace& trace) {
  std::map<models::AttentionKernel, std::int64_t> times;
  for (const auto& kernel : trace.kernels)
    if (trace.kind(kernel) == traces::Kind::attention)
      if (const auto which = traces::attention_kernel(trace.names[kernel.name].text)) times[*which] += kernel.duration;
  const auto most =
      std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == times.end() ? std::nullopt : std::optional(most->first);
}

}  // namespace

GroupWords words_of(const std::optional<graph::Category>& category) {
  if (!category) return {"of no group of the scenario", "others", 'N'};
  switch (*category) {
    case graph::Category::data_comm:
      return {"data-parallel", "data", 'D'};
    case graph::Category::tensor_comm:
      return {"tensor-parallel", "tensor", 'T'};
    case graph::Category::context_comm:
      return {"context-parallel", "context", 'C'};
    case graph::Category::expert_comm:
      return {"experts", "experts", 'E'};
    default:
      return {"between stages", "stages", 'P'};
  }
}

page::Table beside_table(const Showing& shown, const std::string& pointer, std::string_view head) {
  const auto* rows = find(shown.json(), pointer);
  const bool kernels = rows && std::any_of(rows->items().begin(), rows->items().end(), [](const Json& row) {
                         const auto* count = find(row, "/kernels");
                         return count && !count->is_null();
                       });
  const auto words = fmt::format("words={}", head);
  std::vector<std::string_view> columns{words, "predicted_s", "measured_s", "error"};
  if (kernels) columns.emplace_back("kernels");
  auto table = shown.table(pointer, columns);
  for (auto& row : table.rows)
    for (std::size_t i = 1; i < 4; ++i)
      if (row[i].text.empty()) row[i].text = "-";
  return table;
}

std::vector<std::string> launching_words(const traces::Launching& l) {
  std::vector<std::string> words;
  if (l.kernels == 0) return words;
  if (l.idle > Time{})
    words.push_back(
        fmt::format("Before kernels the GPU is idle for {} of the step; the host launched late in {} of it: "
                    "when nothing was left to run.",
                    show(l.idle), show_amount(l.late / l.idle, Unit::share)));
  std::vector<std::string> each;
  for (const auto& [pass, where] : {std::pair{traces::Pass::forward, "in the forward pass"},
                                    std::pair{traces::Pass::backward, "in the backward pass"},
                                    std::pair{traces::Pass::optimizer, "in the optimizer"},
                                    std::pair{traces::Pass::unknown, "where the pass is not known"}})
    if (const auto& spread = l.each[traces::index(pass)]; spread.count > 0)
      each.push_back(fmt::format("{} {} (median {})", show(spread.mean), where, show(spread.median)));
  words.push_back(fmt::format(
      "A launch takes the host {} (median){}; what the profiler takes for itself is part of that.", show(l.call.median),
      each.empty() ? "" : fmt::format(". From one late launch to the next: {}", fmt::join(each, ", "))));
  if (l.pause.count)
    words.push_back(
        fmt::format("Kernels that were launched in time follow each other after {} (median; {} to {} in 80 % "
                    "of {} pauses).",
                    show(l.pause.median), show(l.pause.p10), show(l.pause.p90), grouped(l.pause.count)));
  return words;
}

std::optional<double> BesideRow::error() const {
  if (!predicted || !measured || *measured <= Time{}) return std::nullopt;
  return *predicted / *measured - 1;
}

std::vector<BesideRow> MeasuredRank::parts() const {
  const auto m = traces::measured_parts(measured);
  const auto& p = predicted.parts;
  std::vector<BesideRow> rows{
      {"step", measured.step_count > 1 ? "step, on average" : "step", p.step, m.step},
      {"computing", "computing", p.computing, m.computing},
      {"exposed_communication", measured.waiting_known ? "exposed communication" : "exposed communication, waiting too",
       p.exposed, m.exposed}};
  if (p.offload > Time{} || m.offload > Time{})
    rows.push_back({"offload", "copies, nothing else running", p.offload, m.offload});
  rows.push_back({"idle", "idle or waiting", p.idle, m.idle});
  if (measured.steps.communicating > Time{})
    rows.push_back({"waiting",
                    "  of it in communication kernels",
                    {},
                    measured.waiting_known ? std::optional(measured.steps.waiting) : std::nullopt});
  return rows;
}

std::vector<BesideRow> MeasuredRank::kinds() const {
  std::vector<BesideRow> rows;
  const auto times = measured.by_kind();
  for (const auto& row : traces::kKindTable) {
    const Time p = predicted.by_kind[traces::index(row.kind)], m = times[traces::index(row.kind)];
    if (p > Time{} || m > Time{})
      rows.push_back({std::string(row.name), std::string(row.words), p, m, measured.kernels(row.kind)});
  }
  return rows;
}

std::vector<BesideRow> MeasuredRank::passes() const {
  using traces::Pass;
  std::vector<BesideRow> rows;
  if (measured.passes.empty()) return rows;
  const auto add = [&](Pass pass, const char* words, bool by_kind) {
    BesideRow all{std::string(traces::name(pass)), words, Time{}, Time{}, 0};
    std::vector<BesideRow> kinds;
    for (const auto& kind : traces::kKindTable) {
      if (!traces::computes(kind.kind)) continue;
      const Time p = predicted.by_pass[traces::index(pass)][traces::index(kind.kind)];
      BesideRow row{all.key + "." + std::string(kind.name), "  " + std::string(kind.words), p, Time{}, 0};
      for (const auto& part : measured.passes)
        if (part.pass == pass && part.kind == kind.kind) *row.measured += part.time, *row.kernels += part.kernels;
      *all.predicted += p, *all.measured += *row.measured, *all.kernels += *row.kernels;
      if (p > Time{} || *row.measured > Time{}) kinds.push_back(std::move(row));
    }
    if (*all.predicted == Time{} && *all.measured == Time{}) return;
    if (pass == Pass::unknown) all.predicted.reset();
    rows.push_back(std::move(all));
    if (by_kind && kinds.size() > 1) rows.insert(rows.end(), kinds.begin(), kinds.end());
  };
  add(Pass::forward, "forward", true), add(Pass::backward, "backward, recomputation too", true);
  add(Pass::optimizer, "optimizer", false), add(Pass::unknown, "the trace does not tell", false);
  return rows;
}

std::vector<BesideRow> MeasuredRank::microbatches() const {
  std::vector<BesideRow> rows;
  if (measured.microbatches.empty()) return rows;
  auto all = measured.microbatches;
  for (const auto& [number, times] : predicted.microbatches) all.try_emplace(number);
  for (const auto& [number, times] : all) {
    const auto there = predicted.microbatches.find(number);
    for (const auto pass : {traces::Pass::forward, traces::Pass::backward}) {
      const auto at = traces::index(pass);
      const Time p = there == predicted.microbatches.end() ? Time{} : there->second[at];
      if (p > Time{} || times[at] > Time{})
        rows.push_back({fmt::format("{}.{}", number, traces::name(pass)),
                        fmt::format("micro-batch {}, {}", number, traces::name(pass)), p, times[at]});
    }
  }
  return rows;
}

std::vector<BesideRow> MeasuredRank::totals() const { return by_group(*this, false); }
std::vector<BesideRow> MeasuredRank::shown() const { return by_group(*this, true); }

Time TraceReport::measured_step() const {
  std::vector<Time> all;
  for (const auto& rank : ranks) all.insert(all.end(), rank.measured.lengths.begin(), rank.measured.lengths.end());
  std::sort(all.begin(), all.end());
  const auto low = all[(all.size() - 1) / 2], high = all[all.size() / 2];
  return Time((low.count() + high.count()) / 2);
}

bool TraceReport::within_tolerance() const { return !tolerance || std::abs(error()) <= *tolerance; }

TraceReport beside(const Result& predicted, std::span<const traces::Trace> all, const traces::KernelClasses& classes) {
  TraceReport report{predicted, {}, {}, [](const traces::Trace& trace, const traces::LaunchedKernel& kernel) {
                       return trace.kind(kernel) == traces::Kind::message
                                  ? std::optional(graph::Category::pipeline_comm)
                                  : std::nullopt;
                     }};
  const auto& scenario = predicted.scenario();
  const auto& graph = predicted.graph();
  // Stages with layouts of their own have no mesh that holds for all of them.
  std::optional<plan::Mesh> mesh;
  if (scenario.concrete && scenario.parallelism.layouts.empty())
    mesh = plan::mesh_of(scenario.parallelism, scenario.placement);
  const auto gpus = predicted.summary.gpus;
  for (const auto& trace : all)
    if (*trace.rank < 0 || (gpus > 0 && *trace.rank >= gpus))
      throw UserError(std::vector<Diagnostic>{
          {{trace.file},
           fmt::format("is of rank {}, and the job of the scenario has ranks 0 to {}; predict the job that was traced",
                       *trace.rank, gpus - 1)}});
  for (const auto& trace : all)
    if (trace.world && gpus > 0 && *trace.world != gpus)
      throw UserError(std::vector<Diagnostic>{
          {{trace.file},
           fmt::format(
               "is of a job of {} ranks (distributedInfo), and the scenario's has {}: its groups and shards are "
               "others. Predict the job that was traced, for example with --set cluster.gpus={} and the "
               "degrees of 'parallelism' that it had",
               *trace.world, gpus, *trace.world)}});
  if (mesh) report.group_of = traces::groups_of(*mesh);
  auto analyses = traces::analyse(all, classes, report.group_of);
  for (std::size_t t = 0; t < all.size(); ++t) {
    const auto& trace = all[t];
    MeasuredRank rank;
    rank.trace = &trace, rank.measured = std::move(analyses[t]), rank.samples = traces::samples(trace);
    rank.rank = traces::rank_for(graph, *trace.rank, mesh ? &*mesh : nullptr);
    rank.predicted = traces::predicted_step(graph, predicted.timeline, rank.rank, predicted.lowered->durations);
    const auto warn = [&](const std::string& what) { report.warnings.push_back(trace.file + ": " + what); };
    for (const auto& note : trace.notes) warn(note);
    if (trace.steps.empty())
      warn("marks no steps (prof.step(), or NVTX ranges such as 'step 3'): all of it is taken as one step");
    if (trace.launches.empty())
      warn("has no calls that launch kernels (record ProfilerActivity.CPU): passes and late launches are unknown");
    else if (!trace.tells_passes())
      warn("does not tell passes: it has no nodes of autograd, and no range names a backward pass");
    if (trace.tells_passes() && rank.measured.microbatches.empty() && rank.predicted.microbatches.size() > 1)
      warn("names no micro-batches (ranges such as 'Forward 3'): passes are told, micro-batches are not");
    if (const auto& l = rank.measured.launching; l.late * 20 > rank.measured.steps.window)
      warn(
          fmt::format("the GPU waits for late launches in {} of the step, and the profiler is a part of why they are "
                      "late: steps without it are shorter (validate --log)",
                      show_amount(l.late / rank.measured.steps.window, Unit::share)));
    if (scenario.concrete)
      if (const auto kernel = attention_kernel_of(trace);
          kernel && *kernel != scenario.concrete->framework.attention_kernel)
        warn(fmt::format("computes attention by {}, and predicted is {}: framework.attention_kernel={} is what ran",
                         cost::name(*kernel), cost::name(scenario.concrete->framework.attention_kernel),
                         cost::name(*kernel)));
    if (scenario.concrete && trace.gpu.memory > 0) {
      const auto& gpu = scenario.concrete->cluster.gpu;
      const double ratio = double(trace.gpu.memory) / double(gpu.memory.count());
      if (ratio < .85 || ratio > 1.15)
        warn(fmt::format("was measured on '{}' with {}, and predicted is {} with {}", trace.gpu.name,
                         show(Bytes(trace.gpu.memory)), gpu.name, show(gpu.memory)));
    }
    report.ranks.push_back(std::move(rank));
  }
  if (scenario.abstract)
    report.warnings.push_back("the scenario gives times of whole passes, not of kernels: they count as 'other'");
  return report;
}

std::string trace_text(const TraceReport& r, const page::TextStyle& style) {
  const Paint paint{style.color};
  std::string text = paint.bold(r.predicted.summary.name) + "\n";
  text += fmt::format("predicted, beside the trace{} of {} rank{}\n\n", r.ranks.size() == 1 ? "" : "s", r.ranks.size(),
                      r.ranks.size() == 1 ? "" : "s");
  text += fmt::format("  Predicted    {}\n", paint.bold(show(r.predicted.summary.iteration)));
  text +=
      fmt::format("  Measured     {:<16} {}\n", paint.bold(show(r.measured_step())), paint.dim("median of the steps"));
  text += fmt::format("  Error        {:<16} {}\n", paint.bold(page::show_amount(r.error(), page::Unit::error)),
                      paint.dim("predicted / measured - 1; negative: the run was longer"));
  if (r.tolerance)
    text += fmt::format("  Tolerance    {:<16} {}\n", fmt::format("{:.1f} %", *r.tolerance * 100),
                        r.within_tolerance() ? "holds" : paint.bold("DOES NOT HOLD"));
  const auto json = trace_answer().json(r);
  const Showing shown(json, trace_answer().items());
  for (std::size_t i = 0; i < r.ranks.size(); ++i)
    text += rank_text(r.ranks[i], shown, fmt::format("/ranks/{}", i), paint, style.width);
  const std::vector<std::string> apart(traces::kNotToldApart.begin(), traces::kNotToldApart.end());
  text += notes("What kernel names do not tell", apart, style.width, paint);
  text += notes("Warnings", r.warnings, style.width, paint);
  text += notes("Warnings of the prediction", r.predicted.warnings, style.width, paint);
  return fit(text, style.width);
}

const Shown<TraceReport>& validate_trace_answer() {
  static const auto kAnswer = Shown<TraceReport>("A predicted step, beside traces of the run.")
                                  .also(run_answer(), [](auto& r) -> const Result& { return r.predicted; })
                                  .group("trace", trace_answer(), [](auto& r) -> const TraceReport& { return r; });
  return kAnswer;
}

std::string trace_json(const TraceReport& r) { return validate_trace_answer().json(r).dump(2) + "\n"; }

std::string trace_csv(const TraceReport& r) {
  const auto seconds_of = [](const std::optional<Time>& time) {
    return time ? fmt::format("{}", to_seconds(*time)) : "";
  };
  std::string csv = csv_line({"rank", "about", "name", "predicted_s", "measured_s", "error", "kernels"});
  for (const auto& rank : r.ranks) {
    const auto add = [&](const char* about, const std::vector<BesideRow>& rows) {
      for (const auto& row : rows) {
        const auto error = row.error();
        csv += csv_line({std::to_string(*rank.trace->rank), about, row.key, seconds_of(row.predicted),
                         seconds_of(row.measured), error ? fmt::format("{}", *error) : "",
                         row.kernels ? std::to_string(*row.kernels) : ""});
      }
    };
    add("step", rank.parts()), add("passes", rank.passes()), add("microbatches", rank.microbatches());
    add("kernels", rank.kinds()), add("communication", rank.totals()), add("exposed", rank.shown());
  }
  return csv;
}

}  // namespace rehearsal::report
