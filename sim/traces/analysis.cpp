#include "traces/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "timeline/intervals.hpp"

namespace rehearsal::traces {
namespace {

using timeline::Interval;
using Intervals = std::vector<Interval>;

constexpr Time picoseconds_of(std::int64_t nanoseconds) { return Time(nanoseconds * 1000); }
Interval interval_of(const LaunchedKernel& kernel) {
  return {picoseconds_of(kernel.start), picoseconds_of(kernel.end())};
}

Time overlap(Intervals of, const Intervals& with) { return timeline::take(of, with); }
Intervals without(Intervals of, const Intervals& others) {
  timeline::take(of, others);
  return of;
}

Time divided(Time time, std::size_t by) {
  const auto n = std::int64_t(by);
  return Time((time.count() + n / 2) / n);
}

Time median_of(std::vector<Time> all) {
  if (all.empty()) return {};
  const auto middle = all.begin() + std::ptrdiff_t((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::size_t order_of(graph::Category category) {
  return std::size_t(std::find(kGroupOrder.begin(), kGroupOrder.end(), category) - kGroupOrder.begin());
}
std::optional<graph::Category> category_at(std::size_t order) {
  return order < kGroupOrder.size() ? std::optional(kGroupOrder[order]) : std::nullopt;
}

class OneTrace {
 public:
  OneTrace(const Trace& trace, std::size_t number, const Transfers& transfers, const KernelClasses& classes,
           const GroupOf& group_of)
      : trace_(trace), number_(number), transfers_(transfers), classes_(classes), group_of_(group_of) {}

  Analysis run() {
    collect();
    result_.whole = shares({{Time{}, picoseconds_of(trace_.end())}}, 1);
    const auto windows = step_windows();
    result_.steps = shares(windows, std::max<std::size_t>(1, result_.step_count));
    sum_up(windows);
    groups(windows);
    gaps();
    result_.launching = launching(trace_, windows, std::max<std::size_t>(1, result_.step_count));
    return std::move(result_);
  }

 private:
  void collect() {
    Intervals kernels, copies, all, waiting, transfer;
    bool known = false;
    for (std::size_t i = 0; i < trace_.kernels.size(); ++i) {
      const auto& kernel = trace_.kernels[i];
      const auto span = interval_of(kernel);
      const auto kind = trace_.kind(kernel);
      if (!communicates(kind)) {
        (kind == Kind::copy ? copies : kernels).push_back(span);
        continue;
      }
      all.push_back(span);
      const auto category = group_of_(trace_, kernel);
      by_group_[category ? order_of(*category) : kGroupOrder.size()].push_back(i);
      const auto alone = transfers_.of(number_, i);
      known |= alone.has_value();
      const Time begins = alone ? std::max(span.start, span.end - *alone) : span.start;
      waiting.push_back({span.start, begins}), transfer.push_back({begins, span.end});
    }
    result_.waiting_known = known || all.empty();
    kernels = timeline::merged(std::move(kernels)), copies = timeline::merged(std::move(copies));
    communicating_ = timeline::merged(std::move(all));
    computing_ = kernels;
    computing_.insert(computing_.end(), copies.begin(), copies.end());
    computing_ = timeline::merged(std::move(computing_));
    copying_ = without(without(std::move(copies), kernels), communicating_);
    exposed_ = without(communicating_, computing_);
    waiting_ =
        without(without(timeline::merged(std::move(waiting)), timeline::merged(std::move(transfer))), computing_);
  }

  Shares shares(const Intervals& windows, std::size_t steps) const {
    const auto within = [&](const Intervals& some) { return divided(overlap(some, windows), steps); };
    return {divided(timeline::total(windows), steps),
            within(computing_),
            within(copying_),
            within(communicating_),
            within(exposed_),
            within(waiting_)};
  }

  Intervals step_windows() {
    if (trace_.steps.empty()) {
      const Time end = picoseconds_of(trace_.end());
      result_.lengths = {end}, result_.step = end;
      return {{Time{}, end}};
    }
    Intervals windows;
    for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
      const auto& step = trace_.steps[i];
      const bool goes_on = i + 1 < trace_.steps.size() && trace_.steps[i + 1].number == step.number + 1;
      const auto end = goes_on ? std::max(step.start, trace_.steps[i + 1].start) : step.end;
      windows.push_back({picoseconds_of(step.start), picoseconds_of(end)});
      result_.lengths.push_back(windows.back().end - windows.back().start);
    }
    result_.step_count = windows.size();
    result_.step = median_of(result_.lengths);
    return timeline::merged(std::move(windows));
  }

  void sum_up(const Intervals& windows) {
    const auto steps = std::max<std::size_t>(1, result_.step_count);
    struct Sum {
      std::uint64_t kernels = 0;
      Time time;
    };
    std::map<std::pair<std::uint32_t, Kind>, Sum> by_class;
    std::map<std::pair<Pass, Kind>, Sum> by_pass;
    std::map<std::uint32_t, Sum> unknown;
    std::map<std::uint32_t, std::vector<Time>> moved;
    std::map<std::uint32_t, std::pair<Time, std::uint64_t>> alone;
    for (std::size_t i = 0; i < trace_.kernels.size(); ++i) {
      const auto& kernel = trace_.kernels[i];
      const auto span = interval_of(kernel);
      const auto at = std::upper_bound(windows.begin(), windows.end(), span.start,
                                       [](Time time, const Interval& window) { return time < window.end; });
      Time inside;
      for (auto w = at; w != windows.end() && w->start < span.end; ++w)
        inside += std::min(span.end, w->end) - std::max(span.start, w->start);
      const auto kind = trace_.kind(kernel);
      const auto of = kind == trace_.names[kernel.name].kind ? trace_.names[kernel.name].of : KernelClasses::kUnknown;
      const bool begins = at != windows.end() && at->start <= span.start;
      auto& sum = by_class[{of, kind}];
      sum.time += inside, sum.kernels += begins;
      if (computes(kind)) {
        const auto& label = trace_.labels[kernel.label];
        auto& part = by_pass[{label.pass, kind}];
        part.time += inside, part.kernels += begins;
        if (label.microbatch != graph::kNoMicrobatch)
          result_.microbatches[label.microbatch][index(label.pass)] += inside;
      }
      if (kind == Kind::other) {
        auto& other = unknown[kernel.name];
        other.time += inside, other.kernels += begins;
      }
      if (!kernel.moves) continue;
      moved[kernel.fact].push_back(span.end - span.start);
      if (const auto own = transfers_.of(number_, i)) alone[kernel.fact].first += *own, ++alone[kernel.fact].second;
    }
    for (const auto& [key, sum] : by_class) {
      if (sum.time == Time{} && sum.kernels == 0) continue;
      const auto name = key.first == KernelClasses::kUnknown && key.second != Kind::other
                            ? std::string(info(key.second).name)  // known by what it does, not by its name
                            : classes_.name(key.first);
      result_.classes.push_back({name, key.second, (sum.kernels + steps / 2) / steps, divided(sum.time, steps)});
    }
    if (trace_.tells_passes())
      for (const auto& [key, sum] : by_pass)
        result_.passes.push_back({key.first, key.second, (sum.kernels + steps / 2) / steps, divided(sum.time, steps)});
    for (auto& [_, times] : result_.microbatches)
      for (auto& time : times) time = divided(time, steps);
    for (const auto& [name, sum] : unknown) {
      result_.unknown_time += sum.time;
      if (sum.time > Time{}) result_.unknown.push_back({trace_.names[name].text, sum.kernels, sum.time});
    }
    const auto longer = [](const auto& a, const auto& b) { return a.time > b.time; };
    std::stable_sort(result_.classes.begin(), result_.classes.end(), longer);
    std::stable_sort(result_.unknown.begin(), result_.unknown.end(), longer);
    if (result_.unknown.size() > 10) result_.unknown.resize(10);
    for (auto& [fact, durations] : moved) {
      Moved one;
      one.what = trace_.transfers[fact];
      one.count = durations.size();
      for (const Time duration : durations) one.total += duration;
      one.shortest = *std::min_element(durations.begin(), durations.end());
      one.median = median_of(std::move(durations));
      if (const auto own = alone.find(fact); own != alone.end())
        one.transfer = divided(own->second.first, own->second.second);
      one.ranks_seen = transfers_.seen(number_, fact);
      result_.moved.push_back(std::move(one));
    }
    std::stable_sort(result_.moved.begin(), result_.moved.end(),
                     [](const Moved& a, const Moved& b) { return a.total > b.total; });
  }

  void groups(const Intervals& windows) {
    const auto steps = std::max<std::size_t>(1, result_.step_count);
    auto left = exposed_;
    for (const auto& [order, kernels] : by_group_) {
      GroupTime group;
      group.category = category_at(order);
      Intervals spans;
      for (const auto i : kernels) {
        const auto span = interval_of(trace_.kernels[i]);
        const Time inside = overlap({span}, windows);
        group.total += inside, group.kernels += inside > Time{};
        spans.push_back(span);
      }
      auto rest = left;
      timeline::take(rest, timeline::merged(std::move(spans)));
      const auto taken = without(left, rest);
      group.total = divided(group.total, steps), group.kernels = (group.kernels + steps / 2) / steps;
      group.exposed = divided(overlap(taken, windows), steps);
      group.waiting = divided(overlap(without(taken, without(taken, waiting_)), windows), steps);
      left = std::move(rest);
      result_.groups.push_back(group);
    }
  }

  void gaps() {
    std::map<std::uint16_t, Time> by_stream;
    for (const auto& kernel : trace_.kernels)
      if (!communicates(trace_.kind(kernel))) by_stream[kernel.stream] += picoseconds_of(kernel.duration);
    if (by_stream.empty()) return;
    const auto busiest = std::max_element(by_stream.begin(), by_stream.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                         })->first;
    auto busy = computing_;
    busy.insert(busy.end(), communicating_.begin(), communicating_.end());
    busy = timeline::merged(std::move(busy));
    Intervals own;
    for (const auto& kernel : trace_.kernels)
      if (kernel.stream == busiest) own.push_back(interval_of(kernel));
    own = timeline::merged(std::move(own));
    Intervals pauses;
    for (std::size_t i = 1; i < own.size(); ++i)
      if (own[i].start - own[i - 1].end < kLongestPause) pauses.push_back({own[i - 1].end, own[i].start});
    std::vector<Time> lengths;
    for (const auto& pause : without(std::move(pauses), busy)) {
      lengths.push_back(pause.end - pause.start);
      result_.gaps.total += lengths.back();
    }
    result_.gaps.count = lengths.size();
    result_.gaps.median = median_of(std::move(lengths));
  }

  const Trace& trace_;
  std::size_t number_;
  const Transfers& transfers_;
  const KernelClasses& classes_;
  const GroupOf& group_of_;
  std::map<std::size_t, std::vector<std::size_t>> by_group_;  // kernels that communicate, by order_of their category
  Intervals computing_, copying_, communicating_, exposed_, waiting_;
  Analysis result_;
};

// What is the same for all ranks of a group.
std::string group_key(const Transfer& what) { return fmt::format("{}\n{}\n{}", what.group, what.ranks, what.size); }

}  // namespace

Transfers::Transfers(std::span<const Trace> traces) : alone_(traces.size()), seen_(traces.size()) {
  struct Instances {
    std::size_t trace = 0;
    std::vector<std::size_t> kernels;  // in order
  };
  std::map<std::string, std::vector<Instances>> groups;
  std::map<std::pair<std::string, Bytes>, std::pair<Time, std::vector<std::pair<std::size_t, std::size_t>>>> messages;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    seen_[t].assign(traces[t].transfers.size(), 1);
    for (std::size_t i = 0; i < traces[t].kernels.size(); ++i) {
      const auto& kernel = traces[t].kernels[i];
      if (!kernel.moves) continue;
      const auto& what = traces[t].transfers[kernel.fact];
      if (what.kind() == Kind::message) {
        const Time lasted = picoseconds_of(kernel.duration);
        auto [at, fresh] =
            messages.try_emplace({what.dtype, what.bytes()}, lasted, decltype(messages)::mapped_type::second_type{});
        at->second.first = std::min(at->second.first, lasted);
        at->second.second.emplace_back(t, i);
        continue;
      }
      auto& all = groups[group_key(what)];
      if (all.empty() || all.back().trace != t) all.push_back({t, {}});
      all.back().kernels.push_back(i);
    }
  }
  for (const auto& [_, message] : messages)
    for (const auto& [t, i] : message.second) alone_[t][i] = message.first;
  for (const auto& [_, all] : groups) {
    // The k-th collective of a group is one instance on all its ranks, if all have seen as many of the same kind.
    bool match = all.size() > 1;
    const auto what = [&](const Instances& some, std::size_t k) -> const Transfer& {
      return traces[some.trace].transfers[traces[some.trace].kernels[some.kernels[k]].fact];
    };
    for (const auto& some : all) match = match && some.kernels.size() == all.front().kernels.size();
    for (std::size_t k = 0; match && k < all.front().kernels.size(); ++k)
      for (const auto& some : all) match = match && what(some, k).name == what(all.front(), k).name;
    if (!match) continue;
    for (std::size_t k = 0; k < all.front().kernels.size(); ++k) {
      Time shortest = Time(INT64_MAX);
      for (const auto& some : all)
        shortest = std::min(shortest, picoseconds_of(traces[some.trace].kernels[some.kernels[k]].duration));
      for (const auto& some : all) {
        alone_[some.trace][some.kernels[k]] = shortest;
        seen_[some.trace][traces[some.trace].kernels[some.kernels[k]].fact] = std::uint32_t(all.size());
      }
    }
  }
}

std::optional<Time> Transfers::of(std::size_t trace, std::size_t kernel) const {
  const auto found = alone_[trace].find(kernel);
  return found == alone_[trace].end() ? std::nullopt : std::optional(found->second);
}

TimeByKind Analysis::by_kind() const {
  TimeByKind all{};
  for (const auto& one : classes) all[index(one.kind)] += one.time;
  return all;
}

std::uint64_t Analysis::kernels(Kind kind) const {
  std::uint64_t all = 0;
  for (const auto& one : classes) all += one.kind == kind ? one.kernels : 0;
  return all;
}

std::vector<Analysis> analyse(std::span<const Trace> traces, const KernelClasses& classes, const GroupOf& group_of) {
  const Transfers transfers(traces);
  std::vector<Analysis> all;
  for (std::size_t t = 0; t < traces.size(); ++t)
    all.push_back(OneTrace(traces[t], t, transfers, classes, group_of).run());
  return all;
}

}  // namespace rehearsal::traces
