#include "cost/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace rehearsal::cost {
namespace {

// Output tiles of the vendor libraries. Larger ones need more registers than a thread block has.
struct Tile {
  std::int64_t rows, columns;
};
constexpr std::array<Tile, 6> kTiles{{{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};
constexpr double kLargestTile = 256. * 128;
// Split-K: the numbers of pieces that K is cut into, each a tile of its own.
constexpr std::array<std::int64_t, 8> kSplits{1, 2, 3, 4, 5, 6, 8, 12};
constexpr double kLeastSplitDepth = 256;  // elements of K a piece
constexpr double kSplitOverhead = 3e-6;   // the kernel that adds the partial sums; fitted, A100 and H200 alike
// Bytes per output and piece: an fp32 partial sum written; the L2 cache holds it until it is read. Fitted (8 without).
constexpr double kSplitTraffic = 4;

// Where power limits the clock: the clock of GEMMs whose tensor cores pause often enough, and how sharply one limit
// passes into the other (order of the norm of both times). The form was chosen with all published A100 runs
// in view: constant clocks leave GPT of h = 20,480 5 % too fast and of h = 12,288 3 % too slow.
constexpr double kUnlimitedClock = .95;
constexpr double kLimitOrder = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

FlopRate peak_of(const cluster::Gpu& gpu, Precision precision, Precision asked) {
  const auto found = gpu.peak.find(precision);
  if (found == gpu.peak.end() || found->second.value() <= 0)
    throw UserError(
        fmt::format("GPU '{}' cannot compute in {}; choose another training.precision or give its peak rate", gpu.name,
                    name(asked)));
  return found->second;
}

// Computing and moving overlap, but not fully if both take equally long: the norm of order 4 of the two times.
double overlapped(double compute, double memory) {
  const double c = compute * compute, m = memory * memory;
  return std::sqrt(std::sqrt(c * c + m * m));
}

// t = t0 + min over tile and split s of |w (c + min(t_pro, max(0, c - t_pro))), bytes/BW|_4 + the sum over the pieces,
// where w is waves, ceil(tiles s / SMs), c = 2 bm bn k/s / r and r an SM's rate with that tile. t_pro, the prologue and
// the epilogue of a tile, scales with its area. A piece has at least kLeastSplitDepth of K, padded if necessary: every
// candidate grows with every dimension, so their minimum does too.
double time_at(const cluster::Gpu& gpu, const Gemm& shape, Precision counted_as, double clock, double speedup) {
  const double rate = peak_of(gpu, counted_as, shape.precision).value() * clock * speedup * gpu.gemm_efficiency;
  const double sm_rate = rate / double(gpu.sms);
  const double k = double(shape.k), outputs = double(shape.m) * double(shape.n) * double(shape.batch);
  const double bandwidth = gpu.sustained_memory_bandwidth.value();
  const double memory = shape.operand_bytes() / bandwidth;
  const double tile_overhead = to_seconds(gpu.tile_overhead);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double rows = double(tile.rows), columns = double(tile.columns);
    const std::int64_t tiles = ceil_div(shape.m, tile.rows) * ceil_div(shape.n, tile.columns) * shape.batch;
    // Small tiles load more operand elements a FLOP: 1/rows + 1/columns of them.
    const double loss = 1 + gpu.small_tile_loss * (128 / rows + 128 / columns - 1.5);
    const double per_depth = 2 * rows * columns * loss / sm_rate;  // of one tile, an element of K
    const double overhead = tile_overhead * (rows * columns / kLargestTile);
    double depth = std::numeric_limits<double>::infinity();
    for (const std::int64_t split : kSplits) {
      if (depth <= kLeastSplitDepth) break;  // more pieces of the same
      depth = split > 1 ? std::max(k / double(split), kLeastSplitDepth) : k;
      const double waves = double(ceil_div(tiles * split, gpu.sms));
      const double loop = per_depth * depth;
      // A main loop as short as the ends hides them under another thread block of the SM; one twice as long does not.
      // Assumed: no measured GEMM is that short.
      const double compute = waves * (loop + std::clamp(loop - overhead, 0., overhead));
      const double sum = split > 1 ? kSplitTraffic * double(split) * outputs / bandwidth + kSplitOverhead : 0;
      if (std::max(compute, memory) + sum >= best) continue;  // a lower bound of the norm, without roots
      best = std::min(best, overlapped(compute, memory) + sum);
    }
  }
  const double alone = to_seconds(gpu.gemm_overhead) + best;
  return shape.weight_gradient ? std::max(alone / gpu.weight_gradient_rate, memory) : alone;
}

}  // namespace

std::int64_t largest_tiles(const Gemm& shape) {
  return ceil_div(shape.m, kTiles.front().rows) * ceil_div(shape.n, kTiles.front().columns) * shape.batch;
}

// The power limit acts on averages: a FLOP costs energy, a pause of the tensor cores hardly any. So a GEMM whose tiles
// or traffic make them pause runs at a higher clock than one without pauses, and no GEMM is faster than the energy of
// its FLOPs allows.
double gemm_time(const cluster::Gpu& gpu, const Gemm& shape, Precision counted_as, double clock, double speedup,
                 double limited_speedup) {
  if (clock >= kUnlimitedClock) return time_at(gpu, shape, counted_as, clock, speedup);
  const double unlimited = time_at(gpu, shape, counted_as, kUnlimitedClock, speedup);
  const double rate = peak_of(gpu, counted_as, shape.precision).value() * clock *
                      (limited_speedup > 0 ? limited_speedup : speedup) * gpu.gemm_efficiency;
  const double limited = shape.flops().value() / rate / (shape.weight_gradient ? gpu.weight_gradient_rate : 1);
  return std::pow(std::pow(unlimited, kLimitOrder) + std::pow(limited, kLimitOrder), 1 / kLimitOrder);
}

}  // namespace rehearsal::cost
