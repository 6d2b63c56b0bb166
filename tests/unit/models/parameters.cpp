// Parameter counts and FLOPs of published networks.
#include <doctest/doctest.h>

#include "models/shapes.hpp"

using namespace rehearsal;
using namespace rehearsal::models;
using doctest::Approx;

namespace {

Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary = 51200) {
  Transformer m;
  m.layers = layers, m.hidden = hidden, m.heads = m.kv_heads = heads, m.head_dim = hidden / heads;
  m.ffn = 4 * hidden, m.vocabulary = vocabulary, m.sequence = 2048;
  return m;
}

Transformer llama3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t ffn) {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = layers, m.hidden = hidden, m.heads = heads, m.kv_heads = 8, m.head_dim = 128;
  m.ffn = ffn, m.vocabulary = 128256, m.sequence = 8192;
  return m;
}

}  // namespace

TEST_CASE("GPT: the closed form of Megatron 2021, equation 2") {
  // A network small enough for paper: l 2, h 8, ffn 32, V 128, s 16.
  // Layer: qkv 8 24 + 24, out 8 8 + 8, up 8 32 + 32, down 32 8 + 8, two norms 4 8 = 768 + 72 + 32 = 872.
  // Ends: (128 + 16) 8 = 1152. Total 2896 = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)).
  auto tiny = gpt(2, 8, 2, 128);
  tiny.sequence = 16;
  CHECK(parameters(tiny) == 2896 + 16);  // and the final norm, which the equation leaves out
  CHECK(12. * 2 * 64 * (1 + 13. / 96 + 144. / 192) == Approx(2896));
}

TEST_CASE("published parameter counts") {
  CHECK(parameters(gpt(96, 12288, 96, 50257)) == Approx(174.6e9).epsilon(1e-3));  // GPT-3 175B
  struct Printed {
    std::int64_t layers, hidden, heads;
    double billions;
  };
  // arXiv 2104.04473, table 1: one digit after the point.
  const Printed megatron[] = {{24, 2304, 24, 1.7},      {30, 3072, 32, 3.6},     {36, 4096, 32, 7.5},
                              {40, 6144, 48, 18.4},     {48, 8192, 64, 39.1},    {60, 10240, 80, 76.1},
                              {80, 12288, 96, 145.6},   {96, 16384, 128, 310.1}, {105, 20480, 128, 529.6},
                              {128, 25600, 160, 1008.0}};
  for (const auto& p : megatron) {
    CAPTURE(p.billions);
    CHECK(std::abs(parameters(gpt(p.layers, p.hidden, p.heads)) / 1e9 - p.billions) <= .05 + 1e-9);
  }
  // Llama 3 (2407.21783, table 3), counts of the released weights.
  CHECK(parameters(llama3(32, 4096, 32, 14336)) == 8030261248.);
  CHECK(parameters(llama3(80, 8192, 64, 28672)) == 70553706496.);
}

TEST_CASE("model FLOPs") {
  // Korthikanti 2205.05198, eq. 7, for GPT.
  const double l = 96, h = 12288, s = 2048, v = 51200, b = 1536;
  const double wanted = 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  CHECK(model_flops(gpt(96, 12288, 96), 2048, 1536).value() == Approx(wanted).epsilon(1e-12));
  // Llama 3 8B per token: 6 [32 (2 h^2 + 2 h^2 8/32 + 3 h ffn) + V h] + 12 l h s at 8192 tokens.
  const double matrices = 32 * (2 * 4096. * 4096 + 2 * 4096. * 4096 / 4 + 3 * 4096. * 14336) + 128256. * 4096;
  const double token = 6 * matrices + 12 * 32 * 4096. * 8192;
  CHECK(model_flops(llama3(32, 4096, 32, 14336), 8192, 1).value() == Approx(8192 * token).epsilon(1e-12));
}

TEST_CASE("the vocabulary is padded before it is sliced") {
  // 50257 over 8 ranks: ceil(50257/1024) = 50 blocks of 1024 = 51200; 6400 each. Over 1: 393 blocks of 128 = 50304.
  CHECK(vocabulary_slice(gpt(1, 64, 1, 50257), 8) == 6400);
  CHECK(vocabulary_slice(gpt(1, 64, 1, 50257), 1) == 50304);
}
