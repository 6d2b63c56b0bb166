// Whatever a scenario file holds, reading it ends with a scenario or with a UserError: no crash, no hang, no other
// exception. The file is one in memory, so that all of the way from the bytes to the digest is covered.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "scenario/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const int file = ::memfd_create("scenario", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const auto scenario = scenario::load("/proc/self/fd/" + std::to_string(file));
    if (scenario.digest.size() != 64 || scenario.concrete.has_value() == scenario.abstract.has_value()) std::abort();
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  ::close(file);
  return 0;
}
