#include <fmt/format.h>

#include <algorithm>

#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

constexpr std::uint32_t kPieces = 16;  // of the array; each follows the one before along the chain

std::vector<std::vector<Transfer>> chain(std::uint32_t n) {
  if (n <= 1) return {};
  std::vector<std::vector<Transfer>> steps(n - 2 + kPieces);
  for (std::uint32_t piece = 0; piece < kPieces; ++piece)
    for (std::uint32_t r = 0; r + 1 < n; ++r) steps[piece + r].push_back({r, r + 1, piece, false});
  return steps;
}

}  // namespace

void register_chain_broadcast(Registry& registry) {
  Algorithm chain_of;
  chain_of.name = "chain-broadcast";
  chain_of.summary =
      "Rank 0's array travels along a chain in pieces: n - 2 steps to fill it, then a piece a step (NCCL's broadcast, "
      "a "
      "ring without its last link).";
  chain_of.kind = CollectiveKind::broadcast;
  chain_of.parts = kPieces;
  chain_of.steps = [](Shape s) { return s.ranks > 1 ? s.ranks - 2 + kPieces : 0U; };
  chain_of.bytes_sent_per_rank = [](Shape s, Bytes size) { return s.ranks > 1 ? size : Bytes(); };
  chain_of.split = [](Shape s, Bytes size) {  // the last rank of all sends nothing
    const double all = double(size.count());
    return Split{all * (s.per_node - 1) / s.per_node, all * (s.nodes() - 1) / s.nodes()};
  };
  chain_of.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    const double steps = double(s.ranks) - 2 + kPieces;
    if (s.nodes() <= 1) return w.fixed + steps * (w.latency + seconds_for(size, w.rate) / kPieces);
    // A piece crosses k - 1 borders; the slower of the two kinds of link sets the pace.
    const auto out = w.net_rate * double(s.per_node);
    const auto pace = s.per_node > 1 ? std::min(w.rate, out) : out;
    return w.fixed + (double(s.nodes()) - 1) * w.net_latency + steps * (w.latency + seconds_for(size, pace) / kPieces);
  };
  chain_of.schedule = [](Shape s) { return chain(s.ranks); };
  chain_of.nccl_since = Version{2, 0};
  chain_of.why = [](Shape s) { return fmt::format("a chain of {}", s.ranks); };
  registry.add(std::move(chain_of));
}

}  // namespace rehearsal::collective
