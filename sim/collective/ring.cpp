#include "collective/ring.hpp"

#include <fmt/format.h>

#include "collective/pieces.hpp"

namespace rehearsal::collective {
namespace {

// In step k rank r sends chunk r + first - k. Reducing starts one chunk behind (first = n-1), so that chunk r arrives
// at rank r in the last step; gathering starts with the rank's own chunk (first = 0).
std::vector<std::vector<Transfer>> turn(std::uint32_t n, std::uint32_t first, bool reduce) {
  std::vector<std::vector<Transfer>> steps;
  for (std::uint32_t k = 0; k + 1 < n; ++k) {
    auto& step = steps.emplace_back();
    for (std::uint32_t r = 0; r < n; ++r) step.push_back({r, (r + 1) % n, (r + first + n - k) % n, reduce});
  }
  return steps;
}

}  // namespace

std::vector<std::vector<Transfer>> ring_reduce_scatter_steps(std::uint32_t n) { return turn(n, n - 1, true); }
std::vector<std::vector<Transfer>> ring_all_gather_steps(std::uint32_t n) { return turn(n, 0, false); }

Bytes ring_bytes(std::uint32_t n, Bytes size, int phases) {
  return bytes(phases * double(size.count()) * (double(n) - 1) / double(n));
}

Protocol ring_protocol(const cluster::Interconnect& links) {
  return {to_seconds(links.launch), links.ring_share, to_seconds(links.ramp)};
}

Split split(const Algorithm& algorithm, Shape shape, Bytes size) {
  if (shape.ranks <= 1) return {};
  if (algorithm.split) return algorithm.split(shape, size);
  const double sent = double(algorithm.bytes_sent_per_rank(shape, size).count());
  if (shape.nodes() <= 1) return {sent, 0};
  return {sent * (shape.per_node - 1) / shape.per_node, sent};
}

double ring_time(Shape shape, Bytes size, int phases, const Wires& wires) {
  if (shape.ranks <= 1) return 0;
  const double others = double(shape.ranks) - 1, sent = phases * others / double(shape.ranks);
  if (shape.nodes() <= 1) return wires.fixed + phases * others * wires.latency + sent * seconds_for(size, wires.rate);
  const double wire = sent * seconds_for(size, wires.net_rate * double(shape.per_node));
  const double moved = pipelined(wires.ring_inside, wire, ring_pieces(shape, size, phases, wires.channels));
  // One ring through all: k - 1 of its n - 1 steps cross between nodes, and of the others g - 1 are in `ring_inside`.
  const double across = double(shape.nodes()) - 1, members = shape.per_node;
  return wires.fixed + moved + phases * across * (wires.net_latency + (members - 1) * wires.latency);
}

std::string ring_hops(Shape shape) {
  if (shape.nodes() <= 1) return fmt::format("a ring of {}", shape.ranks);
  return fmt::format("{} hop{}", shape.nodes() - 1, shape.nodes() == 2 ? "" : "s");
}

}  // namespace rehearsal::collective
