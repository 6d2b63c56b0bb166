// Low-rank adapters beside frozen linear layers: h 1024, 16 heads, ffn 2816, Llama; 2,048 tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/framework.hpp"
#include "models/lives.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

Transformer llama() {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 1024, m.heads = m.kv_heads = 16, m.head_dim = 64, m.ffn = 2816;
  m.vocabulary = 51200, m.sequence = 2048;
  return m;
}

Network network(std::int64_t rank, std::set<AdaptedLayer> layers = {}, bool separate = false) {
  Training training;
  training.adapter_rank = rank, training.adapted_layers = std::move(layers);
  Framework framework;
  framework.separate_projections = separate;
  return framework_network(llama(), training, framework, Shard{}, {});
}

Network held_in(FrozenPrecision precision, Framework framework = {}) {
  Training training;
  training.adapter_rank = 8, training.frozen_precision = precision;
  return framework_network(llama(), training, framework, Shard{}, {});
}

double kept(const Network& n) { return double(lives(n.layers.front()).activations.count()); }

std::vector<const Step*> named(const std::vector<Step>& steps, std::string_view name) {
  std::vector<const Step*> all;
  for (const auto& step : steps)
    if (step.name == name) all.push_back(&step);
  return all;
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
  const double row = 2. * 2048;  // bytes of a column
  // Without any in the feed-forward layer: its input (1024 columns), and what goes into down (2816).
  CHECK(kept(network(0)) - kept(network(8, {AdaptedLayer::linear_qkv, AdaptedLayer::linear_proj})) ==
        row * (1024 + 2816) - row * 2 * 8);
}

TEST_CASE("frozen matrices in fewer bits are copied for each product") {
  // 4 bits, 8 for each 64 and 32 for each 64 x 256: 0.515869140625 bytes, of which 16 bits are 2.
  const double weights = 1024. * (3072 + 1024 + 5632 + 2816), bytes = .5 + 1. / 64 + 4. / 16384;
  const auto full = held_in(FrozenPrecision::training), four = held_in(FrozenPrecision::nf4_double);
  const auto& part = four.layers.front();
  CHECK(part.parameters == full.layers.front().parameters);
  CHECK(part.spared == doctest::Approx(weights * (1 - bytes / 2)));
  CHECK(full.layers.front().spared == 0);
  for (const auto* end : {&four.embedding, &four.head}) CHECK(end->spared == 0);
  CHECK(bytes_of(FrozenPrecision::nf4, 2) == .5625);
  CHECK(bytes_of(FrozenPrecision::gptq, 2) == .51953125);
  // A kernel before each product and before each gradient of an input reads these bytes and writes 16 bits.
  for (const auto* steps : {&part.forward, &part.backward, &part.input_gradient_steps}) {
    double moved = 0;
    const auto copies = named(*steps, "dequantise");
    for (const auto* step : copies) moved += double(std::get<MemoryBound>(step->what).traffic.count());
    CHECK(copies.size() == 4);
    CHECK(moved == doctest::Approx((bytes + 2) * weights));
  }
  CHECK(named(full.layers.front().forward, "dequantise").empty());
  // The copies do not outlive their products, and nothing else is multiplied.
  CHECK(kept(four) == kept(full));
  CHECK(flops(part.forward) == flops(full.layers.front().forward));
  CHECK(flops(part.backward) == flops(full.layers.front().backward));
  // In fp8 products read matrices in fp8.
  Training fp8;
  fp8.adapter_rank = 8, fp8.frozen_precision = FrozenPrecision::fp8, fp8.precision = Precision::fp8;
  const auto eight = framework_network(llama(), fp8, {}, Shard{}, {});
  CHECK(named(eight.layers.front().forward, "dequantise").empty());
  CHECK(eight.layers.front().spared == doctest::Approx(weights / 2));
}

TEST_CASE("adapters in fp32 behind a dropout keep five bytes of each element of their input") {
  Framework peft;
  peft.fp32_adapters = peft.adapter_dropout = true;
  const auto plain = held_in(FrozenPrecision::training), own = held_in(FrozenPrecision::training, peft);
  // The inputs of qkv, out, up and down: 1024, 1024, 1024 and 2816 columns. Four bytes and a mask of each; not the two
  // that were kept for an adapter without them, but for attention's result, which its own gradient reads; and of
  // each of four adapters the 8 values of a token in 4 instead of 2 bytes.
  const double row = 2048;
  CHECK(kept(own) - kept(plain) == row * (5 * (1024 + 1024 + 1024 + 2816) - 2 * (1024 + 1024 + 2816) + 4 * 8 * 2));
}

TEST_CASE("under autocast products of adapters in fp32 have 16 bits, and what they read keeps three bytes") {
  Framework peft;
  peft.fp32_adapters = peft.adapter_dropout = true;
  const auto wide = held_in(FrozenPrecision::training, peft);
  peft.autocast = true;
  const auto narrow = held_in(FrozenPrecision::training, peft);
  for (const auto& step : narrow.layers.front().forward)
    if (const auto* gemm = std::get_if<Gemm>(&step.what)) CHECK(gemm->precision == Precision::bf16);
  CHECK(flops(narrow.layers.front().backward) == flops(wide.layers.front().backward));
  const double row = 2048, inputs = 1024 + 1024 + 1024 + 2816;
  CHECK(kept(wide) - kept(narrow) == row * 2 * (inputs + 4 * 8));
  // A cast back of each input, 6 bytes an element, and one kernel more.
  const auto moved = [](const Network& n) {
    double sum = 0;
    for (const auto* step : named(n.layers.front().forward, "adapter input"))
      sum += double(std::get<MemoryBound>(step->what).traffic.count());
    return sum;
  };
  CHECK(moved(narrow) - moved(wide) == doctest::Approx(6 * row * inputs));
}

TEST_CASE("each expert has adapters of its own, where it is asked for") {
  Transformer m = llama();
  m.family = Family::moe, m.experts = 4, m.experts_per_token = 2, m.expert_ffn = 512;
  Training training;
  training.adapter_rank = 8;
  const auto beside = [&](bool experts) {
    training.adapts_experts = experts;
    return framework_network(m, training, {}, Shard{}, {});
  };
  const double attention = 8. * (1024 + 3072 + 1024 + 1024), experts = 4 * 8. * (1024 + 1024 + 512 + 1024);
  const auto without = beside(false), with = beside(true);
  CHECK(without.layers.front().learning == attention);
  CHECK(without.layers.front().expert_learning == 0);
  CHECK(with.layers.front().learning == attention + experts);
  CHECK(with.layers.front().expert_learning == experts);
  double completed = 0;
  for (const auto& gradient : with.layers.front().gradients) completed += gradient.experts ? gradient.parameters : 0;
  CHECK(completed == experts);
  // Neither routers nor experts have gradients of weights: two products of them less than where all learn.
  training.adapter_rank = 0;
  const auto all = beside(false);
  const double rows = 2. * 2048, matrices = 3072. * 512;
  CHECK(flops(all.layers.front().backward) - flops(without.layers.front().backward) ==
        doctest::Approx(2 * rows * matrices + 2 * 2048 * 1024. * (3072 + 1024 + 4) - 4 * 2048 * attention));
  // Quantised: the experts' matrices are of the spared ones.
  training.adapter_rank = 8, training.frozen_precision = FrozenPrecision::int8;
  CHECK(beside(false).layers.front().expert_spared == doctest::Approx(4 * matrices / 2));
}

TEST_CASE("copies of both ends learn on request") {
  Training training;
  training.adapter_rank = 8, training.learns_ends = true;
  const auto with = framework_network(llama(), training, {}, Shard{}, {}), without = network(8);
  const double table = 51200. * 1024;
  for (const auto& [own, other] : {std::pair{&with.embedding, &without.embedding}, {&with.head, &without.head}}) {
    CHECK(own->learning == table);
    CHECK(own->parameters == other->parameters + table);
    REQUIRE(own->gradients.size() == 1);
    CHECK(own->gradients.front().parameters == table);
  }
  CHECK(with.layers.front().learning == without.layers.front().learning);
  CHECK(flops(with.head.backward) == 2 * flops(without.head.backward));
}
