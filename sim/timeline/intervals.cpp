#include "timeline/intervals.hpp"

#include <algorithm>
#include <utility>

namespace rehearsal::timeline {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  std::vector<Interval> result;
  for (const Interval& one : intervals) {
    if (one.end <= one.start) continue;
    if (!result.empty() && one.start <= result.back().end)
      result.back().end = std::max(result.back().end, one.end);
    else
      result.push_back(one);
  }
  return result;
}

Time take(std::vector<Interval>& gaps, const std::vector<Interval>& cover) {
  Time taken;
  std::vector<Interval> left;
  for (Interval gap : gaps) {
    auto at = std::lower_bound(cover.begin(), cover.end(), gap.start,
                               [](const Interval& one, Time time) { return one.end <= time; });
    for (; at != cover.end() && at->start < gap.end; ++at) {
      const Interval common{std::max(gap.start, at->start), std::min(gap.end, at->end)};
      taken += common.end - common.start;
      if (gap.start < common.start) left.push_back({gap.start, common.start});
      gap.start = common.end;
    }
    if (gap.start < gap.end) left.push_back(gap);
  }
  gaps = std::move(left);
  return taken;
}

Time total(const std::vector<Interval>& intervals) {
  Time sum;
  for (const Interval& one : intervals) sum += one.end - one.start;
  return sum;
}

}  // namespace rehearsal::timeline
