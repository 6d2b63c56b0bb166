// Attention of a sequence processed in pieces, as frameworks run it: h 1024, 16 heads of 64, 4 of keys and values; one
// sequence of 4096 tokens in 4 pieces of 1024.
#include <doctest/doctest.h>

#include <algorithm>

#include "models/framework.hpp"
#include "models/lives.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

constexpr std::int64_t kPieces = 4, kRows = 1024;
constexpr double kKeysAndValues = 2. * kRows * 2 * 4 * 64;  // bytes of one piece

Part layer(std::int64_t pieces, std::int64_t piece, Recompute recompute = Recompute::none) {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 1024, m.heads = 16, m.kv_heads = 4, m.head_dim = 64, m.ffn = 2816;
  m.vocabulary = 51200, m.sequence = 4096;
  Training training;
  training.recompute = recompute;
  const Shard shard{.sequence = 4096, .pieces = pieces, .piece = piece};
  return framework_network(m, training, Framework{}, shard, {}).layers.front();
}

double attention_flops(const std::vector<Step>& steps) {
  double sum = 0;
  for (const auto& step : steps)
    if (const auto* attention = std::get_if<FusedAttention>(&step.what)) sum += attention->flops().value();
  return sum;
}

}  // namespace

TEST_CASE("pieces of a sequence have the scores of the whole one, and more of them the later they come") {
  const auto whole = layer(1, 0);
  for (const auto list : {&Part::forward, &Part::input_gradient_steps}) {
    double sum = 0;
    for (std::int64_t piece = 0; piece < kPieces; ++piece) {
      const auto part = layer(kPieces, piece);
      // 1/2, 3/2, 5/2 and 7/2 squares of 1024 x 1024, of eight.
      CHECK(attention_flops(part.*list) ==
            doctest::Approx(attention_flops(whole.*list) * double(2 * piece + 1) / 16).epsilon(1e-12));
      sum += attention_flops(part.*list);
    }
    CHECK(sum == doctest::Approx(attention_flops(whole.*list)).epsilon(1e-12));
  }
}

TEST_CASE("gradients of keys and values wait for the pieces before") {
  for (std::int64_t piece = 0; piece < kPieces; ++piece) {
    CAPTURE(piece);
    const auto part = layer(kPieces, piece);
    // The last piece starts the sums of the others, each of which ends its own; none holds one in between.
    const bool last = piece + 1 == kPieces;
    REQUIRE(part.carried.size() == (last ? 3 : 1));
    const auto lives = models::lives(part);
    std::size_t born = 0, dead = 0;
    for (const auto& shared : part.carried) {
      CHECK(shared.gradient);
      CHECK(shared.begins == last);
      CHECK(shared.ends == !last);
      CHECK(part.values[shared.value].size.count() == std::int64_t(kKeysAndValues));
      for (const auto& step : lives.of(PassKind::backward)) {
        born += std::size_t(std::count(step.born.begin(), step.born.end(), shared.value));
        dead += std::size_t(std::count(step.dies.begin(), step.dies.end(), shared.value));
      }
    }
    CHECK(born == (last ? 3 : 0));
    CHECK(dead == (last ? 0 : 1));
    // A result of 2 bytes is read, a sum of 2 read and written, for the keys and values of each piece before.
    double added = 0;
    for (const auto& step : part.input_gradient_steps)
      if (step.name == "attention gradient sum") added += double(std::get<MemoryBound>(step.what).traffic.count());
    CHECK(added == 3 * kKeysAndValues * double(piece));
  }
}

TEST_CASE("pieces keep as much as the sequence does; recomputed ones their keys and values for later ones") {
  double kept = 0;
  for (std::int64_t piece = 0; piece < kPieces; ++piece)
    kept += double(lives(layer(kPieces, piece)).activations.count());
  CHECK(kept == double(lives(layer(1, 0)).activations.count()));
  const auto input = 2. * kRows * 1024;
  for (std::int64_t piece = 0; piece < kPieces; ++piece)
    CHECK(double(lives(layer(kPieces, piece, Recompute::full)).activations.count()) == input + kKeysAndValues);
}
