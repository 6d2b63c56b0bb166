// Runs the blocks of a kernel (team.hpp) sequentially.
#pragma once
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/host.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// 0 .. n - 1 in an order drawn from the seed. Not std::shuffle, whose result no standard defines.
template <class Index>
std::vector<Index> permutation(std::int64_t n, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{});
  if (seed == 0) return order;
  std::mt19937_64 bits(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bits() % i]);
  return order;
}

class Executor {
 public:
  explicit Executor(const HostOrder& order) : order_(order) {}

  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks) {
    const auto memory = std::make_unique_for_overwrite<typename Kernel::Shared>();
    const auto threads = permutation<int>(Kernel::kThreads, order_.shuffle);
    for (const std::int64_t block : permutation<std::int64_t>(blocks, order_.shuffle)) {
      HostTeam<Kernel> team(block, blocks, *memory, threads, order_.poison);
      kernel(team);
    }
  }

 private:
  HostOrder order_;
};

}  // namespace rehearsal::kernels
