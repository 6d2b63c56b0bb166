// What a layer saves, what waits for its weight gradient, and what is recomputed instead.
#include <doctest/doctest.h>

#include <string>

#include "framework_layers.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

TEST_CASE("what is recomputed") {
  const auto unfused = layer_work(gpt(), training(AttentionKind::unfused, Recompute::selective), framework(), shard());
  REQUIRE(unfused.recompute.size() == 3);
  CHECK(unfused.recompute[0].name == "scores");
  CHECK(unfused.recompute[1].name == "softmax+dropout");
  CHECK(unfused.recompute[2].name == "values");
  const auto flash = layer_work(gpt(), training(AttentionKind::flash, Recompute::selective), framework(), shard());
  REQUIRE(flash.recompute.size() == 1);
  CHECK(std::holds_alternative<FusedAttention>(flash.recompute[0].what));
  const auto full = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), framework(), shard());
  CHECK(totals(full.recompute).flops == totals(full.forward).flops);
  // Without the last GEMM, 2 T h 4h, whose result is not needed; except before a dropout, whose mask is.
  for (const bool dropout : {false, true}) {
    auto early = framework(dropout);
    early.early_stop = true;
    const auto stopped = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), early, shard());
    CHECK(totals(full.forward).flops - totals(stopped.recompute).flops == (dropout ? 0 : 8 * T * h * h));
  }
}

TEST_CASE("selective recomputation by operator: every second GEMM and all memory-bound kernels") {
  // q, k, v, out, gate, up, down: k, out and up are repeated. Attention is kept.
  auto titan = framework(false);
  titan.selective_recompute = SelectiveRecompute::operators, titan.separate_projections = true;
  const auto t = training(AttentionKind::flash, Recompute::selective);
  const double kv = 256, ffn = 2816, log_sums = 4 * T * 16;
  auto work = layer_work(llama(), t, titan, shard());
  CHECK(totals(work.recompute).flops == 2 * T * h * (kv + h + ffn));
  CHECK(totals(work.recompute).traffic == totals(work.forward).traffic);
  // Kept: the input 2 h, products of q, v, gate and down, the attention's output 2 h.
  CHECK(double(work.activations.count()) == T * (2 * h + 2 * (h + kv + ffn + h) + 2 * h) + log_sums);
  const auto all = layer_work(llama(), training(AttentionKind::flash), titan, shard());
  CHECK(work.activations + work.recomputed > all.activations);  // what is not saved is computed again on the way
  // A compiler sees that the product of the last GEMM is not needed.
  titan.compiled = titan.early_stop = true;
  work = layer_work(llama(), t, titan, shard());
  CHECK(totals(work.recompute).flops == 2 * T * h * (kv + h + ffn));
  CHECK(double(work.activations.count()) == T * (2 * h + 2 * (h + kv + ffn) + 2 * h) + log_sums);
  // With sequence parallelism the result of the reduce-scatter after `out` is kept, and `out` not repeated.
  work = layer_work(llama(), t, titan, shard(2, true));
  CHECK(totals(work.recompute).flops == 2 * T * h * (kv + ffn) / 2);
  CHECK(totals(work.recompute).collectives == 2);
  for (const auto& op : work.recompute)
    if (const auto* c = std::get_if<GroupCollective>(&op.what)) CHECK(c->kind == CollectiveKind::all_gather);
  CHECK(double(work.activations.count()) == T * (4 * h + 2 * (h + kv + ffn) + 2 * h) / 2 + log_sums / 2);
  // GPT has four GEMMs: out and down; an early stop skips down. Unfused attention is GEMMs in batches, repeated.
  auto gpt_titan = framework(false);
  gpt_titan.selective_recompute = SelectiveRecompute::operators;
  work = layer_work(gpt(), t, gpt_titan, shard());
  CHECK(totals(work.recompute).flops == 2 * T * h * (h + f));
  gpt_titan.early_stop = true;
  CHECK(totals(layer_work(gpt(), t, gpt_titan, shard()).recompute).flops == 2 * T * h * h);
  work = layer_work(gpt(), training(AttentionKind::unfused, Recompute::selective), gpt_titan, shard());
  CHECK(totals(work.recompute).flops == 2 * T * h * h + 4 * T * 512 * h);
  CHECK(double(work.activations.count()) == T * (2 * h + 2 * (3 * h + f)));
}

TEST_CASE("recomputation of named modules") {
  auto t = training(AttentionKind::flash, Recompute::selective);
  const auto all = layer_work(gpt(), training(AttentionKind::flash), framework(false), shard());
  const auto of = [&](std::set<RecomputeModule> modules, bool early = false) {
    t.recompute_modules = std::move(modules);
    auto s = framework(false);
    s.early_stop = early;
    return layer_work(gpt(), t, s, shard());
  };
  using enum RecomputeModule;
  // T h = 2^20. Both norms again: their two results of 2 T h are not kept.
  auto work = of({layernorm});
  CHECK(all.activations - work.activations == Bytes(4 << 20));
  CHECK(totals(work.recompute).traffic == 2 * 4 * T * h);
  CHECK(totals(work.recompute).flops == 0);
  // The feed-forward half: of u and g, 8 T h each, only its input stays; its last product, too, unless it stops early.
  work = of({mlp});
  CHECK(all.activations - work.activations == Bytes(16 << 20));
  CHECK(totals(work.recompute).flops == 16 * T * h * h);
  CHECK(totals(of({mlp}, true).recompute).flops == 8 * T * h * h);
  // Both together keep neither.
  work = of({layernorm, mlp});
  CHECK(all.activations - work.activations == Bytes(20 << 20));
  // The core alone is what selective recomputation is without names.
  const auto core = layer_work(gpt(), training(AttentionKind::flash, Recompute::selective), framework(false), shard());
  CHECK(of({core_attn}).activations == core.activations);
  CHECK(totals(of({core_attn}).recompute).flops == totals(core.recompute).flops);
}

TEST_CASE("which layers of a stage are recomputed") {
  const auto list = [](std::int64_t every, std::optional<std::int64_t> layers) {
    auto t = training(AttentionKind::flash, Recompute::full);
    t.recompute_every = every, t.recompute_layers = layers;
    std::string text;
    for (std::int64_t l = 0; l < 8; l++) text += t.recomputes(l) ? 'R' : '-';
    return text;
  };
  CHECK(list(1, {}) == "RRRRRRRR");
  CHECK(list(2, {}) == "-R-R-R-R");
  CHECK(list(3, {}) == "--R--R--");
  CHECK(list(1, 3) == "RRR-----");
  CHECK(list(2, 5) == "-R-R----");
  CHECK(list(1, 0) == "--------");
  CHECK(list(9, {}) == "--------");
}

TEST_CASE("activations, Korthikanti table 2") {
  // s b h = T h = 2^20; 5 a s / h = 40.
  const double sbh = T * h, square = 5. * 16 * 512 / 1024;
  const auto kept = [](AttentionKind attention, Recompute recompute, std::int64_t tensor, bool sp) {
    const auto work = layer_work(gpt(), training(attention, recompute), framework(), shard(tensor, sp));
    return std::pair(double(work.activations.count()), double(work.recomputed.count()));
  };
  using enum AttentionKind;
  // Selective recomputation brings back 5 bytes a score, and on the way 2 of raw ones.
  CHECK(kept(unfused, Recompute::selective, 4, false).second == sbh * square / 4 * 7 / 5);
  CHECK(kept(unfused, Recompute::none, 1, false) == std::pair(sbh * (34 + square), 0.));
  CHECK(kept(unfused, Recompute::none, 4, false) == std::pair(sbh * (10 + 24. / 4 + square / 4), 0.));
  CHECK(kept(unfused, Recompute::none, 4, true) == std::pair(sbh * (34. / 4 + square / 4), 0.));
  CHECK(kept(unfused, Recompute::selective, 4, false).first == sbh * (10 + 24. / 4));
  CHECK(kept(unfused, Recompute::selective, 4, true).first == sbh * 34 / 4);
  CHECK(kept(unfused, Recompute::full, 4, false).first == sbh * 2);
  CHECK(kept(unfused, Recompute::full, 4, true).first == sbh * 2 / 4);
  // Flash: no scores, one fp32 per query and head: 4 x 1024 x 16.
  CHECK(kept(flash, Recompute::none, 1, false).first == sbh * 34 + 4 * 1024 * 16);
  // Llama, tensor 2 with sequence parallelism: T [8 h + 2 (h + 512) + 2 h + 6 2816] / 2 + the log-sum-exp of 8 heads;
  // no dropout, no masks.
  const auto work = layer_work(llama(), training(flash), framework(false), shard(2, true));
  CHECK(double(work.activations.count()) == T * (8 * h + 2 * (h + 512) + 2 * h + 6 * 2816) / 2 + 4 * 1024 * 8);
}

TEST_CASE("saved values come back") {
  // Kept and recomputed are what is kept without recomputation, but for a product that the head of a repeated forward
  // makes and nobody saves.
  for (const auto attention : {AttentionKind::unfused, AttentionKind::flash})
    for (const std::int64_t tensor : {1, 2})
      for (const bool llama_layer : {false, true}) {
        const auto model = llama_layer ? llama() : gpt();
        const auto all = layer_work(model, training(attention), framework(), shard(tensor, tensor > 1));
        const auto part =
            layer_work(model, training(attention, Recompute::selective), framework(), shard(tensor, tensor > 1));
        CHECK(part.activations < all.activations);
        CHECK(part.activations + part.recomputed >= all.activations);
      }
  // Full recomputation, T h = 2^20: only the layer's input, 2 T h, is kept.
  const auto full = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), framework(), shard());
  CHECK(full.activations == Bytes(2 << 20));
  // A framework that saves the two gathered inputs of a layer, 2 x 2 T h, instead of their parts.
  auto gathers = framework(false);
  const auto before = layer_work(llama(), training(AttentionKind::flash), gathers, shard(2, true));
  gathers.saves_gathered = true;
  const auto after = layer_work(llama(), training(AttentionKind::flash), gathers, shard(2, true));
  CHECK(after.activations - before.activations == Bytes((4 << 20) - (2 << 20)));
}

TEST_CASE("what waits for the weight gradient, Zero Bubble table 1") {
  CHECK(layer_work(gpt(), training(AttentionKind::flash), framework(), shard()).weight_hold == Bytes(32 * 1024 * 1024));
  CHECK(layer_work(gpt(), training(AttentionKind::flash), framework(), shard(4, true)).weight_hold ==
        Bytes(8 * 1024 * 1024));
  // Without sequence parallelism 8 of the 32 belong to the unsharded residual stream: 8 + 24/4.
  CHECK(layer_work(gpt(), training(AttentionKind::flash), framework(), shard(4)).weight_hold ==
        Bytes(14 * 1024 * 1024));
}
