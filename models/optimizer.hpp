// An optimizer: everything that the program asks of one, so that a new one is a file in models/optimizers/. What it
// keeps and when it steps; what a step moves and runs (predicted); which kernels it is (performed); what it is compared
// with; what it refuses.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/axes.hpp"
#include "base/kernels.hpp"
#include "base/tensor.hpp"

namespace rehearsal::models {

struct Part;
struct Training;

// The format of moments; eight bits with a scale of fp32 for each 256 (torchao, and bitsandbytes from 0.45), or for
// each 2048 (bitsandbytes before that, as in 2110.02861, section 2.1).
enum class Moments : std::uint8_t { fp32, bf16, int8, int8_2048 };
// Bytes of one.
constexpr double bytes_of(Moments moments) {
  switch (moments) {
    case Moments::fp32:
      return 4;
    case Moments::bf16:
      return 2;
    case Moments::int8:
      return 1 + 4. / 256;
    case Moments::int8_2048:
      return 1 + 4. / 2048;
  }
  return 4;
}

// Clipping by optimizers that step inside the backward: by the norm of all gradients, which a backward before the one
// that updates must compute; or tensor by tensor.
enum class GradientClipping : std::uint8_t { none, norm, grouped };

// An update inside the backward, in bytes per parameter: what it touches of the whole gradient, and of the parameters
// that are updated here; what it makes in fp32 meanwhile, of either. Launches are of a tensor.
struct UpdateTraffic {
  double gradient = 0, parameters = 0, gradient_copies = 0, parameter_copies = 0;
  std::int64_t kernels = 0;
  double all() const { return gradient + parameters; }
  double copies() const { return gradient_copies + parameter_copies; }
};

// The parts that a rank steps on, a layer as often as it has it, and among how many ranks ZeRO shards their states.
struct StepOf {
  const Training& training;
  std::vector<const Part*> parts;
  std::int64_t shards = 1, expert_shards = 1;
};
// A kernel, `count` times, or a collective among the ranks that share the states.
struct StepPiece {
  struct Exchange {
    CollectiveKind kind = CollectiveKind::all_gather;
    Bytes size;
    bool experts = false;
  };
  std::variant<Gemm, MemoryBound, Exchange> what;
  std::uint32_t count = 1;
};

// What native kernels step on: a segment, or the own shard of one.
struct OwnShard {
  std::span<const Tensor> tensors;  // of the segment
  std::int64_t elements = 0;        // of the shard
  Precision precision = Precision::fp32;
  Axis replicas = Axis::data;
  Flat gradient = Flat::own, parameters = Flat::own;
  Clip clip = Clip::none;
  // A kernel over all of it.
  Kernel flat(KernelKind kind) const;
};

// The training as far as an optimizer may refuse it.
struct Setting {
  const Training& training;
  bool native_kernels = false, experts = false;
  std::int64_t tensor = 1;  // ranks that a matrix is cut over: of the tensor group, or that of an expert
};

struct Optimizer {
  std::string name, summary;

  // --- what it keeps ----------------------------------------------------------------------------------------------
  int moments = 0;     // of each parameter that learns, in Training::moments
  bool master = true;  // with 16 bits, a copy of the weights in fp32, unless a training does without
  // Bytes that it keeps of some tensors besides; whether ZeRO shards them.
  double (*also_keeps)(std::span<const Tensor> tensors) = nullptr;
  bool shards_also = false;

  // --- when it steps ----------------------------------------------------------------------------------------------
  bool in_backward = false;      // on a tensor as soon as its gradient is there, of which nothing stays
  bool may_in_backward = false;  // the same on request: Training::optimizer_in_backward
  GradientClipping clipping = GradientClipping::none;  // where a scenario does not say
  double hysteresis = 2;                               // overflows in a row until its scaler halves the loss scale

  // --- real training, where a scenario does not say -----------------------------------------------------------------
  double learning_rate = .1;
  std::optional<double> weight_decay = {};  // nullopt: has no such term

  // --- what a step is in a framework --------------------------------------------------------------------------------
  // Bytes per parameter that it moves beyond Framework::optimizer_bytes, which are those of a fused AdamW.
  double (*moves_more)(const Training& training) = nullptr;
  // What it runs on whole matrices, before it passes over the own shard.
  std::vector<StepPiece> (*on_matrices)(const StepOf& step) = nullptr;
  // Inside the backward, with clipping; and the backward before it, which takes norms alone. Needed if `in_backward`.
  UpdateTraffic (*update)(const Training& training) = nullptr;
  UpdateTraffic (*take_norm)(const Training& training) = nullptr;
  bool needs_norm_of_each = false;  // an update, of the whole tensor of which ZeRO-3 has a shard

  // --- what it is in native kernels ---------------------------------------------------------------------------------
  // Operands of each: gradient, parameters, what it keeps (if anything: moments, what it keeps besides, master copy;
  // fp32), the squared norm (if clipped). The gradient is clear afterwards. Null: it has no kernels.
  std::vector<Kernel> (*kernels)(const OwnShard& own) = nullptr;
  // Kernels step on whole matrices of segments of such tensors (lower/whole_matrices.hpp) and by `kernels` on all
  // others, whose two moments are kept; networks have segments of their own for them.
  bool (*steps_whole)(const Tensor& tensor) = nullptr;
  bool on_host = false;  // the host steps as it does (graph::HostStep)
  struct TakesBack {     // its kernel, the same for a step that may be taken back, and that which takes it back
    KernelKind step, keep, undo;
  };
  std::optional<TakesBack> takes_back = {};

  // --- how a performed training is judged ---------------------------------------------------------------------------
  // In fp32 and without clipping: an optimizer with the same steps that adds up micro-batches.
  const char* serially = nullptr;
  double bf16_tolerance = .02;  // by how much weights of different layouts may differ
  bool turns_vectors = false;   // divides the gradient of a vector element by element: rounding may turn a step
  bool published = false;       // published runs are of it: forecasts have a band

  // Why it does not go with a training, or its kernels do not; empty: it does.
  std::string (*refuses)(const Setting& setting) = nullptr;
  std::string (*kernels_refuse)(const Setting& setting) = nullptr;
};

// fp32 elements that native kernels keep of a shard.
std::int64_t kept_elements(const Optimizer& optimizer, const OwnShard& own);
bool keeps_master(const Optimizer& optimizer, Precision precision);
bool steps_whole(const Optimizer& optimizer, std::span<const Tensor> segment);

const Optimizer& optimizer(std::string_view name);
const Optimizer& default_optimizer();

}  // namespace rehearsal::models
