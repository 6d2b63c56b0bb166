// The tasks of a framework's rank: operators with the memory they hold, gradient reductions under or after the
// backward, one optimizer step. Given pipelines (no plan) have passes only.
#include <algorithm>
#include <utility>

#include "lower/gathered_forward.hpp"
#include "lower/gradient_buckets.hpp"
#include "lower/pass_tasks.hpp"
#include "lower/served.hpp"
#include "lower/server.hpp"
#include "lower/sharded_passes.hpp"
#include "lower/step_emitter.hpp"
#include "lower/step_end.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {
namespace {

using graph::Coordinates;
using graph::Lane;
using graph::Pass;
using Policy = plan::StatePolicy;

class FrameworkEmitter : public StepEmitter {
 public:
  explicit FrameworkEmitter(ProgramDraft& draft)
      : draft_(draft),
        pipe_(draft.pipe),
        policy_(draft.pipe.plan ? plan::state_policy(*draft.pipe.plan) : Policy{}),
        emitter_(draft.pipe.parts, draft.pipe.detail, draft.works, draft.program, draft.ends) {}

  void begin(const std::vector<std::uint32_t>& stages,
             const std::map<std::uint32_t, std::uint32_t>& last_gradient) override {
    stages_ = stages;
    resident_states();
    if (is_served()) served_.emplace(draft_);
    if (policy_.gather == Policy::Gather::under_forward) gathered_.emplace(draft_, stages);
    if (pipe_.plan && plan::passes_in_parts(*pipe_.plan)) sharded_.emplace(draft_, emitter_, stages);
    if (overlaps()) begin_buckets(last_gradient);
  }

  // Emitted part by part if shards or checkpoints come and go, if the forward waits for parameters gathered under it,
  // or if gradients are reduced under the last backward: a bucket then travels while later parts compute.
  LocalTask pass(const Coordinates& at, bool last_gradient, std::vector<LocalTask> after) override {
    if (pipe_.parts.stages[at.stage].uses.empty()) return emitter_.emit(at, std::move(after));
    const bool gathers = gathered_ && gathered_->waits(at);
    const bool reduces = last_gradient && overlaps();
    PassTasks::AroundParts around;
    if (gathers) emitter_.split(at.stage, at.microbatch);
    if (gathers) around.before = [&](std::size_t use, auto& waits) { gathered_->before(at, use, waits); };
    if (reduces) around.after = [&](std::size_t use, LocalTask done) { part_complete(at, use, done); };
    LocalTask last;
    if (sharded_)
      last = sharded_->pass(at, last_gradient, std::move(after), around);
    else if (gathers || reduces)
      last = emitter_.emit_parts(at, std::move(after), around);
    else
      last = emitter_.emit(at, std::move(after));
    if (gathers) gathered_->passed(at);
    return last;
  }

  // All-reduces one number, the norm over what each tensor rank holds; replicas compute theirs from whole gradients.
  void finish_norms() override {
    const auto& group = pipe_.plan->group(Axis::tensor);
    if (group.ranks == 1) return;
    graph::Collective sum{CollectiveKind::all_reduce, Bytes(4), group};
    sum.inside = Axis::tensor;
    draft_.program.add({draft_.works.intern(sum),
                        Lane::compute,
                        {Pass::norm_backward, 0, graph::kNoLayer, graph::kNoMicrobatch},
                        draft_.group_end(Axis::tensor)});
  }
  void forget(const Coordinates& at) override { emitter_.release(at); }

  // After the last backward: reduce gradients, tie the embedding's two copies, step, gather the shards.
  void finish_step() override {
    if (!pipe_.plan) return;
    const auto& plan = *pipe_.plan;
    const Coordinates at{Pass::gradient_reduce, static_cast<std::uint16_t>(stages_.front()), graph::kNoLayer,
                         graph::kNoMicrobatch};
    const LocalTask last(draft_.program.size() - 1);
    if (is_served()) return finish_served(at, last);
    if (policy_.reduce == Policy::Reduce::per_part)
      reduced_ = sharded_->finish();
    else if (overlaps())
      for (const bool experts : {false, true})
        if (const double rest = buckets_->close(experts); rest > 0) reduce(rest, experts);

    if (fused_.dense + fused_.experts > 0) copy_back();
    const bool reduced = !draft_.replicated() || policy_.reduce != Policy::Reduce::at_end;
    std::vector<LocalTask> before{reduced_.value_or(last)};
    auto given_back = sharded_ ? sharded_->give_back_gradients() : std::vector<graph::BufferUse>{};
    const auto tasks = step_end(plan, stages_, reduced);
    for (const auto& task : tasks) {
      const auto endpoint = task.group ? draft_.group_end(*task.group) : graph::kNoEndpoint;
      auto here = at;
      here.pass = task.pass;
      std::vector<graph::BufferUse> uses;
      if (task.pass == Pass::optimizer) copy_gradients(uses), take_roots(task, uses);
      const bool steps = std::holds_alternative<graph::OptimizerStep>(task.work);
      if (steps && plan.job.training.skipped == false) {
        uses.insert(uses.end(), given_back.begin(), given_back.end());
        given_back.clear();
      }
      if (const auto* on_host = std::get_if<graph::HostStep>(&task.work))
        before = update_on_host(draft_, on_host->parameters, on_host->traffic, here, before.front());
      else
        before.assign(1, draft_.program.add({task.intern(draft_.works), task.lane, here, endpoint}, before, uses));
    }
    if (!given_back.empty())
      draft_.program.add({draft_.works.intern(graph::FixedDelay{}), Lane::compute, at}, before, given_back);
  }

 private:
  bool is_served() const { return pipe_.plan && pipe_.plan->job.data_parallel.served(); }
  bool overlaps() const { return policy_.reduce == Policy::Reduce::under_backward; }
  double gradient_bytes() const { return plan::state_bytes(pipe_.plan->job.training).gradients; }

  void begin_buckets(const std::map<std::uint32_t, std::uint32_t>& last_gradient) {
    for (const auto& [stage, microbatch] : last_gradient) emitter_.split(stage, microbatch);
    buckets_.emplace(*pipe_.plan, pipe_.parts, pipe_.plan->one_table(stages_));
  }

  void part_complete(const Coordinates& at, std::size_t use, LocalTask done) {
    const auto& part = pipe_.parts.stages[at.stage].uses[use];
    bucket_at_ = {Pass::gradient_reduce, at.stage, part.layer, graph::kNoMicrobatch};
    bucket_complete_ = done;
    add_to_buckets(part);
  }
  // Pushes the remaining gradients (all, if none were pushed under the backward), pulls the results, and updates here
  // if workers run the optimizer.
  void finish_served(Coordinates at, LocalTask last) {
    if (!overlaps()) {
      begin_buckets({});
      bucket_at_ = at, bucket_complete_ = last;
      for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
        const auto& uses = pipe_.parts.stages[*stage].uses;
        for (auto use = uses.rbegin(); use != uses.rend(); ++use) add_to_buckets(*use);
      }
    }
    for (const bool experts : {false, true})
      if (const double rest = buckets_->close(experts); rest > 0) reduce(rest, experts);
    auto arrives = at;
    arrives.pass = Pass::parameter_gather;
    LocalTask pulled;
    for (std::size_t bucket = 0; bucket < draft_.ends.pushed.size(); ++bucket)
      served_->pull(arrives, [&](std::size_t, LocalTask arrived) { pulled = arrived; });
    if (policy_.update == Policy::Update::server) return;
    for (const auto& task : step_end(*pipe_.plan, stages_, true)) {
      std::vector<graph::BufferUse> uses;
      if (task.pass == Pass::optimizer) copy_gradients(uses);
      at.pass = task.pass;
      draft_.program.add({task.intern(draft_.works), task.lane, at}, std::vector{pulled}, uses);
    }
  }
  void add_to_buckets(const StageParts::Use& use) {
    for (const auto& share : buckets_->add(use))
      if (share.full) reduce(share.bucket, share.experts);
  }
  void reduce(double parameters, bool experts) {
    if (served_) return served_->push(parameters, bucket_at_, [&](std::size_t) { return bucket_complete_; });
    if (pipe_.plan->fuses_gradients()) {
      bucket_complete_ =
          draft_.program.add({draft_.works.intern(copy_to_fused(*pipe_.plan, parameters)), Lane::compute, bucket_at_});
      (experts ? fused_.experts : fused_.dense) += parameters;
    }
    const auto reduction = gradient_reduction(*pipe_.plan, parameters, replicas(experts));
    reduced_ = draft_.data_collective(reduction.kind, reduction.size, bucket_at_, std::vector{bucket_complete_}, {}, 1,
                                      Precision::fp32, replicas(experts));
  }

  // Copies once the last reduction has ended, as torch's finalize_backward does.
  void copy_back() {
    for (const bool experts : {false, true})
      if (const double some = experts ? fused_.experts : fused_.dense; some > 0)
        reduced_ = draft_.program.add(
            {draft_.works.intern(copy_from_fused(*pipe_.plan, some, replicas(experts))), Lane::compute, bucket_at_},
            std::vector{*reduced_});
  }
  // One fused buffer, or two if reductions overlap: one is filled while the other is being reduced.
  void fused_buffers() {
    const auto& plan = *pipe_.plan;
    const auto held = plan.learning(stages_);
    const double all = held.dense + (plan.expert_replicas() > 1 ? held.experts : 0);
    const Bytes whole = bytes(all * gradient_bytes()), size = plan.reduced_at_a_time();
    for (int left = overlaps() ? 2 : 1; left > 0; --left)
      draft_.program.resident({std::min(whole, size), graph::MemoryCategory::communication});
  }

  void resident_states() {
    if (!pipe_.plan) return;
    const auto& plan = *pipe_.plan;
    parameters_ = plan.learning(stages_).all();
    const auto of_worker = is_served() ? worker_states(plan.job) : plan::StateBytes{};
    const auto keep = [&](double plan::StateBytes::*state, graph::MemoryCategory category) {
      if (is_served()) return resident(of_worker.*state, of_worker.*state, category, Tier::device);
      for (const Tier tier : kTierTable)
        resident(plan.resident_bytes(plan.shards(), tier).*state,
                 plan.resident_bytes(plan.expert_replicas(), tier).*state, category, tier);
    };
    keep(&plan::StateBytes::parameters, graph::MemoryCategory::parameters);
    keep(&plan::StateBytes::gradients, graph::MemoryCategory::gradients);
    if (plan.job.training.offload.delayed_update)  // those of the step being updated, and of the one being computed
      keep(&plan::StateBytes::gradients, graph::MemoryCategory::gradients);
    const auto& job = pipe_.plan->job;
    if (plan.fuses_gradients()) fused_buffers();
    if (job.framework.flat_bucket && draft_.replicated() && !plan.fuses_gradients())
      draft_.program.resident({std::min(bytes(parameters_ * gradient_bytes()), plan.reduced_at_a_time()),
                               graph::MemoryCategory::communication});
    if (job.parallelism.zero == 1 && job.framework.flat_gradient_bytes > 0 && !plan.fuses_gradients())
      draft_.program.resident(
          {bytes(parameters_ * job.framework.flat_gradient_bytes), graph::MemoryCategory::gradients});
    keep(&plan::StateBytes::optimizer, graph::MemoryCategory::optimizer);
    if (job.training.optimizer->also_keeps) also_kept();
    if (job.framework.workspace > Bytes{})
      draft_.program.resident({job.framework.workspace, graph::MemoryCategory::workspace});
  }

  // States that are not so many for each parameter, but follow from the tensors.
  void also_kept() {
    const auto& optimizer = *pipe_.plan->job.training.optimizer;
    const bool shards = optimizer.shards_also && policy_.shards_optimizer;
    std::vector<Bytes> tensors;
    Bytes all{};
    for (const auto stage : stages_)
      for (const auto& use : pipe_.parts.stages[stage].uses) {
        double kept = 0;
        for (const auto& segment : pipe_.parts.parts[use.part].model->segments) {
          const bool experts = replicas_of(segment.tensors) == Axis::expert_data;
          const auto replicas = double(experts ? pipe_.plan->expert_replicas() : pipe_.plan->shards());
          kept += optimizer.also_keeps(segment.tensors) / (shards ? replicas : 1);
        }
        tensors.push_back(bytes(kept));
        all += tensors.back();
      }
    draft_.program.resident({all, graph::MemoryCategory::optimizer, draft_.program.tensors(std::move(tensors))});
  }

  // Two tensors that live during the optimizer step: an array of the casts, and the flat one made of it.
  void copy_gradients(std::vector<graph::BufferUse>& uses) {
    const auto& job = pipe_.plan->job;
    const Bytes size = bytes(parameters_ * job.framework.step_gradient_bytes);
    if (size == Bytes{} || job.parallelism.zero > 0 || job.training.gradient_precision == Precision::fp32) return;
    const Bytes half(size.count() / 2);
    const auto tensors = draft_.program.tensors({half, size - half});
    const BufferId copies = draft_.program.buffer({size, graph::MemoryCategory::gradients, tensors});
    uses.emplace_back(copies, graph::Access::allocate);
    uses.emplace_back(copies, graph::Access::free);
  }

  // Of the second moments that the task updates, where for-each kernels step.
  void take_roots(const EndTask& task, std::vector<graph::BufferUse>& uses) {
    const auto& training = pipe_.plan->job.training;
    const bool steps = std::holds_alternative<graph::OptimizerStep>(task.work);
    if (!steps || !pipe_.plan->job.framework.foreach_step || training.optimizer->moments < 2) return;
    const auto& plan = *pipe_.plan;
    const auto shared = [&](std::int64_t replicas) { return policy_.shards_optimizer ? double(replicas) : 1; };
    const bool one_table = plan.one_table(stages_);
    const double stays = policy_.update == Policy::Update::host ? 1 - training.offload.optimizer_fraction : 1;
    std::vector<Bytes> tensors;
    Bytes all{};
    for (const auto stage : stages_)
      for (const auto& use : pipe_.parts.stages[stage].uses) {
        const double without = one_table && pipe_.parts.is_head(use) ? plan.table_parameters() : 0;
        for (const auto tensor :
             learning_tensors(*pipe_.parts.parts[use.part].model, stays * models::bytes_of(training.moments),
                              shared(plan.shards()), shared(plan.expert_replicas()), without))
          tensors.push_back(tensor), all += tensor;
      }
    const BufferId roots =
        draft_.program.buffer({all, graph::MemoryCategory::optimizer, draft_.program.tensors(std::move(tensors))});
    uses.emplace_back(roots, graph::Access::allocate), uses.emplace_back(roots, graph::Access::free);
  }

  // One array per part: rounding single matrices up would cost the allocator less than a MiB each.
  void resident(double per_parameter, double of_experts, graph::MemoryCategory category, Tier tier) {
    if (tier != Tier::device && per_parameter <= 0) return;
    const bool all = category == graph::MemoryCategory::parameters;  // else trainable parameters only
    const auto held = all ? pipe_.plan->held(stages_).stored() : pipe_.plan->learning(stages_);
    const auto size_of = [&](double parameters, double experts) {
      return bytes((parameters - experts) * per_parameter + experts * of_experts);
    };
    const Bytes size = size_of(held.all(), held.experts);
    std::vector<Bytes> tensors;
    for (const auto stage : stages_)
      for (const auto& use : pipe_.parts.stages[stage].uses) {
        const auto& part = pipe_.parts.parts[use.part];
        const auto& model = *part.model;
        tensors.push_back(all ? size_of(part.parameters - model.spared, part.expert_parameters - model.expert_spared)
                              : size_of(model.learning, model.expert_learning));
      }
    cut(tensors, size);  // tied ends hold one table
    draft_.program.resident({size, category, draft_.program.tensors(std::move(tensors)), tier});
  }

  static void cut(std::vector<Bytes>& tensors, Bytes left) {
    for (auto& tensor : tensors) tensor = std::min(tensor, left), left -= tensor;
    std::erase(tensors, Bytes{});
  }

  ProgramDraft& draft_;
  const Pipeline& pipe_;
  const Policy policy_;
  PassTasks emitter_;
  std::vector<std::uint32_t> stages_;
  std::optional<ShardedPasses> sharded_;  // ZeRO-2 and 3, other tiers, sharded or offloaded checkpoints
  std::optional<ServerMessages> served_;  // parameter servers
  std::optional<GatheredForward> gathered_;
  double parameters_ = 0;
  std::optional<GradientBuckets> buckets_;
  Coordinates bucket_at_;
  LocalTask bucket_complete_;
  plan::Plan::HeldParameters fused_;  // parameters reduced through a fused buffer under the backward
  std::optional<LocalTask> reduced_;  // the last task of the gradient reduction
};

}  // namespace

std::unique_ptr<StepEmitter> framework_work(ProgramDraft& draft) { return std::make_unique<FrameworkEmitter>(draft); }

}  // namespace rehearsal::lower
