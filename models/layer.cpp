// One transformer layer as operators. The byte counts per element are those of the table in models/README.md, split
// over the kernels they belong to; their sums are the table's. Prices were fitted to the sums, not to the split.
#include <algorithm>
#include <string_view>

#include "models/operators.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {
namespace {

constexpr double kCompiledTraffic = .6;  // torch.compile keeps intermediate results in registers: bytes x 0.6

// Bytes per score (b a/t s^2 of them) that the unfused attention core moves besides its batched GEMMs.
constexpr double kScoreForward = 11;   // softmax 4, dropout 5 (mask 1), fill of the result 2
constexpr double kScoreBackward = 13;  // softmax 6, dropout 5, fill 2

// Bytes per element of the other memory-bound kernels; norms and residuals span both occurrences in the layer.
struct Traffics {
  double norms, residuals, activation, reshapes;
};

// A fused attention backward is two kernels: row sums of gradient times output, then the pass itself.
std::int64_t launches(const std::vector<Operator>& operators) {
  std::int64_t n = 0;
  for (const auto& op : operators) {
    if (const auto* memory = std::get_if<MemoryBound>(&op.shape)) n += memory->kernels;
    if (const auto* attention = std::get_if<FusedAttention>(&op.shape)) n += attention->backward ? 2 : 1;
    if (std::holds_alternative<Gemm>(op.shape)) ++n;
  }
  return n;
}

class LayerBuilder {
 public:
  LayerBuilder(const Transformer& model, const Training& training, const Software& software, const Shard& shard)
      : model_(model),
        training_(training),
        software_(software),
        shard_(shard),
        local_(local_shape(model, shard)),
        scores_(double(shard.micro_batch * local_.heads) * double(shard.sequence) * double(shard.sequence)),
        fused_(software.compiled ? kCompiledTraffic : 1) {}

  LayerWork build() {
    forward();
    input_gradient();
    weight_gradient();
    recompute();
    // All-reduces and their copies; they cost the host, the GPU's gap is inside the measured collective.
    const std::int64_t communication = shard_.tensor > 1 ? 4 : 0;
    work_.forward_kernels = launches(work_.forward) + communication;
    work_.backward_kernels = launches(work_.input_gradient) + 4 + communication;  // 4 weight-gradient GEMMs
    memory();
    work_.parameters = matrix_parameters() + small_parameters();
    return std::move(work_);
  }

 private:
  using List = std::vector<Operator>;
  bool swiglu() const { return model_.ffn_kind == FfnKind::swiglu; }
  bool llama() const { return model_.family == Family::llama; }
  bool flash() const { return training_.attention == AttentionKind::flash; }
  bool fp8() const { return training_.precision == Precision::fp8; }

  Operator linear(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, bool weight = false) const {
    return {name, Gemm{m, n, k, 1, training_.precision, weight}};
  }
  Operator batched(std::string_view name, std::int64_t n, std::int64_t k) const {
    return {name, Gemm{shard_.sequence, n, k, shard_.micro_batch * local_.heads, unscaled(training_.precision), false}};
  }
  Operator traffic(std::string_view name, double moved, std::int64_t kernels, bool backward) const {
    const Traffic kind = !software_.dropout ? Traffic::plain
                         : backward         ? Traffic::with_dropout_backward
                                            : Traffic::with_dropout_forward;
    return {name, MemoryBound{bytes(moved), kernels, kind}};
  }
  Operator attention(bool backward) const {
    return {backward ? "attention gradient" : "attention",
            FusedAttention{shard_.micro_batch, local_.heads, shard_.sequence, shard_.sequence, local_.head_dim,
                           training_.causal, backward}};
  }

  // Around each half of the layer: with sequence parallelism gather before the first GEMM and reduce-scatter after the
  // last, otherwise one all-reduce after the last (Megatron f and g; Korthikanti 2205.05198, section 4.2.2).
  void enter(List& list) const {
    if (shard_.tensor > 1 && shard_.sequence_parallel)
      list.push_back({"tensor all-gather", TensorCollective{CollectiveKind::all_gather, whole_residual()}});
  }
  void leave(List& list) const {
    if (shard_.tensor <= 1) return;
    if (shard_.sequence_parallel)
      list.push_back({"tensor reduce-scatter", TensorCollective{CollectiveKind::reduce_scatter, whole_residual()}});
    else
      list.push_back({"tensor all-reduce", TensorCollective{CollectiveKind::all_reduce, whole_residual()}});
  }
  Bytes whole_residual() const { return Bytes(2 * local_.tokens * local_.hidden); }

  Traffics forward_traffic() const {
    return {8, software_.dropout ? 14. : 12., swiglu() ? 8. : 4., llama() ? 18. : 12.};
  }
  Traffics backward_traffic() const { return {18, software_.dropout ? 14. : 8., swiglu() ? 12. : 6., 12}; }

  void forward() {
    const auto [norms, residuals, activation, reshapes] = forward_traffic();
    const auto& l = local_;
    List& f = work_.forward;
    const double norm = norms / 2 * l.residual, residual = residuals / 2 * l.residual;
    const bool compiled = software_.compiled;  // then each residual add is one kernel with the norm that follows it
    f.push_back(compiled ? traffic("add+norm", fused_ * (norm + residual), 1, false) : traffic("norm", norm, 1, false));
    enter(f);
    f.push_back(linear("qkv", l.tokens, l.qkv, l.hidden));
    f.push_back(traffic(llama() ? "rope" : "transpose", fused_ * reshapes * l.split_hidden, compiled ? 1 : 3, false));
    attention_core(f);
    f.push_back(linear("attention out", l.tokens, l.hidden, l.query));
    leave(f);
    if (compiled) {
      f.push_back(traffic("add+norm", fused_ * (norm + residual), 1, false));
    } else {
      f.push_back(traffic(residual_name(), residual, 1, false));
      f.push_back(traffic("norm", norm, 1, false));
    }
    enter(f);
    f.push_back(linear("mlp up", l.tokens, l.up, l.hidden));
    f.push_back(traffic("activation", fused_ * activation * double(l.tokens * l.ffn), 1, false));
    if (fp8()) {  // casts and maxima of the four GEMM inputs, 3 bytes an element
      const double elements = 2 * l.residual + l.split_hidden + double(l.tokens * l.ffn);
      f.push_back(traffic("fp8 cast", 3 * elements, 1, false));
    }
    f.push_back(linear("mlp down", l.tokens, l.hidden, l.ffn));
    leave(f);
    if (!compiled) f.push_back(traffic(residual_name(), residual, 1, false));
  }

  void attention_core(List& list) const {
    if (flash()) {
      list.push_back(attention(false));
      return;
    }
    list.push_back(batched("scores", shard_.sequence, local_.head_dim));  // the whole square, also when causal
    list.push_back(traffic(software_.dropout ? "softmax+dropout" : "softmax", kScoreForward * scores_, 3, false));
    list.push_back(batched("values", local_.head_dim, shard_.sequence));
  }

  void input_gradient() {
    const auto [norms, residuals, activation, reshapes] = backward_traffic();
    const auto& l = local_;
    List& b = work_.input_gradient;
    const double norm = norms / 2 * l.residual, residual = residuals / 2 * l.residual;
    const bool compiled = software_.compiled;
    // Transposes, and column sums for the bias gradients: 2 bytes read of f + 3h columns.
    const double rest = reshapes * l.split_hidden + 2 * (double(l.tokens * l.ffn) + 3 * l.split_hidden);
    if (!compiled) b.push_back(traffic(residual_gradient_name(), residual, 1, true));
    enter(b);
    b.push_back(linear("mlp down gradient", l.tokens, l.ffn, l.hidden));
    b.push_back(traffic("activation gradient", fused_ * activation * double(l.tokens * l.ffn), 1, true));
    b.push_back(linear("mlp up gradient", l.tokens, l.hidden, l.up));
    leave(b);
    if (compiled) {
      b.push_back(traffic("add+norm gradient", fused_ * (norm + residual), 2, true));
    } else {
      b.push_back(traffic("norm gradient", norm, 2, true));
      b.push_back(traffic(residual_gradient_name(), residual, 1, true));
    }
    enter(b);
    b.push_back(linear("attention out gradient", l.tokens, l.query, l.hidden));
    if (flash()) {
      b.push_back(attention(true));
    } else {  // each batched GEMM has two gradients of its own FLOPs
      for (int i = 0; i < 2; ++i) b.push_back(batched("values gradient", l.head_dim, shard_.sequence));
      b.push_back(traffic("softmax gradient", kScoreBackward * scores_, 3, true));
      for (int i = 0; i < 2; ++i) b.push_back(batched("scores gradient", shard_.sequence, l.head_dim));
    }
    b.push_back(traffic("transpose and bias gradients", fused_ * rest, compiled ? 1 : 7, true));
    if (fp8()) {
      const double elements = 2 * l.residual + 3 * l.split_hidden + 2 * double(l.tokens * l.ffn);
      b.push_back(traffic("fp8 cast", 3 * elements, 1, true));
    }
    b.push_back(linear("qkv gradient", l.tokens, l.hidden, l.qkv));
    leave(b);
    b.push_back(compiled ? traffic("add+norm gradient", fused_ * (norm + residual), 2, true)
                         : traffic("norm gradient", norm, 2, true));
  }

  void weight_gradient() {
    const auto& l = local_;
    List& w = work_.weight_gradient;
    w.push_back(linear("mlp down weights", l.hidden, l.ffn, l.tokens, true));
    w.push_back(linear("mlp up weights", l.up, l.hidden, l.tokens, true));
    w.push_back(linear("attention out weights", l.hidden, l.query, l.tokens, true));
    w.push_back(linear("qkv weights", l.qkv, l.hidden, l.tokens, true));
    const double accumulated = accumulation_bytes(training_, software_, shard_) * matrix_parameters();
    if (accumulated > 0) w.push_back({"gradient accumulation", MemoryBound{bytes(accumulated), 1, Traffic::plain}});
  }

  void recompute() {
    if (training_.recompute == Recompute::selective) attention_core(work_.recompute);
    if (training_.recompute != Recompute::full) return;
    work_.recompute = work_.forward;
    if (!software_.early_stop) return;
    std::erase_if(work_.recompute, [](const Operator& op) { return op.name == "mlp down"; });
  }

  // Bytes per layer, generalising Korthikanti 2205.05198 table 2 (34 s b h + 5 a s^2 b): 10 h of the residual stream
  // (norm inputs, GEMM inputs, dropout masks), and sharded: q, k, v, attention output, MLP intermediates.
  void memory() {
    const auto& l = local_;
    const double tokens = double(l.tokens);
    const double rotated = llama() ? 2. : 0.;  // rotated queries are kept beside the attention output
    const double linear_part = 10 * l.residual + tokens * (2 * double(l.qkv) + (2 + rotated) * double(l.query) +
                                                           (swiglu() ? 6 : 4) * double(l.ffn));
    // Softmax output 2, dropout mask 1, dropout output 2 per score; a fused kernel keeps one fp32 log-sum-exp per
    // query.
    const double core = flash() ? 4. * tokens * double(l.heads) : 5 * scores_;
    const double everything = linear_part + core;
    double kept = everything;
    if (training_.recompute == Recompute::selective) kept = linear_part;
    if (training_.recompute == Recompute::full) kept = 2 * l.residual;
    work_.activations = bytes(kept);
    work_.recomputed = bytes(everything - kept);
    // Inputs and output gradients of the four GEMMs, 2 bytes each: 32 s b h for GPT (Zero Bubble 2401.10241, table 1).
    const double held = 8 * l.residual + 2 * tokens * double(l.query + l.qkv + l.ffn + l.up);
    work_.weight_hold = bytes(held);
  }

  double matrix_parameters() const {
    return double(local_.hidden) * double(local_.qkv + local_.query + local_.up + local_.ffn);
  }
  double small_parameters() const {
    const double h = double(local_.hidden);
    return llama() ? 2 * h : double(local_.qkv + local_.up) + 2 * h + 4 * h;  // biases of out and down are not sharded
  }

  std::string_view residual_name() const { return software_.dropout ? "bias+dropout+add" : "add"; }
  std::string_view residual_gradient_name() const { return software_.dropout ? "dropout gradient" : "add gradient"; }

  const Transformer& model_;
  const Training& training_;
  const Software& software_;
  const Shard& shard_;
  const LocalShape local_;
  const double scores_;  // b a/t s^2
  const double fused_;
  LayerWork work_;
};

}  // namespace

LayerWork layer_work(const Transformer& model, const Training& training, const Software& software, const Shard& shard) {
  return LayerBuilder(model, training, software, shard).build();
}

}  // namespace rehearsal::models
