// Plan + schedule -> TaskGraph. Two phases, because a schedule may depend on the stage times:
//   Lowering lowering(plan);                          works of every stage are interned
//   auto durations = cost.price(lowering.works());    (the caller prices them)
//   auto problem = lowering.problem(durations, held); stage times and memory as plain numbers, for the schedule
//   TaskGraph graph = std::move(lowering).lower(schedule, problem, options);
#pragma once
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cluster/resources.hpp"
#include "graph/detail.hpp"
#include "graph/resource_table.hpp"
#include "graph/task_graph.hpp"
#include "lower/parts.hpp"
#include "lower/stage_transfers.hpp"
#include "lower/vocabulary.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::lower {

using graph::Detail;

struct Options {
  // Operator level is used anyway if works contend and the GPUs of a tensor group are not equivalent: collectives
  // inside coarser tasks would see the surroundings of one GPU only, and would not wait for the slowest.
  Detail detail = Detail::stage;
  // One rank represents all equivalent ones; off: every rank is in the graph.
  bool symmetry = true;
  bool shares = false;  // works contend for resources: lower() also returns a ResourceMap
};

// The machine's resources that works load.
struct ResourceMap {
  graph::ResourceTable places;
  std::vector<cluster::Resource> resources;  // of the machine, by Resource::origin
  // Number of classes of ranks if a tensor group has members of several; else 0.
  std::uint32_t classes_in_groups = 0;
};
struct Lowered {
  graph::TaskGraph graph;
  std::optional<ResourceMap> resource_map;
  Detail detail = Detail::stage;
};

// A pipeline with given times and no model (abstract scenarios); one GPU per rank.
struct GivenPipeline {
  std::uint32_t ranks = 1, chunks = 1, microbatches = 1;
  std::vector<GivenStage> stages;  // ranks * chunks
  Time transfer;
  bool blocking_sends = false;
  std::uint32_t pieces = 1;                // of a micro-batch, which share its times
  std::vector<bool> leaves_domain = {};    // per hop: over the rank's other wire; empty = none does
  std::vector<schedule::Edge> edges = {};  // if stages form no chain: all edges, with `transfer` and `wire` of each
};

class Lowering {
 public:
  // `stage_ranks`: the pipeline rank of every stage, which decides how far its messages go.
  Lowering(plan::Plan plan, const std::vector<std::uint32_t>& stage_ranks);
  explicit Lowering(const GivenPipeline& pipeline);

  std::span<const graph::Work> works() const { return builder_.works(); }
  // `durations`: one Time per work so far; `held`: how long each message occupies its wire (empty: no time). Memory in
  // bytes (given pipelines: in their unit).
  schedule::Problem problem(std::span<const Time> durations, std::span<const Time> held = {}) const;
  // Forward and backward of one part of a model as a stage runs it; equal for all stages with the same layout.
  Time time(ModelPart part, std::size_t stage, std::span<const Time> durations) const;
  bool blocking_sends() const { return blocking_; }
  // The plan of a model; null for a given pipeline.
  const plan::Plan* plan() const { return plan_ ? &*plan_ : nullptr; }
  const StageTransfers& transfers() const { return transfers_; }
  // Times of an iteration without a graph: interns what each rank does after the passes and, if gradients are reduced
  // under the last backward and there is no pipeline, that backward part by part. Empty if only the graph can tell (a
  // pipeline that reduces gradients under computation, parameters gathered under computation, native kernels).
  struct End {
    std::vector<std::vector<std::pair<WorkId, bool>>> ranks;  // per pipeline rank, in order; true = joins the embedding
    // A part: its backward, and the reductions that are issued after it.
    struct LastPart {
      WorkId backward;
      std::vector<WorkId> reductions;
    };
    std::vector<LastPart> last_backward;  // empty = nothing runs under it
  };
  std::optional<End> step_ends(const schedule::Schedule& schedule, const schedule::Problem& problem);

  // Throws UserError when the schedule is illegal for this problem or needs buffered transfers.
  Lowered lower(const schedule::Schedule& schedule, const schedule::Problem& problem, const Options& options) &&;

 private:
  std::vector<End::LastPart> last_backward();

  graph::GraphBuilder builder_;
  Parts parts_;
  std::optional<plan::Plan> plan_;  // empty for a given pipeline
  std::uint32_t ranks_ = 1, chunks_ = 1, microbatches_ = 1;
  bool blocking_ = false;
  StageTransfers transfers_;    // between stages s and s+1
  VocabularyWorks vocabulary_;  // of a vocabulary that is cut over the pipeline ranks
};

}  // namespace rehearsal::lower
