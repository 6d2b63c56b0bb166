// Head and loss of some tokens after those of others, so that the logits of one chunk alone are there.
//
// `chunked`: forward and backward of a chunk in turn, all of it where the backward of the network begins
// (pytorch/torchtitan, torchtitan/components/loss.py, ChunkedCELoss: 8 chunks; the gradient of the hidden states is put
// together in fp32; autograd adds each chunk's gradient of the weights to those before it). Of logits cut over a tensor
// group each rank has its slice, as its lm_head and loss parallel do.
// `classifier`: the same order, in one chunk unless more are asked for; a kernel puts the gradient in place of the
// logits (karpathy/llm.c, llmc/fused_classifier.cuh; IST-DASLab/llmq, src/kernels/fused_classifier.cu, lmhead-chunks).
// `linear-fused`: in the forward. A kernel makes the loss and, in place of the logits, their gradient: it reads them
// twice and writes them once. Both gradients of the head follow, and wait for the backward, which scales them
// (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py: ceil(vocabulary / hidden) chunks of a power of two).
#include <algorithm>
#include <bit>

#include "models/framework_rewrite.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {
namespace {

std::int64_t over(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool FrameworkRewrite::in_chunks() const {
  const auto loss = run_.framework.loss;
  return loss == LossKernels::chunked || loss == LossKernels::classifier || loss == LossKernels::linear_fused;
}

// Tokens of a chunk; the last one may have fewer.
std::int64_t FrameworkRewrite::chunk_rows(const Gemm& head) const {
  if (run_.framework.loss_chunks > 0) return rows_of_chunk(head.m, run_.framework.loss_chunks);
  if (run_.framework.loss == LossKernels::chunked) return rows_of_chunk(head.m, kLossChunks);
  if (run_.framework.loss == LossKernels::classifier) return head.m;
  const auto rows = static_cast<std::uint64_t>(over(head.m, over(head.n, head.k)));
  return std::min(head.m, static_cast<std::int64_t>(std::bit_ceil(rows)));
}

void FrameworkRewrite::loss_of_chunks(bool back) {
  const Operator& head = *std::find_if(block_.operators.begin(), block_.operators.end(), is_head);
  const Index x = head.in[0];
  const Gemm whole = product(head);
  const bool ahead = run_.framework.loss == LossKernels::linear_fused, learns = !run_.training.frozen();
  const bool in_place = ahead || run_.framework.loss == LossKernels::classifier;
  if (ahead && back) return scale_gradients(x, whole);
  if (!ahead && !back) return;
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const double weights = double(whole.n) * double(whole.k), row = double(whole.k);
  // Of all tokens: put together in fp32; rows of those in place lie where they belong.
  const Index joined = in_place && !ahead
                           ? gradient_of(x)
                           : value((ahead ? element_ : 4.) * double(part_.values[x].size.count()) / element_);
  const auto rows = chunk_rows(whole);
  for (std::int64_t begin = 0; begin < whole.m; begin += rows) {
    Gemm chunk = whole;
    chunk.m = std::min(rows, whole.m - begin);
    const double size = double(chunk.m) * double(chunk.n);
    const Index logits = value(element_ * size, Value::Holds::loss);
    list.push_back({"head", chunk, {read(x), write(logits)}});
    Index gradient = logits;
    if (in_place)
      list.push_back(plain("cross-entropy", wide_ * 6 * size, 1, {read(logits), write(logits)}));
    else
      cross_entropy(list, logits, size), gradient = cross_entropy_gradient(list, logits, size);
    if (in_place) {
      list.push_back({"head gradient", input_gradient(chunk), {read(gradient), write(joined)}});
    } else {
      const Index part = value(element_ * double(chunk.m) * row);
      list.push_back({"head gradient", input_gradient(chunk), {read(gradient), write(part)}});
      list.push_back(plain("head gradient", (element_ + 4) * double(chunk.m) * row, 1, {read(part), write(joined)}));
    }
    if (learns) weights_of_chunk(list, chunk, {read(gradient), read(x)}, weights, begin == 0);
  }
  if (in_place) return void(gradients_[x] = joined);
  list.push_back(
      plain("head gradient", (element_ + 4) * double(whole.m) * row, 1, {read(joined), write(gradient_of(x))}));
}

// The gradient of the first chunk is that of the micro-batch so far; each other one is a matrix of its own, which is
// added to it, unless products add into the buffer themselves.
void FrameworkRewrite::weights_of_chunk(List& list, const Gemm& chunk, Operands reads, double weights, bool first) {
  const bool ahead = run_.framework.loss == LossKernels::linear_fused;
  if (ahead && !waiting_weights_) waiting_weights_ = value(element_ * weights);
  const bool own = ahead || (!first && !run_.framework.fused_accumulation);
  Operands made = reads;
  std::optional<Index> matrix;
  if (own) matrix = value(element_ * weights), made.push_back(write(*matrix));
  list.push_back({"head weights", weight_gradient(chunk), std::move(made)});
  const double added = ahead   ? wide_ * 6
                       : first ? accumulation_bytes(run_.training, run_.framework, run_.shard)
                               : addition_bytes(run_.training, run_.framework);
  if (added <= 0) return;
  Operands sum;
  if (matrix) sum.push_back(read(*matrix));
  if (ahead) sum.push_back(write(*waiting_weights_));
  list.push_back(plain("gradient accumulation", added * weights, 1, std::move(sum)));
}

// Backward of `linear-fused`: both gradients times that of the loss (element_mul_kernel).
void FrameworkRewrite::scale_gradients(Index x, const Gemm& whole) {
  const double weights = double(whole.n) * double(whole.k), tokens = double(whole.m) * double(whole.k);
  const std::string_view name = "head gradient";
  part_.input_gradient_steps.push_back(plain(name, wide_ * 4 * tokens, 1, {read(*gradients_[x])}));
  if (!waiting_weights_) return;
  const double added = accumulation_bytes(run_.training, run_.framework, run_.shard);
  const Operands waits{read(*waiting_weights_)};
  weights_.push_back({name, plain("head weights", (wide_ * 4 + added) * weights, 1, waits), waits});
}

}  // namespace rehearsal::models
