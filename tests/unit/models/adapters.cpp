// Low-rank adapters beside frozen linear layers: h 1024, 16 heads, ffn 2816, Llama; 2,048 tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/framework.hpp"
#include "models/lives.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

Network network(std::int64_t rank, std::set<AdaptedLayer> layers = {}, bool separate = false) {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 1024, m.heads = m.kv_heads = 16, m.head_dim = 64, m.ffn = 2816;
  m.vocabulary = 51200, m.sequence = 2048;
  Training training;
  training.adapter_rank = rank, training.adapted_layers = std::move(layers);
  Framework framework;
  framework.separate_projections = separate;
  return framework_network(m, training, framework, Shard{}, {});
}

double flops(const std::vector<Step>& steps) {
  double sum = 0;
  for (const auto& step : steps)
    if (const auto* gemm = std::get_if<Gemm>(&step.what)) sum += gemm->flops().value();
  return sum;
}

}  // namespace

TEST_CASE("nothing but adapters learns") {
  // qkv 1024 -> 3072, out 1024 -> 1024, gate and up 1024 -> 5632, down 2816 -> 1024: 8 (in + out) of each.
  const double adapters = 8. * (1024 + 3072 + 1024 + 1024 + 1024 + 5632 + 2816 + 1024);
  const auto all = network(0), frozen = network(8);
  CHECK(all.layers.front().learning == all.layers.front().parameters);
  CHECK(frozen.layers.front().learning == adapters);
  CHECK(frozen.layers.front().parameters == all.layers.front().parameters + adapters);
  double completed = 0;
  for (const auto& gradient : frozen.layers.front().gradients) completed += gradient.parameters;
  CHECK(completed == adapters);
  for (const auto* end : {&frozen.embedding, &frozen.head}) {
    CHECK(end->learning == 0);
    CHECK(end->gradients.empty());
    CHECK(end->weight_gradient_steps.empty());
  }
  // Queries, keys and values, gate and up have adapters of their own: two and one more products with the input.
  CHECK(network(8, {}, true).layers.front().learning == adapters + 8. * 1024 * (2 + 1));
  CHECK(network(8, {AdaptedLayer::linear_proj}).layers.front().learning == 8. * (1024 + 1024));
}

TEST_CASE("a backward makes the input's gradient and those of the adapters") {
  const auto all = network(0), frozen = network(8);
  const double tokens = 2048, weights = 1024. * (3072 + 1024 + 5632 + 2816), learning = frozen.layers.front().learning;
  CHECK(flops(frozen.layers.front().forward) == flops(all.layers.front().forward) + 2 * tokens * learning);
  CHECK(flops(all.layers.front().backward) == 4 * tokens * weights);
  CHECK(flops(frozen.layers.front().backward) == 2 * tokens * weights + 4 * tokens * learning);
  // In two passes as in one.
  CHECK(flops(frozen.layers.front().input_gradient_steps) + flops(frozen.layers.front().weight_gradient_steps) ==
        flops(frozen.layers.front().backward));
}

TEST_CASE("inputs that only frozen weights would read are not kept") {
  const auto kept = [](const Network& n) { return double(lives(n.layers.front()).activations.count()); };
  const double row = 2. * 2048;  // bytes of a column
  // Without any in the feed-forward layer: its input (1024 columns), and what goes into down (2816).
  CHECK(kept(network(0)) - kept(network(8, {AdaptedLayer::linear_qkv, AdaptedLayer::linear_proj})) ==
        row * (1024 + 2816) - row * 2 * 8);
}
