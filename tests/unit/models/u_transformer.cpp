// Which layers of a network with skip connections are the source or target of one, what that adds to a GPT layer, and
// which values pass between the two.
#include <doctest/doctest.h>

#include "framework_layers.hpp"
#include "models/rehearsal.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

Transformer with_skips(std::int64_t layers) {
  Transformer m = gpt();
  m.family = Family::u_transformer, m.layers = layers, m.tie_embeddings = false;
  return m;
}
constexpr auto kResidual = std::int64_t(2 * T * h);  // bytes of [b s, h]

}  // namespace

TEST_CASE("layer l of the first half gives to its mirror image; of an odd number the middle does neither") {
  using enum SkipEnd;
  const auto skips = [](std::int64_t layers) {
    const auto table = layer_table(with_skips(layers));
    std::vector<SkipEnd> all;
    for (const auto row : table.of_layer) all.push_back(table.rows[row].spec.skip);
    return all;
  };
  CHECK(skips(1) == std::vector{none});
  CHECK(skips(2) == std::vector{gives, takes});
  CHECK(skips(5) == std::vector{gives, gives, none, takes, takes});
  CHECK(layer_table(with_skips(5)).rows.size() == 3);
  CHECK(layer_table(with_skips(6)).rows.size() == 2);
}

TEST_CASE("additions have no parameters, and model FLOPs do not count them") {
  for (const std::int64_t layers : {1, 4, 5}) {
    auto plain = with_skips(layers);
    plain.family = Family::gpt;
    CHECK(parameters(with_skips(layers)) == parameters(plain));
    CHECK(model_flops(with_skips(layers), 512, 8) == model_flops(plain, 512, 8));
  }
}

TEST_CASE("a framework adds what was given, and the gradients of who gave it") {
  const auto network = framework_network(with_skips(5), training(AttentionKind::flash), framework(), shard(), {});
  const auto& plain = network.layers[1];
  const auto traffic = [](const std::vector<Step>& steps) { return totals(steps).traffic; };
  const auto &encoder = network.layers.front(), &decoder = network.layers.back();
  // Two operands and a sum of 2 bytes an element each.
  CHECK(traffic(decoder.forward) - traffic(plain.forward) == 6 * T * h);
  CHECK(traffic(decoder.backward) == traffic(plain.backward));
  CHECK(traffic(encoder.forward) == traffic(plain.forward));
  CHECK(traffic(encoder.backward) - traffic(plain.backward) == 6 * T * h);
  // What is given is the output, which is there anyway; the gradient is held for it.
  CHECK(encoder.values[*encoder.skip.given].size == Bytes());
  CHECK(encoder.values[*encoder.skip.given_gradient].size == Bytes(kResidual));
  CHECK(decoder.values[*decoder.skip.taken_gradient].size == Bytes(kResidual));
  CHECK(!plain.skip.given);
  CHECK(!plain.skip.taken);
  CHECK(lives(encoder).activations == lives(plain).activations);
}

TEST_CASE("own kernels copy what crosses, and keep the sum in the place of the input") {
  for (const auto recompute : {Recompute::none, Recompute::full}) {
    const auto network =
        performed_network(with_skips(5), {.shard = shard(), .precision = Precision::fp32, .recompute = recompute});
    const auto count = [](const std::vector<Step>& steps, KernelKind kind) {
      return std::count_if(steps.begin(), steps.end(), [&](const Step& step) {
        const auto* kernel = std::get_if<Kernel>(&step.what);
        return kernel && kernel->kind == kind;
      });
    };
    const auto& plain = network.layers[1];
    const auto &encoder = network.layers.front(), &decoder = network.layers.back();
    CHECK(count(encoder.forward, KernelKind::copy) == 1);
    CHECK(count(decoder.forward, KernelKind::add) == 1);
    // The addition is outside of what is repeated.
    CHECK(count(encoder.backward, KernelKind::add) == count(plain.backward, KernelKind::add) + 1);
    CHECK(count(decoder.backward, KernelKind::add) == count(plain.backward, KernelKind::add));
    CHECK(count(encoder.backward, KernelKind::copy) == 0);
    CHECK(count(decoder.backward, KernelKind::copy) == 1);
    for (const auto v : {*encoder.skip.given, *encoder.skip.given_gradient})
      CHECK(encoder.values[v].size == Bytes(2 * kResidual));
    for (const auto v : {*decoder.skip.taken, *decoder.skip.taken_gradient})
      CHECK(decoder.values[v].size == Bytes(2 * kResidual));
    CHECK(lives(encoder).activations == lives(plain).activations);
    CHECK(lives(decoder).activations == lives(plain).activations);
  }
}
