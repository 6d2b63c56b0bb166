#include "explore/verify.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "explore/perform.hpp"

namespace rehearsal::explore {
namespace {

backend::TrainingResult trained() {
  backend::TrainingResult t;
  t.loss = {4, 3, 2};
  t.gradient_norm = {1, .5, .25};
  t.tensors.push_back({.kind = TensorKind::qkv_weight, .layer = 1, .values = {3, 4}, .replica_difference = 0});
  t.tensors.push_back({.kind = TensorKind::qv_bias, .layer = 1, .values = {0, 0, 0, 0}, .replica_difference = 0});
  return t;
}

bool mentions(const answer::Verification& v, const std::string& part) {
  for (const auto& f : v.failures)
    if (f.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("equal trainings are verified") {
  const answer::Verification v = verify(trained(), trained(), {});
  CHECK(v.ok);
  CHECK(v.failures.empty());
  CHECK(v.warnings.empty());
  CHECK(v.steps == 3);
  CHECK(v.max_relative_difference == 0);
  CHECK(v.worst_tensor == "layer 1 qkv_weight");
}

TEST_CASE("weights are compared tensor by tensor, relative to the reference") {
  auto other = trained();
  other.tensors[0].values = {3, 5};  // |w - ref| = 1, |ref| = 5
  const answer::Verification v = verify(other, trained(), {});
  CHECK_FALSE(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(.2));
  CHECK(v.worst_tensor == "layer 1 qkv_weight");
  CHECK(mentions(v, "layer 1 qkv_weight differs by 0.2"));
  CHECK(verify(other, trained(), {.weights = .21}).ok);
}

TEST_CASE("a tensor of zeros is compared with the smallest weight that counts") {
  auto other = trained();
  other.tensors[1].values = {2e-6f, 0, 0, 0};  // |w - ref| = 2e-6, in place of |ref|: 1e-6 sqrt(4)
  const answer::Verification v = verify(other, trained(), {});
  CHECK_FALSE(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(1));
  CHECK(v.worst_tensor == "layer 1 qv_bias");
  other.tensors[1].values = {1e-11f, 0, 0, 0};
  CHECK(verify(other, trained(), {}).ok);
}

// AdamW's first moments after 3 equal steps with gradients of 1 and of rounding noise: 1 - 0.9^3 = 0.271 of them.
backend::TrainingResult trained_by_adamw() {
  auto t = trained();
  t.tensors.pop_back();
  t.tensors[0].values = {3, 4};
  t.tensors[0].gathered = {.271f, 1e-9f};
  // rate (1 + |mhat| / s) / s a step, at a rate of 1e-3: 2e-3 where s = 1, and 2e5 where s = 1e-8; three of them.
  t.tensors[0].response = {6e-3f, 6e5f};
  return t;
}

TEST_CASE("an element whose gradient is rounding noise is judged by its gradient, the others by their weights") {
  const auto reference = trained_by_adamw();
  auto other = reference;
  // Gradients are 2e-9 apart there, and steps of full length go the other way, 2 * 3 * 1e-3. |ref| = 5.
  other.tensors[0].gathered[1] = -1e-9f;
  other.tensors[0].values[1] += 6e-3f;
  const answer::Verification v = verify(other, reference, {});
  CHECK(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(6e-3 / 5).epsilon(1e-3));  // what there is is said
  CHECK(v.max_unexplained_difference == 0);
  CHECK(v.elements == 2);
  CHECK(v.ill_conditioned == 1);
  // No gradient explains more than twice the longest steps, 2 * 3 * 1e-3 * (1 - 0.9) / sqrt(1 - 0.999) = 0.019.
  other.tensors[0].values[1] += .1f;
  CHECK_FALSE(verify(other, reference, {}).ok);
  // The gradient of the first element is 1. Errors of 16 * 2e-9 / sqrt(2) / 0.271 explain 4 * 6e-3 times that: 2e-9.
  other.tensors[0].values = {3 + 6e-3f, 4};
  CHECK_FALSE(verify(other, reference, {}).ok);
  CHECK(mentions(verify(other, reference, {}), "qkv_weight differs by 0.0012 relative"));
  // Where gradients agree, or no response of the weights was recorded, nothing is explained.
  other = reference;
  other.tensors[0].values[1] += 6e-3f;
  CHECK_FALSE(verify(other, reference, {}).ok);
  other.tensors[0].gathered[1] = -1e-9f;
  auto silent = reference;
  silent.tensors[0].response.clear();
  CHECK_FALSE(verify(other, silent, {}).ok);
}

// A vector of 32 whose elements all stepped by 1e-6, one of them the other way: 2e-6 of 1e-6 sqrt(32).
TEST_CASE("AdaLOMO may turn the step of a few elements of a vector, and of no matrix") {
  auto reference = trained();
  reference.tensors[1].values.assign(32, 1e-6f);
  auto other = reference;
  other.tensors[1].values[7] = -1e-6f;
  const Limits ada{.vectors_may_turn = true};
  CHECK_FALSE(verify(other, reference, {}).ok);
  const auto v = verify(other, reference, ada);
  CHECK(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(2 / std::sqrt(32)));  // what there is is said
  // A share of 1/16 is two elements; a vector that was not updated, or went another way, is found.
  other.tensors[1].values[8] = other.tensors[1].values[9] = -1e-6f;
  CHECK_FALSE(verify(other, reference, ada).ok);
  other.tensors[1].values.assign(32, 0);
  CHECK_FALSE(verify(other, reference, ada).ok);
  other.tensors[1].values.assign(32, 1.01e-6f);
  CHECK_FALSE(verify(other, reference, ada).ok);
  other = reference;
  other.tensors[0].values[0] += 1e-3f;
  CHECK_FALSE(verify(other, reference, ada).ok);
}

// In bf16 the reference is off from fp32 by 2 % of its way (6, 8), and its loss by .1 %.
TEST_CASE("below fp32 a training may be as far from its reference as rounding took that from fp32, and no further") {
  auto reference = trained();
  reference.tensors.resize(1);
  reference.tensors[0].master = {3, 4}, reference.tensors[0].gathered = {-6, -8};
  auto wide = reference;
  wide.loss[1] *= 1.001;
  wide.tensors[0].values = {3.12f, 4.16f};  // the way that the parameters went from (-3, -4): (-6.12, -8.16)
  wide.tensors[0].master.clear(), wide.tensors[0].gathered.clear();
  Limits limits{.weights = .02, .gradients = kGatheredTolerance, .precision = Precision::bf16};
  auto other = reference;
  other.loss[1] *= 1.006;                    // three times the usual limit, within eight roundings
  other.tensors[0].gathered = {-6, -8.55f};  // .055
  CHECK_FALSE(verify(other, reference, limits).ok);
  limits.wide = &wide;
  CHECK(verify(other, reference, limits).ok);  // five roundings: .098
  other.tensors[0].gathered = {-6, -9.1f};
  CHECK(mentions(verify(other, reference, limits), "gathered of the gradients of layer 1 qkv_weight differs by 0.11"));
  other = reference;
  other.loss[1] *= 1.01;
  CHECK(mentions(verify(other, reference, limits), "the loss differs by 0.01 relative, allowed are 0.008"));
  other = reference;
  other.tensors[0].values = {3, 4.8f};  // .16 of weights whose rounding is worth five times .038
  CHECK(verify(other, reference, limits).ok);
  other.tensors[0].values = {3, 5.1f};
  CHECK_FALSE(verify(other, reference, limits).ok);
}

TEST_CASE("gradients that differ are found though the weights explain them away") {
  const auto reference = trained_by_adamw();
  auto other = reference;
  other.tensors[0].gathered[0] *= 1.01f;  // five times what is allowed
  CHECK(mentions(verify(other, reference, {}), "gathered of the gradients of layer 1 qkv_weight differs by 0.01"));
  other = reference;
  other.tensors[0].gathered[1] = 1e-6f;  // noise: 1e-6 / 0.271
  CHECK(verify(other, reference, {}).ok);
  other.tensors[0].gathered.clear();
  CHECK_FALSE(verify(other, reference, {}).ok);
}

TEST_CASE("every way to be wrong is seen") {
  auto other = trained();
  other.loss[2] = 2.0001;
  CHECK(mentions(verify(other, trained(), {}), "the loss differs by 5e-05"));
  other = trained();
  other.gradient_norm[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK(mentions(verify(other, trained(), {}), "norm of the gradient"));
  other = trained();
  other.tensors[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(mentions(verify(other, trained(), {}), "qkv_weight differs"));
  other = trained();
  other.tensors[0].replica_difference = 1e-7f;
  CHECK(mentions(verify(other, trained(), {}), "replicas of layer 1 qkv_weight"));
  other = trained();
  other.tensors.pop_back();
  CHECK(mentions(verify(other, trained(), {}), "not the same ones"));
  other = trained();
  other.tensors[0].values.push_back(0);  // padding left in
  CHECK(mentions(verify(other, trained(), {}), "not the same ones"));
  other = trained();
  other.loss.pop_back();
  CHECK(mentions(verify(other, trained(), {}), "the loss differs"));
  CHECK(mentions(verify({}, {}, {}), "nothing was trained"));
}

TEST_CASE("a loss that does not fall is odd, but no difference") {
  auto both = trained();
  both.loss = {2, 1, 2};
  const answer::Verification v = verify(both, both, {});
  CHECK(v.ok);
  REQUIRE(v.warnings.size() == 1);
  CHECK(v.warnings[0].find("did not fall") != std::string::npos);
}

TEST_CASE("the serial reference has the same batch, model and optimizer on one rank") {
  const auto [scenario, compute] =
      load_performable(PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
                       {"training.recompute=full", "parallelism.zero=1"}, std::nullopt, "loopback");
  CHECK(compute == backend::Compute::real);
  CHECK_FALSE(scenario.simulate.symmetry);
  const auto serial = serial_reference(scenario);
  CHECK(serial.parallelism.gpus() == 1);
  CHECK(serial.parallelism.zero == 0);
  CHECK(serial.concrete->training.recompute == models::Recompute::none);
  CHECK(serial.concrete->training.optimizer == &models::optimizer("adamw"));
  CHECK(serial.batch.global == 16);
  CHECK(serial.batch.micro == 2);
  CHECK(serial.microbatches() == 8);  // 16 / 2; the scenario has 4 in each of 2 pipelines
  const auto data = learning(scenario), reference = learning(serial);
  CHECK(data.microbatches == 4);
  CHECK(reference.microbatches == 8);
  CHECK(data.seed == reference.seed);
  CHECK(data.learning_rate == reference.learning_rate);
}

}  // namespace rehearsal::explore
