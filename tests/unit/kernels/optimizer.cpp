// SGD and AdamW against hw/cpu; the master copy of bf16 parameters; rollback of a step.
#include "trials.hpp"

namespace rehearsal::kernels {
TEST_CASE("optimizers do what hw/cpu does, and so does the master copy of parameters in bf16") {
  unsigned seed = 0;
  for (Trial& t : optimizer_trials()) {
    CAPTURE(name(t.kernel.kind));
    CAPTURE(t.kernel.dims);
    ++seed;
    const Operands expected = t.by_cpu();
    const double squares = t.squares;
    for (const std::size_t shift : {0, 1}) {
      const Operands found = t.by_host(shift, {.shuffle = seed, .poison = true});
      for (std::size_t o = 0; o < found.size(); ++o) CHECK(distance(found[o], expected[o], Precision::fp32) <= 1e-6);
      CHECK(t.squares == doctest::Approx(squares).epsilon(1e-12));
      CHECK(same_bits(t.by_host(shift, {.multiprocessors = 9}), found));

      Trial narrow = with_master(t);
      check_master(narrow, narrow.by_host(shift, {.shuffle = seed, .poison = true}), found);
      CHECK(narrow.squares == t.squares);
    }
  }
}

TEST_CASE("a norm that is added up scales the step, as hw/cpu does it") {
  for (const std::int64_t e : {1, 700, 5000})
    for (const Clip clip : {Clip::add, Clip::scale})
      for (const bool bf16 : {false, true}) {
        CAPTURE(e);
        CAPTURE(bf16);
        Trial wide = trial(KernelKind::sgd, {e, 0, 0, std::int64_t(Master::none), 0, std::int64_t(clip)}, 0, 0, 31);
        wide.learning.learning_rate = 1e-2f;
        set_loss(wide.operands[2], 7);
        Trial t = bf16 ? wide.in_bf16() : wide;
        const Operands expected = t.by_cpu(), found = t.by_host(0, {.shuffle = 5, .poison = true});
        CHECK(same_bits(found[0], Values(std::size_t(e), 0.f)));
        CHECK(distance(found[1], expected[1], t.precision(1)) <= 1e-6);
        CHECK(double_in(found[2]) == doctest::Approx(double_in(expected[2])).epsilon(1e-12));
        if (clip == Clip::add) {
          CHECK(same_bits(found[1], t.operands[1]));
          double squares = 7;
          for (const float g : t.operands[0]) squares += double(g) * double(g);
          CHECK(double_in(found[2]) == doctest::Approx(squares).epsilon(1e-12));
        } else if (!bf16) {  // of norm sqrt(7), so by that much less
          const double step = double(t.operands[1][0] - found[1][0]);
          CHECK(step == doctest::Approx(1e-2 * double(t.operands[0][0]) / std::sqrt(7.)).epsilon(1e-3));
        }
      }
}

TEST_CASE("AdaLOMO does what hw/cpu does, of matrices and vectors, in fp32 and rounded into bf16") {
  unsigned seed = 700;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 700}, {3, 7}, {300, 5}, {5, 300}, {70, 90}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    Trial wide = trial(KernelKind::adalomo, {rows, columns, 1}, 0, 0, ++seed);
    wide.learning.learning_rate = 1e-2f, wide.steps = 3, wide.counts = true;
    wide.counted = {{0, rows * columns}};
    for (float& v : wide.operands[2]) v = std::abs(v) + 1;
    for (const bool bf16 : {false, true}) {
      Trial t = bf16 ? wide.in_bf16() : wide;
      const Operands expected = t.by_cpu();
      const double squares = t.squares;
      const Operands found = t.by_host(0, {.shuffle = seed, .poison = true});
      for (std::size_t o = 0; o < found.size(); ++o) CHECK(distance(found[o], expected[o], t.precision(o)) <= 1e-6);
      CHECK(t.squares == doctest::Approx(squares).epsilon(1e-12));
      CHECK(same_bits(t.by_host(1, {.multiprocessors = 9}), found));
    }
  }
}

TEST_CASE("momentum and step of Muon do what hw/cpu does, with a master copy in bf16") {
  unsigned seed = 800;
  for (const KernelKind kind : {KernelKind::momentum, KernelKind::muon})
    for (const std::int64_t e : {1, 7, 1024, 5003}) {
      CAPTURE(name(kind));
      CAPTURE(e);
      const bool step = kind == KernelKind::muon;
      Trial t =
          optimizer_trial(kind, e, e == 7 ? Flat::part : Flat::own, step && e > 7 ? Flat::part : Flat::own, 2, ++seed);
      t.counts = !step;
      const Operands expected = t.by_cpu();
      const double squares = t.squares;
      const Operands found = t.by_host(1, {.shuffle = seed, .poison = true});
      for (std::size_t o = 0; o < found.size(); ++o) CHECK(same_bits(found[o], expected[o]));
      CHECK(t.squares == doctest::Approx(squares).epsilon(1e-12));
      CHECK(same_bits(t.by_host(0, {.multiprocessors = 9}), found));
      if (!step) continue;
      Trial narrow = with_master(t);
      check_master(narrow, narrow.by_host(0, {.shuffle = seed, .poison = true}), found);
    }
}

TEST_CASE("a step of Muon by hand") {
  // m' = 0.95 4 + 2 = 5.8, and what is orthogonalised 2 + 0.95 5.8 = 7.51.
  Trial m = trial(KernelKind::momentum, {1, 0, 0});
  m.operands = {{2}, {4}};
  CHECK(m.by_host()[0][0] == doctest::Approx(7.51));
  CHECK(m.by_host()[1][0] == doctest::Approx(5.8));
  // theta' = 3 (1 - 0.5 0.1) - 0.5 4 = 0.85.
  Trial step = trial(KernelKind::muon, {1, 0, 0});
  step.learning.learning_rate = .5f, step.learning.weight_decay = .1f;
  step.operands = {{4}, {3}};
  CHECK(step.by_host()[0][0] == 0);
  CHECK(step.by_host()[1][0] == doctest::Approx(.85));
}

TEST_CASE("SGD without a master copy rounds its parameters at every step") {
  // 1 - 2^-10 is not a bf16 number: below 1 they are 2^-8 apart. However many steps, the parameter stays at 1.
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
    Trial taken = optimizer_trial(KernelKind::adamw_keep, 4096, Flat::own, Flat::own, 0, 11);
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
  CHECK(after[1][2] == 1);  // without any gradient: 0 / 0 is avoided
}

}  // namespace rehearsal::kernels
