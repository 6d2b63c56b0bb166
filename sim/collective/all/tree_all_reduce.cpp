#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "collective/pieces.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

// NCCL's binary tree over n places: a place's parent has its lowest set bit cleared and the next one set, or only
// cleared where that is beyond the end. Every odd place is a leaf; the mirrored (n even) or shifted (n odd) tree makes
// every leaf an inner node, so that half the array in each loads all ports alike (Sanders, Speck & Traeff 2009).
std::uint32_t parent(std::uint32_t place, std::uint32_t n) {
  const std::uint32_t bit = place & -place;
  const std::uint32_t up = (place ^ bit) | (bit << 1U);
  return up >= n ? place ^ bit : up;
}

std::uint32_t place_in(std::uint32_t rank, std::uint32_t tree, std::uint32_t n) {
  return tree == 0 ? rank : n % 2 == 0 ? n - 1 - rank : (rank + n - 1) % n;
}
std::uint32_t rank_at(std::uint32_t place, std::uint32_t tree, std::uint32_t n) {
  return tree == 0 ? place : n % 2 == 0 ? n - 1 - place : (place + 1) % n;
}

std::uint32_t depth(std::uint32_t place, std::uint32_t n) {
  std::uint32_t levels = 0;
  for (; place != 0; place = parent(place, n)) ++levels;
  return levels;
}

std::uint32_t levels(std::uint32_t n) { return static_cast<std::uint32_t>(std::bit_width(n > 0 ? n - 1 : 0)); }

// Up, deepest level first, then down again; both trees in the same steps.
std::vector<std::vector<Transfer>> both_trees(std::uint32_t n) {
  const std::uint32_t height = levels(n);
  std::vector<std::vector<Transfer>> steps(2UL * height);
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const std::uint32_t place = place_in(rank, tree, n);
      if (place == 0) continue;
      const std::uint32_t above = rank_at(parent(place, n), tree, n), level = depth(place, n);
      steps[height - level].push_back({rank, above, tree, true});
      steps[height + level - 1].push_back({above, rank, tree, false});
    }
  }
  return steps;
}

// Halves of the array that the busiest rank sends: one up in each tree, and two down in the tree where it has two
// children. Less than four ranks have no such node beside the root.
std::uint32_t halves(std::uint32_t n) { return n <= 1 ? 0 : n == 2 ? 2 : n == 3 ? 3 : 4; }

// Of the rate of a NIC both of whose ways an inner node keeps busy, with parent and children that wait for each other:
// mean of four over hosts at 100 and 1000 Mb/s (tests/fidelity/hosts.csv), where those at 400 and of 8 hosts are not.
constexpr double kTreeOfSteps = .85;
constexpr double kTreeRate = .92;  // of rings' bus bandwidth: NCCL 2.30, src/graph/tuning.cc

// Share of its rate that a tree reaches at a size, 64 B to 128 MB, from one power of two to the next: "trees are not
// perfectly sticking to the model for medium sizes", where pieces are few for so many levels. NCCL's table for LL128
// (src/graph/tuning.cc).
double reached(Bytes size) {
  static constexpr std::array kReached{1., 1., 1., 1., 1., .9, .8, .8, .8, .7, .6,
                                       .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1.};
  const double power = std::clamp(std::log2(double(size.count()) / 64), 0., double(kReached.size() - 1));
  const auto at = std::min(static_cast<std::size_t>(power), kReached.size() - 2);
  return std::lerp(kReached.at(at), kReached.at(at + 1), power - double(at));
}

// NCCL's trees join nodes: chains inside, or the switch adds there, and the two trees between. An inner node sends half
// the array up in each tree and down to two children in one. Of two nodes each is a leaf once and a root once: the
// array leaves it once, half of what a ring sends, so that two nodes seem to exceed their NICs (NCCL's maintainers in
// github.com/NVIDIA/nccl/issues/946). Three could do with 3/2 S; but NCCL counts 2 S there (src/graph/tuning.cc) and
// takes rings (issues/1801), so 2 S is what decides.
double between_nodes(Shape s, Bytes size, const Wires& w) {
  const double sent = (s.nodes() == 2 ? 1 : 2) * double(size.count());
  const double share = w.nccl_protocols ? kTreeRate * reached(size) : s.nodes() == 2 ? 1 : kTreeOfSteps;
  const double wire = sent / (w.net_rate.value() * s.per_node) / share;
  const double moved = pipelined(w.inside, wire, tree_pieces(s, size, w.channels));
  return w.fixed + moved + 2. * levels(s.nodes()) * w.net_latency;
}

}  // namespace

void register_tree_all_reduce(Registry& registry) {
  Algorithm tree;
  tree.name = "tree-all-reduce";
  tree.summary =
      "Up and down two binary trees, half the array in each: 2 log2 n steps instead of a ring's 2(n-1), for as many "
      "bytes (Sanders, Speck & Traeff 2009; NCCL's tree).";
  tree.kind = CollectiveKind::all_reduce;
  tree.parts = 2;
  tree.pipelined = true;
  tree.any_inside = true;
  tree.steps = [](Shape s) { return 2 * levels(s.ranks); };
  tree.bytes_sent_per_rank = [](Shape s, Bytes size) { return bytes(double(size.count()) * halves(s.ranks) / 2); };
  tree.split = [](Shape s, Bytes size) {  // n - 1 edges, each up and down
    const double both = 2 * double(size.count());
    return Split{both * (s.per_node - 1) / s.per_node, both * (s.nodes() - 1) / s.nodes()};
  };
  tree.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    if (s.nodes() > 1) return between_nodes(s, size, w);
    return w.fixed + 2 * levels(s.ranks) * w.latency + halves(s.ranks) / 2. * seconds_for(size, w.rate);
  };
  tree.schedule = [](Shape s) { return both_trees(s.ranks); };
  tree.pieces = tree_pieces;
  tree.applies = [](Shape s, const cluster::Interconnect&) { return s.nodes() > 1; };
  tree.needs = "several nodes";
  tree.why = [](Shape s) {
    if (s.nodes() == 2) return std::string("half of what a ring sends between two nodes");
    return fmt::format("{} hops at {} of the rate instead of {}", levels(s.nodes()), kTreeRate, s.nodes() - 1);
  };
  registry.add(std::move(tree));
}

}  // namespace rehearsal::collective
