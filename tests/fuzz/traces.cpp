// Any bytes as a trace give traces or a UserError with its place, and of a trace the parts of the time add up.
#include "base/error.hpp"
#include "memory_file.hpp"
#include "traces/analysis.hpp"
#include "traces/samples.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const fuzz::MemoryFile file(data, size);
  static const traces::KernelClasses classes;
  try {
    const auto all = traces::read(std::vector{file.path()}, classes);
    for (const auto& analysis : traces::analyse(all, classes)) {
      const auto& whole = analysis.whole;
      if (whole.idle() < Time{} || whole.exposed > whole.communicating || whole.waiting > whole.exposed) std::abort();
    }
    for (const auto& trace : all) traces::samples(trace);
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
