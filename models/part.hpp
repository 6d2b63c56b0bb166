// A part of a network (embedding, layer or head) as one rank runs it for one micro-batch: its values, its parameters,
// and every step with the values that it reads and writes, forward and backward. A part is a rewrite of a Block
// (block.hpp): by framework.hpp as a framework runs it, with the amount of work, or by rehearsal.hpp as native kernels,
// one by one. Lifetimes of values follow from the steps (lives.hpp).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/axes.hpp"
#include "base/kernels.hpp"
#include "base/tensor.hpp"
#include "models/transformer.hpp"

namespace rehearsal::models {

// A collective of the group of ranks along an axis; size as in nccl-tests (the whole array).
struct GroupCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Axis axis = Axis::tensor;
  Bytes size;
  Precision precision = Precision::fp32;  // of its elements, in networks that are performed
};

// A kernel and a collective at once; what follows waits for both. In one piece they are independent. In several, one
// for each rank of the group, the piece of one rank travels while that of another is multiplied, and the last one
// alone: copy engines move them.
struct OverlappedKernel {
  std::variant<Gemm, FusedAttention> piece;
  std::int64_t pieces = 1;
  GroupCollective collective;
};

// Tokens to the ranks of their experts or back (graph::Dispatch); of the ranks along Axis::expert.
struct TokenDispatch {
  std::int64_t tokens = 0;
  Bytes each;
  std::int64_t experts = 0, per_token = 0, most_domains = 0;
  bool two_hop = true;
  double load = 1;
  std::vector<double> loads = {};
  bool back = false;
};

// What a step works on. Of a value: its index within the part; of a parameter or its gradient: the index of the tensor,
// counted through the segments; the loss is one double, a sum over the step.
struct Operand {
  enum class Of : std::uint8_t { value, parameter, gradient, loss };
  Of of = Of::value;
  std::uint16_t index = 0;
  bool written = false;
};

struct Step {
  std::string_view name;  // "qkv", "scores", "softmax+dropout": the same in every layer
  std::variant<Gemm, FusedAttention, MemoryBound, GroupCollective, OverlappedKernel, Kernel, TokenDispatch> what;
  // Of kernels in the order of KernelKind; a collective of a performed network works in place. Offsets of parameters
  // within their segment are not filled in here.
  std::vector<Operand> operands = {};
  bool repeats = false;  // a step of the forward, once more in the backward
  // Starts with this step and ends by the time `beside_steps` steps have, including this one; none of them needs it,
  // because it belongs to another micro-batch or they to the shared experts.
  std::optional<TokenDispatch> beside = {};
  std::size_t beside_steps = 0;
  bool of_shared_experts = false;  // and runs beside the exchange before it (`framework.shared_expert_overlap`)
  // Indices into Part::tiles: the tile that it multiplies by, and the tile whose gradient it completes.
  std::optional<std::uint16_t> tile = {}, completes = {};
};

struct Value {
  Bytes size;
  enum class Holds : std::uint8_t { activation, gathered, loss };  // gathered: over a group of ranks; loss: logits
  Holds holds = Holds::activation;
  // Kept from the forward to the backward although the backward repeats the step that makes it.
  bool stays = false;
  bool contiguous = false;  // in memory that was allocated for all of its kind once (Training::defragment)
};

// Parameters that are held, reduced and updated as one flat array. Offsets of the tensors are within the segment.
struct Segment {
  std::vector<Tensor> tensors;
  std::int64_t elements = 0;
  bool tied = false;  // the token table of a network with tied embeddings: embedding and head share it
};

// A value that passes of several pieces of a sequence share (Shard::pieces): the keys and values of a piece, which
// later ones see, or its state; or the gradient of those, to which later ones add. Born and dead in the passes of those
// pieces that say so.
struct Carried {
  std::uint16_t value = 0;  // of the part
  std::int64_t piece = 0;   // whose it is
  bool gradient = false;
  bool begins = false, ends = false;
  std::uint16_t which = 0;  // of those of a piece: below kCarried
};
inline constexpr std::uint16_t kCarried = 2;

struct Part {
  std::vector<Value> values;
  std::vector<Carried> carried;
  // Values that cross the border of the part. Without an input or output the chain ends here.
  std::optional<std::uint16_t> input, output, output_gradient, input_gradient;
  // Likewise, of a skip connection. An encoder layer gives a value, whose gradient comes back to it; the decoder layer
  // that takes the value gives that gradient. Each is born in one of the two parts and dies in the other.
  struct Skip {
    std::optional<std::uint16_t> given, given_gradient;  // of the encoder
    std::optional<std::uint16_t> taken, taken_gradient;  // of the decoder
  };
  Skip skip;
  std::vector<Segment> segments;
  std::vector<double> tiles;  // parameters of each, in the order of the forward (Offload::tiles)
  // The backward in two passes, or in one. Both begin with what they repeat of the forward (Recompute).
  std::vector<Step> forward, input_gradient_steps, weight_gradient_steps, backward;
  // A backward that only computes norms of gradients and leaves what the forward has kept to the next one; empty if
  // there is none (Training::norms_first).
  std::vector<Step> norm_backward;

  double parameters = 0;         // of this rank, of which
  double expert_parameters = 0;  // are those of experts: they have replicas of their own (Axis::expert_data)
  double learning = 0;           // those that have gradients: all, or adapters alone (Training::frozen)
  double expert_learning = 0;    // of experts among these
  // By how many parameters fewer this is, in bytes, because frozen ones have fewer (Training::frozen_precision); and of
  // experts among these.
  double spared = 0, expert_spared = 0;
  struct Gradient {
    double parameters = 0;  // of one tensor
    bool experts = false;
  };
  std::vector<Gradient> gradients;  // in the order in which a backward completes them
  // Launches of each pass, for the regime in which the host decides. Backward: of both gradients. The forward in two
  // runs, if the host has to wait for a result of the GPU (how many tokens an expert gets): up to there it launches,
  // and what follows in the layer before, under what the GPU still computes of that.
  struct Run {
    std::size_t until;  // steps of the forward before this one
    std::int64_t launches;
  };
  std::vector<Run> forward_launches;
  std::int64_t backward_launches = 0, weight_launches = 0, norm_launches = 0;  // the last of the norm backward
  bool counts_modules = false;     // launches are counts of modules, of either pass
  bool launched_together = false;  // one thread launches a forward and a backward in turns
  bool uneven_launches = false;    // the host is behind of some kernels and ahead of others
};

// A network of one rank.
struct Network {
  Part embedding, head;                      // mlp: the loading of the rows, the squared error
  std::vector<Part> layers;                  // one for each row of the model's table
  std::vector<Part> kept;                    // the same without recomputation, if only some layers are recomputed
  Part prediction;                           // a module of multi-token prediction
  std::vector<std::uint16_t> of_layer = {};  // LayerTable::of_layer
  const Part& layer(std::int64_t number) const { return layers[of_layer[std::size_t(number)]]; }
  Precision precision = Precision::fp32;  // of activations, their gradients and parameters; of performed networks
  Part body = {};                         // a module of multi-token prediction without its loss (Shard::lone_modules)
};

}  // namespace rehearsal::models
