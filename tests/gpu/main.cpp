// --quick: few trials. --limit=S: ends by SIGALRM after S seconds, so that a hang ends. --illegal-access: queues a
// kernel that writes to an invalid address and returns 0 if MachineError reports it; that leaves the process without a
// usable GPU context, hence a process of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "machine.hpp"

namespace rehearsal::test {
namespace {

Options chosen;

int illegal_access() {
  Machine machine;
  const gpu::StreamId stream = machine.device().make_stream();
  try {
    machine.device().count(reinterpret_cast<std::int64_t*>(std::uintptr_t(8)), 1, stream);
    machine.finish(stream);
  } catch (const MachineError& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    _exit(0);  // destructors would use a broken device
  }
  return 1;
}

}  // namespace

const Options& options() { return chosen; }

void Machine::finish(gpu::StreamId stream) {
  const gpu::EventId end = device_->make_event();
  device_->record(end, stream);
  while (!device_->reached(end)) dispatch::sleep_until(dispatch::now() + seconds(2e-5));
}

}  // namespace rehearsal::test

int main(int argc, char** argv) {
  unsigned limit = 600;
  if (const auto why = rehearsal::test::why_no_gpu()) {
    std::printf("skipped: %s\n", why->c_str());
    return 77;
  }
  bool illegal = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") rehearsal::test::chosen.quick = true;
    if (argument == "--illegal-access") illegal = true;
    if (argument.starts_with("--limit="))
      limit = unsigned(std::strtoul(argv[i] + std::strlen("--limit="), nullptr, 10));
  }
  alarm(limit);
  if (illegal) return rehearsal::test::illegal_access();
  return doctest::Context(argc, argv).run();
}
