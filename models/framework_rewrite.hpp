// One block as a framework runs it. The byte counts per element are those of the table in models/README.md, split over
// the kernels they belong to; their sums are the table's. Prices were fitted to the sums, not to the split.
#pragma once
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "models/block.hpp"
#include "models/experts.hpp"
#include "models/lives.hpp"
#include "models/shapes.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {

struct FrameworkRun {
  const Transformer& model;
  const Training& training;
  const Framework& framework;
  const Shard& shard;
  const Routed& routing;

  bool fp8() const { return scaled(training.precision); }  // or fp4: with scales
  bool cut() const { return shard.tensor > 1; }
  bool scattered() const { return cut() && shard.sequence_parallel; }
  bool compiled() const { return framework.compiled; }
};

// The gradient of an operator's weights: a backward in one pass computes it beside the input gradient, from `reads`; a
// pass of its own uses what was `kept` until then.
struct WeightGradient {
  std::string_view follows;  // the step that makes the input's gradient
  Step step;
  std::vector<Operand> kept;
};

class FrameworkRewrite {
 public:
  FrameworkRewrite(const Block& block, const FrameworkRun& run);
  Part build(Recompute recompute);

 private:
  using Index = std::uint16_t;
  using List = std::vector<Step>;
  using Operands = std::vector<Operand>;
  static Operand read(Index v) { return {Operand::Of::value, v, false}; }
  static Operand write(Index v) { return {Operand::Of::value, v, true}; }

  Index value(double size, Value::Holds holds = Value::Holds::activation);
  Index like(Index other) { return value(double(part_.values[other].size.count())); }
  std::optional<Index> mask(double elements);  // of a dropout
  // Values that the operations of a step keep for their gradients (ElementCost::kept); made by the forward.
  void keep_between(const Operator& op, const ElementCost& cost, Operands& operands);
  Index gradient_of(Index v);  // created if there is none

  // Operators and their gradients.
  void forward(const Operator& op, std::size_t number);
  void backward(const Operator& op, std::size_t number);
  void forward_norm(const Operator& op);
  void backward_norm(const Operator& op);
  void forward_add(const Operator& op, std::size_t number);
  void backward_add(const Operator& op, std::size_t number);
  void forward_linear(const Operator& op);
  void backward_linear(const Operator& op);
  // Of frozen layers: framework_frozen.cpp. Whether an operator's weights learn; whether they have fewer bits, and what
  // a product then reads of them, made before it.
  bool learns(const Operator& op) const;
  bool quantised(const Operator& op) const;
  void dequantise(List& list, const Operator& op, Operands& of_product);
  // With adapters: framework_adapters.cpp.
  struct Adapter {
    Gemm down, up;
    std::int64_t each = 1;  // adapters, of the operator's outputs
  };
  bool adapted(const Operator& op) const;
  Adapter adapter_of(const Operator& op) const;
  Index adapter_input(const Operator& op, std::int64_t each);
  bool copies_adapter_input() const { return run_.framework.adapter_dropout || adapter_width() != element_; }
  // Bytes of what an adapter is given and drops, and of what its products read and make.
  double adapter_width() const { return run_.framework.fp32_adapters ? 4 : element_; }
  double adapter_bytes() const { return run_.framework.autocast ? element_ : adapter_width(); }
  void forward_adapter(const Operator& op);
  void backward_adapter(const Operator& op, Index at_hand, Index kept);
  double adapter_parameters(bool of_experts) const;
  std::int64_t frozen_launches(bool of_experts) const;
  // Of operators that are run in tiles: framework_tiles.cpp.
  struct TileShape {
    std::int64_t columns = 0;
    double parameters = 0;
  };
  std::vector<TileShape> tiles_of(const Operator& op) const;
  void forward_tiles(const Operator& op, const Operands& inputs, const std::vector<TileShape>& tiles);
  void backward_tiles(Step step, const WeightGradient& weight, Index in, const std::vector<TileShape>& tiles);
  void forward_attention(const Operator& op);
  void backward_attention(const Operator& op);
  void backward_rotate(const Operator& op);
  // Of mixers: framework_mixers.cpp.
  void gate(const Operator& op, bool back);
  void norm_heads(const Operator& op, bool back);
  void choose_keys(const Operator& op, bool back);
  void convolve(const Operator& op, bool back);
  void scan(const Operator& op, bool back);
  void activate(const Operator& op, bool back);
  void embed(const Operator& op, bool back);
  void loss(const Operator& op, bool back);
  LossKernels loss_kernels() const;
  void cross_entropy(List& list, Index logits, double size);
  Index cross_entropy_gradient(List& list, Index logits, double size);
  // Of head and loss that go chunk by chunk of the tokens: framework_chunks.cpp.
  bool in_chunks() const;
  std::int64_t chunk_rows(const Gemm& head) const;
  void loss_of_chunks(bool back);
  void weights_of_chunk(List& list, const Gemm& chunk, Operands reads, double weights, bool first);
  void scale_gradients(Index x, const Gemm& whole);
  void enter(const Operator& op, bool back);
  void leave(const Operator& op, bool back);
  // Of layers with experts: framework_experts.cpp.
  void route(const Operator& op, bool back);
  void travel(const Operator& op, bool back);
  void exchange(const Operator& op, bool back, Index from, Index to);
  bool beside_exchange(const Operator& op) const;
  void run_beside(const Operator& exchange, bool back);
  void share_rows(const Operator& op, bool back);
  void own_tokens(const Operator& op, bool back);
  void forward_experts(const Operator& op);
  void backward_experts(const Operator& op);
  void expert_cast(List& list, const Operator& op, bool back, Operands& of_product);
  Gemm expert_product(const Operator& op) const;
  double expert_activation_bytes(bool back) const;  // per element of the experts' width
  double activated() const;                         // times that kernels of that width move it
  void select_experts(const Gemm& product);
  Moved rotation_traffic() const;
  bool eager_rotation() const { return run_.training.kernels == Kernels::unfused && llama() && !layer_.mixer.mla; }
  Operands attended(const Operator& op) const;
  Operands gradients_of_attended(const Operator& op);
  FusedAttention fused_attention(bool backward) const;
  // Of sequences that are cut over the context group: framework_context.cpp.
  void context_attention(const Operator& op, bool back);
  void ring_forward(const Operator& op);
  void ring_backward(const Operator& op);
  void gather_context(const Operator& op, bool back);
  void exchange_heads(const Operator& op, bool back);
  FusedAttention context_block(std::int64_t keys, bool causal, bool backward) const;
  FusedAttention ring_block(std::int64_t step, bool backward) const;
  double context_columns(bool keys) const;  // of the keys here, or of the values
  // Of sequences that go through in pieces: framework_pieces.cpp.
  FusedAttention piece_block(bool backward) const;
  double piece_of_keys() const;  // elements of the keys and values of one
  void piece_forward(const Operator& op);
  void piece_backward(const Operator& op);
  void keep_keys(const List& again);
  void count_parameters();
  // Of an optimizer that steps inside the backward: framework_updates.cpp.
  void gradients_to_update();
  void take_norms();
  void update(List& steps);
  List with_each_gradient(const List& steps, std::string_view name, const UpdateTraffic& traffic);
  std::int64_t launches_of_one(const UpdateTraffic& traffic) const;
  std::int64_t update_launches() const;
  bool has_experts() const;
  // Launches of the host: framework_launches.cpp. Of a forward by section, and of a backward.
  struct Launches {
    double attention = 0, router = 0, experts = 0, backward = 0;
    double forward() const { return attention + router + experts; }
  };
  Launches module_launches() const;
  bool captures_attention() const;
  bool captures_router() const;
  double latents_again() const;
  double checkpoints(double of_experts) const;
  void launch_modules();
  void join(const Operator& op, bool back);
  void concatenate(const Operator& op, bool back);
  void skip_out(const Operator& op, bool back);
  void cast(List& list, const Operator& op, bool back, Operands& of_product);
  std::optional<Step> accumulation() const;
  void copy_checkpoint();
  // Of an operator, by its number.
  bool in_graph(std::size_t number) const;

  Step traffic(std::string_view name, Moved moved, std::int64_t kernels, bool back, Operands operands) const;
  Step plain(std::string_view name, Moved moved, std::int64_t kernels, Operands operands) const;
  Step batched(std::string_view name, std::int64_t n, std::int64_t k, Operands operands) const;
  Gemm product(const Operator& op) const;
  // Of the tensor group; `whole`: all of its ranks' tokens.
  GroupCollective of_tokens(CollectiveKind kind, Index whole) const;
  Step collective(std::string_view name, CollectiveKind kind, Index whole, Operands operands) const;

  bool flash() const { return run_.training.attention == AttentionKind::flash; }
  bool llama() const { return !run_.model.is_gpt(); }  // and what is made like it
  bool is_layer() const { return block_.input && block_.output; }
  bool is_embedding() const { return !block_.input; }
  // Data, of which nobody asks a gradient.
  bool is_given(Index v) const {
    const auto& first = block_.operators.front();
    return first.kind == OperatorKind::load_rows && first.out.front() == v;
  }
  static bool is_head(const Operator& op) { return op.name == "head"; }
  double cast_elements(Index v) const;
  // Of values that wait in fewer bits (Training::stored_fp8): framework_storage.cpp.
  void find_stored();
  void widen_stream();  // between layers it is fp32 (framework.fp32_stream)
  bool stores(Index v) const { return stored_.contains(v); }
  bool keeps_cast(Index v) const;
  void store_narrow();

  const Block& block_;
  const FrameworkRun run_;
  const LayerSpec& layer_;
  const LocalShape local_;
  const LayerTraffic cost_, back_;
  const double element_;  // bytes of an element of an activation: 2, and 4 in fp32
  const double wide_;     // over 2, in which bytes of kernels are counted (masks of dropouts with them)
  const double scores_;   // b a/t s^2
  const double fused_;    // bytes of elementwise kernels that a compiler leaves
  Part part_;
  std::vector<std::optional<Index>> gradients_;      // by value of the block
  std::vector<std::optional<Index>> before_gather_;  // of a gradient: what every rank keeps of it
  std::vector<std::optional<Index>> casts_;          // of a value that a product reads: its narrow copy, if kept
  std::vector<std::optional<Index>> entered_from_;   // of a value that was gathered: what it was gathered from
  std::vector<std::optional<Index>> masks_;          // by operator
  std::optional<Index> state_;                       // of attention, for its gradient
  std::optional<Index> loss_state_;                  // and of the loss
  std::optional<Index> dropped_, score_mask_;        // scores after dropout, and its mask
  Operands whole_heads_;                             // queries, keys, values and results of some heads, of all tokens
  std::optional<Index> waiting_weights_;             // gradient of the head that the forward made
  std::map<Index, StoredValue> stored_;              // values of the block that wait in fewer bits
  Operands pending_;                                 // of an add that a compiler fuses with what follows
  std::vector<WeightGradient> weights_;
  std::map<const Operator*, std::uint16_t> first_tile_;
  std::map<Index, Index> between_;           // by the result of operations that are not fused: what those keep
  std::map<const Operator*, Index> narrow_;  // of an adapter: what its first product makes
  // What that reads, where it is not the operator's input; and the mask of its dropout.
  std::map<const Operator*, Index> dropped_inputs_, input_masks_;
  std::map<Index, double> updates_;  // gradients that are used up inside the backward, and of how many parameters
};

// Of y = x w: the products that make dx, and dw.
constexpr Gemm input_gradient(Gemm product) {
  std::swap(product.n, product.k);
  return product;
}
constexpr Gemm weight_gradient(const Gemm& product) {
  return {product.n, product.k, product.m, product.batch, product.precision, true};
}

bool is_expert_product(std::string_view step);  // by its name

// --- framework_passes.cpp: what becomes of the lists of a part

// Joins every gather with the GEMM that it feeds and every scatter with the one that feeds it, in place of the GEMM.
// The ranks' pieces of a scattered product arrive one by one and are added up by a kernel.
void pipeline(std::vector<Step>& list, const FrameworkRun& run);
// Token exchanges run under the passes of another micro-batch (`framework.expert_overlap`). They are as long as those
// of this one, which therefore stand beside the steps of this pass: one beside each of the two stretches of kernels
// that they separate, attention and experts (DualPipe's order, 2412.19437, figure 4; Megatron-Core's
// --overlap-moe-expert-parallel-comm).
void hide_exchanges(std::vector<Step>& list, const FrameworkRun& run);
// Steps of the shared experts stand beside the exchange that they follow (`framework.shared_expert_overlap`).
void hide_under_shared_experts(std::vector<Step>& list);
// Both gradients in one pass: those of weights where their inputs are available.
std::vector<Step> joined_backward(const std::vector<Step>& input_gradient, const std::vector<WeightGradient>& weights,
                                  const FrameworkRun& run);
// The forward steps that selective or full recomputation repeats; marks the values that stay. `modules`: for each step
// of the forward the module that it belongs to, if that can be recomputed by itself.
using Modules = std::vector<std::optional<RecomputeModule>>;
std::vector<Step> recomputed_steps(Part& part, const Block& block, const Modules& modules, Recompute mode,
                                   const FrameworkRun& run);
// Launches of these steps. A fused attention backward is two kernels: row sums of gradient times output, then the pass
// itself.
std::int64_t launches(const std::vector<Step>& steps);

}  // namespace rehearsal::models
