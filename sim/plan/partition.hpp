// Which layers go to which stage.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "models/transformer.hpp"
#include "plan/parallelism.hpp"

namespace rehearsal::plan {

struct Stage {
  std::int64_t layers = 0, first = 0;  // and how many come before them
  bool embedding = false, head = false;
  // Of multi-token prediction: modules that end in their own loss, modules without it, and losses without a module.
  std::int64_t predictions = 0, bodies = 0, losses = 0;
};

// The stages of a model, as `partition` says; modules of multi-token prediction are on the last one unless a layout
// says otherwise. Throws UserError as deal_layers does, and for a layout that does not hold what the model has.
std::vector<Stage> deal_stages(const models::Transformer& model, std::int64_t stages, const Partition& partition,
                               std::vector<std::string>& warnings);

// Megatron-Core's layout (--pipeline-model-parallel-layout, PipelineParallelLayerLayout): E embedding, t layer, m
// module of multi-token prediction, L loss, | between stages; x*n and (..)*n repeat. One L is that of all losses; else
// there is one for the model and one for each module. Throws UserError.
std::vector<Stage> stages_of_layout(const std::string& layout);

// Layers per stage, in model order. `uniform`: layers/stages where it divides; else (layers+2)/stages with one layer
// fewer on the first and the last stage where that divides (the embedding and the head take their places, as in the
// Zero Bubble runs); else as even as possible with the extra layers in the middle, and a warning. Throws UserError when
// layers + 2 < stages, or when a listed partition has the wrong length or sum. `after`: layers that the last stage has
// besides (multi-token prediction): an uniform partition counts them.
std::vector<std::int64_t> deal_layers(std::int64_t layers, std::int64_t stages, const Partition& partition,
                                      std::vector<std::string>& warnings, std::int64_t after = 0);

// The time of a stage for one micro-batch, forward and backward, is the sum over its parts.
struct PartTimes {
  Time embedding, head;
  std::vector<Time> layers;        // layers[n]: the first n layers of a stage; ascending, one more entry than layers
  bool first_may_be_empty = true;  // else the first stage needs a layer
  // If stages take different times, by their layouts or GPUs: those of each, instead of `layers`.
  std::vector<std::vector<Time>> of_stage = {};
};

// Contiguous layers per stage so that the slowest stage is as fast as it can be (`partition: balanced`); among those
// the one with the least sum of squared stage times, so that the others are even too, and of equals the one with fewer
// layers in front, where a pipeline holds most activations. Only the first and last stage may be empty. Throws
// UserError when there are too few layers.
std::vector<std::int64_t> deal_balanced(const PartTimes& times, std::int64_t stages);

}  // namespace rehearsal::plan
