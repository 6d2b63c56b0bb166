// A layer as operators: FLOPs, bytes, launches and collectives in every mode; embedding and head.
#include <doctest/doctest.h>

#include <string>

#include "framework_layers.hpp"
#include "models/traffic.hpp"

using namespace rehearsal;
using namespace rehearsal::models;
using doctest::Approx;

TEST_CASE("FLOPs of an unfused GPT layer") {
  // Korthikanti: forward 24 T h^2 + 4 T s h; the input gradient costs the same GEMMs once more and the attention core
  // twice, the weight gradient only the linear layers.
  const auto work = layer_work(gpt(), training(AttentionKind::unfused), framework(), shard());
  CHECK(totals(work.forward).flops == 24 * T * h * h + 4 * T * 512 * h);
  CHECK(totals(work.input_gradient).flops == 24 * T * h * h + 8 * T * 512 * h);
  CHECK(totals(work.weight_gradient).flops == 24 * T * h * h);
  // Tensor parallel 4: a quarter of everything.
  const auto quarter = layer_work(gpt(), training(AttentionKind::unfused), framework(), shard(4));
  CHECK(totals(quarter.forward).flops * 4 == totals(work.forward).flops);
  CHECK(totals(quarter.weight_gradient).flops * 4 == totals(work.weight_gradient).flops);
}

TEST_CASE("a fused kernel counts half of a causal square") {
  const auto work = layer_work(gpt(), training(AttentionKind::flash), framework(), shard());
  CHECK(totals(work.forward).flops == 24 * T * h * h + 2 * T * 512 * h);
  CHECK(totals(work.input_gradient).flops == 24 * T * h * h + 5 * T * 512 * h);
  auto square = training(AttentionKind::flash);
  square.causal = false;
  CHECK(totals(layer_work(gpt(), square, framework(), shard()).forward).flops == 24 * T * h * h + 4 * T * 512 * h);
}

TEST_CASE("FLOPs of a Llama layer") {
  // Per token: q and out 2 h^2, k and v 2 h 256, gate, up and down 3 h 2816 entries.
  const auto work = layer_work(llama(), training(AttentionKind::flash), framework(false), shard());
  CHECK(totals(work.forward).flops == 2 * T * (2 * h * h + 2 * h * 256 + 3 * h * 2816) + 2 * T * 512 * h);
}

TEST_CASE("traffic of a layer is the table's") {
  // GPT with dropout: forward 11 per score + (8 + 14 + 12) T h + 4 T f; backward 13 + (18 + 14 + 12) T h + 6 T f + 2 T
  // (f + 3h).
  auto work = layer_work(gpt(), training(AttentionKind::unfused), framework(), shard());
  CHECK(totals(work.forward).traffic == 11 * kScores + 34 * T * h + 4 * T * f);
  CHECK(totals(work.input_gradient).traffic == 13 * kScores + 44 * T * h + 6 * T * f + 2 * T * (f + 3 * h));
  CHECK(totals(work.weight_gradient).traffic == 0);
  for (const auto& op : work.forward)
    if (const auto* m = std::get_if<MemoryBound>(&op.what)) CHECK(m->kind == Traffic::with_dropout_forward);
  // Llama without dropout, flash, tensor 4 with sequence parallelism: everything in quarters.
  work = layer_work(llama(), training(AttentionKind::flash), framework(false), shard(4, true));
  CHECK(totals(work.forward).traffic == ((8 + 12 + 18) * T * h + 8 * T * 2816) / 4);
  CHECK(totals(work.input_gradient).traffic == ((18 + 8 + 12) * T * h + 12 * T * 2816 + 2 * T * (2816 + 3 * h)) / 4);
  // Compiled: 0.6 of it, fewer launches.
  const auto fused = layer_work(llama(), training(AttentionKind::flash), framework(false, true), shard(4, true));
  CHECK(totals(fused.forward).traffic == Approx(.6 * totals(work.forward).traffic).epsilon(1e-6));
  CHECK(totals(fused.input_gradient).traffic == Approx(.6 * totals(work.input_gradient).traffic).epsilon(1e-6));
  // fp8 adds casts of 3 (2 T h/sp + T h/t + T f/t) bytes.
  auto narrow = training(AttentionKind::flash);
  narrow.precision = Precision::fp8;
  const auto cast = layer_work(llama(), narrow, framework(false), shard(4, true));
  CHECK(totals(cast.forward).traffic - totals(work.forward).traffic == 3 * (3 * T * h + T * 2816) / 4);
  CHECK(totals(cast.input_gradient).traffic - totals(work.input_gradient).traffic ==
        3 * T * (2 * h + 1536 + 2 * 2816) / 4);
  // A scale for each row: 5 bytes; gradients are cast along both directions and the inputs a second time. What is
  // gathered over the tensor group is cast whole by every rank: two inputs and two gradients of T h.
  auto rows = framework(false);
  rows.fp8_scaling = Fp8Scaling::rowwise;
  const auto by_row = layer_work(llama(), narrow, rows, shard(4, true));
  CHECK(totals(by_row.forward).traffic - totals(work.forward).traffic == 5 * (2 * T * h + (T * h + T * 2816) / 4));
  // Casts along the second direction take five times as long.
  const double gradients = T * (2 * h + (1536 + 2 * 2816) / 4.), inputs = 2 * T * h + (T * h + T * 2816) / 4;
  CHECK(totals(by_row.input_gradient).traffic - totals(work.input_gradient).traffic ==
        Approx(5 * (gradients + 5 * (gradients + inputs))).epsilon(1e-9));
  // A scale for each 128: 3 bytes and 4/128.
  rows.fp8_scaling = Fp8Scaling::blockwise;
  const auto by_block = layer_work(llama(), narrow, rows, shard(4, true));
  CHECK(totals(by_block.forward).traffic - totals(work.forward).traffic ==
        Approx((3 + 4. / 128) * (3 * T * h + T * 2816) / 4).epsilon(1e-9));
  // The current maximum of a tensor: 2 bytes read before the 3 of its cast.
  rows.fp8_scaling = Fp8Scaling::current;
  const auto searched = layer_work(llama(), narrow, rows, shard(4, true));
  CHECK(totals(searched.forward).traffic - totals(work.forward).traffic == 5 * (3 * T * h + T * 2816) / 4);
  // NVFP4, whatever the scales of fp8.
  narrow.precision = Precision::fp4;
  const auto four_bits = layer_work(llama(), narrow, framework(false), shard(4, true));
  CHECK(totals(four_bits.forward).traffic - totals(work.forward).traffic == 11.125 * (3 * T * h + T * 2816) / 4);
  CHECK(totals(four_bits.input_gradient).traffic - totals(work.input_gradient).traffic ==
        11.125 * T * (2 * h + 1536 + 2 * 2816) / 4);
}

TEST_CASE("a fused softmax of unfused kernels moves 6 bytes a score, and 8 backward") {
  auto t = training(AttentionKind::unfused);
  t.kernels = Kernels::unfused;
  auto s = framework(false);
  const auto softmax = [&](const std::vector<Step>& steps, std::string_view name) {
    const auto found = std::find_if(steps.begin(), steps.end(), [&](auto& step) { return step.name == name; });
    return double(std::get<MemoryBound>(found->what).traffic.count());
  };
  const auto apart = layer_work(llama(), t, s, shard());
  s.fused_softmax = true;
  const auto fused = layer_work(llama(), t, s, shard());
  CHECK(softmax(fused.forward, "softmax") == 6 * kScores);
  CHECK(softmax(fused.input_gradient, "softmax gradient") == 8 * kScores);
  CHECK(apart.activations.count() - fused.activations.count() == 4 * kScores);  // fp32, of which 16 bits are a copy
}

TEST_CASE("gate and up that are layers of their own each reduce the gradient of their input") {
  const auto reduced = [](Transformer model, bool apart, bool sequence) {
    auto s = framework(false);
    s.gate_reduced_apart = apart;
    const auto w = layer_work(model, training(AttentionKind::flash), s, shard(4, sequence));
    return std::count_if(w.input_gradient.begin(), w.input_gradient.end(),
                         [](const Step& step) { return step.name == "tensor all-reduce"; });
  };
  CHECK(reduced(llama(), false, false) == 2);
  CHECK(reduced(llama(), true, false) == 3);
  CHECK(reduced(gpt(), true, false) == 2);
  CHECK(reduced(llama(), true, true) == 0);
}

TEST_CASE("launches per layer") {
  const auto launches = [](AttentionKind attention, bool compiled, std::int64_t tensor, bool sp = false) {
    const auto w = layer_work(gpt(), training(attention), framework(true, compiled), shard(tensor, sp));
    return std::pair(w.forward_kernels, w.backward_kernels);
  };
  CHECK(launches(AttentionKind::unfused, false, 1) == std::pair<std::int64_t, std::int64_t>(17, 29));
  CHECK(launches(AttentionKind::flash, false, 1) == std::pair<std::int64_t, std::int64_t>(13, 24));
  CHECK(launches(AttentionKind::flash, true, 1) == std::pair<std::int64_t, std::int64_t>(9, 16));
  CHECK(launches(AttentionKind::unfused, false, 2) == std::pair<std::int64_t, std::int64_t>(21, 33));
  CHECK(launches(AttentionKind::flash, true, 2, true) == std::pair<std::int64_t, std::int64_t>(13, 20));
}

TEST_CASE("launches of what CUDA graphs leave") {
  auto s = framework();
  const auto t = training(AttentionKind::flash);
  const auto launched = [&](CudaGraph scope, std::int64_t tensor) {
    s.cuda_graph = scope;
    const auto w = layer_work(gpt(), t, s, shard(tensor));
    return std::pair(w.forward_kernels, w.backward_kernels);
  };
  // Of 13 and 24 the feed-forward half has: norm, up, activation, down, sum; gradients of sum, down, activation, up,
  // norm (two kernels), and two weights.
  CHECK(launched(CudaGraph::attention, 1) == std::pair<std::int64_t, std::int64_t>(5, 8));
  CHECK(launched(CudaGraph::attention_router, 1) == launched(CudaGraph::attention, 1));
  CHECK(launched(CudaGraph::full, 1) == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK(launched(CudaGraph::full, 2) == std::pair<std::int64_t, std::int64_t>(0, 0));
}

TEST_CASE("collectives of the tensor group") {
  // Two all-reduces of 2 T h bytes per pass; with sequence parallelism two all-gathers and two reduce-scatters.
  const auto work = layer_work(gpt(), training(AttentionKind::flash), framework(), shard(4));
  CHECK(totals(work.forward).collectives == 2);
  CHECK(totals(work.input_gradient).collectives == 2);
  CHECK(totals(work.weight_gradient).collectives == 0);
  for (const auto& op : work.forward)
    if (const auto* c = std::get_if<GroupCollective>(&op.what)) CHECK(c->size == Bytes(2 * 1024 * 1024));
  const auto split = layer_work(gpt(), training(AttentionKind::flash), framework(), shard(4, true));
  int gathers = 0, scatters = 0, again = 0;
  for (const auto* list : {&split.forward, &split.input_gradient}) {
    for (const auto& op : *list) {
      if (const auto* both = std::get_if<OverlappedKernel>(&op.what)) {
        CHECK(both->pieces == 1);
        CHECK(both->collective.size == Bytes(2 * 1024 * 1024));
        again += both->collective.kind == CollectiveKind::all_gather;
      }
      const auto* c = std::get_if<GroupCollective>(&op.what);
      if (!c) continue;
      gathers += c->kind == CollectiveKind::all_gather;
      scatters += c->kind == CollectiveKind::reduce_scatter;
      CHECK(c->size == Bytes(2 * 1024 * 1024));
    }
  }
  CHECK(gathers == 4);
  CHECK(scatters == 4);
  CHECK(again == 2);  // inputs of qkv and of the MLP, for their weight gradients
  // Full recomputation repeats those of the forward: 6 per layer, not 4.
  const auto full = layer_work(gpt(), training(AttentionKind::flash, Recompute::full), framework(), shard(4));
  CHECK(totals(full.recompute).collectives == 2);
}

TEST_CASE("gradient accumulation") {
  // 12 h^2 parameters x 6 B, averaged over 4 micro-batches of which the first only writes: x 3/4. bf16 into fp32: 10 B.
  auto t = training(AttentionKind::unfused);
  CHECK(totals(layer_work(gpt(), t, framework(), shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 6 * .75);
  t.precision = Precision::bf16, t.gradient_precision = Precision::fp32;
  CHECK(totals(layer_work(gpt(), t, framework(), shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 10 * .75);
  auto fused = framework();
  fused.fused_accumulation = true;
  CHECK(totals(layer_work(gpt(), t, fused, shard(1, false, 4)).weight_gradient).traffic == 12 * h * h * 2 * .75);
}

TEST_CASE("unfused kernels read and write between every two operations") {
  // Per element, to whole bytes a kernel: norm 8 + 16 and 30 + 12 (16 and 12 with a row or a column for all: 1.2 times
  // as long again), bias + dropout + add 15 and 11, bias + GELU 40 and 56; scores: scale 4, mask 4, cast 6 (and .5 x
  // 6), softmax 4 (and 5.6), cast 6, clearing 2, dropout 5, and 4 + 4 + 6 + 12 (and .3 x 12) + 6 + 2 + 5; transposes.
  // Kernels forward: norms 18, residuals 6, activation 9, transposes 3, scores 5, GEMMs 4 + 2.
  auto t = training(AttentionKind::unfused);
  t.kernels = Kernels::unfused;
  auto work = layer_work(gpt(), t, framework(), shard());
  const auto near = [](double bytes) { return doctest::Approx(bytes).epsilon(1e-7); };
  CHECK(totals(work.forward).traffic == near(31 * kScores + (2 * 24 + 2 * 15 + 12) * T * h + 40 * T * f));
  CHECK(totals(work.forward).beyond == near(8.6 * kScores + 2 * 19.2 * T * h));
  CHECK(totals(work.input_gradient).traffic ==
        near(39 * kScores + (2 * 42 + 2 * 11 + 12) * T * h + 56 * T * f + 2 * T * (f + 3 * h)));
  CHECK(totals(work.input_gradient).beyond == near(6.6 * kScores + 2 * 14.4 * T * h));
  CHECK(work.forward_kernels == 47);
  // Norms 22, residuals 4, activation 11, transposes and bias gradients 7, scores 5, GEMMs 4 + 4 + 4.
  CHECK(work.backward_kernels == 61);
  // Llama without dropout: RMS norm in fp32 6 + 8 + 4 + 8 + 6 + 4 and 4 + 8 + 6 + 16 + 16 + 12 + 6 (and .5 of a cast's
  // 6, .3 of 8 and of 16 in fp32, 1.2 of 4), add 6 and 6, SwiGLU 10 and 18; rotation of queries and keys (1024 + 256
  // columns) 12 + 8 and 22 + 8 (and 1.2 of 8), and no biases.
  t = training(AttentionKind::flash);
  t.kernels = Kernels::unfused;
  work = layer_work(llama(), t, framework(false), shard());
  CHECK(totals(work.forward).traffic == near((2 * 36 + 2 * 6) * T * h + 20 * T * 1280 + 10 * T * 2816));
  CHECK(totals(work.forward).beyond == near(2 * 10.2 * T * h + 9.6 * T * 1280));
  CHECK(totals(work.input_gradient).traffic == near((2 * 68 + 2 * 6) * T * h + 30 * T * 1280 + 18 * T * 2816));
  CHECK(totals(work.input_gradient).beyond == near(2 * 12.6 * T * h + 9.6 * T * 1280));
  const auto fused = layer_work(llama(), training(AttentionKind::flash), framework(false), shard());
  // What autograd keeps: of both norms, in place of the input, a copy in fp32, and the quotient in 16 bits, before its
  // gain; what silu gives; and the matrix of queries (1024 columns), keys (256) and values, of which the values are a
  // view. (saved_tensors_hooks of torch on the CPU: norm 6 bytes an element, SwiGLU 6, attention beside it.)
  CHECK(work.activations - fused.activations == bytes(2 * (4 + 2 - 2) * T * h + 2 * T * 2816 + 2 * T * (1024 + 256)));
  CHECK(totals(work.forward).flops == totals(fused.forward).flops);
}

TEST_CASE("for-each AdamW moves three times as much as a fused one") {
  auto t = training(AttentionKind::flash);
  Framework framework;
  framework.optimizer_bytes = 40;
  CHECK(optimizer_bytes(t, framework) == 40);
  framework.foreach_step = true;
  CHECK(optimizer_bytes(t, framework) == 100);  // 88 - 28 more
  // All in 16 bits: half of the 60; of 12 bytes of states 4 are left, each read and written.
  t.precision = Precision::bf16, t.master_copy = false, t.moments = Moments::bf16;
  CHECK(optimizer_bytes(t, framework) == 40 + 30 - 2 * (12 - 4));
  t.optimizer = &optimizer("sgd"), t.master_copy = true, t.moments = Moments::fp32;
  CHECK(optimizer_bytes(t, framework) == 40);
}

TEST_CASE("asynchronous tensor parallelism cuts GEMMs into pieces") {
  auto async = framework(false);
  async.async_tensor = true;
  const auto t = training(AttentionKind::flash);
  const auto plain = layer_work(llama(), t, framework(false), shard(4, true));
  const auto work = layer_work(llama(), t, async, shard(4, true));
  const auto pieces = [](const std::vector<Step>& operators) {
    std::vector<OverlappedKernel> found;
    for (const auto& op : operators)
      if (const auto* p = std::get_if<OverlappedKernel>(&op.what); p && p->pieces > 1) found.push_back(*p);
    return found;
  };
  for (const auto* list : {&work.forward, &work.input_gradient}) {
    const auto found = pieces(*list);
    // Backward the products for whose weights something is gathered meanwhile stay whole.
    REQUIRE(found.size() == (list == &work.forward ? 4 : 2));
    for (const auto& p : found) {
      CHECK(p.pieces == 4);
      CHECK(std::get<Gemm>(p.piece).m == 1024 / 4);
      CHECK(p.collective.size == Bytes(2 * 1024 * 1024));
    }
  }
  const auto forward = pieces(work.forward);  // gather + qkv, out + scatter, gather + up, down + scatter
  CHECK(forward[0].collective.kind == CollectiveKind::all_gather);
  CHECK(std::get<Gemm>(forward[0].piece).n == (1024 + 512) / 4);
  CHECK(forward[1].collective.kind == CollectiveKind::reduce_scatter);
  double flops = 0;
  for (const auto& p : forward) flops += 4 * std::get<Gemm>(p.piece).flops().value();
  CHECK(flops + totals(work.forward).flops == totals(plain.forward).flops);
  // What is left alone: what the whole products scatter. The scatters leave four parts to add up: 2 T h/4 (4 + 1).
  CHECK(totals(work.forward).collectives == 0);
  CHECK(totals(work.input_gradient).collectives == 2);
  CHECK(totals(work.forward).traffic - totals(plain.forward).traffic == 2 * 2 * T * h / 4 * 5);
  // With separate projections the gradient of a shared input is a sum of products: their scatters are left alone.
  auto separate = async;
  separate.separate_projections = true;
  const auto summed = layer_work(llama(), t, separate, shard(4, true));
  CHECK(pieces(summed.forward).size() == 4);
  CHECK(pieces(summed.input_gradient).size() == 2);
  CHECK(totals(summed.input_gradient).collectives == 2);
  // A recomputation that stops early leaves the last GEMM out with its scatter.
  async.early_stop = true;
  CHECK(pieces(layer_work(llama(), training(AttentionKind::flash, Recompute::full), async, shard(4, true)).recompute)
            .size() == 3);
  // Nothing to cut without sequence parallelism.
  CHECK(pieces(layer_work(llama(), t, async, shard(4)).forward).empty());
}

TEST_CASE("parameters of one GPU") {
  // 12 h^2/t + sharded biases (3h + 4h)/t + unsharded: out and down bias 2h, two norms 4h.
  CHECK(layer_work(gpt(), training(AttentionKind::flash), framework(), shard(4)).parameters ==
        12 * h * h / 4 + 7 * h / 4 + 6 * h);
  CHECK(layer_work(llama(), training(AttentionKind::flash), framework(false), shard()).parameters ==
        2 * h * h + 2 * h * 256 + 3 * h * 2816 + 2 * h);
}

TEST_CASE("embedding and head") {
  // V 51200 over 2 ranks: 25600 each. Head GEMM 2 T V_t h; loss 34 + 14 B per logit, final norm 4 + 9 B per element.
  const auto t = training(AttentionKind::unfused);
  const auto head = head_work(gpt(), t, framework(), shard(2));
  const double logits = T * 25600;
  CHECK(totals(head.forward).flops == 2 * logits * h);
  CHECK(totals(head.forward).traffic == 34 * logits + 4 * T * h);
  CHECK(totals(head.input_gradient).traffic == 14 * logits + 9 * T * h);
  CHECK(totals(head.input_gradient).collectives == 1);
  // Megatron: fp32 softmax kept; beside it 2-byte logits and their fp32 copy: 10 B per logit at the highest point.
  CHECK(head.activations == bytes(4 * logits + 4 * T * h));
  CHECK(head.highest_forward == bytes(10 * logits + 4 * T * h));
  CHECK(head.recompute.empty());
  CHECK(head.parameters == 25600 * h + 2 * h);
  const auto torch = head_work(llama(), t, framework(false, true), shard(2));
  CHECK(totals(torch.forward).traffic + totals(torch.input_gradient).traffic == 26 * logits + 13 * T * h);
  // Torch, sliced over 2 ranks: 2-byte logits and log-softmax kept, fp32 copy and one step more: 14 B in the forward.
  // In the backward three fp32 arrays more, 18 B, and the gradient of the projection's input before its sum.
  auto eager = framework(false, true);
  eager.loss = LossKernels::torch;
  const auto steps = head_work(llama(), t, eager, shard(2));
  CHECK(steps.activations == bytes(6 * logits + 4 * T * h));
  CHECK(steps.highest_forward == bytes(14 * logits + 4 * T * h));
  CHECK(steps.highest_backward == bytes(18 * logits + 4 * T * h));
  // Embedding: 16 B per element, (6 3/4 + 4) B per parameter of the slice with four micro-batches, one all-reduce.
  const auto first = embedding_work(gpt(), t, framework(), shard(2, false, 4));
  CHECK(totals(first.forward).traffic + totals(first.input_gradient).traffic == 16 * T * h);
  CHECK(totals(first.weight_gradient).traffic == (4 + 6 * .75) * 25600 * h);
  CHECK(totals(first.forward).collectives == 1);
  CHECK(first.parameters == 25600 * h + 512 * h);
  CHECK(embedding_work(llama(), t, framework(false), shard(2)).parameters == 25600 * h);
}
