// The work of a framework: operators with the memory they hold, reductions under or after the backward, one optimizer
// step. Given pipelines (no plan) have passes only.
#include <utility>

#include "lower/pass_tasks.hpp"
#include "lower/rank_work.hpp"
#include "lower/sharded_passes.hpp"

namespace rehearsal::lower {
namespace {

using graph::Coordinates;
using graph::Lane;
using graph::Pass;

class FrameworkWork : public RankWork {
 public:
  explicit FrameworkWork(Draft& draft)
      : draft_(draft), pipe_(draft.pipe), emitter_(draft.pipe.parts, draft.pipe.detail, draft.works, draft.program) {}

  void begin(const std::vector<std::uint32_t>& stages,
             const std::map<std::uint32_t, std::uint32_t>& last_gradient) override {
    stages_ = stages;
    resident_states();
    if (zero() >= 2)
      sharded_.emplace(draft_, emitter_).begin(stages);
    else if (overlaps())
      for (const auto& [stage, microbatch] : last_gradient) emitter_.split(stage, microbatch);
  }

  LocalTask pass(const Coordinates& at, bool last_gradient, std::vector<LocalTask> after) override {
    if (sharded_) return sharded_->pass(at, std::move(after), tensor());
    if (last_gradient && overlaps()) return last_gradient_tasks(at, std::move(after));
    return emitter_.emit(at, std::move(after), tensor());
  }

  // After the last backward: reduce gradients, tie the embedding's two copies, step, gather the shards.
  void finish_step() override {
    if (!pipe_.plan) return;
    const auto& plan = *pipe_.plan;
    const Coordinates at{Pass::gradient_reduce, static_cast<std::uint16_t>(stages_.front()), graph::kNoLayer,
                         graph::kNoMicrobatch};
    const auto with_pass = [&](Pass p) {
      auto c = at;
      c.pass = p;
      return c;
    };
    const LocalTask last(draft_.program.size() - 1);
    if (sharded_)
      reduced_ = sharded_->finish();
    else if (overlaps())
      close_bucket();
    else if (draft_.replicated())
      reduced_ = reduce(parameters_, at, last);

    const bool first_stage = stages_.front() == 0, last_stage = stages_.back() + 1 == pipe_.problem.stages();
    if (plan.shares_embedding() && first_stage != last_stage) {
      const double shards = zero() >= 2 ? double(plan.job.parallelism.data) : 1;  // each GPU's own part of the sum
      const double size = plan.table_parameters() * gradient_bytes() / shards;
      const auto work =
          draft_.works.intern(graph::Collective{CollectiveKind::all_reduce, bytes(size), plan.embedding_group});
      reduced_ = draft_.program.add(
          {work, Lane::data_comm, with_pass(Pass::embedding_reduce), draft_.group_end(draft_.ends.embedding), Bytes{}},
          std::vector{reduced_.value_or(last)});
    }

    // Traffic of the update on this rank's shard; ZeRO-1 and 2 also copy between their flat shards and the parameters
    // (6 B each: read and write of fp16 parameters and gradients), which ZeRO-3 never holds whole.
    const double shards = sharded() ? double(plan.job.parallelism.data) : 1;
    const double copied = sharded() && zero() < 3 ? 6 * parameters_ : 0;
    const double traffic = parameters_ * plan.job.software.optimizer_bytes / shards + copied;
    const auto step = draft_.works.intern(graph::OptimizerStep{parameters_ / shards, bytes(traffic)});
    const auto updated =
        draft_.program.add({step, Lane::compute, with_pass(Pass::optimizer), graph::kNoEndpoint, Bytes{}},
                           std::vector{reduced_.value_or(last)});
    if (sharded() && zero() < 3)
      draft_.data_collective(CollectiveKind::all_gather,
                             bytes(parameters_ * plan::state_bytes(plan.job.training).parameters),
                             with_pass(Pass::parameter_gather), std::vector{updated});
  }

 private:
  bool overlaps() const { return draft_.replicated() && pipe_.plan->overlaps_gradients(); }
  int zero() const { return pipe_.plan ? pipe_.plan->zero() : 0; }
  bool sharded() const { return zero() >= 1; }
  double gradient_bytes() const { return plan::state_bytes(pipe_.plan->job.training).gradients; }
  // Coarse tasks hold the tensor collectives inside.
  std::optional<std::uint32_t> tensor() {
    return pipe_.detail == Detail::operators ? draft_.tensor_end() : std::nullopt;
  }

  LocalTask reduce(double parameters, const Coordinates& at, LocalTask after) {
    return draft_.data_collective(sharded() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                  bytes(parameters * gradient_bytes()), at, std::vector{after});
  }

  // The last micro-batch of a stage, part by part, so that the reduction of a bucket runs under the backward of what
  // follows. Buckets that one part fills go out together: gradients are known part by part.
  LocalTask last_gradient_tasks(Coordinates at, std::vector<LocalTask> after) {
    const auto& uses = pipe_.parts.stages[at.stage].uses;
    LocalTask done;
    for (std::size_t i = uses.size(); i-- > 0;) {
      done = emitter_.emit_part(at, i, after, tensor());
      after.clear();
      bucket_ += pipe_.parts.parts[uses[i].part].parameters;
      bucket_at_ = {Pass::gradient_reduce, at.stage, uses[i].layer, graph::kNoMicrobatch};
      bucket_complete_ = done;
      if (bytes(bucket_ * gradient_bytes()) < pipe_.plan->job.training.bucket) continue;
      close_bucket();
      if (i > 0) draft_.interference(*reduced_, emitter_.whole(at, i - 1), at);  // it runs beside the next part
    }
    return done;
  }
  void close_bucket() {
    if (bucket_ > 0) reduced_ = reduce(std::exchange(bucket_, 0), bucket_at_, bucket_complete_);
  }

  void resident_states() {
    if (!pipe_.plan) return;
    parameters_ = pipe_.plan->parameters(stages_);
    const auto states = pipe_.plan->resident_bytes();
    auto& program = draft_.program;
    program.resident({bytes(parameters_ * states.parameters), graph::MemoryCategory::parameters});
    program.resident({bytes(parameters_ * states.gradients), graph::MemoryCategory::gradients});
    program.resident({bytes(parameters_ * states.optimizer), graph::MemoryCategory::optimizer});
  }

  Draft& draft_;
  const Pipeline& pipe_;
  PassTasks emitter_;
  std::vector<std::uint32_t> stages_;
  std::optional<ShardedPasses> sharded_;  // ZeRO-2 and 3
  double parameters_ = 0;
  double bucket_ = 0;  // parameters whose gradients wait for their bucket to be full
  Coordinates bucket_at_;
  LocalTask bucket_complete_;
  std::optional<LocalTask> reduced_;  // the last task of the gradient reduction
};

}  // namespace

std::unique_ptr<RankWork> framework_work(Draft& draft) { return std::make_unique<FrameworkWork>(draft); }

}  // namespace rehearsal::lower
