// Any text as a scenario file gives a scenario or a UserError: no crash, no hang, no other exception.
#include "scenario/scenario.hpp"
#include "base/error.hpp"
#include "memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const fuzz::MemoryFile file(data, size);
  try {
    const auto scenario = scenario::load(file.path());
    if (scenario.digest.size() != 64 || scenario.concrete.has_value() == scenario.abstract.has_value()) std::abort();
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
