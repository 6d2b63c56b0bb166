// The parts of a stage (embedding, layers, head) as interned works, pass by pass, with the lifetimes of their values.
// All levels of detail are made of these operations: a coarse task fuses its finer ones (fused_tasks.hpp).
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
  graph::Pass pass;                // `recompute` for what a backward repeats
  std::optional<Axis> group = {};  // a collective along this axis
  // A collective that starts with it and ends by the time `beside_operations` operations have, including this one.
  std::optional<WorkId> beside{};
  Axis beside_along = Axis::tensor;
  std::size_t beside_operations = 1;
  std::vector<std::uint16_t> born = {}, dies = {};  // values of the part
  const models::Step* step = nullptr;               // that this operation is, or is part of
};

struct PassWork {
  std::vector<Operation> operations;  // in execution order
  WorkId whole;                       // their Sequence
};

// Between which passes a value stays alive: made by the forward or the input gradient, kept until the input gradient or
// the weight gradient has ended. A backward in one pass is both of them.
enum class Crosses : std::uint8_t { no, forward_to_input, forward_to_weight, input_to_weight };

struct PartValue {
  Bytes size;
  // Its category when it is first made and, if it is made again in the backward, the second time.
  graph::MemoryCategory category = graph::MemoryCategory::activations, again = graph::MemoryCategory::activations;
  Crosses crosses = Crosses::no;
  bool contiguous = false;
  bool leaves = false;  // the device, between forward and backward (models::Training::share_away)
};

struct Part {
  std::array<PassWork, models::kPassKinds> passes;
  std::vector<PartValue> values;
  std::optional<std::uint16_t> input, output, output_gradient, input_gradient;  // as models::Part
  // Kept from the forward to the end of the input gradient; of it, `weight_hold` stays until the end of the weight
  // gradient (M_B and M_W of Zero Bubble, 2401.10241; the excess of weight_hold over activation is made by the input
  // gradient).
  Bytes activation, weight_hold;
  double parameters = 0, expert_parameters = 0;        // all, and those of experts among them
  std::vector<models::Part::Gradient> gradients = {};  // by tensor, in the order in which a backward completes them
  const models::Part* model = nullptr;                 // null where times are given

  const PassWork& of(models::PassKind pass) const { return passes[static_cast<std::size_t>(pass)]; }
  const PassWork& of(graph::Pass pass) const;
};

// The parts that a model may have: its ends, a module of multi-token prediction with its loss and without, and two for
// each row of its table of layers, the second without recomputation if only some layers are recomputed.
enum ModelPart : std::size_t { kEmbedding, kHead, kPrediction, kBody, kFirstLayer };
constexpr ModelPart layer_part(std::size_t row, bool kept) { return ModelPart(kFirstLayer + 2 * row + kept); }

// One stage: indices into the parts of the pipeline (of the first piece of a sequence), in model order.
struct StageParts {
  struct Use {
    std::size_t part;
    std::uint16_t layer;  // within the stage, or graph::kNoLayer for embedding and head
    // For a layer at either end of a skip connection: its number (Transformer::skips), and the use in this stage at the
    // other end, if there is one.
    std::optional<std::uint32_t> skip = {};
    std::optional<std::size_t> partner = {};
  };
  std::vector<Use> uses;
  bool keeps_output = false;  // until its backward (models::Framework)
  Bytes output = {};          // of one micro-batch on one GPU
  std::size_t layout = 0;     // index into Parts::layouts
};

struct Parts {
  std::vector<Part> parts;
  std::uint32_t pieces = 1;        // of a sequence: the pieces of a part follow each other
  std::vector<StageParts> stages;  // one copy after the other if trained in two directions
  bool performed = false;          // by this program's own kernels
  // For each layout of a model: the index of each part that it has; kNoPart: none.
  static constexpr std::size_t kNoPart = ~std::size_t{0};
  std::vector<std::vector<std::size_t>> layouts;

  // The part as a unit of a schedule runs it: a micro-batch, or a piece of one.
  const Part& of(const StageParts::Use& use, std::uint32_t unit) const { return parts[use.part + unit % pieces]; }
  // Passes of one stage, and of one piece if there are several, are alike: a number for them, which also serves as
  // unit.
  std::uint32_t staged(const graph::Coordinates& c) const { return c.stage * pieces + c.microbatch % pieces; }
  const StageParts& stage(std::uint32_t staged) const { return stages[staged / pieces]; }

  bool is_head(const StageParts::Use& use) const {
    return stages_have_ends &&
           std::any_of(layouts.begin(), layouts.end(), [&](const auto& at) { return use.part == at[kHead]; });
  }
  bool stages_have_ends = false;
};

// Which part the n-th layer of the network is, in a stage that begins with layer `first`.
ModelPart layer_part(const plan::Plan& plan, std::int64_t first, std::int64_t nth);

Parts model_parts(const plan::Plan& plan, graph::GraphBuilder& builder);

// A pipeline with given times: every stage is one part.
struct GivenStage {
  Time forward, input_gradient, weight_gradient;
  Bytes activation{}, weight_hold{};
};
Parts given_parts(const std::vector<GivenStage>& stages, std::uint32_t pieces, graph::GraphBuilder& builder);

// A Sequence of whole passes; equal neighbours are one item with a count.
WorkId sequence(const std::vector<WorkId>& works, graph::GraphBuilder& builder);

// Position of a tensor: segment of the part, and offset in it.
struct TensorPlace {
  std::size_t segment;
  std::int64_t offset;
};
TensorPlace place_of(const models::Part& part, std::uint16_t tensor);

// What is kept of a part for each parameter that learns, `each` bytes of one: tensor by tensor as a framework allocates
// them, or flat where ranks share them (1: they do not). `without`: parameters that another part counts.
std::vector<Bytes> learning_tensors(const models::Part& part, double each, double shards, double expert_shards,
                                    double without = 0);

}  // namespace rehearsal::lower
