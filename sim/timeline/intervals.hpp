// Stretches of time: their union, and what is left of them beside others.
#pragma once
#include <vector>

#include "base/units.hpp"

namespace rehearsal::timeline {

struct Interval {
  Time start, end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Disjoint and in order; overlapping or touching intervals merged.
std::vector<Interval> merged(std::vector<Interval> intervals);

// Takes `cover` out of `gaps` (both disjoint and in order) and returns how much time that was.
Time take(std::vector<Interval>& gaps, const std::vector<Interval>& cover);

// Of disjoint ones.
Time total(const std::vector<Interval>& intervals);

}  // namespace rehearsal::timeline
