// Any bytes as the results of a rank give results or a MachineError; results that were read are written unchanged.
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
