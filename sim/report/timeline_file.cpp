#include "report/timeline_file.hpp"
#include "base/program.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include "base/json.hpp"
#include "report/stream.hpp"

namespace rehearsal::report {
namespace {

template <class Value>
void column(Stream& out, const char* name, std::size_t n, Value&& value) {
  out.put(FMT_COMPILE(",\n   \"{}\": ["), name);
  for (std::size_t i = 0; i < n; i++) out.put(FMT_COMPILE("{}{}"), i ? "," : "", value(i));
  out.put(FMT_COMPILE("]"));
}

// `source`: null if only the timeline is written.
void write(const Result& run, const PredictionSource* source, const Sink& sink) {
  Stream out(sink);
  out.put(
      FMT_COMPILE(
          "{{\"format\": \"rehearsal-timeline\", \"version\": 1, \"rehearsal\": {},\n \"scenario\": {}, \"digest\": {},"
          "\n \"graph\": \"{}\", \"backend\": {}, \"engine\": {}, \"fidelity\": \"{}\",\n \"iteration_end_ps\": ["),
      quoted(program_version()), quoted(run.scenario().name), quoted(run.scenario().digest), run.graph().digest(),
      quoted(run.timeline.backend), quoted(run.timeline.engine), timeline::name(run.timeline.fidelity));
  for (std::size_t i = 0; i < run.timeline.iteration_end.size(); i++)
    out.put(FMT_COMPILE("{}{}"), i ? "," : "", run.timeline.iteration_end[i].count());
  out.put(FMT_COMPILE("],"));
  if (!run.timeline.iterations.empty())
    out.put(FMT_COMPILE("\n \"median_iteration\": {}, \"disturbances\": {},"), run.timeline.median_iteration,
            Json(run.timeline.disturbances).dump());
  if (source) {
    out.put(FMT_COMPILE("\n \"cluster\": {}, \"profile\": {}, \"profile_sha256\": {},\n \"works\": ["),
            quoted(source->cluster), quoted(source->profile), quoted(source->profile_sha256));
    for (std::size_t w = 0; w < run.graph().works().size(); w++)
      out.put(FMT_COMPILE("{}\n  {{\"work\": {}, \"duration_ps\": {}}}"), w ? "," : "",
              quoted(graph::describe(run.graph().works()[w])), run.lowered->durations[w].count());
    out.put(FMT_COMPILE("\n ],"));
  }
  out.put(FMT_COMPILE("\n \"ranks\": ["));
  for (std::size_t r = 0; r < run.graph().ranks().size(); r++) {
    const auto& rank = run.graph().ranks()[r];
    const auto& p = run.graph().program_of(rank);
    out.put(FMT_COMPILE("{}\n  {{\"rank\": {}, \"count\": {}, \"node\": {}, \"program\": {}"), r ? "," : "",
            rank.job_rank, rank.multiplicity, rank.node, quoted(p.name));
    const auto name = [](const char* text) { return fmt::format("\"{}\"", text); };
    column(out, "lane", p.size(), [&](std::size_t i) { return name(graph::name(p.lane[i])); });
    column(out, "pass", p.size(), [&](std::size_t i) { return name(graph::name(p.coordinates[i].pass)); });
    column(out, "stage", p.size(), [&](std::size_t i) { return p.coordinates[i].stage; });
    column(out, "layer", p.size(),
           [&](std::size_t i) { return p.coordinates[i].layer == graph::kNoLayer ? -1 : int(p.coordinates[i].layer); });
    column(out, "microbatch", p.size(), [&](std::size_t i) {
      const auto k = p.coordinates[i].microbatch;
      return k == graph::kNoMicrobatch ? std::int64_t{-1} : std::int64_t{k};
    });
    if (source) column(out, "work", p.size(), [&](std::size_t i) { return p.work[i].value; });
    column(out, "start_ps", p.size(), [&](std::size_t i) { return run.timeline.start[rank.first_task + i].count(); });
    column(out, "end_ps", p.size(), [&](std::size_t i) { return run.timeline.end[rank.first_task + i].count(); });
    out.put(FMT_COMPILE("}}"));
  }
  out.put(FMT_COMPILE("\n ]}}\n"));
  out.flush();
}

}  // namespace

void write_timeline(const Result& run, const Sink& sink) { write(run, nullptr, sink); }

void write_prediction(const Result& run, const PredictionSource& source, const Sink& sink) {
  write(run, &source, sink);
}

}  // namespace rehearsal::report
