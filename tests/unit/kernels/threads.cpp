// Blocks run by real threads, each of which runs the whole kernel by itself, as on a GPU: code between phases must be
// the same for all of them, or they deadlock; and under ThreadSanitizer (preset tsan) a missing barrier is a data race.
#include <barrier>
#include <deque>
#include <memory>
#include <thread>

#include "kernels/run_passes.hpp"
#include "trial.hpp"

namespace rehearsal::kernels {
namespace {

// What the threads of a block share.
template <class Kernel>
struct Block {
  static constexpr int kThreads = Kernel::kThreads;
  typename Kernel::Shared shared;
  double numbers[kThreads];
  std::barrier<> barrier{kThreads};
  // Shuffles wait only for the threads of a warp: they must not act as a barrier of the block.
  std::deque<std::barrier<>> warps;
  Block() {
    for (int warp = 0; warp < kThreads / kWarp; ++warp) warps.emplace_back(kWarp);
  }
};

// One thread of a block, after cuda/device_team.cuh.
template <class Kernel>
class ThreadTeam {
 public:
  using Shared = typename Kernel::Shared;
  template <class X>
  class LocalOf {
   public:
    explicit LocalOf(const ThreadTeam&) { poison(&value_, sizeof(X)); }
    X& operator()(int) { return value_; }

   private:
    X value_;
  };

  ThreadTeam(Block<Kernel>& block, int thread, std::int64_t index, std::int64_t blocks)
      : shared(block.shared), all_(block), thread_(thread), index_(index), blocks_(blocks) {}
  std::int64_t block() const { return index_; }
  std::int64_t blocks() const { return blocks_; }

  template <class Body>
  void each(const Body& body) {
    body(thread_);
    all_.barrier.arrive_and_wait();
  }
  template <class Body>
  void own(const Body& body) {
    body(thread_);
  }
  template <class X>
  X sum(LocalOf<X>& x) {
    return reduce(x(0), Sum{});
  }
  template <class X>
  X largest(LocalOf<X>& x) {
    return reduce(x(0), Largest{});
  }
  template <int kGroup, int N>
  void sum_of(LocalOf<Floats<N>>& x) {
    butterfly<kGroup>(x(0), Sum{});
  }
  template <int kGroup, int N>
  void largest_of(LocalOf<Floats<N>>& x) {
    butterfly<kGroup>(x(0), Largest{});
  }

  Shared& shared;

 private:
  // The number of another thread, exchanged through a barrier of all participants.
  template <class X>
  X other(X x, int thread, std::barrier<>& barrier) {
    all_.numbers[thread_] = double(x);
    barrier.arrive_and_wait();
    const X result = X(all_.numbers[thread]);
    barrier.arrive_and_wait();
    return result;
  }
  template <class X, class Operation>
  X reduce(X x, Operation operation) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
      x = operation(x, other(x, thread_ ^ distance, all_.barrier));
    X all = other(x, 0, all_.barrier);
    for (int warp = kWarp; warp < Kernel::kThreads; warp += kWarp) all = operation(all, other(x, warp, all_.barrier));
    return all;
  }
  template <int kGroup, int N, class Operation>
  void butterfly(Floats<N>& x, Operation operation) {
    for (int distance = kGroup / 2; distance > 0; distance /= 2)
      for (int i = 0; i < N; ++i)
        x[i] = operation(x[i], other(x[i], thread_ ^ distance, all_.warps[std::size_t(thread_ / kWarp)]));
  }

  Block<Kernel>& all_;
  int thread_;
  std::int64_t index_, blocks_;
};

struct Threads {
  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks) const {
    for (std::int64_t index = 0; index < blocks; ++index) {
      const auto block = std::make_unique<Block<Kernel>>();
      poison(&block->shared, sizeof(block->shared));
      std::vector<std::jthread> threads;
      for (int t = 0; t < Kernel::kThreads; ++t)
        threads.emplace_back([&kernel, &block, t, index, blocks] {
          ThreadTeam<Kernel> team(*block, t, index, blocks);
          kernel(team);
        });
    }
  }
};

void same_by_threads(Trial t) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(t.kernel.dims);
  const Operands found = t.by(0, [](const Call& call) { passes(call, 1, Threads{}); });
  CHECK(same_bits(found, t.by_host(0, {.multiprocessors = 1})));
}

}  // namespace

TEST_CASE("threads that go through a kernel each by itself get the same bits") {
  using K = KernelKind;
  // Tiles of 64 that see all keys before them, tiles of 32 that see all.
  for (const auto& [depth, causal] : {std::array{40, 1}, std::array{200, 0}}) {
    same_by_threads(trial(K::attention, {1, 1, 70, depth, causal}));
    same_by_threads(trial(K::attention_gradient, {1, 1, 70, depth, causal}).in_bf16());
  }
  same_by_threads(trial(K::layer_norm, {3, 40}));
  same_by_threads(trial(K::layer_norm_gradient, {3, 1100}).in_bf16());
  same_by_threads(trial(K::cross_entropy_local, {3, 300, 300, 1}, 0, 0, 1, 300));
  same_by_threads(trial(K::cross_entropy, {70, 1, 3, 2, 70}));
  same_by_threads(trial(K::bias_gradient, {100, 10, 0}));
  same_by_threads(trial(K::embed_gradient, {4, 5, 2}, 0, 0, 2, 3));
  Trial step = trial(K::adamw, {1500, 0, 0});
  for (float& state : step.operands[2]) state = std::abs(state);
  step.counts = true;
  step.counted = {{0, 700}};
  same_by_threads(std::move(step));
}

}  // namespace rehearsal::kernels
