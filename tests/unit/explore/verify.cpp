#include "explore/verify.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "explore/perform.hpp"

namespace rehearsal::explore {
namespace {

backend::Trained trained() {
  backend::Trained t;
  t.loss = {4, 3, 2};
  t.gradient_norm = {1, .5, .25};
  t.tensors.push_back({.kind = TensorKind::qkv_weight, .layer = 1, .values = {3, 4}, .replica_difference = 0});
  t.tensors.push_back({.kind = TensorKind::qv_bias, .layer = 1, .values = {0, 0, 0, 0}, .replica_difference = 0});
  return t;
}

bool mentions(const Verified& v, const std::string& part) {
  for (const auto& f : v.failures)
    if (f.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("equal trainings are verified") {
  const Verified v = verify(trained(), trained(), 1e-5);
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
  const Verified v = verify(other, trained(), 1e-5);
  CHECK_FALSE(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(.2));
  CHECK(v.worst_tensor == "layer 1 qkv_weight");
  CHECK(mentions(v, "layer 1 qkv_weight differs by 0.2"));
  CHECK(verify(other, trained(), .21).ok);
}

TEST_CASE("a tensor of zeros is compared with the smallest weight that counts") {
  auto other = trained();
  other.tensors[1].values = {2e-6f, 0, 0, 0};  // |w - ref| = 2e-6, in place of |ref|: 1e-6 sqrt(4)
  const Verified v = verify(other, trained(), 1e-5);
  CHECK_FALSE(v.ok);
  CHECK(v.max_relative_difference == doctest::Approx(1));
  CHECK(v.worst_tensor == "layer 1 qv_bias");
  other.tensors[1].values = {1e-11f, 0, 0, 0};
  CHECK(verify(other, trained(), 1e-5).ok);
}

TEST_CASE("every way to be wrong is seen") {
  auto other = trained();
  other.loss[2] = 2.0001;
  CHECK(mentions(verify(other, trained(), 1e-5), "the loss differs by 5e-05"));
  other = trained();
  other.gradient_norm[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK(mentions(verify(other, trained(), 1e-5), "norm of the gradient"));
  other = trained();
  other.tensors[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(mentions(verify(other, trained(), 1e-5), "qkv_weight differs"));
  other = trained();
  other.tensors[0].replica_difference = 1e-7f;
  CHECK(mentions(verify(other, trained(), 1e-5), "replicas of layer 1 qkv_weight"));
  other = trained();
  other.tensors.pop_back();
  CHECK(mentions(verify(other, trained(), 1e-5), "not the same ones"));
  other = trained();
  other.tensors[0].values.push_back(0);  // padding left in
  CHECK(mentions(verify(other, trained(), 1e-5), "not the same ones"));
  other = trained();
  other.loss.pop_back();
  CHECK(mentions(verify(other, trained(), 1e-5), "the loss differs"));
  CHECK(mentions(verify({}, {}, 1e-5), "nothing was trained"));
}

TEST_CASE("a loss that does not fall is odd, but no difference") {
  auto both = trained();
  both.loss = {2, 1, 2};
  const Verified v = verify(both, both, 1e-5);
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
  CHECK(serial.concrete->training.optimizer == models::OptimizerKind::adamw);
  CHECK(serial.batch.global == 16);
  CHECK(serial.batch.micro == 2);
  CHECK(serial.microbatches == 8);  // 16 / 2; the scenario has 4 in each of 2 pipelines
  const auto data = learning(scenario), reference = learning(serial);
  CHECK(data.microbatches == 4);
  CHECK(reference.microbatches == 8);
  CHECK(data.seed == reference.seed);
  CHECK(data.learning_rate == reference.learning_rate);
}

}  // namespace rehearsal::explore
