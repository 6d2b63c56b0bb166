// FLOPs and bytes of a layer in closed form, against the papers and against the steps of a framework.
#include "models/closed_forms.hpp"

#include <doctest/doctest.h>

#include "framework_layers.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

TEST_CASE("a layer of GPT, Zero Bubble table 1") {
  const double s = 512, h = 1024;
  const auto forms = layer_forms(gpt(), 0, 512);
  CHECK(forms.met == 12 * h * h);
  CHECK(forms.forward.value() == s * h * (24 * h + 4 * s));
  CHECK(forms.input_gradient.value() == s * h * (24 * h + 8 * s));
  CHECK(forms.weight_gradient.value() == s * h * 24 * h);
  // Attention fused: 4 B a head and token instead of 5 a s/h; no masks: 32 instead of 34.
  CHECK(forms.activation == Bytes(512 * (32 * 1024 + 4 * 16)));
  CHECK(forms.weight_hold == Bytes(512 * 32 * 1024));
}

TEST_CASE("closed forms are what the steps of a framework add up to") {
  Training training;
  training.attention = AttentionKind::unfused;  // multiplies whole squares
  for (const auto& m : {gpt(), llama()}) {
    const auto part = framework_network(m, training, Framework{}, {.sequence = 512}).layers.front();
    const auto forms = layer_forms(m, 0, 512);
    CHECK(totals(part.forward).flops == forms.forward.value());
    CHECK(totals(part.input_gradient_steps).flops == forms.input_gradient.value());
    CHECK(totals(part.weight_gradient_steps).flops == forms.weight_gradient.value());
  }
}

TEST_CASE("experts: what a token meets") {
  // DeepSeek-V3 in small: 8 h-wide entries of attention count once, 2 of 4 experts of 6 and 12 shared: see
  // experts.cpp.
  Transformer m = gpt();
  m.family = Family::moe, m.ffn_kind = FfnKind::swiglu;
  m.hidden = 8, m.heads = 2, m.kv_heads = 1, m.head_dim = 4, m.experts = 4, m.experts_per_token = 2, m.expert_ffn = 6;
  m.shared_ffn = 12;
  const auto forms = layer_forms(m, 0, 10);
  CHECK(forms.met == 192 + 2 * 144 + 288 + 32);
  CHECK(forms.weight_gradient.value() == 2 * 10 * forms.met);
  CHECK(forms.forward.value() == 2 * 10 * forms.met + 4 * 10 * 10 * 8);
  // Kept by a framework: more than the residual stream, attention and the rows of two experts in 16 bits.
  CHECK(*forms.activation > Bytes(2 * 10 * (8 + 4 * 8 + 2 * (8 + 6))));
}

TEST_CASE("how many groups hold experts of a token") {
  CHECK(expected_groups(8, 1, 4) == doctest::Approx(1));
  CHECK(expected_groups(8, 8, 4) == doctest::Approx(4));
  // 2 of 4 experts, two groups of 2: both of one group in 2 of 6 choices.
  CHECK(expected_groups(4, 2, 2) == doctest::Approx(2 - 2. / 6));
  // Each expert a group of its own: k of them.
  CHECK(expected_groups(256, 8, 256) == doctest::Approx(8));
  // DeepSeek-V3, 8 of 256 on 8 nodes: 8 (1 - C(224, 8) / C(256, 8)).
  CHECK(expected_groups(256, 8, 8) == doctest::Approx(5.2947).epsilon(1e-3));
}
