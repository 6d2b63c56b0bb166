#include "dispatch/clock.hpp"

#include <chrono>
#include <thread>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace rehearsal::dispatch {
namespace {
constexpr std::int64_t kPerNanosecond = 1000;
}

Time clock_time(std::chrono::steady_clock::time_point at) {
  return Time(std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count() * kPerNanosecond);
}

Time now() { return clock_time(std::chrono::steady_clock::now()); }

void sleep_until(Time when) {
  // Rounded up: a sleep must not end early.
  const std::chrono::nanoseconds at((when.count() + kPerNanosecond - 1) / kPerNanosecond);
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(at));
}

void wake_precisely() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}

}  // namespace rehearsal::dispatch
