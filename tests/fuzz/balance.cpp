// Any text as a file of expert loads gives a question or a UserError.
#include "base/error.hpp"
#include "memory_file.hpp"
#include "scenario/balance_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const fuzz::MemoryFile file(data, size);
  try {
    scenario::load_balance(file.path());
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
  }
  return 0;
}
