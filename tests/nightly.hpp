// Whether a test reads everything, as `tools/test --nightly` asks, or a part that holds the same property in a fraction
// of the time. ctest labels the tests that include this `nightly`.
#pragma once
#include <cstdlib>

namespace rehearsal {

inline bool nightly() { return std::getenv("REHEARSAL_NIGHTLY") != nullptr; }

}  // namespace rehearsal
