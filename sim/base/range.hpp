// Numbers beyond the range of their types: refused where they arise, never wrapped.
#pragma once
#include <cstdint>

#include "base/units.hpp"

namespace rehearsal {

// Limit of a Time: 2^63 picoseconds are 9,223,372 s.
inline constexpr double kMostSeconds = 9.22e6;
// Throw the UserError that names the limit.
[[noreturn]] void refuse_time();
[[noreturn]] void refuse_size();

// Nearest picosecond.
inline Time counted(double s) {
  if (!(s < kMostSeconds)) refuse_time();
  return seconds(s);
}
inline Time sum(Time a, Time b) {
  std::int64_t all = 0;
  if (__builtin_add_overflow(a.count(), b.count(), &all)) refuse_time();
  return Time(all);
}
inline Time product(Time a, std::int64_t n) {
  std::int64_t all = 0;
  if (__builtin_mul_overflow(a.count(), n, &all)) refuse_time();
  return Time(all);
}

}  // namespace rehearsal
