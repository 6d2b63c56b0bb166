// How long do the automatic schedules search, beside the peer's own scheduler?
//
//   schedule_bench [repeats]        default 7; appends to tools/bench/results/schedule.csv
//
// CPU seconds of one search, best of the repeats, the order included (it is hashed, outside the clock, so that nothing
// is left out). Times are those of Table 9 of Zero Bubble, first row, with memory for 2p micro-batches; a V has half of
// each per chunk. The peer's seconds: sail-sg/zero-bubble-pipeline-parallelism, schedulers `zb` (all eight settings)
// and `zbv`, in CPython on one thread of a 2-core server; they are constants here, since the peer is not installed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "first_line.hpp"
#include "schedule/registry.hpp"
#include "schedule/text.hpp"

namespace {

using namespace rehearsal;
using namespace rehearsal::schedule;

struct Case {
  const char* schedule;
  std::uint32_t ranks, microbatches;
  double peer_seconds;
};

constexpr Case kCases[] = {
    {"zb-2p", 8, 64, 0.018},  {"zb-2p", 8, 256, 0.077}, {"zb-2p", 8, 512, 0.16},  {"zb-2p", 16, 64, 0.037},
    {"zb-2p", 16, 256, 0.16}, {"zb-2p", 16, 512, 0.32}, {"zb-2p", 32, 64, 0.08},  {"zb-2p", 32, 256, 0.33},
    {"zb-2p", 32, 512, 0.69}, {"zb-2p", 64, 64, 0.17},  {"zb-2p", 64, 256, 0.72}, {"zb-2p", 64, 512, 1.55},
    {"zb-v", 8, 64, 0.09},    {"zb-v", 8, 256, 0.14},   {"zb-v", 16, 64, 0.07},   {"zb-v", 16, 256, 0.28},
    {"zb-v", 32, 64, 0.15},   {"zb-v", 32, 256, 0.67},
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

Problem problem_of(const Case& c) {
  const std::uint32_t chunks = registry().at(c.schedule).min_chunks;
  const auto time = [&](std::int64_t us) { return Time(us * 1'000'000 / chunks); };
  Problem problem = uniform_problem(c.ranks, c.microbatches, chunks, time(18522), time(18086), time(9337), time(601));
  // M_B = 34h + 5as and M_W = 32h of its 1.5B model (h 2304, a 24, s 1024).
  std::fill(problem.activation.begin(), problem.activation.end(), 201216);
  std::fill(problem.weight_hold.begin(), problem.weight_hold.end(), 73728);
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const bool fresh = !std::ifstream(RESULTS).good();
  std::ofstream out(RESULTS, std::ios::app);
  if (fresh) out << "date,cpu,commit,schedule,ranks,microbatches,seconds,peer_seconds,ratio\n";
  const std::string date = first_line_of("date +%F");
  const std::string cpu = first_line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo");
  const std::string commit = first_line_of("git describe --always --dirty --exclude '*' 2>/dev/null");

  fmt::print("{:<8} {:>4} {:>5} {:>12} {:>10} {:>7}  {}\n", "schedule", "p", "m", "seconds", "peer", "ratio", "order");
  for (const Case& c : kCases) {
    const Problem problem = problem_of(c);
    const Schedule& schedule = registry().at(c.schedule);
    double best = 1e9;
    std::string order;
    for (int n = 0; n < repeats; ++n) {
      const double start = cpu_seconds();
      const Schedule ready = planned(schedule, problem);
      best = std::min(best, cpu_seconds() - start);
      if (order.empty()) order = order_sha256(ready, problem).substr(0, 12);
    }
    fmt::print("{:<8} {:>4} {:>5} {:>12.6f} {:>10.3f} {:>7.0f}  {}\n", c.schedule, c.ranks, c.microbatches, best,
               c.peer_seconds, c.peer_seconds / best, order);
    out << fmt::format("{},{},{},{},{},{},{:.6f},{},{:.0f}\n", date, cpu, commit, c.schedule, c.ranks, c.microbatches,
                       best, c.peer_seconds, c.peer_seconds / best);
  }
}
