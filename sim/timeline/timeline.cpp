#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

const char* name(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::simulated:
      return "simulated";
    case Fidelity::exact:
      return "exact";
    case Fidelity::timed:
      return "timed";
    case Fidelity::emulated:
      return "emulated";
    case Fidelity::unsupported:
      return "unsupported";
  }
  return "?";
}

}  // namespace rehearsal::timeline
