#include "collective/registry.hpp"

namespace rehearsal::collective {

const Registry& registry() {
  static const Registry all = [] {
    Registry shelf("collective");
    register_all(shelf);
    return shelf;
  }();
  return all;
}

}  // namespace rehearsal::collective
