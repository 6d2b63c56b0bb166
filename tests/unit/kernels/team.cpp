// Shows that the checks of the other files can fail: kernels with the errors that those checks must find.
#include "kernels/executor.hpp"
#include "trial.hpp"

namespace rehearsal::kernels {
namespace {

// Each thread doubles what its neighbour left in shared memory.
struct Neighbours {
  static constexpr int kThreads = 64;
  struct Shared {
    float values[kThreads];
  };
  float* out;
  bool barrier, writes;

  template <class Team>
  void operator()(Team& team) const {
    const auto write = [&](int thread) {
      if (writes || thread > 0) team.shared.values[thread] = float(thread + 1);
    };
    const auto read = [&](int thread) { out[thread] = 2 * team.shared.values[(thread + 1) % kThreads]; };
    if (barrier) {
      team.each(write);
      team.each(read);
    } else {
      team.each([&](int thread) { write(thread), read(thread); });
    }
  }
};

Values neighbours(bool barrier, bool writes, const HostOrder& order) {
  Values out(Neighbours::kThreads);
  Executor run(order);
  run(Neighbours{out.data(), barrier, writes}, 1);
  return out;
}

// Adds over blocks into one number. In block order 2^27 comes first and the following ones are lost: floats are 16
// apart there.
struct Racing {
  static constexpr int kThreads = 32;
  using Shared = Nothing;
  float* sum;
  template <class Team>
  void operator()(Team& team) const {
    team.each([&](int thread) {
      if (thread == 0) *sum += team.block() == 0 ? 0x1p27f : 1.f;
    });
  }
};

struct Trees {
  static constexpr int kThreads = 96;
  using Shared = Nothing;
  const float* in;
  float *sum, *most, *groups;
  template <class Team>
  void operator()(Team& team) const {
    Local<Team, float> x(team);
    Local<Team, Floats<1>> y(team);
    team.own([&](int thread) { y(thread)[0] = x(thread) = in[thread]; });
    *sum = team.sum(x);
    team.own([&](int thread) { x(thread) = in[thread]; });
    *most = team.largest(x);
    team.template sum_of<4>(y);
    team.own([&](int thread) { groups[thread] = y(thread)[0]; });
  }
};

}  // namespace

TEST_CASE("a missing barrier, an unwritten read and a race of blocks show") {
  const Values right = neighbours(true, true, {});
  CHECK(right[0] == 4);
  CHECK(same_bits(neighbours(true, true, {.shuffle = 1, .poison = true}), right));
  CHECK_FALSE(same_bits(neighbours(false, true, {.shuffle = 1, .poison = true}), right));
  CHECK(std::isnan(neighbours(true, false, {.poison = true})[63]));
  float plain = 0, shuffled = 0;
  Executor run({}), other({.shuffle = 1});
  run(Racing{&plain}, 100);
  other(Racing{&shuffled}, 100);
  CHECK(plain != shuffled);
}

TEST_CASE("a write beside an operand shows") {
  Stored operand({1, 2, 3}, Precision::bf16, 1);
  CHECK(operand.guards_stand());
  static_cast<BFloat16*>(operand.data())[2] = {};
  CHECK(operand.guards_stand());
  static_cast<BFloat16*>(operand.data())[3] = {};
  CHECK_FALSE(operand.guards_stand());
}

TEST_CASE("reductions: over the block, over neighbouring threads, and a NaN is never the smaller one") {
  Values in(96), groups(96);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = float(i % 50);
  float sum = 0, most = 0;
  Executor run({.shuffle = 2, .poison = true});
  run(Trees{in.data(), &sum, &most, groups.data()}, 1);
  CHECK(sum == 49 * 50 / 2 + 45 * 46 / 2);  // 0 .. 49 and 0 .. 45
  CHECK(most == 49);
  CHECK(groups[5] == 4 + 5 + 6 + 7);
  in[70] = std::nanf("");
  run(Trees{in.data(), &sum, &most, groups.data()}, 1);
  CHECK(std::isnan(most));
}

}  // namespace rehearsal::kernels
