// Layers of several kinds: what windows leave of the scores, what recurrent mixers hold and compute, and that blocks
// hold what the closed forms count.
#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "framework_layers.hpp"
#include "models/recurrent.hpp"
#include "models/rehearsal.hpp"
#include "models/shapes.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

// Pairs of a query and a key that it sees, counted one by one.
double counted(std::int64_t tokens, std::int64_t seen, bool chunked) {
  double pairs = 0;
  for (std::int64_t q = 0; q < tokens; ++q)
    for (std::int64_t k = 0; k <= q; ++k) pairs += chunked ? k / seen == q / seen : q - k < seen;
  return pairs;
}
FusedAttention attention(std::int64_t tokens, std::int64_t seen, bool chunked) {
  FusedAttention a{1, 1, tokens, tokens, 64};
  a.seen = seen, a.chunked = chunked;
  return a;
}

Transformer small() {
  Transformer m;
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 4, m.hidden = 64, m.heads = 4, m.kv_heads = 2, m.head_dim = 16, m.ffn = 128, m.vocabulary = 512;
  m.sequence = 256;
  return m;
}
Transformer listed(Mixer mixer) {
  auto m = small();
  const FeedForward dense{m.ffn_kind, m.ffn};
  m.listed = {{{mixer, dense}, 3}, {{m.mixer(), dense}, 1}};
  return m;
}
Mixer recurrent(MixerKind kind) {
  Mixer mixer{8, 2, 16};
  mixer.kind = kind, mixer.value_columns = 12;
  return mixer;
}
double held(const Network& network, std::int64_t layers) {
  double sum = network.embedding.parameters + network.head.parameters;
  for (std::int64_t l = 0; l < layers; ++l) sum += network.layer(l).parameters;
  return sum;
}
const Step* step(const std::vector<Step>& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Step& s) { return s.name == name; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a window or a chunk leaves the scores that its tokens see") {
  for (const std::int64_t tokens : {512, 1000})
    for (const std::int64_t seen : {64, 100, 333, 511}) {
      CAPTURE(tokens);
      CAPTURE(seen);
      // The mask's diagonal counts half, as in the whole square: by at most half a key for each query.
      CHECK(std::abs(attention(tokens, seen, false).scores() - counted(tokens, seen, false)) <=
            .5 * double(tokens) + .5);
      CHECK(std::abs(attention(tokens, seen, true).scores() - counted(tokens, seen, true)) <= .5 * double(tokens) + .5);
    }
  // All of them, whichever way it is said; and never more with fewer keys.
  const auto all = attention(512, 0, false);
  CHECK(attention(512, 512, false).flops() == all.flops());
  CHECK(attention(512, 512, true).flops() == all.flops());
  CHECK(attention(512, 600, false).flops() == all.flops());
  double before = 0;
  for (std::int64_t seen = 1; seen <= 512; ++seen) {
    const double now = attention(512, seen, false).scores();
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the gated delta rule of Qwen3-Next, by hand") {
  // h 2048, 32 value heads and 16 key heads of 128: into 2 x 2048 + 2 x 4096 + 2 x 32 columns, out of 4096.
  Mixer mixer{32, 16, 128};
  mixer.kind = MixerKind::delta;
  CHECK(mixer_matrices(2048, mixer) == 2048. * (2 * 2048 + 2 * 4096 + 64) + 4096. * 2048);
  // Four taps on 8192 columns, A_log and dt_bias, a gain of 128.
  CHECK(recurrent_vectors(mixer) == 4 * 8192 + 2 * 32 + 128);
  // Per token and head, chunks of 64: 13 x 128 and 4 x 64 elements, twice a 64th of the state.
  CHECK(scan_cost(mixer).traffic == 2. * (13 * 128 + 4 * 64 + 2 * 128 * 128 / 64));
}

TEST_CASE("Mamba-2 of Nemotron 3 Nano, by hand") {
  // h 2688, 64 heads of 64, 8 groups with 128 states: 2 x 4096 + 2 x 1024 + 64 columns; 4 taps and a bias on 6144;
  // A_log, D and dt_bias; a gain for each column.
  Mixer mixer{64, 8, 128};
  mixer.kind = MixerKind::mamba2, mixer.value_columns = 64;
  CHECK(mixer_matrices(2688, mixer) == 2688. * (2 * 4096 + 2 * 1024 + 64) + 4096. * 2688);
  CHECK(recurrent_vectors(mixer) == 5 * 6144 + 3 * 64 + 4096);
}

TEST_CASE("what frameworks hold is what the closed form counts, for every mixer") {
  auto gated = small().mixer();
  gated.gate = gated.sinks = gated.qk_norm = true;
  auto wide = small().mixer();
  wide.value_columns = 24;
  auto sparse = small().mixer();
  sparse.sparse = 32, sparse.index_heads = 4, sparse.index_dim = 8;
  auto same = small().mixer();
  same.keys_as_values = same.qk_norm = true;
  // Of three layers the product of values, 64 x 2 x 16; as many gains of heads of 16 twice.
  CHECK(parameters(listed(same)) == parameters(small()) - 3 * 64 * 2 * 16 + 3 * 2 * 16);
  for (const auto& mixer : {recurrent(MixerKind::delta), recurrent(MixerKind::mamba2), recurrent(MixerKind::lightning),
                            gated, wide, sparse, same, Mixer{.kind = MixerKind::none}}) {
    const auto m = listed(mixer);
    CAPTURE(label({mixer}));
    const auto whole = framework_network(m, {}, {}, {.sequence = 256});
    CHECK(held(whole, 4) == parameters(m));
    // Over two tensor ranks, what is not cut is there twice: less than both halves and the vectors.
    const auto half = framework_network(m, {}, {}, {.tensor = 2, .sequence = 256});
    CHECK(held(half, 4) < .6 * parameters(m));
    // Every gradient has an end, in one pass and in two.
    for (const auto& part : whole.layers) {
      const auto lives = models::lives(part);
      CHECK(lives.activations >= Bytes(2 * 256 * 64));
      CHECK(part.learning == part.parameters);
    }
  }
}

TEST_CASE("own kernels hold of Mamba-2 what the closed form counts, on one rank and cut over two") {
  auto mixer = recurrent(MixerKind::mamba2);
  const auto m = listed(mixer);
  const auto whole = performed_network(m, {.shard = {.sequence = 256}});
  CHECK(held(whole, 4) == parameters(m));
  // The gains of both norms are on either rank.
  const auto half = performed_network(m, {.shard = {.tensor = 2, .sequence = 256}});
  CHECK(2 * (half.layers.front().parameters - 2 * 64) == whole.layers.front().parameters - 2 * 64);

  // Kept of the mixer: 16 states before chunks and one behind, a step and a decay for each head and token.
  const ScanShape scan{1, 256, mixer.heads, mixer.kv_heads, mixer.head_dim, mixer.value_dim()};
  CHECK(scan.chunks() == 256 / mixer.head_dim);
  CHECK(scan.kept() == (scan.chunks() + 1) * mixer.heads * mixer.head_dim * mixer.value_dim() + 2 * 256 * mixer.heads);
}

TEST_CASE("layers without a mixer, or without a feed-forward part, are half as much") {
  auto m = small();
  const FeedForward dense{m.ffn_kind, m.ffn};
  m.listed = {{{m.mixer(), {}}, 1}, {{Mixer{.kind = MixerKind::none}, dense}, 1}};
  const auto both = small();
  CHECK(parameters(m) - 2 * 512 * 64 - 64 == (parameters(both) - 2 * 512 * 64 - 64) / 4);
  const auto network = framework_network(m, {}, {}, {.sequence = 256});
  const auto whole = framework_network(both, {}, {}, {.sequence = 256});
  CHECK(totals(network.layers[0].forward).flops + totals(network.layers[1].forward).flops ==
        totals(whole.layers[0].forward).flops);
}

TEST_CASE("a scan keeps the state on the rank: a context group cuts heads meanwhile") {
  const auto m = listed(recurrent(MixerKind::delta));
  const auto part = framework_network(m, {}, {}, {.sequence = 256, .context = 2}).layers.front();
  std::int64_t exchanged = 0;
  for (const auto& s : part.forward)
    if (const auto* c = std::get_if<GroupCollective>(&s.what)) {
      CHECK(c->kind == CollectiveKind::all_to_all);
      CHECK(c->axis == Axis::context);
      exchanged += c->size.count();
    }
  // Queries, keys and values of 128 tokens there, results back.
  CHECK(exchanged == 2 * 128 * (2 * 2 * 16 + 8 * 12) + 2 * 128 * (8 * 12));
  REQUIRE(step(part.backward, "scan gradient"));
}

TEST_CASE("an indexer scores all keys, and attention sees those it chose") {
  auto sparse = small().mixer();
  sparse.sparse = 32, sparse.index_heads = 4, sparse.index_dim = 8;
  const auto part = framework_network(listed(sparse), {}, {}, {.sequence = 256}).layers.front();
  const auto* scores = step(part.forward, "index scores");
  REQUIRE(scores);
  CHECK(std::get<Gemm>(scores->what) == Gemm{256, 128, 8, 4, Precision::bf16, false});
  const auto* attention = step(part.forward, "attention");
  REQUIRE(attention);
  CHECK(std::get<FusedAttention>(attention->what).seen == 32);
}
