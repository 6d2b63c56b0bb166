// The rewrite of a block into native kernels (rehearsal.hpp). Layers with experts: rehearsal_experts.cpp; attention, of
// whole or split sequences: rehearsal_attention.cpp; Mamba-2: rehearsal_state_space.cpp; a loss in chunks:
// rehearsal_loss.cpp.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "models/rehearsal.hpp"

namespace rehearsal::models {

class KernelRewrite {
 public:
  KernelRewrite(const Block& block, const Transformer& model, const NetworkShape& shape);
  Part build(Recompute recompute);

 private:
  using Index = std::uint16_t;
  using Kind = OperatorKind;
  using Steps = std::vector<Step>;

  static Operand read(Index v) { return {Operand::Of::value, v, false}; }
  static Operand write(Index v) { return {Operand::Of::value, v, true}; }
  static Operand weight(Index p) { return {Operand::Of::parameter, p, false}; }
  static Operand gradient(Index p) { return {Operand::Of::gradient, p, true}; }
  static Operand sum_of_losses() { return {Operand::Of::loss, 0, true}; }
  // Operands as the table of KernelKind lists them.
  static void kernel(Steps& steps, KernelKind kind, const std::vector<std::int64_t>& dims,
                     std::vector<Operand> operands);
  // On the whole value, in place, in the tensor group.
  static void collective(Steps& steps, CollectiveKind kind, Index v);
  // From one value into another, or into a new one.
  static void collective(Steps& steps, CollectiveKind kind, Axis axis, Index from, Index to);
  Index moved(Steps& steps, CollectiveKind kind, Axis axis, Index from, std::int64_t elements);

  // Given input rows have no parameters below them.
  bool trains_below() const { return block_.operators.front().kind != OperatorKind::load_rows; }

  Index value(std::int64_t elements) {
    elements_.push_back(elements);
    part_.values.emplace_back();
    return static_cast<Index>(elements_.size() - 1);
  }
  Index like(Index v) { return value(elements_[place_[v]]); }
  Index at(Index v) const { return place_[v]; }
  std::int64_t columns(Index v) const { return block_.values[v].columns; }
  std::int64_t rows(Index v) const { return block_.values[v].elements / columns(v); }
  bool of_own_rows(const Operator& op) const;
  Tensor& tensor(Index parameter);
  Index seen_again(Steps& steps, Index v);

  void segments();
  void part_matrices();
  void forward(const Operator& op, std::size_t number);
  void backward(const Operator& op, std::size_t number);
  void add_gradient(Index v, Index made);
  void store();

  // --- head and loss, chunk by chunk
  const Operator* chunked_head() const;  // null: at once, or the block has none
  bool in_chunks(const Operator& op) const;
  void loss_of_chunks();

  // --- attention
  bool cut() const { return shape_.shard.sequence_parts() > 1; }
  std::int64_t cut_dim() const { return cut() ? shape_.shard.sequence_parts() : 0; }
  bool balanced() const { return shape_.shard.context > 1 && shape_.context_balance; }
  std::int64_t own_positions() const { return shape_.shard.sequence / shape_.shard.sequence_parts(); }
  std::int64_t query_columns() const { return heads() * mixer().head_dim; }
  std::int64_t kv_columns() const { return 2 * kv_heads() * mixer().head_dim; }
  Sight sight(Mask mask) const;
  bool sees_piece(std::int64_t step) const;
  std::vector<std::int64_t> attention_dims(std::int64_t fewer_heads, std::int64_t positions) const;
  std::vector<std::int64_t> part_dims(std::int64_t step) const;
  std::vector<std::int64_t> positions_dims(const Operator& op) const;
  std::vector<std::int64_t> rotary_dims(const Operator& op) const;
  std::vector<std::int64_t> head_norm_dims() const { return {rows_, heads(), kv_heads(), mixer().head_dim}; }
  std::vector<std::int64_t> sinks_dims(std::int64_t fewer_heads) const;
  void sinks(const Operator& op, Index out, std::int64_t fewer_heads);
  void sinks_gradient(const Operator& op, Index out, Index dout, std::int64_t fewer_heads);
  void attention(const Operator& op);
  void attention_gradient(const Operator& op);
  Index keys_and_values(Steps& steps, const Operator& op);
  void attention_of_parts(const Operator& op);
  void attention_of_parts_gradient(const Operator& op);
  Index whole_heads(Steps& steps, Index rows, std::int64_t n, std::int64_t m);
  Index whole_rows(Steps& steps, Index heads, std::int64_t n, std::int64_t m);
  Index carried(const Carried& shared, std::int64_t elements);
  void attention_of_pieces(const Operator& op);
  void attention_of_pieces_gradient(const Operator& op);
  void attention_of_heads(const Operator& op);
  void attention_of_heads_gradient(const Operator& op);

  // --- Mamba-2
  bool cut_heads() const { return shape_.shard.context > 1; }
  Piece piece() const;
  ScanShape scan_shape() const;
  std::int64_t value_columns() const { return heads() * mixer().value_dim(); }
  std::int64_t key_columns() const { return kv_heads() * mixer().head_dim; }
  std::int64_t last_rows() const {
    return shape_.shard.micro_batch * (mixer().convolution - 1) * (value_columns() + 2 * key_columns());
  }
  std::vector<std::int64_t> convolve_dims() const;
  std::vector<std::int64_t> scan_dims() const;
  void convolve(const Operator& op);
  void convolve_gradient(const Operator& op);
  void scan(const Operator& op);
  void scan_gradient(const Operator& op);
  void gated_norm(const Operator& op, std::size_t number);
  void gated_norm_gradient(const Operator& op, std::size_t number);

  // --- layers with experts
  std::int64_t slots() const;  // of one expert for the rows of one rank
  std::int64_t slot_rows() const { return ffn().experts * slots(); }
  std::int64_t held_rows() const { return slot_rows() * shape_.shard.expert_tensor; }
  std::int64_t routed_rows() const;  // that a rank sends
  std::vector<std::int64_t> gating_dims() const;
  std::vector<std::int64_t> dispatch_dims() const {
    return {routed_rows(), model_.hidden, ffn().experts_per_token, ffn().experts, slots()};
  }
  std::vector<std::int64_t> expert_dims(const Operator& op) const;
  void size_slots();
  Index exchanged(Steps& steps, Index v);
  void route(const Operator& op);
  void route_gradient(const Operator& op);
  void dispatch(const Operator& op);
  void dispatch_gradient(const Operator& op);
  void expert_linear(const Operator& op);
  void expert_linear_gradient(const Operator& op);
  void combine(const Operator& op);
  void combine_gradient(const Operator& op);

  const Mixer& mixer() const { return block_.layer.mixer; }
  const FeedForward& ffn() const { return block_.layer.ffn; }
  std::int64_t slice(const Operator& op) const { return block_.tensor(op.parameters[0]).slice; }
  bool llama() const { return model_.family == Family::llama || model_.is_moe(); }
  bool of_experts(const Operator& op) const { return op.section == Section::experts; }
  bool gated() const { return ffn().gated(); }
  // The last parameter of a linear operator, where that is no matrix. The weights before it follow each other in
  // memory.
  std::optional<Index> bias_of(const Operator& op) const {
    const auto kind = block_.tensor(op.parameters.back()).kind;
    const bool bias = kind == TensorKind::qkv_bias || kind == TensorKind::up_bias;
    return bias ? std::optional(op.parameters.back()) : std::nullopt;
  }
  std::int64_t columns_of(Index bias) const {
    const bool qkv = block_.tensor(bias).kind == TensorKind::qkv_bias;
    return std::int64_t(qkv ? Bias::query_value : Bias::whole);
  }
  std::int64_t kv_heads() const { return mixer().kv_heads / shape_.shard.tensor; }
  std::int64_t heads() const { return mixer().heads / shape_.shard.tensor; }

  const Block& block_;
  const Transformer& model_;
  const NetworkShape& shape_;
  const std::int64_t rows_, total_;
  Part part_;
  std::vector<std::int64_t> elements_;            // by value of the part
  std::vector<Index> place_;                      // of the values of the block
  std::vector<std::optional<Index>> gradients_;   // by value of the block
  std::vector<std::optional<Index>> statistics_;  // by operator: for its gradient
  // Values of the block that were gathered: along which axis, and from which value.
  std::map<Index, std::pair<Axis, Index>> entered_;
  // Of the rows of a layer with experts: the weights of the chosen ones, the rows that came back from them.
  std::optional<Index> weights_, returned_;
  // For attention: what its gradient reads besides the block's values, and its steps of the forward.
  std::optional<Index> levels_, heads_seen_, heads_made_;
  // For a scan: the rows that are convolved, those before them, and what it keeps.
  std::optional<Index> convolved_, rows_before_, scanned_;
  std::vector<Index> pieces_seen_;  // their keys and values, from the own one back
  struct {
    std::ptrdiff_t first = 0, last = 0;
  } attention_;
};

// What the kernels of Mamba-2 cannot do (rehearsal_state_space.cpp).
void refuse_state_space(const Mixer& mixer, const NetworkShape& shape);

}  // namespace rehearsal::models
