// Any text as a table of published runs gives runs or a UserError, and each run has a scenario or a reason for having
// none, never both, and never a crash.
#include "base/error.hpp"
#include "memory_file.hpp"
#include "published/row_scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const fuzz::MemoryFile file(data, size);
  static const auto mapping = published::read_mapping();
  try {
    for (const auto& run : published::read_runs(file.path()))
      for (const auto detail :
           {published::FrameworkDetail::knobs, published::FrameworkDetail::profile, published::FrameworkDetail::none}) {
        const auto row = published::scenario_of(run, mapping, detail);
        if (row.yaml.empty() == row.not_judged.empty()) std::abort();
      }
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
