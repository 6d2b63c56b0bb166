// Builds a block, value by value and operator by operator.
#pragma once
#include <utility>

#include "models/block.hpp"

namespace rehearsal::models {

class BlockBuilder {
 public:
  using Index = Operator::Index;
  using List = std::vector<Index>;

  Index value(std::int64_t elements, std::int64_t columns) {
    block_.values.push_back({elements, columns});
    return static_cast<Index>(block_.values.size() - 1);
  }
  const BlockValue& at(Index value) const { return block_.values[value]; }
  void segment(bool tied = false) { block_.segments.push_back({{}, 0, tied}); }
  Index parameter(Tensor tensor) {
    auto& segment = block_.segments.back();
    tensor.offset = segment.elements;
    segment.elements += tensor.elements();
    segment.tensors.push_back(tensor);
    return parameters_++;
  }
  void add(OperatorKind kind, std::string_view name, List in, List out, List parameters = {}) {
    block_.operators.push_back({kind, name, std::move(in), std::move(out), std::move(parameters), section_, module_});
  }
  // The section of the operators that follow.
  void section(Section section, std::optional<RecomputeModule> module = {}) { section_ = section, module_ = module; }
  std::optional<RecomputeModule> module(std::optional<RecomputeModule> module) {
    return std::exchange(module_, module);
  }
  void give_skip(Index value) { block_.skip_given = value; }
  void take_skip(Index value) { block_.skip_taken = value; }
  Block finish(std::optional<Index> input, std::optional<Index> output) {
    block_.input = input, block_.output = output;
    return std::move(block_);
  }

 private:
  Block block_;
  Index parameters_ = 0;
  Section section_ = Section::none;
  std::optional<RecomputeModule> module_;
};

// A linear layer's tensors: weight [outer, outputs, inputs] cut along its outputs (column parallel), or [outputs,
// inputs] cut along its inputs (row parallel), Megatron-LM (1909.08053, section 3).
inline Tensor column_parallel(TensorKind kind, std::int64_t outer, std::int64_t outputs, std::int64_t inputs,
                              std::int64_t t) {
  return {kind, 0, 0, outer, outputs / t, inputs, outputs, t > 1 ? Split::tensor : Split::none};
}
inline Tensor row_parallel(TensorKind kind, std::int64_t outputs, std::int64_t inputs, std::int64_t t) {
  return {kind, 0, 0, outputs, inputs / t, 1, inputs, t > 1 ? Split::tensor : Split::none};
}
inline Tensor whole(TensorKind kind, std::int64_t rows, std::int64_t columns = 1) {
  return {kind, 0, 0, 1, rows, columns, rows, Split::none};
}

NetworkBlocks transformer_blocks(const Transformer& model, const LayerTable& table, const BlockOptions& options);
NetworkBlocks mlp_blocks(const Transformer& model, const BlockOptions& options);

}  // namespace rehearsal::models
