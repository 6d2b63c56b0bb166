// Writes the parts of a network down, value by value and kernel by kernel. How a value is stored follows from the
// kernels that touch it.
#pragma once
#include <initializer_list>

#include "models/network.hpp"

namespace rehearsal::models {

class PartBuilder {
 public:
  using Value = std::uint16_t;
  using Parameter = std::uint16_t;  // index of the tensor

  explicit PartBuilder(Precision precision) : precision_(precision) {}

  Value value(std::int64_t elements) {
    elements_.push_back(elements);
    return static_cast<Value>(elements_.size() - 1);
  }

  void segment(bool tied = false) { part_.segments.push_back({{}, 0, tied}); }
  Parameter parameter(Tensor tensor) {
    auto& segment = part_.segments.back();
    tensor.offset = segment.elements;
    segment.elements += tensor.elements();
    segment.tensors.push_back(tensor);
    return parameters_++;
  }

  // Operands as the table of KernelKind lists them.
  static Operand read(Value v) { return {Operand::Of::value, v, false}; }
  static Operand write(Value v) { return {Operand::Of::value, v, true}; }
  static Operand weight(Parameter p) { return {Operand::Of::parameter, p, false}; }
  static Operand gradient(Parameter p) { return {Operand::Of::gradient, p, true}; }
  static Operand loss() { return {Operand::Of::loss, 0, true}; }

  using Steps = std::vector<NetworkStep>;
  static NetworkStep& add(Steps& steps, KernelKind kind, std::initializer_list<std::int64_t> dims,
                          std::initializer_list<Operand> operands) {
    Kernel kernel{.kind = kind};
    std::copy(dims.begin(), dims.end(), kernel.dims.begin());
    steps.push_back({kernel, operands});
    return steps.back();
  }
  // Over the tensor-parallel group, of the whole value.
  static void all_reduce(Steps& steps, Value v) {
    steps.push_back({TensorCollective{.kind = CollectiveKind::all_reduce, .size = {}}, {write(v)}});
  }
  static void all_gather(Steps& steps, Value v) {
    steps.push_back({TensorCollective{.kind = CollectiveKind::all_gather, .size = {}}, {write(v)}});
  }

  // The part with the precision of its kernels, and with the sizes of values and collectives that follow from it.
  NetworkPart finish();

  NetworkPart& part() { return part_; }
  Steps& forward() { return part_.forward; }
  Steps& input_gradient() { return part_.input_gradient_steps; }
  Steps& weight_gradient() { return part_.weight_gradient_steps; }

 private:
  Precision precision_;
  std::vector<std::int64_t> elements_;  // of each value
  NetworkPart part_;
  Parameter parameters_ = 0;
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

Network gpt_network(const Transformer& model, const NetworkShape& shape);
Network mlp_network(const Transformer& model, const NetworkShape& shape);

}  // namespace rehearsal::models
