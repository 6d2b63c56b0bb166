#include "collective/ring.hpp"

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

double ring_time(std::uint32_t n, Bytes size, int phases, const Wires& wires) {
  if (n <= 1) return 0;
  const double others = double(n) - 1;
  return wires.fixed + phases * (others * wires.latency + others / double(n) * seconds_for(size, wires.rate));
}

}  // namespace rehearsal::collective
