#include "collective/pieces.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rehearsal::collective {
namespace {

constexpr double kStep = double(4 << 20) / 8;  // bytes
constexpr double kChunk = 4 * kStep;
constexpr double kSlicesPerChunk = 2;
constexpr double kOwnPiece = kStep, kMostOwnPieces = 64;
constexpr double kLeastTreeChunk = 32 << 10, kSmallTreeChunk = 128 << 10;  // bytes

}  // namespace

double own_pieces(double bytes) { return std::min(bytes / kOwnPiece, kMostOwnPieces); }

double pieces_of_ring_part(Shape shape, Bytes size, double channels) {
  return kSlicesPerChunk * std::max(1., double(size.count()) / (channels * shape.ranks * kChunk));
}

double ring_pieces(Shape shape, Bytes size, int phases, double channels) {
  return std::max(1., pieces_of_ring_part(shape, size, channels) * phases * (shape.ranks - 1.));
}

// Chunks as for LL128, the protocol of small messages: NCCL halves them until there are 64, then 16 for each level;
// large messages use whole steps in either protocol.
double tree_pieces(Shape shape, Bytes size, double channels) {
  const double each = double(size.count()) / channels, members = shape.per_node;
  const double depth = std::bit_width(shape.nodes()) + .1 * members;  // 1 + log2 k, and the chain inside
  const auto cut = [&](double pieces, double least, double most) {
    return std::clamp(each / (depth * pieces / members), least, most);
  };
  return std::max(1., each / cut(16, kLeastTreeChunk, cut(64, kSmallTreeChunk, kStep)));
}

double pipelined(double inside, double wire, double pieces) {
  return std::max(inside, wire) + std::min(inside, wire) / pieces;
}

}  // namespace rehearsal::collective
