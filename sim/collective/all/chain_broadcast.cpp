#include <fmt/format.h>

#include <algorithm>

#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

constexpr std::uint32_t kPieces = 16;  // of the array, sent one after the other; as many as are drawn
// Bytes of a piece: two of the eight steps of 512 KiB that a channel's buffer holds (pieces.hpp) are under way while
// the others wait to be sent on.
constexpr double kPiece = double(1 << 20);

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
  chain_of.split = [](Shape s, Bytes size) {  // the very last rank sends nothing
    const double all = double(size.count());
    return Split{all * (s.per_node - 1) / s.per_node, all * (s.nodes() - 1) / s.nodes()};
  };
  chain_of.streamed = true;
  // The first piece passes every hop; then the slower kind of hop sets the pace of the others.
  chain_of.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    const double out = std::max(0., double(s.nodes()) - 1), inside = double(s.ranks) - 1 - out;
    const double most = w.nccl_protocols ? 1. : 1. / kPieces;            // steps are performed as they are drawn
    const double piece = std::min(most, kPiece / double(size.count()));  // of the array
    const double slow = out > 0 ? seconds_for(size, w.net_rate * double(s.per_node)) : 0;
    const double fast = inside > 0 ? seconds_for(size, w.rate) : 0;
    return w.fixed + inside * (w.latency + piece * fast) + out * (w.net_latency + piece * slow) +
           (1 - piece) * std::max(fast, slow);
  };
  chain_of.schedule = [](Shape s) { return chain(s.ranks); };
  chain_of.pieces = [](Shape, Bytes size, double) { return double(size.count()) / kPieces / kPiece; };
  chain_of.why = [](Shape s) { return fmt::format("a chain of {}", s.ranks); };
  registry.add(std::move(chain_of));
}

}  // namespace rehearsal::collective
