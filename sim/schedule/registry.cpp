#include "schedule/registry.hpp"

namespace rehearsal::schedule {

const Registry& registry() {
  static const Registry shelf = [] {
    Registry filled("schedule");
    register_all(filled);
    return filled;
  }();
  return shelf;
}

}  // namespace rehearsal::schedule
