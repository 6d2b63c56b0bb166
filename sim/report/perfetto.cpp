#include "report/perfetto.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/stream.hpp"

namespace rehearsal::report {
namespace {

using graph::Lane;

// Trace times are microseconds; three decimals would lose picoseconds, six keep them.
struct Micros {
  std::int64_t whole, fraction;
  explicit Micros(Time t) : whole(t.count() / 1'000'000), fraction(t.count() % 1'000'000) {}
};

// Names of the trace viewer's palette, in the order of graph::Pass.
const char* color(graph::Pass pass) {
  constexpr std::array kColors{"thread_state_running", "thread_state_iowait", "rail_response", "good",
                               "rail_animation"};
  return std::size_t(pass) < kColors.size() ? kColors[std::size_t(pass)] : "generic_work";
}

// Several timelines of one graph: each lane of a rank has one track per timeline, one below the other.
struct Layer {
  const timeline::Timeline& timeline;
  std::string suffix;  // appended to track names
};

class TraceWriter {
 public:
  TraceWriter(const Result& run, std::vector<Layer> layers, const Sink& sink)
      : run_(run), layers_(std::move(layers)), out_(sink) {
    for (const auto& work : run.graph().works()) works_.push_back(quoted(graph::describe(work)));
    // Work that overlaps the tail of the previous iteration has negative times; a trace begins at 0.
    for (const auto& layer : layers_)
      for (const Time start : layer.timeline.start) origin_ = std::min(origin_, start);
  }

  void write() {
    out_.put(
        FMT_COMPILE("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"scenario\":{},\"backend\":{}}},\"traceEvents\":["),
        quoted(run_.scenario().name), quoted(run_.timeline.backend));
    for (std::size_t r = 0; r < run_.graph().ranks().size(); r++) rank(RankId(r));
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
    const auto& rank = run_.graph().ranks()[id.index()];
    const auto& program = run_.graph().program_of(rank);
    const auto pid = rank.job_rank;
    const std::string of = rank.multiplicity > 1 ? fmt::format(" (stands for {} ranks)", rank.multiplicity) : "";
    out_.put(FMT_COMPILE("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}"),
             separator(), pid, quoted(fmt::format("rank {}, {}{}", pid, program.name, of)));
    out_.put(
        FMT_COMPILE("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}}}"),
        separator(), pid, pid);
    std::array<bool, graph::kLanes> used{};
    for (const Lane lane : program.lane) used[static_cast<std::size_t>(lane)] = true;
    for (std::size_t lane = 0; lane < graph::kLanes; lane++)
      for (std::size_t n = 0; n < layers_.size() && used[lane]; n++)
        out_.put(
            FMT_COMPILE(
                "{}{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}{}\"}}}}"),
            separator(), pid, track(static_cast<Lane>(lane), n), graph::name(static_cast<Lane>(lane)),
            layers_[n].suffix);
    for (std::size_t n = 0; n < layers_.size(); n++) {
      for (std::size_t i = 0; i < program.size(); i++) task(id, rank, program, i, n);
      for (const Tier tier : kTierTable) memory(id, pid, tier, n);
      contention(rank, program, n);
    }
  }

  void memory(RankId id, std::uint32_t pid, Tier tier, std::size_t layer) {
    const auto& buffers = run_.graph().program_of(run_.graph().ranks()[id.index()]).buffers;
    const auto there = [&](const graph::Buffer& buffer) { return buffer.tier == tier && buffer.size > Bytes{}; };
    if (tier != Tier::device && std::none_of(buffers.begin(), buffers.end(), there)) return;
    const auto of = tier == Tier::device ? std::string("memory") : fmt::format("{} memory", name(tier));
    for (const auto& point : timeline::memory_curve(run_.graph(), layers_[layer].timeline, id, tier)) {
      const Micros t(point.when - origin_);
      out_.put(FMT_COMPILE("{}{{\"ph\":\"C\",\"pid\":{},\"name\":\"{}{}\",\"ts\":{}.{:06},\"args\":{{\"bytes\":{}}}}}"),
               separator(), pid, of, layers_[layer].suffix, t.whole, t.fraction, point.level.count());
    }
  }

  // How much slower than alone the running tasks are in total: a kernel and a collective at half speed each
  // add .5.
  void contention(const graph::Rank& rank, const graph::Program& program, std::size_t layer) {
    const auto& timeline = layers_[layer].timeline;
    if (!timeline.contention) return;
    changes_.clear();
    for (std::size_t i = 0; i < program.size(); i++) {
      const Time start = timeline.start[rank.first_task + i], end = timeline.end[rank.first_task + i];
      const Time alone = run_.lowered->durations[program.work[i].index()];
      if (program.lane[i] == Lane::receive || end - start <= alone) continue;
      const double lost = 1 - alone / (end - start);
      changes_.push_back({start, lost}), changes_.push_back({end, -lost});
    }
    std::sort(changes_.begin(), changes_.end(), [](const auto& a, const auto& b) { return a.when < b.when; });
    double level = 0;
    std::size_t running = 0;
    for (std::size_t i = 0; i < changes_.size(); i++) {
      level += changes_[i].by;
      running += changes_[i].by > 0 ? 1 : -1;
      if (running == 0) level = 0;  // removes rounding residue
      if (i + 1 < changes_.size() && changes_[i + 1].when == changes_[i].when) continue;
      const Micros t(changes_[i].when - origin_);
      out_.put(
          FMT_COMPILE(
              "{}{{\"ph\":\"C\",\"pid\":{},\"name\":\"contention{}\",\"ts\":{}.{:06},\"args\":{{\"lost\":{:.4f}}}}}"),
          separator(), rank.job_rank, layers_[layer].suffix, t.whole, t.fraction, level);
    }
  }

  std::size_t track(Lane lane, std::size_t layer) const {
    return static_cast<std::size_t>(lane) * layers_.size() + layer;
  }

  void task(RankId id, const graph::Rank& rank, const graph::Program& program, std::size_t local, std::size_t layer) {
    const auto task = rank.first_task + local;
    const auto& timeline = layers_[layer].timeline;
    const Time start = timeline.start[task], end = timeline.end[task];
    const auto lane = program.lane[local];
    const auto& at = program.coordinates[local];
    const Micros from(start - origin_), length(end - start);
    const auto pid = rank.job_rank;
    const auto tid = track(lane, layer);
    if (lane != Lane::receive) {
      out_.put(FMT_COMPILE("{}{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:06},\"dur\":{}.{:06},\"name\":"),
               separator(), pid, tid, from.whole, from.fraction, length.whole, length.fraction);
      if (at.microbatch == graph::kNoMicrobatch)
        out_.put(FMT_COMPILE("\"{}\""), graph::name(at.pass));
      else
        out_.put(FMT_COMPILE("\"{}{} {}\""), graph::is_send(lane) ? "send " : "", graph::name(at.pass), at.microbatch);
      out_.put(FMT_COMPILE(",\"cname\":\"{}\",\"args\":{{\"stage\":{},\"layer\":{},\"task\":{},\"work\":{}}}}}"),
               color(at.pass), at.stage, at.layer == graph::kNoLayer ? -1 : int(at.layer), task,
               works_[program.work[local].index()]);
    }
    // An arrow from a message to the task that receives it.
    const bool is_send = program.endpoint[local] != graph::kNoEndpoint &&
                         program.endpoints[program.endpoint[local]] == graph::EndpointKind::send;
    if (is_send || lane == Lane::receive) {
      const auto sender = is_send ? task : run_.graph().partner(id, LocalTask(local)).value;
      const auto arrow = sender * layers_.size() + layer;
      const Micros t((is_send ? start : end) - origin_);
      out_.put(
          FMT_COMPILE("{}{{\"ph\":\"{}\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{}.{:06},\"name\":\"message\",\"cat\":"
                      "\"message\"{}}}"),
          separator(), is_send ? "s" : "f", arrow, pid, is_send ? tid : track(Lane::compute, layer), t.whole,
          t.fraction, is_send ? "" : ",\"bp\":\"e\"");
    }
  }

  const Result& run_;
  std::vector<Layer> layers_;
  Stream out_;
  std::vector<std::string> works_;  // each described once
  struct Change {
    Time when;
    double by;
  };
  std::vector<Change> changes_;
  Time origin_;
  bool first_ = true;
};

}  // namespace

void write_trace(const Result& run, const Sink& sink) { TraceWriter(run, {{run.timeline, ""}}, sink).write(); }

void write_comparison_trace(const Result& measured, const timeline::Timeline& predicted, const Sink& sink) {
  TraceWriter(measured, {{predicted, ", predicted"}, {measured.timeline, ", measured"}}, sink).write();
}

}  // namespace rehearsal::report
