// A transformer layer, the embedding and the output head as lists of operators, in execution order, per GPU.
#pragma once
#include <string_view>
#include <variant>
#include <vector>

#include "models/transformer.hpp"

namespace rehearsal::models {

// A collective of the tensor-parallel group; size as in nccl-tests (the whole array).
struct TensorCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  Precision precision = Precision::fp32;  // of its elements, in networks that are performed
};

// A GEMM and a collective at once; what follows waits for both. In one piece neither needs the other. In several, one
// for each rank of the group, the piece of one rank travels while that of another is multiplied, and the last one
// alone: copy engines move them.
struct OverlappedGemm {
  Gemm piece;
  std::int64_t pieces = 1;
  TensorCollective collective;
};

struct Operator {
  std::string_view name;  // "qkv", "scores", "softmax+dropout": the same in every layer
  std::variant<Gemm, FusedAttention, MemoryBound, TensorCollective, OverlappedGemm> shape;
};

// The kernel that adds up what a scatter in pieces delivered.
inline constexpr std::string_view kSumOfParts = "sum of parts";

// The same bytes as an allocator sees them, one by one (tensors.cpp). `saved` adds up to activations and recomputed,
// what is kept longest first. The others live within a pass: results between kernels, and with sequence parallelism
// what is gathered over the tensor group.
struct Tensors {
  std::vector<Bytes> saved, forward, backward, gathered;
  bool loss = false;  // logits, not activations of a layer
};

// What one GPU does for one layer and one micro-batch.
struct LayerWork {
  std::vector<Operator> forward, input_gradient, weight_gradient;
  std::vector<Operator> backward;   // both gradients in one pass, where that is not one list after the other
  std::vector<Operator> recompute;  // what the backward pass repeats first (Recompute, Software::early_stop)
  double parameters = 0;            // of this GPU
  Bytes activations;                // kept from the forward to the input gradient
  Bytes recomputed;                 // brought back by `recompute` while the backward of this layer runs
  Bytes weight_hold;  // kept from the input gradient to the weight gradient: GEMM inputs and output gradients
  Tensors tensors;
  std::int64_t forward_kernels = 0, backward_kernels = 0;  // launches, for the host-bound regime
};

// `training.recompute` applies to this layer; which layers those are is Training::recomputes.
LayerWork layer_work(const Transformer& model, const Training& training, const Software& software, const Shard& shard);

// Token and position embedding, first stage.
LayerWork embedding_work(const Transformer& model, const Training& training, const Software& software,
                         const Shard& shard);

// Final norm, output projection over the sharded, padded vocabulary and cross-entropy; last stage, never recomputed.
// `activations` holds the logits.
LayerWork head_work(const Transformer& model, const Training& training, const Software& software, const Shard& shard);

// Vocabulary slice of one tensor rank: padded to a multiple of 128 t before slicing, as Megatron does.
std::int64_t vocabulary_slice(const Transformer& model, std::int64_t tensor);

}  // namespace rehearsal::models
