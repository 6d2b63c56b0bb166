// A block of threads on the host, and the interface that kernels use of any block.
//
// A kernel is a struct of plain data with
//   static constexpr int kThreads;                     threads of a block, a multiple of 32
//   struct Shared;                                     memory that the threads of a block share; not initialised
//   template <class Team> void operator()(Team&) const one block
// and its body is written in phases, each of which says what every thread does:
//   team.each(body)      body(thread) for all threads, then a barrier
//   team.own(body)       the same without the barrier: what it writes may be read by the same thread alone until
//                        the next barrier
//   Local<Team, X> x(team)   one X per thread that lives across phases; x(thread) is that of the thread
//   team.sum(x), team.largest(x)     over the block; all threads get the same
//   team.template sum_of<G>(x), largest_of<G>(x)       over each G neighbouring threads (G = 2, 4, .., 32); in place
//   team.shared, team.block(), team.blocks()
// Code between phases is the same for all threads of the block (loops over tiles, say).
//
// Why: a GPU (cuda/device_team.cuh) runs a phase as body(threadIdx.x), keeps a Local in registers and reduces with
// shuffles; the host runs it as a loop over threads and keeps a Local as an array. So one source serves both, and index
// errors, arithmetic errors and missing barriers show without a GPU. For that the host can fill shared memory and
// locals with NaN before use, and reorder the threads of a phase and the blocks of a grid: neither may change a bit.
// Reductions add in the same order on both: in a warp x[t] + x[t xor 16], then 8, 4, 2, 1; then the warps in order. The
// host cannot show the memory model of a GPU, nor whether its compiler fuses a product and a sum.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/memory.hpp"

namespace rehearsal::kernels {

template <class Team, class X>
using Local = typename Team::template LocalOf<X>;

inline constexpr int kWarp = 32;

struct Nothing {};  // Shared of kernels without shared memory

struct Sum {
  template <class X>
  REHEARSAL_DEVICE X operator()(X a, X b) const {
    return a + b;
  }
};
// Keeps a NaN from either side, so that a failed step shows.
struct Largest {
  template <class X>
  REHEARSAL_DEVICE X operator()(X a, X b) const {
    return a >= b || a != a ? a : b;
  }
};

#if !defined(__CUDACC__)

// Fills memory that a block has not written yet with NaN (all bits set, in any of our formats).
inline void poison(void* memory, std::size_t size) { std::memset(memory, 0xff, size); }

// One block on the host. `order`: the order in which each phase runs the threads.
template <class Kernel>
class HostTeam {
 public:
  static constexpr int kThreads = Kernel::kThreads;
  static_assert(kThreads % kWarp == 0);
  using Shared = typename Kernel::Shared;

  template <class X>
  class LocalOf {
   public:
    explicit LocalOf(const HostTeam& team) : values_(kThreads) {
      static_assert(std::is_trivially_copyable_v<X>);
      if (team.poisoned_) poison(values_.data(), sizeof(X) * kThreads);
    }
    X& operator()(int thread) { return values_[static_cast<std::size_t>(thread)]; }

   private:
    std::vector<X> values_;
  };

  HostTeam(std::int64_t block, std::int64_t blocks, Shared& memory, std::span<const int> order, bool poisoned)
      : shared(memory), block_(block), blocks_(blocks), order_(order), poisoned_(poisoned) {
    if (poisoned_) poison(&shared, sizeof(Shared));
  }

  std::int64_t block() const { return block_; }
  std::int64_t blocks() const { return blocks_; }

  template <class Body>
  void each(const Body& body) {
    for (const int thread : order_) body(thread);
  }
  template <class Body>
  void own(const Body& body) {
    each(body);
  }

  template <class X>
  X sum(LocalOf<X>& x) {
    return reduce(x, Sum{});
  }
  template <class X>
  X largest(LocalOf<X>& x) {
    return reduce(x, Largest{});
  }

  template <int kGroup, int N>
  void sum_of(LocalOf<Floats<N>>& x) {
    butterfly<kGroup>(x, Sum{});
  }
  template <int kGroup, int N>
  void largest_of(LocalOf<Floats<N>>& x) {
    butterfly<kGroup>(x, Largest{});
  }

  Shared& shared;

 private:
  template <class X, class Operation>
  X reduce(LocalOf<X>& x, Operation operation) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      LocalOf<X> before = x;
      for (int t = 0; t < kThreads; ++t) x(t) = operation(before(t), before(t ^ distance));
    }
    X all = x(0);
    for (int t = kWarp; t < kThreads; t += kWarp) all = operation(all, x(t));
    return all;
  }

  template <int kGroup, int N, class Operation>
  void butterfly(LocalOf<Floats<N>>& x, Operation operation) {
    for (int distance = kGroup / 2; distance > 0; distance /= 2) {
      LocalOf<Floats<N>> before = x;
      for (int t = 0; t < kThreads; ++t)
        for (int i = 0; i < N; ++i) x(t)[i] = operation(before(t)[i], before(t ^ distance)[i]);
    }
  }

  std::int64_t block_, blocks_;
  std::span<const int> order_;
  bool poisoned_;
};

#endif

}  // namespace rehearsal::kernels
