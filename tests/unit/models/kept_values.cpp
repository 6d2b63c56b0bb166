// What waits for the backward, and what does not: the loss in chunks, values in fewer bits, the activation recomputed.
#include <doctest/doctest.h>

#include <algorithm>

#include "framework_layers.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

constexpr double V = 51200, kWeights = V * h;

Framework with_loss(LossKernels loss, std::int64_t chunks = 0) {
  auto s = framework(false);
  s.loss = loss, s.loss_chunks = chunks;
  return s;
}
std::int64_t named(const std::vector<Step>& list, std::string_view name) {
  return std::count_if(list.begin(), list.end(), [&](const Step& s) { return s.name == name; });
}

// h 64, 4 heads with values of 12, latents of 24 and 16 + 8; 8 experts of width 32, of which a token sees 2, and a
// shared one; T = 128.
Transformer latent() {
  Transformer m;
  m.family = Family::moe, m.ffn_kind = FfnKind::swiglu, m.tie_embeddings = false;
  m.layers = 1, m.hidden = 64, m.heads = m.kv_heads = 4, m.head_dim = 16;
  m.experts = 8, m.experts_per_token = 2, m.expert_ffn = 32, m.shared_experts = 1, m.shared_ffn = 32;
  m.vocabulary = 1024, m.sequence = 128;
  m.mla = Mla{.query_rank = 24, .kv_rank = 16, .rotary_dim = 8, .head_dim = 16, .value_dim = 12};
  return m;
}

}  // namespace

TEST_CASE("a loss in chunks: one chunk of logits at a time, all products where the backward begins") {
  const auto t = training(AttentionKind::flash);
  auto s = with_loss(LossKernels::chunked);
  const auto head = head_work(llama(), t, s, shard());
  CHECK(totals(head.forward).gemms == 0);
  CHECK(totals(head.forward).traffic == 4 * T * h);
  CHECK(head.activations == bytes(4 * T * h));  // the input of the norm and of the head
  CHECK(totals(head.input_gradient).gemms == 8 * 3);
  CHECK(totals(head.input_gradient).flops == 3 * 2 * T * V * h);
  // torch's loss 34 + 14 B a logit; gradients of the head's input put together and narrowed, 6 + 6; norm 9; the
  // gradients of the weights of seven chunks added to those before, 6 B each.
  CHECK(totals(head.input_gradient).traffic == 48 * T * V + 21 * T * h + 7 * 6 * kWeights);
  // While a chunk's gradient of the weights is made: its fp32 gradient of the logits, the narrow one of its input is
  // gone, and the fp32 gradient of all inputs.
  CHECK(head.highest_backward == bytes(8 * T * h + 4 * T / 8 * V + 2 * kWeights));
  // Products that add into the buffer themselves make no matrix: then 14 B a logit of one chunk.
  s.fused_accumulation = true;
  const auto fused = head_work(llama(), t, s, shard());
  CHECK(fused.highest_backward == bytes(8 * T * h + 14 * T / 8 * V));
  CHECK(totals(fused.input_gradient).traffic == 48 * T * V + 21 * T * h + 7 * 2 * kWeights);
  // By a compiled kernel: 2-byte logits and their gradient.
  auto compiled = framework(false, true);
  compiled.loss = LossKernels::chunked, compiled.fused_accumulation = true;
  CHECK(head_work(llama(), t, compiled, shard()).highest_backward == bytes(8 * T * h + 4 * T / 8 * V));
  // Over 2 tensor ranks half of the vocabulary, and one more fp32 array a pass.
  s.fused_accumulation = true;
  CHECK(totals(head_work(llama(), t, s, shard(2)).input_gradient).flops == 3 * T * V * h);
}

TEST_CASE("chunks of any number: 1 is all tokens, and the last one may be smaller") {
  const auto t = training(AttentionKind::flash);
  for (const std::int64_t n : {1, 3, 1000}) {
    CAPTURE(n);
    const auto head = head_work(llama(), t, with_loss(LossKernels::chunked, n), shard());
    CHECK(totals(head.input_gradient).flops == 3 * 2 * T * V * h);
    CHECK(named(head.input_gradient, "head") == (n == 1000 ? 512 : n));  // two tokens each
  }
}

TEST_CASE("a classifier's kernel puts the gradient in place of the logits, in one chunk or several") {
  const auto t = training(AttentionKind::flash);
  auto s = with_loss(LossKernels::classifier);
  s.fused_accumulation = true;
  const auto whole = head_work(llama(), t, s, shard());
  CHECK(totals(whole.forward).gemms == 0);
  CHECK(totals(whole.input_gradient).gemms == 3);
  // Logits read twice and overwritten, 6 B each; norm 9.
  CHECK(totals(whole.input_gradient).traffic == 6 * T * V + 9 * T * h);
  // The input, its gradient, and one array of logits.
  s.loss_chunks = 8;
  const auto eighths = head_work(llama(), t, s, shard());
  CHECK(totals(eighths.input_gradient).gemms == 8 * 3);
  CHECK(whole.highest_backward - eighths.highest_backward == bytes(2 * T * V * 7 / 8));
}

TEST_CASE("a loss fused with its linear layer makes gradients in the forward") {
  // V / h = 50 pieces: 1024 / 50 = 20.5 tokens, in powers of two 32.
  const auto t = training(AttentionKind::flash);
  const auto head = head_work(llama(), t, with_loss(LossKernels::linear_fused), shard());
  CHECK(totals(head.forward).gemms == 32 * 3);
  CHECK(totals(head.forward).flops == 3 * 2 * T * V * h);
  // Logits read twice and overwritten; each gradient of the weights added to the sum.
  CHECK(totals(head.forward).traffic == 4 * T * h + 6 * T * V + 32 * 6 * kWeights);
  // The norm's input, and both gradients.
  CHECK(head.activations == bytes(4 * T * h + 2 * kWeights));
  CHECK(head.highest_forward == bytes(6 * T * h + 2 * 32 * V + 4 * kWeights));
  CHECK(totals(head.input_gradient).flops == 0);
  CHECK(totals(head.input_gradient).traffic == 13 * T * h);  // times the loss's gradient; norm
  CHECK(totals(head.weight_gradient).traffic == 4 * kWeights);
}

TEST_CASE("a frozen head has no gradient of its weights, chunk by chunk") {
  auto t = training(AttentionKind::flash);
  t.adapter_rank = 8;
  const auto chunked = head_work(llama(), t, with_loss(LossKernels::chunked), shard());
  CHECK(totals(chunked.input_gradient).flops == 2 * 2 * T * V * h);
  const auto fused = head_work(llama(), t, with_loss(LossKernels::linear_fused), shard());
  CHECK(totals(fused.forward).flops == 2 * 2 * T * V * h);
  CHECK(fused.activations == bytes(4 * T * h));
  CHECK(totals(fused.weight_gradient).traffic == 0);
}

TEST_CASE("values that wait in fewer bits are copied to them and back") {
  const Shard alone{.micro_batch = 1, .sequence = 128};
  Training t;
  const auto wide = layer_work(latent(), t, framework(false), alone);
  t.stored_fp8 = {StoredValue::latents, StoredValue::moe_act}, t.stored_e5m6 = {StoredValue::attention_out};
  const auto narrow = layer_work(latent(), t, framework(false), alone);
  // Latents 24 + 24 columns of 128 tokens; what activations read, 64 columns of 256 rows and of 128 of the shared
  // expert: 2 B to 1 B and a scale of 4 for each 128. 48 columns of heads: to 1.5 B and scales.
  const double eight = 128 * 48 + 256 * 64 + 128 * 64, twelve = 128 * 48;
  CHECK(wide.activations - narrow.activations == bytes((1 - 1. / 32) * eight + (.5 - 1. / 32) * twelve));
  CHECK(named(narrow.forward, "narrow copy") == 5);
  CHECK(named(narrow.backward, "wide copy") == 5);
  const double moved = (3 + 1. / 32) * eight + (3.5 + 1. / 32) * twelve;
  CHECK(totals(narrow.forward).traffic - totals(wide.forward).traffic == moved);
  CHECK(totals(narrow.backward).traffic - totals(wide.backward).traffic == moved);
  // Rows sent to experts, 64 columns: a copy, or in fp8 what the product reads anyway.
  t.stored_fp8.insert(StoredValue::dispatched);
  const auto rows = layer_work(latent(), t, framework(false), alone);
  CHECK(narrow.activations - rows.activations == bytes((1 - 1. / 32) * 256 * 64));
  Training scaled;
  scaled.precision = Precision::fp8;
  const auto cast = layer_work(latent(), scaled, framework(false), alone);
  scaled.stored_fp8 = {StoredValue::dispatched};
  const auto kept = layer_work(latent(), scaled, framework(false), alone);
  CHECK(cast.activations - kept.activations == bytes(256 * 64));
  CHECK(named(kept.forward, "narrow copy") == 0);
}

TEST_CASE("what is recomputed is not stored, and recomputation reads what was") {
  const Shard alone{.micro_batch = 1, .sequence = 128};
  Training t;
  t.recompute = Recompute::selective;
  t.recompute_modules = {RecomputeModule::layernorm, RecomputeModule::mla_up_proj, RecomputeModule::moe_act};
  const auto wide = layer_work(latent(), t, framework(false), alone);
  t.stored_fp8 = {StoredValue::moe_act};
  const auto narrow = layer_work(latent(), t, framework(false), alone);
  CHECK(wide.activations - narrow.activations == bytes((1 - 1. / 32) * (256 * 64 + 128 * 64)));
  CHECK(named(narrow.recompute, "wide copy") == 1);       // of the experts, whose activation is repeated
  CHECK(named(narrow.input_gradient, "wide copy") == 1);  // of the shared one, whose is not
}

TEST_CASE("the activation of a dense layer alone, recomputed") {
  auto t = training(AttentionKind::flash);
  const auto all = layer_work(llama(), t, framework(false), shard());
  t.recompute = Recompute::selective, t.recompute_modules = {RecomputeModule::mlp_act};
  const auto work = layer_work(llama(), t, framework(false), shard());
  CHECK(all.activations - work.activations == bytes(2 * T * 2816));
  REQUIRE(work.recompute.size() == 1);
  CHECK(work.recompute.front().name == "activation");
}
