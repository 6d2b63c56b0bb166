#include "base/range.hpp"

#include "base/error.hpp"

namespace rehearsal {

void refuse_time() {
  throw UserError(
      "a time beyond 9,223,372 s (106 days) may follow from this input, and times are counted in 63 bits of "
      "picoseconds; make the step smaller, or check the rates and sizes that were given");
}

void refuse_size() {
  throw UserError(
      "a size beyond 9.2e18 bytes (2^63) may follow from this input; check the dimensions and degrees that were given");
}

}  // namespace rehearsal
