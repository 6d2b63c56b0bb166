#include "traces/launching.hpp"

#include <algorithm>
#include <tuple>

namespace rehearsal::traces {
namespace {

constexpr Time picoseconds(std::int64_t nanoseconds) { return Time(nanoseconds * 1000); }

// In longer stretches a host waits, saves or loads data.
constexpr Time kLongestCall{20'000'000'000};  // 20 ms

// `kernels`: those whose launch was recorded; `late`: which of all are.
void by_thread(const Trace& trace, std::vector<std::uint32_t> kernels, const std::vector<bool>& late,
               Launching& result) {
  const auto call = [&](std::uint32_t i) -> const Launch& { return trace.launches[trace.kernels[i].launch]; };
  std::sort(kernels.begin(), kernels.end(), [&](auto a, auto b) {
    return std::tuple(call(a).thread, call(a).start, a) < std::tuple(call(b).thread, call(b).start, b);
  });
  std::array<std::vector<Time>, kPasses> each;
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    const auto &one = call(kernels[i]), &before = call(kernels[i - 1]);
    const Time since = picoseconds(one.start - before.start);
    if (late[kernels[i]] && one.thread == before.thread && since > Time{} && since < kLongestCall)
      each[index(trace.pass(trace.kernels[kernels[i]]))].push_back(since);
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
  std::vector<std::uint32_t> launched;
  std::vector<bool> is_late(trace.kernels.size());
  std::vector<std::int64_t> ends(trace.streams.size(), -1);  // of the last kernel that computes, by stream
  std::int64_t busy = 0;                                     // until then something runs
  auto window = windows.begin();
  for (std::uint32_t i = 0; i < trace.kernels.size(); ++i) {
    const auto& kernel = trace.kernels[i];
    const auto kind = trace.kind(kernel);
    const bool idle = kernel.start > busy;
    if (kernel.launch != kNone) {
      const auto& call = trace.launches[kernel.launch];
      ++result.kernels;
      calls.push_back(picoseconds(call.duration));
      const bool late = idle && call.end() > busy;
      launched.push_back(i), is_late[i] = late;
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
  by_thread(trace, std::move(launched), is_late, result);
  const auto mean = [&](Time sum) { return Time(sum.count() / std::int64_t(steps)); };
  result.idle = mean(result.idle), result.late = mean(result.late);
  return result;
}

}  // namespace rehearsal::traces
