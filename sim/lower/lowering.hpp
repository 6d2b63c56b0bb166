// Plan + schedule -> TaskGraph. Two phases, because a schedule may want to know how long a stage takes:
//   Lowering lowering(plan);                          works of every stage are interned
//   auto durations = cost.price(lowering.works());    (somebody prices them)
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
#include "lower/stage_transfers.hpp"
#include "lower/parts.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::lower {

using graph::Detail;

struct Options {
  // Operators all the same where works feel each other and the GPUs of a tensor group are not alike: the collectives
  // inside coarser tasks would feel what is around each GPU alone, and nobody would wait for the slowest.
  Detail detail = Detail::stage;
  // One rank stands for all that do the same; off: every rank is there.
  bool symmetry = true;
  bool shares = false;  // works feel each other: with what surrounds them
};

// What works find at their places.
struct ResourceMap {
  graph::ResourceTable places;
  std::vector<cluster::Resource> resources;  // those of the machine: Places::Resource::origin
  // Of the ranks, where some tensor group has members of several; else 0.
  std::uint32_t classes_in_groups = 0;
};
struct Lowered {
  graph::TaskGraph graph;
  std::optional<ResourceMap> resource_map;
  Detail detail = Detail::stage;
};

// A pipeline of given times without a model (abstract scenarios); one GPU per rank.
struct GivenPipeline {
  std::uint32_t ranks = 1, chunks = 1, microbatches = 1;
  std::vector<GivenStage> stages;  // ranks * chunks
  Time transfer;
  bool blocking_sends = false;
  std::uint32_t pieces = 1;                // of a micro-batch, which share its times
  std::vector<bool> leaves_domain = {};    // hop by hop: by the rank's other wire; empty = none does
  std::vector<schedule::Edge> edges = {};  // where stages are no chain: all of them, `transfer` and `wire` of each
};

class Lowering {
 public:
  // `stage_ranks`: the pipeline rank of every stage, which decides how far its messages go.
  Lowering(plan::Plan plan, const std::vector<std::uint32_t>& stage_ranks);
  explicit Lowering(const GivenPipeline& pipeline);

  std::span<const graph::Work> works() const { return builder_.works(); }
  // `durations`: one Time per work so far; `held`: of messages, how long they hold their wire (empty: nothing does).
  // Memory in bytes (given pipelines: in their unit).
  schedule::Problem problem(std::span<const Time> durations, std::span<const Time> held = {}) const;
  // Forward and backward of one part of a model as a stage would run it; the same in all that are cut alike.
  Time time(ModelPart part, std::size_t stage, std::span<const Time> durations) const;
  bool blocking_sends() const { return blocking_; }
  // Of a model; null for a given pipeline.
  const plan::Plan* plan() const { return plan_ ? &*plan_ : nullptr; }
  const StageTransfers& transfers() const { return transfers_; }
  // Times of an iteration without a graph: interns what each rank does when the passes are over, and how the last
  // backward goes where gradients are reduced under it and there is no pipeline. Nothing when only the graph can tell
  // (a pipeline whose gradients are reduced, or parameters that are gathered, under computation; own kernels).
  struct End {
    std::vector<std::vector<std::pair<WorkId, bool>>> ranks;  // per pipeline rank, in order; true = joins the embedding
    // Part by part: its backward, and the reductions that it sends off.
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
  StageTransfers transfers_;  // between stages s and s+1
};

}  // namespace rehearsal::lower
