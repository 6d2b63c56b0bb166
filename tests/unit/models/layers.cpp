// A layer as operators: FLOPs, bytes, launches, collectives and memory in every mode.
#include <doctest/doctest.h>

#include <string>

#include "models/operators.hpp"

using namespace rehearsal;
using namespace rehearsal::models;
using doctest::Approx;

namespace {

// h 1024, 16 heads of 64, ffn 4096; s 512, b 2: T = 1024.
Transformer gpt() {
  Transformer m;
  m.layers = 1, m.hidden = 1024, m.heads = m.kv_heads = 16, m.head_dim = 64, m.ffn = 4096;
  m.vocabulary = 51200, m.sequence = 512;
  return m;
}
// h 1024, 16 heads of 64, 4 key-value heads, SwiGLU of 2816.
Transformer llama() {
  Transformer m = gpt();
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.kv_heads = 4, m.ffn = 2816, m.tie_embeddings = false;
  return m;
}
Training training(AttentionKind attention, Recompute recompute = Recompute::none) {
  Training t;
  t.precision = t.gradient_precision = Precision::fp16;
  t.attention = attention, t.recompute = recompute;
  return t;
}
Software software(bool dropout = true, bool compiled = false) {
  Software s;
  s.dropout = dropout, s.compiled = compiled;
  return s;
}
Shard shard(std::int64_t tensor = 1, bool sequence_parallel = false, std::int64_t microbatches = 1) {
  return {tensor, sequence_parallel, 2, 512, microbatches};
}

struct Totals {
  double flops = 0, traffic = 0;
  std::int64_t gemms = 0, collectives = 0;
};
Totals totals(const std::vector<Operator>& operators) {
  Totals sum;
  for (const auto& op : operators) {
    if (const auto* g = std::get_if<Gemm>(&op.shape)) sum.flops += g->flops().value(), ++sum.gemms;
    if (const auto* a = std::get_if<FusedAttention>(&op.shape)) sum.flops += a->flops().value();
    if (const auto* m = std::get_if<MemoryBound>(&op.shape)) sum.traffic += double(m->traffic.count());
    if (std::holds_alternative<TensorCollective>(op.shape)) ++sum.collectives;
  }
  return sum;
}

constexpr double T = 1024, h = 1024, f = 4096;
constexpr double kScores = 2. * 16 * 512 * 512;  // b a s^2

}  // namespace

TEST_CASE("FLOPs of an unfused GPT layer") {
  // Korthikanti: forward 24 T h^2 + 4 T s h; the input gradient costs the same GEMMs once more and the attention core
  // twice, the weight gradient only the linear layers.
  const auto work = layer_work(gpt(), training(AttentionKind::unfused), software(), shard());
  CHECK(totals(work.forward).flops == 24 * T * h * h + 4 * T * 512 * h);
  CHECK(totals(work.input_gradient).flops == 24 * T * h * h + 8 * T * 512 * h);
  CHECK(totals(work.weight_gradient).flops == 24 * T * h * h);
  // Tensor parallel 4: a quarter of everything.
  const auto quarter = layer_work(gpt(), training(AttentionKind::unfused), software(), shard(4));
  CHECK(totals(quarter.forward).flops * 4 == totals(work.forward).flops);
  CHECK(totals(quarter.weight_gradient).flops * 4 == totals(work.weight_gradient).flops);
}

TEST_CASE("a fused kernel counts half of a causal square") {
  const auto work = layer_work(gpt(), training(AttentionKind::flash), software(), shard());
  CHECK(totals(work.forward).flops == 24 * T * h * h + 2 * T * 512 * h);
  CHECK(totals(work.input_gradient).flops == 24 * T * h * h + 5 * T * 512 * h);
  auto square = training(AttentionKind::flash);
  square.causal = false;
  CHECK(totals(layer_work(gpt(), square, software(), shard()).forward).flops == 24 * T * h * h + 4 * T * 512 * h);
}

TEST_CASE("FLOPs of a Llama layer") {
  // Per token: q and out 2 h^2, k and v 2 h 256, gate, up and down 3 h 2816 entries.
  const auto work = layer_work(llama(), training(AttentionKind::flash), software(false), shard());
  CHECK(totals(work.forward).flops == 2 * T * (2 * h * h + 2 * h * 256 + 3 * h * 2816) + 2 * T * 512 * h);
}

TEST_CASE("traffic of a layer is the table's") {
  // GPT with dropout: forward 11 per score + (8 + 14 + 12) T h + 4 T f; backward 13 + (18 + 14 + 12) T h + 6 T f + 2 T
  // (f + 3h).
  auto work = layer_work(gpt(), training(AttentionKind::unfused), software(), shard());
  CHECK(totals(work.forward).traffic == 11 * kScores + 34 * T * h + 4 * T * f);
  CHECK(totals(work.input_gradient).traffic == 13 * kScores + 44 * T * h + 6 * T * f + 2 * T * (f + 3 * h));
  CHECK(totals(work.weight_gradient).traffic == 0);
  for (const auto& op : work.forward)
    if (const auto* m = std::get_if<MemoryBound>(&op.shape)) CHECK(m->kind == Traffic::with_dropout_forward);
  // Llama without dropout, flash, tensor 4 with sequence parallelism: everything in quarters.
  work = layer_work(llama(), training(AttentionKind::flash), software(false), shard(4, true));
  CHECK(totals(work.forward).traffic == ((8 + 12 + 18) * T * h + 8 * T * 2816) / 4);
  CHECK(totals(work.input_gradient).traffic == ((18 + 8 + 12) * T * h + 12 * T * 2816 + 2 * T * (2816 + 3 * h)) / 4);
  // Compiled: 0.6 of it, fewer launches.
  const auto fused = layer_work(llama(), training(AttentionKind::flash), software(false, true), shard(4, true));
  CHECK(totals(fused.forward).traffic == Approx(.6 * totals(work.forward).traffic).epsilon(1e-6));
  CHECK(totals(fused.input_gradient).traffic == Approx(.6 * totals(work.input_gradient).traffic).epsilon(1e-6));
  // fp8 adds casts of 3 (2 T h/sp + T h/t + T f/t) bytes.
  auto narrow = training(AttentionKind::flash);
  narrow.precision = Precision::fp8;
  const auto cast = layer_work(llama(), narrow, software(false), shard(4, true));
  CHECK(totals(cast.forward).traffic - totals(work.forward).traffic == 3 * (3 * T * h + T * 2816) / 4);
}

TEST_CASE("launches per layer") {
  const auto launches = [](AttentionKind attention, bool compiled, std::int64_t tensor, bool sp = false) {
    const auto w = layer_work(gpt(), training(attention), software(true, compiled), shard(tensor, sp));
    return std::pair(w.forward_kernels, w.backward_kernels);
  };
  CHECK(launches(AttentionKind::unfused, false, 1) == std::pair<std::int64_t, std::int64_t>(17, 29));
  CHECK(launches(AttentionKind::flash, false, 1) == std::pair<std::int64_t, std::int64_t>(13, 24));
  CHECK(launches(AttentionKind::flash, true, 1) == std::pair<std::int64_t, std::int64_t>(9, 16));
  CHECK(launches(AttentionKind::unfused, false, 2) == std::pair<std::int64_t, std::int64_t>(21, 33));
  CHECK(launches(AttentionKind::flash, true, 2, true) == std::pair<std::int64_t, std::int64_t>(13, 20));
}

TEST_CASE("collectives of the tensor group") {
  // Two all-reduces of 2 T h bytes per pass; with sequence parallelism two all-gathers and two reduce-scatters.
  const auto work = layer_work(gpt(), training(AttentionKind::flash), software(), shard(4));
  CHECK(totals(work.forward).collectives == 2);
  CHECK(totals(work.input_gradient).collectives == 2);
  CHECK(totals(work.weight_gradient).collectives == 0);
  for (const auto& op : work.forward)
    if (const auto* c = std::get_if<TensorCollective>(&op.shape)) CHECK(c->size == Bytes(2 * 1024 * 1024));
  const auto split = layer_work(gpt(), training(AttentionKind::flash), software(), shard(4, true));
  int gathers = 0, scatters = 0;
  for (const auto* list : {&split.forward, &split.input_gradient}) {
    for (const auto& op : *list) {
      const auto* c = std::get_if<TensorCollective>(&op.shape);
      if (!c) continue;
      gathers += c->kind == CollectiveKind::all_gather;
      scatters += c->kind == CollectiveKind::reduce_scatter;
      CHECK(c->size == Bytes(2 * 1024 * 1024));
    }
  }
  CHECK(gathers == 4);
  CHECK(scatters == 4);
  // Full recomputation repeats those of the forward: 6 per layer, not 4.
  const auto full = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), software(), shard(4));
  CHECK(totals(full.recompute).collectives == 2);
}

TEST_CASE("gradient accumulation") {
  // 12 h^2 parameters x 6 B, averaged over 4 micro-batches of which the first only writes: x 3/4. bf16 into fp32: 10 B.
  auto t = training(AttentionKind::unfused);
  CHECK(totals(layer_work(gpt(), t, software(), shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 6 * .75);
  t.precision = Precision::bf16, t.gradient_precision = Precision::fp32;
  CHECK(totals(layer_work(gpt(), t, software(), shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 10 * .75);
  auto fused = software();
  fused.fused_accumulation = true;
  CHECK(totals(layer_work(gpt(), t, fused, shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 2 * .75);
}

TEST_CASE("what is recomputed") {
  const auto unfused = layer_work(gpt(), training(AttentionKind::unfused, Recompute::selective), software(), shard());
  REQUIRE(unfused.recompute.size() == 3);
  CHECK(unfused.recompute[0].name == "scores");
  CHECK(unfused.recompute[1].name == "softmax+dropout");
  CHECK(unfused.recompute[2].name == "values");
  const auto flash = layer_work(gpt(), training(AttentionKind::flash, Recompute::selective), software(), shard());
  REQUIRE(flash.recompute.size() == 1);
  CHECK(std::holds_alternative<FusedAttention>(flash.recompute[0].shape));
  const auto full = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), software(), shard());
  CHECK(totals(full.recompute).flops == totals(full.forward).flops);
  auto early = software();
  early.early_stop = true;  // without the last GEMM, 2 T h 4h
  const auto stopped = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), early, shard());
  CHECK(totals(full.forward).flops - totals(stopped.recompute).flops == 8 * T * h * h);
}

TEST_CASE("activations, Korthikanti table 2") {
  // s b h = T h = 2^20; 5 a s / h = 40.
  const double sbh = T * h, square = 5. * 16 * 512 / 1024;
  const auto kept = [](AttentionKind attention, Recompute recompute, std::int64_t tensor, bool sp) {
    const auto work = layer_work(gpt(), training(attention, recompute), software(), shard(tensor, sp));
    return std::pair(double(work.activations.count()), double(work.recomputed.count()));
  };
  using enum AttentionKind;
  CHECK(kept(unfused, Recompute::none, 1, false) == std::pair(sbh * (34 + square), 0.));
  CHECK(kept(unfused, Recompute::none, 4, false) == std::pair(sbh * (10 + 24. / 4 + square / 4), 0.));
  CHECK(kept(unfused, Recompute::none, 4, true) == std::pair(sbh * (34. / 4 + square / 4), 0.));
  CHECK(kept(unfused, Recompute::selective, 4, false) == std::pair(sbh * (10 + 24. / 4), sbh * square / 4));
  CHECK(kept(unfused, Recompute::selective, 4, true) == std::pair(sbh * 34 / 4, sbh * square / 4));
  CHECK(kept(unfused, Recompute::full, 4, false) == std::pair(sbh * 2, sbh * (8 + 24. / 4 + square / 4)));
  CHECK(kept(unfused, Recompute::full, 4, true).first == sbh * 2 / 4);
  // Flash: no scores, one fp32 per query and head: 4 x 1024 x 16.
  CHECK(kept(flash, Recompute::none, 1, false).first == sbh * 34 + 4 * 1024 * 16);
  // Llama, tensor 2 with sequence parallelism: T [10 h + 2 (h + 512) + 4 h + 6 2816] / 2 + the log-sum-exp of 8 heads.
  const auto work = layer_work(llama(), training(flash), software(false), shard(2, true));
  CHECK(double(work.activations.count()) == T * (10 * h + 2 * (h + 512) + 4 * h + 6 * 2816) / 2 + 4 * 1024 * 8);
}

TEST_CASE("what waits for the weight gradient, Zero Bubble table 1") {
  CHECK(layer_work(gpt(), training(AttentionKind::flash), software(), shard()).weight_hold == Bytes(32 * 1024 * 1024));
  CHECK(layer_work(gpt(), training(AttentionKind::flash), software(), shard(4, true)).weight_hold ==
        Bytes(8 * 1024 * 1024));
  // Without sequence parallelism 8 of the 32 belong to the unsharded residual stream: 8 + 24/4.
  CHECK(layer_work(gpt(), training(AttentionKind::flash), software(), shard(4)).weight_hold == Bytes(14 * 1024 * 1024));
}

TEST_CASE("parameters of one GPU") {
  // 12 h^2/t + sharded biases (3h + 4h)/t + unsharded: out and down bias 2h, two norms 4h.
  CHECK(layer_work(gpt(), training(AttentionKind::flash), software(), shard(4)).parameters ==
        12 * h * h / 4 + 7 * h / 4 + 6 * h);
  CHECK(layer_work(llama(), training(AttentionKind::flash), software(false), shard()).parameters ==
        2 * h * h + 2 * h * 256 + 3 * h * 2816 + 2 * h);
}

TEST_CASE("embedding and head") {
  // V 51200 over 2 ranks: 25600 each. Head GEMM 2 T V_t h; loss 34 + 14 B per logit, final norm 4 + 9 B per element.
  const auto t = training(AttentionKind::unfused);
  const auto head = head_work(gpt(), t, software(), shard(2));
  const double logits = T * 25600;
  CHECK(totals(head.forward).flops == 2 * logits * h);
  CHECK(totals(head.forward).traffic == 34 * logits + 4 * T * h);
  CHECK(totals(head.input_gradient).traffic == 14 * logits + 9 * T * h);
  CHECK(totals(head.input_gradient).collectives == 1);
  CHECK(head.activations == bytes(10 * logits + 4 * T * h));
  CHECK(head.recompute.empty());
  CHECK(head.parameters == 25600 * h + 2 * h);
  const auto torch = head_work(llama(), t, software(false, true), shard(2));
  CHECK(totals(torch.forward).traffic + totals(torch.input_gradient).traffic == 26 * logits + 13 * T * h);
  CHECK(torch.activations == bytes(14 * logits + 4 * T * h));
  // Embedding: 16 B per element, (6 3/4 + 4) B per parameter of the slice with four micro-batches, one all-reduce.
  const auto first = embedding_work(gpt(), t, software(), shard(2, false, 4));
  CHECK(totals(first.forward).traffic + totals(first.input_gradient).traffic == 16 * T * h);
  CHECK(totals(first.weight_gradient).traffic == (4 + 6 * .75) * 25600 * h);
  CHECK(totals(first.forward).collectives == 1);
  CHECK(first.parameters == 25600 * h + 512 * h);
  CHECK(embedding_work(llama(), t, software(false), shard(2)).parameters == 25600 * h);
}
