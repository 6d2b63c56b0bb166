// Any text as a profile gives a profile or a UserError; a profile that was read, written and read again is the same.
#include "scenario/profile.hpp"
#include "base/error.hpp"
#include "memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const fuzz::MemoryFile file(data, size);
  std::optional<cost::Profile> profile;
  try {
    profile = scenario::load_profile_file(file.path());
  } catch (const UserError& error) {
    if (error.diagnostics().empty()) std::abort();
    return 0;
  }
  // From here on nothing may be refused.
  const std::string written = scenario::write_profile(*profile);
  const fuzz::MemoryFile copy(written.data(), written.size());
  if (scenario::profile_digest(scenario::load_profile_file(copy.path())) != scenario::profile_digest(*profile))
    std::abort();
  return 0;
}
