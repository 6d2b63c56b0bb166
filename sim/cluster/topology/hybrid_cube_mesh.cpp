// Nodes of up to eight V100 without a switch, as in NVIDIA's DGX-1 and AWS p3: six NVLinks of each GPU lead to four
// others, one or two to each, so that pairs differ in rate (two GPUs behind one link all-reduce at 22 GB/s, eight at
// 134).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

constexpr std::int64_t kMost = 8;
constexpr double kLinks = 6;  // of a V100
// NVLinks between two GPUs, as `nvidia-smi topo -m` prints them on a DGX-1 (NV1, NV2; SYS = none). Rows sum to 6.
constexpr std::array<std::array<int, kMost>, kMost> kMesh{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                           {1, 0, 2, 1, 0, 2, 0, 0},
                                                           {1, 2, 0, 2, 0, 0, 1, 0},
                                                           {2, 1, 2, 0, 0, 0, 0, 1},
                                                           {2, 0, 0, 0, 0, 1, 1, 2},
                                                           {0, 2, 0, 0, 1, 0, 2, 1},
                                                           {0, 0, 1, 0, 1, 2, 0, 2},
                                                           {0, 0, 0, 1, 2, 1, 2, 0}}};

int links(std::int64_t a, std::int64_t b) { return kMesh[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]; }

void check(const Machine& m) {
  if (m.spec().gpus_per_node > kMost)
    throw UserError(fmt::format("topology 'hybrid-cube-mesh' joins at most {} GPUs, but a node of cluster '{}' has {}",
                                kMost, m.spec().name, m.spec().gpus_per_node));
}

Path path(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t) {
  const auto from = m.local(a), to = m.local(b);
  if (links(from, to) > 0) return {m.gpu(a), m.gpu(b)};
  std::int64_t middle = 0;
  while (links(from, middle) == 0 || links(middle, to) == 0) ++middle;
  return {m.gpu(a), m.gpu(a - from + middle), m.gpu(b)};
}

// NCCL lays rings over the links among the members; the member with the fewest limits them. Where a member has none,
// messages pass other GPUs: as one link.
Bandwidth port(const Machine& m, std::int64_t stride, std::int64_t members) {
  int fewest = static_cast<int>(kLinks);
  for (std::int64_t first = 0; first + stride * members <= m.spec().gpus_per_node; first += stride * members)
    for (std::int64_t offset = 0; offset < stride; ++offset)
      for (std::int64_t a = 0; a < members; ++a) {
        int of_member = 0;
        for (std::int64_t b = 0; b < members; ++b)
          of_member += links(first + offset + a * stride, first + offset + b * stride);
        fewest = std::min(fewest, std::max(1, of_member));
      }
  return m.spec().nvlink * (fewest / kLinks);
}

ClosedFormBounds promise(const Machine& m) {
  // The links that cross the middle: 6 of 24 of a whole node, 150 GB/s on V100.
  const auto g = m.spec().gpus_per_node;
  int crossing = 0;
  for (std::int64_t a = 0; a < g / 2; ++a)
    for (std::int64_t b = g / 2; b < g; ++b) crossing += links(a, b);
  return {m.spec().nvlink * (crossing / kLinks), g > 4 ? 2 : g > 1 ? 1 : 0};
}

}  // namespace

void register_hybrid_cube_mesh(Registry& registry) {
  Topology t;
  t.name = "hybrid-cube-mesh";
  t.summary = "Inside a node: up to 8 V100 joined by single and double NVLinks without a switch (DGX-1, p3).";
  t.role = Topology::Role::node;
  t.check = check;
  t.path = path;
  t.link = [](const Machine& m, const Device& a, const Device& b) {
    return Link{m.spec().nvlink * (links(a.index, b.index) / kLinks), m.spec().nvlink_latency};
  };
  t.port = port;
  t.promise = promise;
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
