#include "balance/registry.hpp"

namespace rehearsal::balance {

const Registry& registry() {
  static const Registry shelf = [] {
    Registry filled("method");
    register_all(filled);
    return filled;
  }();
  return shelf;
}

}  // namespace rehearsal::balance
