// A network as this program performs it: every kernel with the values it reads and writes, forward, input gradient and
// weight gradient apart. Where operators.hpp says how much a framework's layer is, this says what is computed, exactly:
// it can be executed, and its memory is the sum of its buffers. In fp32, or in bf16 with statistics, gradients of
// parameters and the optimizer's states in fp32 (operand_precision()). Equations: models/README.md, section 9.
//
// Built from parts (embedding, layers, head) that hand each other one value forward and one gradient backward. Pure
// functions of a configuration and a shard.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/kernels.hpp"
#include "base/tensor.hpp"
#include "models/operators.hpp"

namespace rehearsal::models {

// What a kernel works on. Of a value: its index within the part; of a parameter or its gradient: the index of the
// tensor, counted through the segments; the loss is one double, a sum over the step.
struct Operand {
  enum class Of : std::uint8_t { value, parameter, gradient, loss };
  Of of = Of::value;
  std::uint16_t index = 0;
  bool written = false;
};

struct NetworkStep {
  std::variant<Kernel, TensorCollective> what;  // offsets of parameters within their segment are not filled in here
  std::vector<Operand> operands;                // in the order of KernelKind; a collective works in place
  bool selective = false;  // repeated by selective recomputation (Korthikanti 2205.05198, section 5)
};

// Parameters that are held, reduced and updated as one flat array. Offsets of the tensors are within the segment.
struct NetworkSegment {
  std::vector<Tensor> tensors;
  std::int64_t elements = 0;
  bool tied = false;  // the token table of a network with tied embeddings: embedding and head share it
};

struct NetworkPart {
  std::vector<Bytes> values;  // activations and gradients of one micro-batch
  // Values that cross the border of the part. Without an input or output the chain ends here.
  std::optional<std::uint16_t> input, output, output_gradient, input_gradient;
  std::vector<NetworkSegment> segments;
  std::vector<NetworkStep> forward, input_gradient_steps, weight_gradient_steps;
  double parameters() const;
};

struct Network {
  NetworkPart embedding, layer, head;     // mlp: the loading of the rows, a layer, the squared error
  Precision precision = Precision::fp32;  // of activations, their gradients and parameters
};

// What the network needs to know beyond the shard.
struct NetworkShape {
  Shard shard;
  std::int64_t data = 1;  // data-parallel ranks: the loss is a mean over the global batch
  bool causal = true;
  bool pad_vocabulary = true;  // to a multiple of 128 t; the serial reference does without
  Precision precision = Precision::fp32;
};

// Throws UserError for what this program has no kernels for (Llama, SwiGLU, sequence parallelism).
Network network(const Transformer& model, const NetworkShape& shape);

}  // namespace rehearsal::models
