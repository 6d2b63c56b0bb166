// What ZeRO-2 and ZeRO-3 (arXiv 1910.02054; FSDP, arXiv 2304.11277) add to the passes of a framework: parameters
// gathered before they are needed, gradients scattered to their shards when they are complete, in every micro-batch,
// and the buffers of both. All on the data lane, in the order in which FSDP issues them. Where shards are kept on
// another tier, copies come before the gathers and after the reductions (ZeRO-Offload, ZeRO-Infinity); alone, a GPU
// has those only.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lower/checkpoints.hpp"
#include "lower/gradient_buckets.hpp"
#include "lower/pass_tasks.hpp"
#include "lower/step_emitter.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

// Of gradients that were not reduced yet, a GPU holds what one batch of buckets is filled with and one batch that is on
// its way: a backward that would open a third waits for the reduction of the first. DeepSpeed fills two buffers in turn
// (stage_1_and_2.py, overlap_comm: "double buffers"); FSDP2 waits in a unit's post_backward for the reduce-scatter of
// the unit before (_fsdp_param_group.py), which is the same distance.
inline constexpr std::size_t kBatchesHeld = 2;

class ShardedPasses {
 public:
  // Of a plan whose passes come in parts. `stages` of the rank, ascending.
  ShardedPasses(ProgramDraft& draft, PassTasks& tasks, const std::vector<std::uint32_t>& stages);

  // One pass of one stage; returns its last compute task.
  LocalTask pass(const graph::Coordinates& at, std::vector<LocalTask> after, const PassTasks::AroundParts& around = {});
  // Gradients go to their shards, or leave the device, in every micro-batch; else whoever calls reduces them.
  bool reduces() const { return reduces_; }
  // What is still to be reduced; the last reduction of the step.
  std::optional<LocalTask> finish();

 private:
  // What is gathered, or reduced, at a time: a part of the model without its tiles, or one of those.
  struct Unit {
    std::uint32_t stage = 0;
    std::size_t use = 0;  // index into the uses of the stage
    std::optional<std::uint16_t> tile = {};
    friend auto operator<=>(const Unit&, const Unit&) = default;
  };
  class Tiled;

  const Part& part(Unit unit) const { return draft_.pipe.parts.parts[use(unit).part]; }
  const StageParts::Use& use(Unit unit) const { return draft_.pipe.parts.stages[unit.stage].uses[unit.use]; }
  // That somebody else holds too: of experts, or of all else. Either travels among replicas of its own.
  double parameters(Unit unit, bool experts) const;
  double gradients(Unit unit, bool experts) const;  // of those that learn
  bool kept_after_forward(Unit unit) const;
  void gather(Unit unit, const graph::Coordinates& at, std::vector<LocalTask>& before);
  std::uint32_t tensors(Unit unit) const;
  void make_gradient(Unit unit, PassTasks::Extra& extra);
  bool completes(graph::Pass pass) const;
  bool needs(graph::Pass pass) const { return gathers_ && pass != graph::Pass::weight_gradient; }
  void begin(Unit unit, const graph::Coordinates& at, std::vector<LocalTask>& before);
  void drop(Unit unit, std::vector<graph::BufferUse>& uses);
  void gradients_complete(const graph::Coordinates& at, LocalTask done, std::size_t part);
  void wait_for_buckets(std::vector<LocalTask>& before) const;

  struct Bucket {
    double parameters = 0;
    bool experts = false;
    std::uint32_t tensors = 1;
    std::vector<BufferId> gradients;  // whole, freed when the shards are there
  };
  // Buckets that became full together, before their reductions have become tasks.
  struct Batch {
    graph::Coordinates at;
    std::size_t part = 0;  // that completed the last of them
    bool norms = false;    // of gradients that are not used further
    std::vector<Bucket> buckets;
    std::optional<LocalTask> complete;
    std::int64_t computed = 0;  // number of units that had, when it was issued
  };
  // `at_a_time`: parameters whose gradients are there at once, of those that the share adds.
  LocalTask copy_gradients(const graph::Coordinates& at, LocalTask done);
  void put(const GradientBuckets::Share& share, std::uint32_t tensors, PassTasks::Extra& extra, double at_a_time,
           Unit unit);
  double neighbours(Unit unit, bool experts) const;
  void close_batch();
  void emit_reductions(std::int64_t up_to);
  LocalTask reduce(const Batch& batch, const Bucket& bucket);
  LocalTask store(const Batch& batch, Bytes size, LocalTask complete, const std::vector<BufferId>& sources);
  void update(const Batch& batch, LocalTask reduced);

  ProgramDraft& draft_;
  PassTasks& tasks_;
  const plan::Plan& plan_;
  const bool replicated_;
  const bool gathers_, reduces_;
  const bool at_once_;  // updates follow each reduction (LOMO)
  const bool overlaps_;
  const std::int64_t prefetch_;  // units gathered ahead
  const std::int64_t delay_;     // gathers that go before a reduction on the lane
  Tiers tiers_;
  Checkpoints checkpoints_;
  bool tied_here_;  // both ends of a tied embedding: one table, reduced with the embedding

  Bytes copied_;  // of gradients of what computes, to where they wait

  std::map<Unit, std::vector<BufferId>> gathered_;
  std::map<Unit, LocalTask> last_use_;                     // of the parameters of a unit
  std::map<std::uint32_t, std::uint32_t> first_gradient_;  // of a stage: the micro-batch whose gradients come first
  std::vector<LocalTask> computed_;                        // of units that need parameters, in the rank's order
  GradientBuckets filling_;                                // ZeRO-2
  std::array<Bucket, 2> open_;                             // of experts the second
  Batch batch_;                                            // the full ones of the unit that computes
  std::deque<Batch> waiting_;
  std::size_t closed_ = 0;          // batches so far
  std::vector<LocalTask> reduced_;  // the last reduction of each batch that became tasks
  bool blocks_ = false;             // the next computation waits for it
};

}  // namespace rehearsal::lower
