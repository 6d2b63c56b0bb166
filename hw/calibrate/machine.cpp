#include "calibrate/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <thread>

#include "dispatch/clock.hpp"

namespace rehearsal::calibrate {
namespace {

// "model name : AMD EPYC" of the first processor.
std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return line.substr(std::min(colon + 2, line.size()));
  }
  return "unknown";
}

std::int64_t usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// xorshift: a chain of dependent instructions that no cache, memory or vector unit can speed up.
std::uint64_t churn(std::int64_t steps, std::uint64_t state) {
  for (std::int64_t i = 0; i < steps; i++) state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

}  // namespace

Machine this_machine() {
  utsname name{};
  uname(&name);
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  constexpr long kDefault = 1 << 20;
#if defined(__clang__)
  const std::string compiler = "Clang " __clang_version__;
#else
  const std::string compiler = "GCC " __VERSION__;
#endif
  return {cpu_model(), fmt::format("{} {}", name.sysname, name.release), compiler, usable_cores(),
          Bytes(cache > 0 ? cache : kDefault)};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Spread timer_overshoot(int repetitions) {
  dispatch::wake_precisely();
  std::vector<Time> late;
  for (int i = 0; i < repetitions; i++) {
    const Time wanted = dispatch::now() + seconds(1e-3);
    dispatch::sleep_until(wanted);
    late.push_back(std::max(dispatch::now() - wanted, picoseconds(1000)));
  }
  return spread(late);
}

Spread noise(unsigned ranks, int repetitions) {
  std::uint64_t state = 88172645463325252;
  constexpr std::int64_t kTrial = 1 << 20;
  const Time begin = dispatch::now();
  state = churn(kTrial, state);
  const double seconds_each = to_seconds(dispatch::now() - begin) / double(kTrial);
  const auto steps = std::int64_t(1e-3 / seconds_each);
  std::vector<std::vector<Time>> times(ranks);
  std::vector<std::uint64_t> sinks(ranks, state);  // keeps the work alive
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < ranks; r++)
    threads.emplace_back([&, r] {
      for (int i = 0; i < repetitions; i++) {
        const Time from = dispatch::now();
        sinks[r] = churn(steps, sinks[r] + std::uint64_t(i));
        times[r].push_back(std::max(dispatch::now() - from, picoseconds(1000)));
      }
    });
  for (auto& t : threads) t.join();
  std::vector<Time> all;
  for (unsigned r = 0; r < ranks; r++)
    if (sinks[r] != 0) all.insert(all.end(), times[r].begin(), times[r].end());  // xorshift never reaches 0
  return spread(all);
}

}  // namespace rehearsal::calibrate
