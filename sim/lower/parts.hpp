// The parts of a stage (embedding, layers, head) as interned works, per pass, with the memory they hold. A coarse task
// is made from the same operators as the fine ones, so both cost and hold the same.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/network_parts.hpp"
#include "models/operators.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

struct Operation {
  WorkId work;
  graph::Pass pass;                // recompute for what a backward repeats
  bool tensor_collective = false;  // joins the tensor-parallel group
  std::optional<WorkId> beside{};  // a collective of that group that starts with it; what follows waits for both
};

struct PassWork {
  std::vector<Operation> operations;  // in execution order
  WorkId whole;                       // their Sequence
};

// Memory of one micro-batch: `activation` from the forward to the end of the input gradient (or full backward), of
// which `weight_hold` stays until the end of the weight gradient (M_B and M_W of Zero Bubble, 2401.10241; a weight_hold
// beyond the activation is made by the input gradient), `recomputed` while the backward of this part runs. Within one
// pass of a part live `gathered` (over the tensor group) and, between its kernels, `forward` or `backward`.
struct Held {
  Bytes activation{}, weight_hold{}, recomputed{};
  Bytes gathered{}, forward{}, backward{};
  models::Tensors tensors = {};  // behind these sums
};

struct Part {
  PassWork forward, input_gradient, weight_gradient, backward;
  Held held;
  double parameters = 0;
  std::vector<double> gradients = {};  // parameters by tensor, in the order in which a backward completes them
};

// The parts of a model, as indices. The last is there only where not all layers are recomputed alike.
enum ModelPart : std::size_t { kEmbedding, kLayer, kHead, kKeptLayer };

// One stage: indices into the parts of the pipeline, in model order.
struct StageParts {
  struct Use {
    std::size_t part;
    std::uint16_t layer;  // within the stage, or graph::kNoLayer for embedding and head
  };
  std::vector<Use> uses;
};

struct Parts {
  std::vector<Part> parts;
  std::vector<PerformedPart> performed;  // own kernels: of each part; otherwise empty
  std::vector<StageParts> stages;        // copy after copy where the model is trained in two directions
};

Parts model_parts(const plan::Plan& plan, graph::GraphBuilder& builder);

// A pipeline with given times: every stage is one part.
struct GivenStage {
  Time forward, input_gradient, weight_gradient;
  Held held;
};
Parts given_parts(const std::vector<GivenStage>& stages, graph::GraphBuilder& builder);

// A Sequence of whole passes, equal neighbours counted once.
WorkId sequence(const std::vector<WorkId>& works, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
