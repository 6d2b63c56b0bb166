// Nodes on a torus: a router at each, joined to the next one up and down in every dimension. The NICs of a node are
// shared out to these links. Messages correct one dimension after the other, the short way round.
#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

// Numbers of nodes along the dimensions, innermost first; without any the nearest to a square of two.
std::vector<std::int64_t> dims(const Machine& m) {
  std::vector<std::int64_t> all;
  for (const double d : m.parameters("dims")) all.push_back(static_cast<std::int64_t>(d));
  if (all.size() == 1 && all[0] == 0) {
    auto side = static_cast<std::int64_t>(std::sqrt(double(m.domains())));
    while (m.domains() % side != 0) --side;
    all = {m.domains() / side, side};
  }
  return all;
}

void check(const Machine& m) {
  std::int64_t nodes = 1;
  for (const auto d : dims(m)) nodes *= d;
  if (nodes != m.domains())
    throw UserError(
        fmt::format("topology 'torus': 'dims' make {} places, but there are {} nodes; their product must "
                    "be the number of nodes",
                    nodes, m.domains()));
}

Device router(std::int64_t node) { return {DeviceKind::router, 0, static_cast<std::uint32_t>(node)}; }

Path path(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
  auto here = a / m.domain();
  const auto there = b / m.domain();
  Path way{router(here)};
  std::int64_t step = 1;
  for (const auto n : dims(m)) {
    const auto place = here / step % n, wanted = there / step % n;
    const auto forward = (wanted - place + n) % n;
    const bool up = forward * 2 <= n;
    for (std::int64_t k = 0, at = place; k < (up ? forward : n - forward); ++k) {
      const auto next = (at + (up ? 1 : n - 1)) % n;
      here += (next - at) * step, at = next;
      way.push_back(router(here));
    }
    step *= n;
  }
  return over(m, a, b, stripe, way);
}

}  // namespace

void register_torus(Registry& registry) {
  Topology t;
  t.name = "torus";
  t.summary = "Joins nodes: each to its neighbours in every dimension; the NICs are shared out to these links.";
  t.parameters = {
      {"dims", Unit::integer, 0, 0, 1e6, "nodes along each dimension; without: two, as even as possible", true}};
  t.check = check;
  t.path = path;
  t.link = [](const Machine& m, const Device&, const Device&) {
    return Link{m.out_of_domain() / (2. * double(dims(m).size())), kSwitchLatency};
  };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
