// A rack whose NVLink switches join the GPUs of many nodes (GB200 NVL72: 18 trays of 4 GPUs): one domain for whatever
// asks for NVLink, while every node keeps its own NICs.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

std::int64_t joined(const Machine& m) { return static_cast<std::int64_t>(m.parameter("gpus")); }

void check(const Machine& m) {
  if (joined(m) % m.spec().gpus_per_node != 0)
    throw UserError(fmt::format("topology 'nvl-rack': a rack of 'gpus' {} is no whole number of nodes of {} GPUs",
                                joined(m), m.spec().gpus_per_node));
}

}  // namespace

void register_nvl_rack(Registry& registry) {
  Topology t;
  t.name = "nvl-rack";
  t.summary = "NVLink joins the GPUs of all nodes of a rack (GB200 NVL72: 18 nodes of 4); racks meet over NICs.";
  t.parameters = {{"gpus", Unit::integer, 72, 1, 4096, "GPUs of a rack, a multiple of gpus_per_node"}};
  t.check = check;
  t.domain = joined;
  through_nvswitch(t);
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
