#include "timeline/breakdown.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "timeline/intervals.hpp"
#include "timeline/split.hpp"
#include "timeline/twins.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Category;
using graph::Lane;

using Span = Interval;
constexpr std::size_t index(Category category) { return static_cast<std::size_t>(category); }

class RankBreakdown {
 public:
  RankBreakdown(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank, std::span<const Time> durations)
      : graph_(graph),
        timeline_(timeline),
        rank_(rank),
        program_(graph.program_of(graph.ranks()[rank.index()])),
        durations_(durations),
        splits_(graph, durations),
        predicted_(timeline.fidelity == Fidelity::simulated) {}

  Breakdown run() {
    Breakdown total{};
    std::vector<Span> gaps;
    Time until;  // the compute lane is accounted for up to here
    const Time end = timeline_.makespan();
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (program_.lane[i] != Lane::compute) continue;
      Span span = span_of(rank_, i);
      if (span.start >= end && predicted_) continue;
      if (predicted_) span.end = std::min(span.end, end);  // iterations that differ in length have their mean
      if (until < span.start) {
        gaps.push_back({until, span.start});
        messages_awaited_by(i, gaps.back());
        until = span.start;  // also before a task of no length: a gap counts once
      }
      // Measured spans of a serial lane do not overlap either, but may be short of a clock tick.
      const Time from = std::max(until, span.start);
      if (from < span.end) {
        const Breakdown parts = splits_.task(program_, i, span.end - from, predicted_);
        for (std::size_t c = 0; c < parts.size(); ++c) total[c] += parts[c];
        until = span.end;
      }
    }
    if (until < end) gaps.push_back({until, end});

    collect();
    // The rest of a gap goes to the next category: data-parallel collectives first, then others, copies between memory
    // tiers, messages last.
    const auto waited = [&](Category c) {
      auto& [spans, lasted, lost] = during_[index(c)];
      const Time taken = take(gaps, merged(std::exchange(spans, {})));
      const Time contended = lasted > Time{} ? std::min(taken, seconds(to_seconds(taken) * (lost / lasted))) : Time{};
      total[index(c)] += taken - contended;
      total[index(Category::contention)] += contended;
    };
    waited(Category::data_comm);
    for (const graph::LaneInfo& lane : graph::kLaneTable)
      if (lane.kind == graph::LaneKind::collectives && lane.idle_is != Category::data_comm) waited(lane.idle_is);
    waited(Category::offload);
    waited(Category::pipeline_comm);
    for (const Span& gap : gaps) total[index(Category::bubble)] += gap.end - gap.start;
    if (predicted_) check(total, end);
    return total;
  }

 private:
  Span span_of(RankId rank, std::size_t local) const {
    const TaskId task = graph_.task(rank, LocalTask(local));
    return {timeline_.start[task.index()], timeline_.end[task.index()]};
  }

  static void check(const Breakdown& parts, Time iteration) {
    Time sum;
    for (const Time part : parts) {
      INVARIANT(part >= Time{}, "a part of an iteration is negative");
      sum += part;
    }
    INVARIANT(sum == iteration, "the parts of an iteration do not add up to it");
  }

  void collect() {  // spans that may have been waited for
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const graph::LaneInfo& lane = graph::info(program_.lane[i]);
      if (lane.kind == graph::LaneKind::tiers)
        add(lane.idle_is, span_of(rank_, i), span_of(rank_, i), program_.work[i]);
      served(i, lane);
      if (lane.kind != graph::LaneKind::collectives) continue;
      if (!std::holds_alternative<graph::Collective>(graph_.work(program_.work[i]))) continue;
      const bool data = is_data_parallel(program_.coordinates[i].pass, lane.lane);
      add(data ? Category::data_comm : lane.idle_is, span_of(rank_, i), span_of(rank_, i), program_.work[i]);
    }
  }

  // Gradients sent to parameter servers, and the results.
  void served(std::size_t i, const graph::LaneInfo& lane) {
    const auto pass = program_.coordinates[i].pass;
    if (pass != graph::Pass::gradient_reduce && pass != graph::Pass::parameter_gather) return;
    if (lane.kind == graph::LaneKind::sends) {
      add(Category::data_comm, span_of(rank_, i), span_of(rank_, i), program_.work[i]);
    } else if (lane.kind == graph::LaneKind::receives) {
      const TaskId send = graph_.partner(rank_, LocalTask(i));
      const RankId sender = graph_.rank_of(send);
      const Span whole{timeline_.start[send.index()], timeline_.end[send.index()]};
      add(Category::data_comm, whole, whole,
          graph_.program_of(graph_.ranks()[sender.index()]).work[graph_.local(send).index()]);
    }
  }

  void add(Category category, Span shown, Span whole, WorkId work) {
    auto& [spans, lasted, lost] = during_[index(category)];
    spans.push_back(shown);
    lasted += whole.end - whole.start;
    if (predicted_) lost += std::max(Time{}, whole.end - whole.start - durations_[work.index()]);
  }

  // When a message could have left: from then on it counts as in flight, even if it waits for a wire.
  Time handed_over(TaskId send) const {
    const RankId sender = graph_.rank_of(send);
    const auto& program = graph_.program_of(graph_.ranks()[sender.index()]);
    const auto before = program.dependencies[graph_.local(send).index()];
    if (before.empty() || !graph::is_send(program.lane[graph_.local(send).index()]))
      return timeline_.start[send.index()];
    Time ready;
    for (LocalTask made : before) ready = std::max(ready, timeline_.end[graph_.task(sender, made).index()]);
    return std::min(ready, timeline_.start[send.index()]);
  }

  // Messages in flight while the lane idles before `task`: those it waits for directly or through tasks of other lanes,
  // such as the gather that completes a sharded message.
  void messages_awaited_by(std::size_t task, Span gap) {
    std::vector<std::size_t> waiting{task};
    for (std::size_t n = 0; n < waiting.size(); ++n) {
      const std::size_t i = waiting[n];
      const std::uint32_t endpoint = program_.endpoint[i];
      const bool message =
          endpoint != graph::kNoEndpoint && program_.endpoints[endpoint] == graph::EndpointKind::receive;
      if (message && program_.coordinates[i].pass != graph::Pass::parameter_gather) {
        const TaskId send = graph_.partner(rank_, LocalTask(i));
        const RankId sender = graph_.rank_of(send);
        const Span whole{timeline_.start[send.index()], timeline_.end[send.index()]};
        add(Category::pipeline_comm, {std::max(handed_over(send), gap.start), std::min(whole.end, gap.end)}, whole,
            graph_.program_of(graph_.ranks()[sender.index()]).work[graph_.local(send).index()]);
      }
      for (LocalTask before : program_.dependencies[i])
        if (program_.lane[before.index()] != Lane::compute && span_of(rank_, before.index()).end > gap.start &&
            std::find(waiting.begin(), waiting.end(), before.index()) == waiting.end())
          waiting.push_back(before.index());
    }
  }

  const graph::TaskGraph& graph_;
  const Timeline& timeline_;
  RankId rank_;
  const graph::Program& program_;
  std::span<const Time> durations_;
  Splits splits_;
  bool predicted_;

  // What computation may have waited for, and by how much all of it is longer than alone: that share of its exposed
  // time is contention.
  struct Awaited {
    std::vector<Span> spans;
    Time lasted, lost;
  };
  std::array<Awaited, graph::kCategories> during_;
};

}  // namespace

Breakdown breakdown(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank,
                    std::span<const Time> durations) {
  return RankBreakdown(graph, timeline, rank, durations).run();
}

Time exposed_communication(const Breakdown& parts) {
  std::array<bool, graph::kCategories> counts{};  // lanes share categories
  for (const auto& lane : graph::kLaneTable)
    if (lane.kind != graph::LaneKind::compute) counts[static_cast<std::size_t>(lane.idle_is)] = true;
  Time all;
  for (std::size_t c = 0; c < parts.size(); ++c)
    if (counts[c]) all += parts[c];
  return all;
}

RankId last_rank(const graph::TaskGraph& graph, const Timeline& timeline) {
  RankId last;
  Time latest{-1};
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const auto first = timeline.end.begin() + static_cast<std::ptrdiff_t>(graph.ranks()[r].first_task);
    const auto n = static_cast<std::ptrdiff_t>(graph.program_of(graph.ranks()[r]).size());
    if (n == 0) continue;
    const Time end = *std::max_element(first, first + n);
    if (end > latest) latest = end, last = RankId(r);
  }
  return last;
}

std::vector<Time> busy(const graph::TaskGraph& graph, const Timeline& timeline, std::span<const Time> durations) {
  const std::vector<RankId> first = identical_ranks(graph, timeline);
  Splits splits(graph, durations);
  std::vector<Time> all;
  for (const graph::Rank& rank : graph.ranks()) {
    if (const std::size_t twin = first[all.size()].index(); twin < all.size()) {
      all.push_back(all[twin]);
      continue;
    }
    const graph::Program& program = graph.program_of(rank);
    Time sum;
    std::vector<Span> computed, beside;
    for (std::size_t i = 0; i < program.size(); ++i) {
      const Span span{timeline.start[rank.first_task + i], timeline.end[rank.first_task + i]};
      const auto& lane = graph::info(program.lane[i]);
      if (lane.kind == graph::LaneKind::collectives && lane.lane != Lane::data_comm) beside.push_back(span);
      if (program.lane[i] != Lane::compute) continue;
      computed.push_back(span);
      const Breakdown parts = splits.task(program, i, span.end - span.start, false);
      sum += span.end - span.start - parts[index(Category::pipeline_comm)] - parts[index(Category::data_comm)];
    }
    if (!beside.empty()) {  // its exposed part
      auto shown = merged(std::move(beside));
      take(shown, merged(std::move(computed)));
      for (const Span& span : shown) sum += span.end - span.start;
    }
    all.push_back(sum);
  }
  return all;
}

}  // namespace rehearsal::timeline
