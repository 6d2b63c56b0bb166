// A network of native kernels: every kernel with the values it reads and writes, forward, input gradient and weight
// gradient apart. It can be executed, and its memory is the sum of its buffers. In fp32, or in bf16 with statistics,
// gradients of parameters and the optimizer's states in fp32 (operand_precision()). Equations: models/README.md,
// section 9.
#pragma once
#include <optional>

#include "models/block.hpp"

namespace rehearsal::models {

// What the network needs to know beyond the shard.
struct NetworkShape {
  Shard shard;
  std::int64_t data = 1;  // data-parallel ranks: the loss is a mean over the global batch
  bool causal = true;
  ContextKind context = ContextKind::ring;  // how ranks of a context group see the whole sequence
  bool context_balance = true;
  bool pad_vocabulary = true;  // to a multiple of 128 t; the serial reference does without
  Precision precision = Precision::fp32;
  Recompute recompute = Recompute::none;  // of layers; the ends are not worth it
  // Rows of one rank and micro-batch that an expert accepts, over the mean; others are dropped. None: accepts all.
  std::optional<double> capacity = {};
  bool (*steps_whole)(const Tensor& tensor) = nullptr;  // Optimizer: such tensors have segments of their own
  std::int64_t documents = 0;    // tokens see those of their own document alone (Sight::documents); 0: there is one
  std::int64_t loss_chunks = 0;  // that the tokens are cut into for head and loss; 0: all at once
};

// Throws UserError for features without native kernels (sequence parallelism, experts over tensor ranks).
Network performed_network(const Transformer& model, const NetworkShape& shape);

}  // namespace rehearsal::models
