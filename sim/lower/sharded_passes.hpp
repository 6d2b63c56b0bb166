// What ZeRO-2 and ZeRO-3 (arXiv 1910.02054; FSDP, arXiv 2304.11277) add to the passes of a framework: in every
// micro-batch, parameters are gathered before use and complete gradients are scattered to their shards, with the
// buffers of both. All of it is on the data lane, in FSDP's order of issue. If shards are kept on another tier, copies
// precede the gathers and follow the reductions (ZeRO-Offload, ZeRO-Infinity); a single GPU has only the copies.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lower/checkpoints.hpp"
#include "lower/gradient_buckets.hpp"
#include "lower/kept_away.hpp"
#include "lower/pass_tasks.hpp"
#include "lower/shard_traffic.hpp"
#include "lower/step_emitter.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

// Of unreduced gradients a GPU holds one batch of buckets being filled and one being reduced: a backward that would
// start a third waits for the reduction of the first. DeepSpeed fills two buffers in turn (stage_1_and_2.py,
// overlap_comm: "double buffers"); FSDP2 waits in a unit's post_backward for the reduce-scatter of the unit before
// (_fsdp_param_group.py), which is the same distance.
inline constexpr std::size_t kBatchesHeld = 2;

class ShardedPasses {
 public:
  // The plan's passes come in parts. `stages`: those of the rank, ascending.
  ShardedPasses(ProgramDraft& draft, PassTasks& tasks, const std::vector<std::uint32_t>& stages);

  // One pass of one stage; returns its last compute task. `last`: no later one adds to the gradients of the stage.
  LocalTask pass(const graph::Coordinates& at, bool last, std::vector<LocalTask> after,
                 const PassTasks::AroundParts& around = {});
  // Issues the remaining reductions; returns the last one of the step.
  std::optional<LocalTask> finish();
  // Gradients that passes have allocated (StatePolicy::transient_gradients): what frees them, behind the step.
  std::vector<graph::BufferUse> give_back_gradients();

 private:
  // The unit of a gather or reduction: a part of the model without its tiles, or one tile.
  struct Unit {
    std::uint32_t stage = 0;
    std::size_t use = 0;  // index into the uses of the stage
    std::optional<std::uint16_t> tile = {};
    friend auto operator<=>(const Unit&, const Unit&) = default;
  };
  class Tiled;

  const Part& part(Unit unit) const { return draft_.pipe.parts.parts[use(unit).part]; }
  const StageParts::Use& use(Unit unit) const { return draft_.pipe.parts.stages[unit.stage].uses[unit.use]; }
  // Parameters that other replicas hold too: of experts, or of all else. The two have different groups of replicas.
  double parameters(Unit unit, bool experts) const;
  double gradients(Unit unit, bool experts) const;  // of trainable ones
  double stored(Unit unit, bool experts) const;     // as many, of the bytes of training, as are gathered
  void keep_gradient(Unit unit, const graph::Coordinates& at);
  bool kept_after_forward(Unit unit) const;
  ShardTraffic::Place place(Unit unit) const { return {unit.stage, unit.use}; }
  std::array<double, 2> gathered_parameters(Unit unit) const { return {stored(unit, false), stored(unit, true)}; }
  // Of a parameter as it is gathered.
  double bytes_each(Unit unit) const {
    const bool layer = use(unit).layer != graph::kNoLayer;
    return layer ? plan_.gathered_bytes() : plan::state_bytes(plan_.job.training).parameters;
  }
  void gather(Unit unit, const graph::Coordinates& at, std::vector<LocalTask>& before);
  std::uint32_t tensors(Unit unit) const;
  void make_gradient(Unit unit, PassTasks::Extra& extra);
  void sum_gradient(Unit unit, PassTasks::Extra& extra);
  bool completes(graph::Pass pass) const;
  bool needs(graph::Pass pass) const { return gathers_ && pass != graph::Pass::weight_gradient; }
  void begin(Unit unit, const graph::Coordinates& at, std::vector<LocalTask>& before);
  void drop(Unit unit, std::vector<graph::BufferUse>& uses);
  Checkpoints::Rows rows();
  void keep_checkpoint(const graph::Coordinates& at, std::size_t of_use);
  void bring_checkpoint(const graph::Coordinates& at, std::size_t of_use, std::vector<LocalTask>& waits);
  void gradients_complete(const graph::Coordinates& at, LocalTask done, std::size_t part);
  void wait_for_buckets(std::vector<LocalTask>& before) const;

  struct Bucket {
    double parameters = 0;
    bool experts = false;
    std::uint32_t tensors = 1;
    std::vector<BufferId> gradients;  // whole, freed once they are reduced
  };
  // Buckets that became full together, before their reductions were emitted as tasks.
  struct Batch {
    graph::Coordinates at;
    std::size_t part = 0;  // whose gradients completed the last bucket
    bool norms = false;    // gradients that only serve for the norm
    std::vector<Bucket> buckets;
    std::optional<LocalTask> complete;
    std::int64_t computed = 0;  // units computed when it was issued
  };
  // `at_a_time`: how many of the share's parameters have their gradients alive at once.
  LocalTask copy_gradients(const graph::Coordinates& at, LocalTask done);
  void put(const GradientBuckets::Share& share, std::uint32_t tensors, PassTasks::Extra& extra, double at_a_time,
           Unit unit);
  double neighbours(Unit unit, bool experts) const;
  void close_open();
  void close_batch();
  void emit_reductions(std::int64_t up_to);
  LocalTask reduce(const Batch& batch, const Bucket& bucket);
  LocalTask store(const Batch& batch, Bytes size, LocalTask complete, const std::vector<BufferId>& sources);
  void update(const Batch& batch, LocalTask reduced);

  ProgramDraft& draft_;
  PassTasks& tasks_;
  const plan::Plan& plan_;
  const plan::StatePolicy policy_;
  const bool replicated_;
  const bool gathers_, reduces_;
  const bool at_once_;        // updates follow each reduction (LOMO)
  const std::int64_t delay_;  // gathers that precede a reduction on the lane
  ShardTraffic traffic_;
  Tiers tiers_;
  Checkpoints checkpoints_;
  KeptAway away_;
  std::vector<LocalTask> ended_;  // last tasks of parts, in order, if what they keep leaves
  bool tied_here_;                // both ends of a tied embedding: one table, reduced with the embedding

  Bytes copied_;                            // bytes of gradients copied to where they wait
  std::map<Unit, BufferId> own_gradients_;  // that passes have allocated

  std::map<Unit, std::vector<BufferId>> gathered_;
  std::map<Unit, LocalTask> last_use_;                     // last use of a unit's parameters
  std::map<std::uint32_t, std::uint32_t> first_gradient_;  // of a stage: the micro-batch whose gradients come first
  std::vector<LocalTask> computed_;                        // of units that need parameters, in the rank's order
  GradientBuckets filling_;                                // ZeRO-2
  bool last_ = false;                                      // the pass being emitted completes gradients of its stage
  std::map<Unit, std::array<std::optional<BufferId>, 2>> sums_;  // whole gradients that passes add to: dense, experts
  std::array<Bucket, 2> open_;                                   // dense, experts
  Batch batch_;                                                  // buckets that the computing unit filled
  std::deque<Batch> waiting_;
  std::size_t closed_ = 0;          // batches so far
  std::vector<LocalTask> reduced_;  // the last reduction of each batch that became tasks
  bool blocks_ = false;             // the next computation waits for the last reduction
};

}  // namespace rehearsal::lower
