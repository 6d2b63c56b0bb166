#include "report/perfetto.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace rehearsal::report {
namespace {

using graph::Lane;

// Collects text and hands it on in large pieces.
class Stream {
 public:
  explicit Stream(const Sink& sink) : sink_(sink) { buffer_.reserve(kPiece + 4096); }
  template <class Format, class... Args>
  void put(const Format& format, const Args&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, args...);
    if (buffer_.size() >= kPiece) flush();
  }
  void flush() {
    sink_({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  const Sink& sink_;
  fmt::memory_buffer buffer_;
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Trace times are microseconds; three decimals would lose picoseconds, six keep them.
struct Micros {
  std::int64_t whole, fraction;
  explicit Micros(Time t) : whole(t.count() / 1'000'000), fraction(t.count() % 1'000'000) {}
};

const char* color(graph::Pass pass) {  // names of the trace viewer's palette
  switch (pass) {
    case graph::Pass::forward:
      return "thread_state_running";
    case graph::Pass::recompute:
      return "thread_state_iowait";
    case graph::Pass::input_gradient:
      return "rail_response";
    case graph::Pass::weight_gradient:
      return "good";
    case graph::Pass::backward:
      return "rail_animation";
    default:
      return "generic_work";
  }
}

class TraceWriter {
 public:
  TraceWriter(const Run& run, const Sink& sink) : run_(run), out_(sink) {
    for (const auto& work : run.graph.works()) works_.push_back(quoted(graph::describe(work)));
    // Work under the tail of the iteration before has negative times; a trace begins at 0.
    for (const Time start : run.timeline.start) origin_ = std::min(origin_, start);
  }

  void write() {
    out_.put(
        FMT_COMPILE("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"scenario\":{},\"backend\":{}}},\"traceEvents\":["),
        quoted(run_.scenario.name), quoted(run_.timeline.backend));
    for (std::size_t r = 0; r < run_.graph.ranks().size(); r++) rank(RankId(r));
    out_.put(FMT_COMPILE("\n]}}\n"));
    out_.flush();
  }

 private:
  const char* separator() {
    const char* s = first_ ? "\n" : ",\n";
    first_ = false;
    return s;
  }

  void rank(RankId id) {
    const auto& rank = run_.graph.ranks()[id.index()];
    const auto& program = run_.graph.program_of(rank);
    const auto pid = rank.job_rank;
    const std::string of = rank.multiplicity > 1 ? fmt::format(" (stands for {} ranks)", rank.multiplicity) : "";
    out_.put(FMT_COMPILE("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}"),
             separator(), pid, quoted(fmt::format("rank {}, {}{}", pid, program.name, of)));
    out_.put(
        FMT_COMPILE("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}}}"),
        separator(), pid, pid);
    for (std::size_t lane = 0; lane < graph::kLanes; lane++)
      out_.put(
          FMT_COMPILE("{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}"),
          separator(), pid, lane, graph::name(static_cast<Lane>(lane)));
    for (std::size_t i = 0; i < program.size(); i++) task(id, rank, program, i);
    for (const auto& point : timeline::memory_curve(run_.graph, run_.timeline, id)) {
      const Micros t(point.when - origin_);
      out_.put(
          FMT_COMPILE("{}{{\"ph\":\"C\",\"pid\":{},\"name\":\"memory\",\"ts\":{}.{:06},\"args\":{{\"bytes\":{}}}}}"),
          separator(), pid, t.whole, t.fraction, point.level.count());
    }
  }

  void task(RankId id, const graph::Rank& rank, const graph::Program& program, std::size_t local) {
    const auto task = rank.first_task + local;
    const Time start = run_.timeline.start[task], end = run_.timeline.end[task];
    const auto lane = program.lane[local];
    const auto& at = program.coordinates[local];
    const Micros from(start - origin_), length(end - start);
    const auto pid = rank.job_rank, tid = static_cast<std::uint32_t>(lane);
    if (lane != Lane::receive) {
      out_.put(FMT_COMPILE("{}{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:06},\"dur\":{}.{:06},\"name\":"),
               separator(), pid, tid, from.whole, from.fraction, length.whole, length.fraction);
      if (at.microbatch == graph::kNoMicrobatch)
        out_.put(FMT_COMPILE("\"{}\""), graph::name(at.pass));
      else
        out_.put(FMT_COMPILE("\"{}{} {}\""), lane == Lane::send ? "send " : "", graph::name(at.pass), at.microbatch);
      out_.put(FMT_COMPILE(",\"cname\":\"{}\",\"args\":{{\"stage\":{},\"layer\":{},\"task\":{},\"work\":{}}}}}"),
               color(at.pass), at.stage, at.layer == graph::kNoLayer ? -1 : int(at.layer), task,
               works_[program.work[local].index()]);
    }
    // An arrow from a message to the task that receives it.
    const bool is_send = program.endpoint[local] != graph::kNoEndpoint &&
                         program.endpoints[program.endpoint[local]] == graph::EndpointKind::send;
    if (is_send || lane == Lane::receive) {
      const auto arrow = is_send ? task : run_.graph.partner(id, LocalTask(local)).value;
      const Micros t((is_send ? start : end) - origin_);
      out_.put(
          FMT_COMPILE("{}{{\"ph\":\"{}\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{}.{:06},\"name\":\"message\",\"cat\":"
                      "\"message\"{}}}"),
          separator(), is_send ? "s" : "f", arrow, pid, is_send ? tid : static_cast<std::uint32_t>(Lane::compute),
          t.whole, t.fraction, is_send ? "" : ",\"bp\":\"e\"");
    }
  }

  const Run& run_;
  Stream out_;
  std::vector<std::string> works_;  // described once each
  Time origin_;
  bool first_ = true;
};

template <class Value>
void column(Stream& out, const char* name, std::size_t n, Value&& value) {
  out.put(FMT_COMPILE(",\n   \"{}\": ["), name);
  for (std::size_t i = 0; i < n; i++) out.put(FMT_COMPILE("{}{}"), i ? "," : "", value(i));
  out.put(FMT_COMPILE("]"));
}

}  // namespace

void write_trace(const Run& run, const Sink& sink) { TraceWriter(run, sink).write(); }

void write_timeline(const Run& run, const std::string& version, const Sink& sink) {
  Stream out(sink);
  out.put(
      FMT_COMPILE(
          "{{\"format\": \"rehearsal-timeline\", \"version\": 1, \"rehearsal\": {},\n \"scenario\": {}, \"digest\": {},"
          "\n \"graph\": \"{}\", \"backend\": {}, \"engine\": {}, \"fidelity\": \"{}\",\n \"iteration_end_ps\": ["),
      quoted(version), quoted(run.scenario.name), quoted(run.scenario.digest), run.graph.digest(),
      quoted(run.timeline.backend), quoted(run.timeline.engine), timeline::name(run.timeline.fidelity));
  for (std::size_t i = 0; i < run.timeline.iteration_end.size(); i++)
    out.put(FMT_COMPILE("{}{}"), i ? "," : "", run.timeline.iteration_end[i].count());
  out.put(FMT_COMPILE("],\n \"ranks\": ["));
  for (std::size_t r = 0; r < run.graph.ranks().size(); r++) {
    const auto& rank = run.graph.ranks()[r];
    const auto& p = run.graph.program_of(rank);
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
    column(out, "start_ps", p.size(), [&](std::size_t i) { return run.timeline.start[rank.first_task + i].count(); });
    column(out, "end_ps", p.size(), [&](std::size_t i) { return run.timeline.end[rank.first_task + i].count(); });
    out.put(FMT_COMPILE("}}"));
  }
  out.put(FMT_COMPILE("\n ]}}\n"));
  out.flush();
}

}  // namespace rehearsal::report
