#include "traces/launching.hpp"

#include <algorithm>
#include <tuple>

namespace rehearsal::traces {
namespace {

constexpr Time picoseconds(std::int64_t nanoseconds) { return Time(nanoseconds * 1000); }

// In longer stretches a host waits, saves or loads data.
constexpr Time kLongestCall{20'000'000'000};  // 20 ms

// A launch in the order of its thread.
struct OnThread {
  std::uint16_t thread;
  std::int64_t start;
  bool late;
  Pass pass;
};

void by_thread(std::vector<OnThread> calls, Launching& result) {
  std::stable_sort(calls.begin(), calls.end(), [](const OnThread& a, const OnThread& b) {
    return std::tuple(a.thread, a.start) < std::tuple(b.thread, b.start);
  });
  std::array<std::vector<Time>, kPasses> each;
  for (std::size_t i = 1; i < calls.size(); ++i) {
    const Time since = picoseconds(calls[i].start - calls[i - 1].start);
    if (calls[i].late && calls[i].thread == calls[i - 1].thread && since > Time{} && since < kLongestCall)
      each[index(calls[i].pass)].push_back(since);
  }
  for (std::size_t pass = 0; pass < kPasses; ++pass) result.each[pass] = spread_of(std::move(each[pass]));
}

}  // namespace

Spread spread_of(std::vector<Time> all) {
  Spread spread;
  if (all.empty()) return spread;
  std::sort(all.begin(), all.end());
  const auto at = [&](std::size_t tenths) { return all[(all.size() - 1) * tenths / 10]; };
  Time sum;
  for (const Time one : all) sum += one;
  spread = {all.size(), Time(sum.count() / std::int64_t(all.size())), at(1), at(5), at(9)};
  return spread;
}

Launching launching(const Trace& trace, std::span<const timeline::Interval> windows, std::size_t steps) {
  Launching result;
  std::vector<Time> calls, pauses;
  std::vector<OnThread> threads;
  std::vector<std::int64_t> ends(trace.streams.size(), -1);  // of the last kernel that computes, by stream
  std::int64_t busy = 0;                                     // until then something runs
  auto window = windows.begin();
  for (const auto& kernel : trace.kernels) {
    const auto kind = trace.kind(kernel);
    const bool idle = kernel.start > busy;
    bool late = false;
    if (kernel.launch != kNone) {
      const auto& call = trace.launches[kernel.launch];
      ++result.kernels;
      calls.push_back(picoseconds(call.duration));
      late = idle && call.end() > busy;
      threads.push_back({call.thread, call.start, late, trace.pass(kernel)});
      if (idle) {
        const Time from = picoseconds(busy), until = picoseconds(kernel.start);
        for (; window != windows.end() && window->end <= from; ++window)
          ;
        for (auto w = window; w != windows.end() && w->start < until; ++w) {
          const Time inside = std::max(Time{}, std::min(until, w->end) - std::max(from, w->start));
          result.idle += inside, result.late += late ? inside : Time{};
        }
        if (computes(kind) && ends[kernel.stream] == busy && picoseconds(busy - call.end()) >= kAhead &&
            until - from < kLongestPause)
          pauses.push_back(until - from);
      }
    }
    if (computes(kind)) ends[kernel.stream] = kernel.end();
    busy = std::max(busy, kernel.end());
  }
  result.call = spread_of(std::move(calls)), result.pause = spread_of(std::move(pauses));
  by_thread(std::move(threads), result);
  const auto mean = [&](Time sum) { return Time(sum.count() / std::int64_t(steps)); };
  result.idle = mean(result.idle), result.late = mean(result.late);
  return result;
}

}  // namespace rehearsal::traces
