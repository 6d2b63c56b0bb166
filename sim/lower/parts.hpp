// The parts of a stage (embedding, layers, head) as interned works, pass by pass, with the lives of their values. Every
// detail is made of these operations: a coarse task is the fold of its finer ones (folds.hpp).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "models/lives.hpp"
#include "models/part.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

struct Operation {
  WorkId work;
  graph::Pass pass;                // recompute for what a backward repeats
  std::optional<Axis> group = {};  // a collective along this axis
  // A collective that starts with it and has ended when so many operations have, this one counted.
  std::optional<WorkId> beside{};
  Axis beside_along = Axis::tensor;
  std::size_t beside_operations = 1;
  std::vector<std::uint16_t> born = {}, dies = {};  // values of the part
  const models::Step* step = nullptr;               // that it is, or is a part of
};

struct PassWork {
  std::vector<Operation> operations;  // in execution order
  WorkId whole;                       // their Sequence
};

// Between which passes a value outlives the one that makes it: made by the forward or the input gradient, until the
// input gradient or the weight gradient has ended. A backward in one pass is both of them.
enum class Crosses : std::uint8_t { no, forward_to_input, forward_to_weight, input_to_weight };

struct PartValue {
  Bytes size;
  // What it counts as: of those that are made again in the backward, the first time and then.
  graph::MemoryCategory category = graph::MemoryCategory::activations, again = graph::MemoryCategory::activations;
  Crosses crosses = Crosses::no;
  bool contiguous = false;
};

struct Part {
  std::array<PassWork, models::kPassKinds> passes;
  std::vector<PartValue> values;
  std::optional<std::uint16_t> input, output, output_gradient, input_gradient;  // as models::Part
  // From the forward to the end of the input gradient, of which `weight_hold` stays until the end of the weight
  // gradient (M_B and M_W of Zero Bubble, 2401.10241; a weight_hold beyond the activation is made by the input
  // gradient).
  Bytes activation, weight_hold;
  double parameters = 0, expert_parameters = 0;        // of which those of experts
  std::vector<models::Part::Gradient> gradients = {};  // by tensor, in the order in which a backward completes them
  const models::Part* model = nullptr;                 // null where times are given

  const PassWork& of(models::PassKind pass) const { return passes[static_cast<std::size_t>(pass)]; }
  const PassWork& of(graph::Pass pass) const;
};

// The parts of a model; which of them there are depends on it. Kept: layers where not all are recomputed alike.
enum ModelPart : std::size_t { kEmbedding, kHead, kPrediction, kLayer, kKept = kLayer + models::kLayerKinds };
inline constexpr std::size_t kModelParts = kKept + models::kLayerKinds;

// One stage: indices into the parts of the pipeline (of the first piece of a sequence), in model order.
struct StageParts {
  struct Use {
    std::size_t part;
    std::uint16_t layer;  // within the stage, or graph::kNoLayer for embedding and head
    // Of a layer that gives or takes a skip connection: its number (Transformer::skips), and the use of this stage at
    // its other end, where there is one.
    std::optional<std::uint32_t> skip = {};
    std::optional<std::size_t> partner = {};
  };
  std::vector<Use> uses;
  bool keeps_output = false;  // until its backward (models::Framework)
  Bytes output = {};          // of one micro-batch on one GPU
  std::size_t layout = 0;     // which of Parts::layouts it is cut by
};

struct Parts {
  std::vector<Part> parts;
  std::uint32_t pieces = 1;        // of a sequence: parts come in runs of so many, piece by piece
  std::vector<StageParts> stages;  // copy after copy where the model is trained in two directions
  bool performed = false;          // by this program's own kernels
  // Of a model: the index of each part that it has, cut in one way; kNoPart: none.
  static constexpr std::size_t kNoPart = ~std::size_t{0};
  std::vector<std::array<std::size_t, kModelParts>> layouts;

  // As the passes of a micro-batch, or of a piece of one, run it: a unit of a schedule.
  const Part& of(const StageParts::Use& use, std::uint32_t unit) const { return parts[use.part + unit % pieces]; }
  // Passes of one stage, and of one piece where there are several, are alike: as a number, which serves as their unit.
  std::uint32_t staged(const graph::Coordinates& c) const { return c.stage * pieces + c.microbatch % pieces; }
  const StageParts& stage(std::uint32_t staged) const { return stages[staged / pieces]; }

  bool is_head(const StageParts::Use& use) const {
    return stages_have_ends &&
           std::any_of(layouts.begin(), layouts.end(), [&](const auto& at) { return use.part == at[kHead]; });
  }
  bool stages_have_ends = false;
};

// Which part the n-th layer of the network is, of a stage that begins with `first`.
ModelPart layer_part(const plan::Job& job, std::int64_t first, std::int64_t nth);

Parts model_parts(const plan::Plan& plan, graph::GraphBuilder& builder);

// A pipeline with given times: every stage is one part.
struct GivenStage {
  Time forward, input_gradient, weight_gradient;
  Bytes activation{}, weight_hold{};
};
Parts given_parts(const std::vector<GivenStage>& stages, std::uint32_t pieces, graph::GraphBuilder& builder);

// A Sequence of whole passes, equal neighbours counted once.
WorkId sequence(const std::vector<WorkId>& works, graph::GraphBuilder& builder);

// Where a tensor lies: segment of the part, and offset in it.
struct TensorPlace {
  std::size_t segment;
  std::int64_t offset;
};
TensorPlace place_of(const models::Part& part, std::uint16_t tensor);

}  // namespace rehearsal::lower
