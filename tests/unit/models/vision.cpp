// A tower in front of a model: what it holds and computes, counted by hand, and what one part with the embedding keeps.
#include <doctest/doctest.h>

#include <algorithm>

#include "framework_layers.hpp"
#include "models/shapes.hpp"

using namespace rehearsal;
using namespace rehearsal::models;
using doctest::Approx;

namespace {

// Sequences of 512 tokens, of which 96 are three pictures of 32 rows; a row is 4 patches of 48 values.
Transformer with_tower() {
  auto m = llama();
  m.vision.emplace();
  auto& v = *m.vision;
  v.layers = 2, v.hidden = 128, v.heads = 4, v.head_dim = 32, v.ffn = 512;
  v.patch = 48, v.positions = 64, v.merge = 4, v.projector_ffn = 512, v.tokens = 96, v.picture_tokens = 32;
  return m;
}
Shard one_sequence() { return {.micro_batch = 1, .sequence = 512}; }
Network network(const Transformer& m, const Training& t, const Shard& s = one_sequence()) {
  return framework_network(m, t, framework(false), s);
}
Training bf16(Recompute recompute = Recompute::none) {
  Training t;
  t.recompute = recompute;
  return t;
}
// Of what a tower adds to the embedding.
struct Added {
  double parameters, kept;
};
Added added(const Transformer& m, const Training& t, const Shard& s = one_sequence()) {
  auto plain = m;
  plain.vision.reset();
  const auto with = network(m, t, s).embedding, without = network(plain, t, s).embedding;
  return {with.parameters - without.parameters,
          double(lives(with).activations.count() - lives(without).activations.count())};
}
// Products by weights and attention, of a list of steps.
double products(const std::vector<Step>& steps) { return totals(steps).flops; }

}  // namespace

TEST_CASE("a tower's parameters and FLOPs") {
  const auto m = with_tower();
  // Patches 48 x 128 + 128, positions 64 x 128. A layer is GPT's: 12 h^2 + 13 h. Projector: norm 2 x 128, 512 x 512 +
  // 512, 512 x 1024 + 1024.
  const double front = 48 * 128 + 128 + 64 * 128, layer = 12 * 128 * 128 + 13 * 128;
  const double projector = 2 * 128 + 512 * 512 + 512 + 512 * 1024 + 1024;
  CHECK(tower_parameters(m) == front + 2 * layer + projector);
  CHECK(added(m, bf16()).parameters == tower_parameters(m));

  // 384 patches, in pictures of 128, which see each other: 4 s^2 h a layer and picture.
  const auto flops = tower_flops(m);
  CHECK(flops.patches == 2. * 384 * 48 * 128);
  CHECK(flops.weights == 2. * 384 * 2 * 12 * 128 * 128 + 2. * 96 * (512 * 512 + 512 * 1024));
  CHECK(flops.attention == 3. * 2 * 4 * 128 * 128 * 128);
  const auto part = network(m, bf16()).embedding;
  CHECK(products(part.forward) == flops.patches + flops.weights + flops.attention);
  // Each product twice, but the first, whose input is data; attention recomputes its scores: 2.5 times.
  CHECK(products(part.backward) == flops.patches + 2 * flops.weights + 2.5 * flops.attention);
  auto plain = m;
  plain.vision.reset();
  const auto of_model = [&](ModelWork work) {
    return (model_flops(m, 512, 7, work) - model_flops(plain, 512, 7, work)).value();
  };
  CHECK(of_model({}) == Approx(7 * (2 * flops.patches + 3 * flops.weights + 3 * flops.attention)));
  CHECK(of_model({.frozen = true}) == Approx(7 * (flops.patches + flops.weights + flops.attention)));
}

// MoonViT-SO-400M of huggingface.co/moonshotai: 417 million parameters, without a projector.
TEST_CASE("MoonViT") {
  auto m = llama();
  m.hidden = 7168;
  m.vision.emplace();
  auto& v = *m.vision;
  v.layers = 27, v.hidden = 1152, v.heads = 16, v.head_dim = 72, v.ffn = 4304;
  v.patch = 588, v.positions = 4096, v.merge = 4, v.projector_ffn = 4608, v.tokens = v.picture_tokens = 1024;
  const double projector = 2 * 1152 + 4608. * 4608 + 4608 + 4608. * 7168 + 7168;
  CHECK(tower_parameters(m) - projector == Approx(417e6).epsilon(.001));
}

TEST_CASE("more projectors are products of their own, whose rows are added") {
  auto m = with_tower();
  const auto one = tower_parameters(m), flops = tower_flops(m).weights;
  m.vision->deepstack = 3;
  const double projector = 2 * 128 + 512 * 512 + 512 + 512 * 1024 + 1024;
  CHECK(tower_parameters(m) == one + 3 * projector);
  CHECK(tower_flops(m).weights == flops + 3 * 2. * 96 * (512 * 512 + 512 * 1024));
  CHECK(added(m, bf16()).parameters == tower_parameters(m));
  m.vision->projector = Vision::Projector::linear, m.vision->deepstack = 0;  // the mean of patches, one product
  CHECK(tower_parameters(m) == one - projector + 2 * 128 + 128 * 1024);
  CHECK(added(m, bf16()).parameters == tower_parameters(m));
}

TEST_CASE("what a tower keeps: all of its layers, or the input of each") {
  const auto m = with_tower();
  auto more = m;
  more.vision->layers = 5;
  const double layer = (added(more, bf16()).kept - added(m, bf16()).kept) / 3;
  // Twelve rows of h for each of 384 patches in 16 bits, 2 x 17 without dropout's masks (models/README.md, section 4),
  // and a log-sum-exp of 4 bytes a head.
  const auto layer_alone = lives(framework_network(tower(*m.vision),
                                                   [] {
                                                     auto t = bf16();
                                                     t.causal = false;
                                                     return t;
                                                   }(),
                                                   framework(false), {.micro_batch = 3, .sequence = 128})
                                     .layers[0]);
  CHECK(layer == double(layer_alone.activations.count()));
  const double again = (added(more, bf16(Recompute::full)).kept - added(m, bf16(Recompute::full)).kept) / 3;
  CHECK(again == 2. * 384 * 128);
  // Repeated steps are in the backward, and nothing else changes.
  const auto part = network(m, bf16(Recompute::full)).embedding;
  std::vector<Step> repeated;
  std::copy_if(part.backward.begin(), part.backward.end(), std::back_inserter(repeated),
               [](const Step& s) { return s.repeats; });
  CHECK(products(repeated) > .9 * (tower_flops(m).attention + 2. * 384 * 2 * 12 * 128 * 128));
}

TEST_CASE("a frozen tower is computed, keeps nothing and has no gradients") {
  auto m = with_tower();
  m.vision->frozen = true;
  const auto part = network(m, bf16()).embedding;
  CHECK(part.learning == part.parameters - tower_parameters(m));
  CHECK(added(m, bf16()).kept == 0);
  CHECK(products(part.forward) > 0);
  CHECK(products(part.backward) == 0);
  // As it is beside adapters.
  m.vision->frozen = false;
  auto lora = bf16();
  lora.adapter_rank = 8;
  CHECK(products(network(m, lora).embedding.backward) == 0);
}

TEST_CASE("a tensor group cuts it, a context group deals pictures") {
  const auto m = with_tower();
  auto halves = one_sequence();
  halves.tensor = 2;
  const auto whole = tower_flops(m);
  const auto part = network(m, bf16(), halves).embedding;
  CHECK(products(part.forward) == whole.patches + (whole.weights + whole.attention) / 2);
  auto context = one_sequence();
  context.context = 2;  // three pictures: two for one of them
  CHECK(products(network(m, bf16(), context).embedding.forward) ==
        Approx(2. / 3 * (whole.patches + whole.weights + whole.attention)));
}
