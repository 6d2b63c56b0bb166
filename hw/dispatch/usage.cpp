#include "dispatch/usage.hpp"

#include <cerrno>
#include <ctime>
#include <fstream>
#include <string>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace rehearsal::dispatch {

Usage usage() {
  Usage result;
#ifdef __linux__
  timespec own{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own) == 0)
    result.own = seconds(double(own.tv_sec) + 1e-9 * double(own.tv_nsec));
  // Linux, Documentation/scheduler/sched-stats.rst: nanoseconds on a processor, then in its run queue.
  std::ifstream scheduled("/proc/thread-self/schedstat");
  if (double on_processor = 0, waiting = 0; scheduled >> on_processor >> waiting)
    result.waited = seconds(1e-9 * waiting);
  // proc(5): ticks of user, nice, system, idle, iowait, irq, softirq, steal.
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  const double tick = 1. / double(sysconf(_SC_CLK_TCK));
  if (stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) {
    result.machine = seconds((user + nice + system + irq + softirq) * tick);
    result.stolen = seconds(steal * tick);
  }
#endif
  return result;
}

Usage operator-(const Usage& after, const Usage& before) {
  return {after.own - before.own, after.machine - before.machine, after.stolen - before.stolen,
          after.waited - before.waited};
}

#ifdef __linux__
namespace {
constexpr int kRaised = -10;  // of -20..19; allowed for root and with CAP_SYS_NICE
}

RaisedPriority::RaisedPriority(bool own_session) {
  errno = 0;
  before_ = getpriority(PRIO_PROCESS, 0);
  if (errno != 0) before_ = 0;
  granted_ = before_ <= kRaised || setpriority(PRIO_PROCESS, 0, kRaised) == 0;
  if (own_session) std::ofstream("/proc/self/autogroup") << kRaised;  // exists only with autogroups
}
RaisedPriority::~RaisedPriority() {
  if (granted_) setpriority(PRIO_PROCESS, 0, before_);
}
#else
RaisedPriority::RaisedPriority(bool) {}
RaisedPriority::~RaisedPriority() = default;
#endif

std::unique_ptr<RaisedPriority> raised_for(const backend::RunOptions& options, bool own_session) {
  const bool timed = options.compute == backend::Compute::real && options.times_matter;
  return timed ? std::make_unique<RaisedPriority>(own_session) : nullptr;
}

}  // namespace rehearsal::dispatch
