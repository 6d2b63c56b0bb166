// SGD and AdamW against hw/cpu; the master copy of parameters in bf16; the way back of a step.
#include "trial.hpp"

namespace rehearsal::kernels {
namespace {

constexpr std::array kOptimizers = {KernelKind::sgd, KernelKind::adamw, KernelKind::adamw_keep,
                                    KernelKind::adamw_rollback};

// Gradient and parameters of e elements, or of a buffer of all shards of which `data` is the own one.
Trial optimizer(KernelKind kind, std::int64_t e, Flat gradient, Flat parameters, std::int64_t data, unsigned seed) {
  Trial t = trial(kind, {e, std::int64_t(gradient), std::int64_t(parameters)}, 0, data, seed);
  t.learning.learning_rate = 1e-2f, t.learning.weight_decay = .1f;
  t.steps = 3;
  if (t.operands.size() > 2)
    for (std::size_t i = std::size_t(e); i < t.operands[2].size(); ++i)
      t.operands[2][i] = std::abs(t.operands[2][i]) + 1;
  t.counts = true;
  t.counted = {{0, e / 3}, {e / 2, e}, {e, e}};
  return t;
}

// In bf16: the parameters are the rounded master copy, which is the last part of the states.
Trial with_master(const Trial& t) {
  Trial other = t;
  other.kernel.precision = Precision::bf16;
  const std::int64_t e = t.kernel.dims[0];
  const std::int64_t from = static_cast<Flat>(t.kernel.dims[2]) == Flat::part ? t.data * e : 0;
  if (other.operands.size() == 2) other.operands.emplace_back();
  for (std::int64_t i = 0; i < e; ++i) other.operands[2].push_back(t.operands[1][std::size_t(from + i)]);
  for (float& v : other.operands[1]) v = from_bf16(to_bf16(v));
  return other;
}

}  // namespace

TEST_CASE("optimizers do what hw/cpu does, and so does the master copy of parameters in bf16") {
  unsigned seed = 0;
  for (const KernelKind kind : kOptimizers)
    for (const std::int64_t e : {1, 7, 1024, 5003})
      for (const Flat parameters : {Flat::own, Flat::part}) {
        CAPTURE(name(kind));
        CAPTURE(e);
        Trial t = optimizer(kind, e, e == 7 ? Flat::part : Flat::own, parameters, 2, ++seed);
        const Operands expected = t.by_cpu();
        const double squares = t.squares;
        for (const std::size_t shift : {0, 1}) {
          const Operands found = t.by_host(shift, {.shuffle = seed, .poison = true});
          for (std::size_t o = 0; o < found.size(); ++o)
            CHECK(distance(found[o], expected[o], Precision::fp32) <= 1e-6);
          CHECK(t.squares == doctest::Approx(squares).epsilon(1e-12));
          CHECK(same_bits(t.by_host(shift, {.multiprocessors = 9}), found));

          Trial narrow = with_master(t);
          const Operands rounded = narrow.by_host(shift, {.shuffle = seed, .poison = true});
          CHECK(same_bits(rounded[0], found[0]));
          CHECK(narrow.squares == t.squares);
          const std::int64_t from = parameters == Flat::part ? 2 * e : 0;
          const std::size_t states = found.size() == 3 ? std::size_t(2 * e) : 0;
          for (std::size_t i = 0; i < narrow.operands[1].size(); ++i) {
            const std::int64_t own = std::int64_t(i) - from;
            if (own < 0)
              CHECK(rounded[1][i] == narrow.operands[1][i]);
            else
              CHECK(rounded[1][i] == from_bf16(to_bf16(rounded[2][states + std::size_t(own)])));
            if (own >= 0) CHECK(rounded[2][states + std::size_t(own)] == found[1][i]);
          }
          for (std::size_t i = 0; i < states; ++i) CHECK(rounded[2][i] == found[2][i]);
        }
      }
}

TEST_CASE("SGD without a master copy rounds its parameters at every step") {
  // 1 - 2^-10 is no bf16 number: below 1 they are 2^-8 apart. The parameter stays at 1 however often it is stepped.
  Trial t = trial(KernelKind::sgd, {1, 0, 0, std::int64_t(Master::none)});
  t.kernel.precision = Precision::bf16;
  t.learning.learning_rate = 1.f / 1024;
  t.operands[0] = {1}, t.operands[1] = {1};
  CHECK(t.by_host()[1][0] == 1);
  // 1 - 2^-7 is one.
  t.learning.learning_rate = 1.f / 128;
  CHECK(t.by_host()[1][0] == 1 - 1.f / 128);
}

TEST_CASE("a step of AdamW that is taken back leaves the state before it, up to rounding") {
  for (const bool bf16 : {false, true}) {
    Trial taken = optimizer(KernelKind::adamw_keep, 4096, Flat::own, Flat::own, 0, 11);
    // v of the size of g^2: undoing divides the rounding error of v' by beta2 and no more.
    if (bf16) taken = with_master(taken);
    const Operands before = taken.operands, after = taken.by_host();
    CHECK(same_bits(after[0], before[0]));  // the gradient is kept
    CHECK(distance(after[2], before[2], Precision::fp32) > 1e-3);
    Trial undone = taken;
    undone.kernel.kind = KernelKind::adamw_rollback;
    undone.operands = after;
    const Operands back = undone.by_host();
    CHECK(undone.squares == 0);  // counts nothing
    CHECK(same_bits(back[0], before[0]));
    // Two roundings of numbers of order 1 either way; division by beta1 = 0.9 enlarges them little.
    CHECK(distance(back[2], before[2], Precision::fp32) <= 1e-6);
    CHECK(distance(back[1], before[1], taken.precision(1)) <= 1e-6);
  }
}

TEST_CASE("the correction of the first step is exact: the first update has the size of the learning rate") {
  // t' = 1: mhat = g and vhat = g^2, so theta' = theta - lr sign(g) for epsilon = 0.
  Trial t = trial(KernelKind::adamw, {3, 0, 0});
  t.learning = {};
  t.learning.learning_rate = .25f, t.learning.epsilon = 0, t.learning.weight_decay = 0;
  t.operands = {{2, -3, 0}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}};
  const Operands after = t.by_host();
  CHECK(after[1][0] == doctest::Approx(.75));
  CHECK(after[1][1] == doctest::Approx(1.25));
  CHECK(after[1][2] == 1);  // never had a gradient: 0 / 0 is not taken
}

}  // namespace rehearsal::kernels
