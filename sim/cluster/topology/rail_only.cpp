// Rails without switches between them (Wang et al. 2023, "Rail-only", arXiv 2307.12169): a message to another rail
// always crosses NVLink first, to the GPU on the right rail (NCCL's PXN).
#include <fmt/format.h>

#include "base/error.hpp"
#include "cluster/rails.hpp"

namespace rehearsal::cluster {

void register_rail_only(Registry& registry) {
  Topology t;
  t.name = "rail-only";
  t.summary = "Joins nodes: NIC i of every node on leaf i and nothing between rails; NVLink changes rails.";
  rails(t);
  t.check = [](const Machine& m) {
    if (m.spec().nics_per_node > 1 && m.spec().gpus_per_node == 1)
      throw UserError(
          fmt::format("topology 'rail-only': nodes of one GPU on {} rails could not change rails; use 'rail-optimized'",
                      m.spec().nics_per_node));
  };
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
    return along_rails(m, a, b, stripe, m.nic(a, stripe).index != m.nic(b, stripe).index, true);
  };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
