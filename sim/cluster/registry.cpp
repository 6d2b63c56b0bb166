#include "cluster/registry.hpp"

namespace rehearsal::cluster {

const Registry& registry() {
  static const Registry all = [] {
    Registry shelf("topology");
    register_topology(shelf);
    return shelf;
  }();
  return all;
}

}  // namespace rehearsal::cluster
