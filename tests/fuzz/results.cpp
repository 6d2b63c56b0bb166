// Whatever arrives as the results of a rank, reading it ends with results or with a MachineError; what was read is
// written as it came.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "dispatch/results.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rehearsal;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::optional<dispatch::RankResult> result;
  try {
    result = dispatch::read(bytes);
  } catch (const MachineError&) {
    return 0;
  }
  if (dispatch::read(dispatch::write(*result)).learned.loss.size() != result->learned.loss.size()) std::abort();
  return 0;
}
