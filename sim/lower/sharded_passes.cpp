#include "lower/sharded_passes.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "models/traffic.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;
using graph::Pass;

namespace {
constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
}

// A reduction is issued when its unit has computed, and the gather of the unit `prefetch` ahead when that unit starts:
// so `prefetch` gathers precede it. If computation waits for the reduction, no later gather precedes it.
ShardedPasses::ShardedPasses(ProgramDraft& draft, PassTasks& tasks, const std::vector<std::uint32_t>& stages)
    : draft_(draft),
      tasks_(tasks),
      plan_(*draft.pipe.plan),
      policy_(plan::state_policy(plan_)),
      replicated_(plan_.replicas() > 1),
      gathers_(policy_.gather == plan::StatePolicy::Gather::per_part),
      reduces_(policy_.reduce == plan::StatePolicy::Reduce::per_part),
      at_once_(policy_.update == plan::StatePolicy::Update::in_backward),
      delay_(policy_.reduces_beside ? policy_.prefetch : std::min<std::int64_t>(policy_.prefetch, 1)),
      traffic_(draft, policy_),
      tiers_(draft),
      checkpoints_(draft, rows()),
      away_(draft, tasks),
      tied_here_(plan_.one_table(stages)),
      filling_(plan_, draft.pipe.parts, tied_here_) {
  tasks_.split_all();
}

double ShardedPasses::parameters(Unit unit, bool experts) const {
  const auto& part = this->part(unit);
  if (unit.tile) return experts ? 0 : part.model->tiles[*unit.tile];
  if (experts) return draft_.replicated(Axis::expert_data) ? part.expert_parameters : 0;
  double all = part.parameters - part.expert_parameters;
  for (const double tile : part.model->tiles) all -= tile;
  return tied_here_ && draft_.pipe.parts.is_head(use(unit)) ? all - plan_.table_parameters() : all;
}

double ShardedPasses::gradients(Unit unit, bool experts) const {
  if (plan_.learns_all()) return parameters(unit, experts);
  const auto& model = *part(unit).model;
  if (experts) return draft_.replicated(Axis::expert_data) ? model.expert_learning : 0;
  return model.learning - model.expert_learning;
}

double ShardedPasses::stored(Unit unit, bool experts) const {
  const double all = parameters(unit, experts);
  const auto& model = *part(unit).model;
  if (unit.tile || all == 0) return all;
  return all - (experts ? model.expert_spared : model.spared - model.expert_spared);
}

// Allocated when the part has computed. Of a tied table the head makes the gradient first.
void ShardedPasses::keep_gradient(Unit unit, const Coordinates& at) {
  if (!policy_.transient_gradients || (at.pass != Pass::backward && at.pass != Pass::weight_gradient)) return;
  if (own_gradients_.count(unit)) return;
  const auto shared = [&](std::int64_t replicas) { return policy_.shards_gradients ? double(replicas) : 1; };
  const bool end = use(unit).layer == graph::kNoLayer && !draft_.pipe.parts.is_head(use(unit));
  auto tensors =
      learning_tensors(*part(unit).model, plan::state_bytes(plan_.job.training).gradients, shared(plan_.shards()),
                       shared(plan_.expert_replicas()), tied_here_ && end ? plan_.table_parameters() : 0);
  const Bytes all = std::accumulate(tensors.begin(), tensors.end(), Bytes{});
  if (all == Bytes{}) return;
  const BufferId gradient =
      draft_.program.buffer({all, MemoryCategory::gradients, draft_.program.tensors(std::move(tensors))});
  own_gradients_[unit] = gradient;
  draft_.program.add({draft_.works.intern(graph::FixedDelay{}), graph::Lane::compute, at}, {},
                     std::vector<BufferUse>{{gradient, Access::allocate}});
}

std::vector<BufferUse> ShardedPasses::give_back_gradients() {
  std::vector<BufferUse> all;
  for (const auto& [unit, gradient] : own_gradients_) all.emplace_back(gradient, Access::free);
  own_gradients_.clear();
  return all;
}

// Embedding and head are the root of the model, which FSDP never drops between forward and backward.
bool ShardedPasses::kept_after_forward(Unit unit) const {
  return !plan_.job.training.reshards() || use(unit).layer == graph::kNoLayer;
}

bool ShardedPasses::completes(Pass pass) const {
  return reduces_ && (pass == Pass::backward || pass == Pass::weight_gradient || pass == Pass::norm_backward);
}

// Tiles within a pass of a part: each is gathered for the operation that multiplies by it and dropped after it, also in
// recomputation; or after the operation that makes its gradient, which ends its backward (DeepSpeed hooks modules) and
// issues the gradient's reduction.
class ShardedPasses::Tiled : public PassTasks::Around {
 public:
  Tiled(ShardedPasses& passes, Unit part, const Coordinates& at) : passes_(passes), part_(part), at_(at) {}

  void before(const TaskRecipe& task, std::vector<LocalTask>& after, PassTasks::Extra& extra) override {
    const bool needs = needed(task), completes = completed(task);
    if (!needs && !completes) return;
    if (needs) {
      passes_.begin(tile(*task.tile), at_, after);
      const bool keeps = passes_.kept_after_forward(part_) && (at_.pass == Pass::forward || repeats(task));
      if (!keeps && !later(task)) passes_.drop(tile(*task.tile), extra.last);
    }
    if (completes) {
      if (!passes_.needs(at_.pass)) passes_.emit_reductions(kAll);
      passes_.make_gradient(tile(*task.completes), extra), passes_.wait_for_buckets(after);
      passes_.drop(tile(*task.completes), extra.last);
    }
  }
  void after(const TaskRecipe& task, LocalTask done) override {
    const bool needs = needed(task) && !later(task), completes = completed(task);
    if (needs || (completes && passes_.needs(at_.pass)))
      passes_.computed_.push_back(done), passes_.last_use_[tile(needs ? *task.tile : *task.completes)] = done;
    if (completes) passes_.gradients_complete(at_, done, passes_.use(part_).part);
  }

 private:
  static bool repeats(const TaskRecipe& task) { return task.pass == Pass::recompute; }
  // The tile is still in use when its gradient is made.
  bool later(const TaskRecipe& task) const { return passes_.completes(at_.pass) && !repeats(task); }
  bool needed(const TaskRecipe& task) const { return task.tile && passes_.needs(at_.pass); }
  bool completed(const TaskRecipe& task) const { return task.completes && passes_.completes(at_.pass); }
  Unit tile(std::uint16_t number) const { return {part_.stage, part_.use, number}; }

  ShardedPasses& passes_;
  const Unit part_;
  const Coordinates at_;
};

// Issues what is due before a unit computes, and gathers its parameters.
void ShardedPasses::begin(Unit unit, const Coordinates& at, std::vector<LocalTask>& before) {
  emit_reductions(std::int64_t(computed_.size()) - delay_);
  if (needs(at.pass)) gather(unit, at, before);
  if (!policy_.reduces_beside) emit_reductions(kAll);
  if (blocks_) before.push_back(reduced_.back()), blocks_ = false;
}

void ShardedPasses::drop(Unit unit, std::vector<BufferUse>& uses) {
  if (const auto found = gathered_.extract(unit))
    for (const BufferId whole : found.mapped()) uses.emplace_back(whole, Access::free);
}

// Every pass is emitted part by part, even without communication: whole gradients of the previous pass die one by one
// while its parts begin to hold their activations.
LocalTask ShardedPasses::pass(const Coordinates& at, bool last, std::vector<LocalTask> after,
                              const PassTasks::AroundParts& around) {
  last_ = last;
  const bool completes = this->completes(at.pass), needs = this->needs(at.pass);
  if (completes) first_gradient_.try_emplace(at.stage, at.microbatch);
  const auto n = draft_.pipe.parts.stages[at.stage].uses.size();
  LocalTask done;
  for (std::size_t i = 0; i < n; i++) {
    const Unit unit{at.stage, at.pass == Pass::forward ? i : n - 1 - i};
    auto here = at;
    here.layer = use(unit).layer;
    PassTasks::Extra extra;
    if (around.before) around.before(unit.use, after);
    begin(unit, here, after);
    if (completes) make_gradient(unit, extra), wait_for_buckets(after);
    std::vector<BufferUse> dropped;
    if (needs && (at.pass != Pass::forward || !kept_after_forward(unit))) drop(unit, dropped);
    const bool keeps = !dropped.empty() && traffic_.keeps(place(unit), at.pass);
    if (!keeps) extra.last.insert(extra.last.end(), dropped.begin(), dropped.end());
    bring_checkpoint(at, unit.use, after);
    if (away_.active()) away_.bring(here, unit.use, after, ended_before(ended_, tiers_.offload().prefetch));
    if (part(unit).model->tiles.empty()) {
      done = tasks_.emit_part(at, unit.use, std::exchange(after, {}), extra);
    } else {  // tiles' gradients leave before that of the rest
      auto rest = std::exchange(batch_.buckets, {});
      const Bytes copied = std::exchange(copied_, {});
      Tiled tiled(*this, unit, here);
      done = tasks_.emit_part(at, unit.use, std::exchange(after, {}), extra, &tiled);
      batch_.buckets = std::move(rest), copied_ = copied;
    }
    if (keeps)
      done = traffic_.keep(place(unit), gathered_parameters(unit), bytes_each(unit), *part(unit).model, here, dropped);
    if (checkpoints_.active() || away_.active()) ended_.push_back(done);
    if (checkpoints_.active()) keep_checkpoint(at, unit.use);
    if (away_.active()) away_.keep(here, unit.use, done);
    keep_gradient(unit, here);
    if (around.after) around.after(unit.use, done);
    if (needs) computed_.push_back(done), last_use_[unit] = done;
    if (completes && i + 1 == n) close_open();
    if (completes) gradients_complete(here, done, use(unit).part);
  }
  return done;
}

// What is left of a pass goes with what its last part has filled: it is no third batch that the next pass would wait
// for.
void ShardedPasses::close_open() {
  for (const bool experts : {false, true}) {
    auto& open = open_[experts ? 1 : 0];
    if (open.parameters <= 0) continue;
    filling_.close(experts);
    batch_.buckets.push_back(std::exchange(open, {}));
  }
}

Checkpoints::Rows ShardedPasses::rows() {
  return {[this](BufferId whole, BufferId part, const Coordinates& at) {
            const Bytes moved(2 * draft_.program.buffer(part).size.count());
            return draft_.program.add(
                {draft_.works.intern(MemoryBound{moved, 1, Traffic::plain}), graph::Lane::compute, at}, {},
                std::vector<BufferUse>{{part, Access::allocate}, {whole, Access::free}});
          },
          [this](BufferId part, BufferId whole, const Coordinates& at, std::vector<LocalTask> after, const auto&) {
            const graph::Collective gather{CollectiveKind::all_gather, draft_.program.buffer(whole).size,
                                           plan_.group(Axis::tensor)};
            return tasks_.tensor_collective(draft_.works.intern(gather), at, after,
                                            std::vector<BufferUse>{{whole, Access::allocate}, {part, Access::free}});
          }};
}

void ShardedPasses::keep_checkpoint(const Coordinates& at, std::size_t of_use) {
  if (at.pass != Pass::forward || !checkpoints_.keeps(use({at.stage, of_use}).layer)) return;
  if (auto& held = tasks_.input_of(at, of_use)) {
    ended_.back() = checkpoints_.keep({at.stage, at.microbatch, of_use}, *held, at, ended_.back());
    held.reset();
  }
}

void ShardedPasses::bring_checkpoint(const Coordinates& at, std::size_t of_use, std::vector<LocalTask>& waits) {
  const Checkpoints::Key key{at.stage, at.microbatch, of_use};
  if ((at.pass != Pass::backward && at.pass != Pass::input_gradient) || !checkpoints_.holds(key)) return;
  const auto ahead = tiers_.offload().prefetch;
  Tiers::When when{{}, ended_before(ended_, ahead)};
  if (checkpoints_.tier() == Tier::nvme) when.ready = ended_before(ended_, 2 * ahead);
  const auto back = checkpoints_.back(key, at, waits, when);
  if (checkpoints_.cut()) waits.clear();
  waits.push_back(back.there);
  tasks_.input_of(at, of_use) = back.input;
}

// The unit `prefetch` places after one may be gathered when that one starts: when the one before it has ended and, as
// the lane is serial, its own gather. A unit that is still gathered is not gathered twice. Its shards may have to be
// fetched from another tier first.
void ShardedPasses::gather(Unit unit, const Coordinates& at, std::vector<LocalTask>& before) {
  if (gathered_.count(unit)) return;
  const auto& offload = tiers_.offload();
  const auto after_use = [&](std::vector<LocalTask> tasks) {
    if (const auto used = last_use_.find(unit); used != last_use_.end())
      if (tasks.empty() || tasks.front() < used->second) tasks.assign(1, used->second);
    return tasks;
  };
  Tiers::When when;
  if (policy_.parameters == Tier::nvme)
    when.ready = after_use(ended_before(computed_, policy_.prefetch + 2 * offload.prefetch));
  when.room = after_use(ended_before(computed_, policy_.prefetch + offload.prefetch));
  auto here = at;
  here.pass = Pass::parameter_gather;
  for (const bool experts : {false, true}) {
    const double count = stored(unit, experts);
    if (count <= 0) continue;
    const Bytes size = bytes(count * bytes_each(unit));
    auto ready = after_use(ended_before(computed_, policy_.prefetch));
    std::vector<BufferUse> uses;
    if (policy_.parameters != Tier::device) {
      const auto turns = static_cast<std::uint32_t>(offload.one_owner ? plan_.shards() : 1);
      const Bytes share(offload.one_owner ? size : bytes(double(size.count()) / double(plan_.shards())));
      const BufferId own = draft_.program.buffer({share, MemoryCategory::communication});
      const auto there = tiers_
                             .move(share, {policy_.parameters}, {Tier::device, {own}}, here, when,
                                   MemoryCategory::communication, {turns})
                             .there;
      if (!replicated_) {
        gathered_[unit].push_back(own), before.push_back(there);
        continue;
      }
      ready.push_back(there), uses.emplace_back(own, Access::free);
    }
    const BufferId whole = draft_.program.buffer({size, MemoryCategory::communication});
    gathered_[unit].push_back(whole);
    uses.emplace_back(whole, Access::allocate);
    const auto kind = offload.one_owner ? CollectiveKind::broadcast : CollectiveKind::all_gather;
    before.push_back(traffic_.gather(place(unit), {kind, size, {}, tensors(unit)}, count, here, ready, uses, experts));
  }
}

// Layers are sent in the framework's number of tensors; a tile has a weight and a bias; an end is one tensor.
std::uint32_t ShardedPasses::tensors(Unit unit) const {
  const auto all = plan_.job.framework.sharded_tensors;
  if (use(unit).layer == graph::kNoLayer || all == 1) return 1;
  if (unit.tile) return 2;
  const auto tiled = static_cast<std::int64_t>(part(unit).model->tiles.size()) / tiers_.offload().tiles;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, all - 2 * tiled));
}

// ZeRO-3 reduces unit by unit, as it gathers; ZeRO-2 when a bucket is full.
void ShardedPasses::make_gradient(Unit unit, PassTasks::Extra& extra) {
  if (gathers_) {
    for (const bool experts : {false, true})
      if (const double count = gradients(unit, experts); count > 0)
        put({.added = count, .full = true, .experts = experts}, tensors(unit), extra,
            at_once_ ? std::min(count, neighbours(unit, experts)) : count, unit);
    return;
  }
  if (policy_.reduces_last) return sum_gradient(unit, extra);
  for (const auto& share : filling_.add(use(unit))) put(share, 1, extra, share.added, unit);
}

// The first pass allocates what later ones add to; the last one hands it to the buckets, of which the last that it has
// a part in frees it.
void ShardedPasses::sum_gradient(Unit unit, PassTasks::Extra& extra) {
  auto& sums = sums_[unit];
  for (const bool experts : {false, true}) {
    auto& sum = sums[experts ? 1 : 0];
    const double count = gradients(unit, experts);
    if (sum || count <= 0) continue;
    // Its own shard, which is resident, is what the reduction makes of it: the rest is held beside that.
    const auto replicas = double(experts ? plan_.expert_replicas() : plan_.shards());
    const double rest = count * (1 - 1 / replicas) * plan::state_bytes(plan_.job.training).gradients;
    sum = draft_.program.buffer({Bytes(static_cast<std::int64_t>(rest)), MemoryCategory::gradients});  // rounded down
    extra.first.emplace_back(*sum, Access::allocate);
  }
  if (!last_) return;
  const auto shares = filling_.add(use(unit));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& share = shares[i];
    auto& open = open_[share.experts ? 1 : 0];
    open.parameters += share.added, open.experts = share.experts, open.tensors = 1;
    const bool more = std::any_of(shares.begin() + std::ptrdiff_t(i) + 1, shares.end(),
                                  [&](const auto& other) { return other.experts == share.experts; });
    if (auto& sum = sums[share.experts ? 1 : 0]; sum && !more) open.gradients.push_back(*std::exchange(sum, {}));
    if (share.full) batch_.buckets.push_back(std::exchange(open, {}));
  }
  sums_.erase(unit);
}

// The gradient of a tensor is held until that of the next one exists; both are consumed before the one after that.
double ShardedPasses::neighbours(Unit unit, bool experts) const {
  double most = 0, before = 0;
  for (const auto& tensor : models::tensors_of(part(unit).model->segments))
    if (tensor.experts == experts) {
      most = std::max(most, before + tensor.elements);
      before = tensor.elements;
    }
  return most;
}

void ShardedPasses::put(const GradientBuckets::Share& share, std::uint32_t tensors, PassTasks::Extra& extra,
                        double at_a_time, Unit unit) {
  const Bytes size = bytes(at_a_time * plan::state_bytes(plan_.job.training).gradients);
  const bool copied = plan_.job.training.defragment && !at_once_;
  const BufferId whole =
      draft_.program.buffer({.size = size, .category = MemoryCategory::communication, .contiguous = copied});
  extra.first.emplace_back(whole, Access::allocate);
  if (copied) {  // tensor by tensor, as a backward makes them (DeepSpeed's contiguous_gradients)
    double tensor = 0;
    for (const auto& t : models::tensors_of(part(unit).model->segments))
      if (t.experts == share.experts) tensor = std::max(tensor, t.elements);
    const double most = std::min(tensor, share.added);
    const BufferId made = draft_.program.buffer(
        {bytes(most * plan::state_bytes(plan_.job.training).gradients), MemoryCategory::communication});
    extra.first.emplace_back(made, Access::allocate), extra.last.emplace_back(made, Access::free);
    copied_ += size;
  }
  auto& open = open_[share.experts ? 1 : 0];
  open.gradients.push_back(whole);
  open.parameters += share.added;
  open.experts = share.experts, open.tensors = tensors;
  if (share.full) batch_.buckets.push_back(std::exchange(open, {}));
}

// Reductions of a rank are serial, so a batch ends with its last one.
void ShardedPasses::wait_for_buckets(std::vector<LocalTask>& before) const {
  if (closed_ >= kBatchesHeld && reduced_.size() > closed_ - kBatchesHeld)
    before.push_back(reduced_[closed_ - kBatchesHeld]);
}

LocalTask ShardedPasses::copy_gradients(const Coordinates& at, LocalTask done) {
  const Bytes size = std::exchange(copied_, {});
  if (size == Bytes{}) return done;
  const auto copy = draft_.works.intern(MemoryBound{Bytes(2 * size.count()), 1, Traffic::plain});
  return draft_.program.add({copy, graph::Lane::compute, at}, {});
}

void ShardedPasses::gradients_complete(const Coordinates& at, LocalTask done, std::size_t part) {
  done = copy_gradients(at, done);
  batch_.at = at, batch_.part = part, batch_.norms = at.pass == Pass::norm_backward;
  batch_.at.pass = Pass::gradient_reduce;
  batch_.complete = done;
  if (!batch_.buckets.empty()) close_batch();
}

void ShardedPasses::close_batch() {
  batch_.computed = std::int64_t(computed_.size());
  closed_++;
  waiting_.push_back(batch_);
  batch_.buckets.clear();
}

// Those that were issued before more than `up_to` units had computed.
void ShardedPasses::emit_reductions(std::int64_t up_to) {
  for (; !waiting_.empty() && waiting_.front().computed <= up_to; waiting_.pop_front()) {
    const Batch& batch = waiting_.front();
    bool first = true;
    for (const Bucket& bucket : batch.buckets) {
      const LocalTask task = reduce(batch, bucket);
      if (std::exchange(first, false)) reduced_.push_back(task);
      reduced_.back() = task;
    }
    if (at_once_) update(batch, reduced_.back());
    blocks_ = !policy_.reduces_beside;
  }
}

// Reduces a bucket; the result goes where gradients are kept.
LocalTask ShardedPasses::reduce(const Batch& batch, const Bucket& bucket) {
  const Bytes size = bytes(bucket.parameters * plan::state_bytes(plan_.job.training).gradients);
  if (!replicated_) return store(batch, size, *batch.complete, bucket.gradients);
  std::vector<BufferUse> uses;
  for (const BufferId gradient : bucket.gradients)
    if (!at_once_) uses.emplace_back(gradient, Access::free);
  const bool leaves = policy_.gradients != Tier::device;
  const Bytes shard(bytes(double(size.count()) / double(plan_.shards())));
  std::vector<BufferId> own;
  if (leaves) {
    own.push_back(draft_.program.buffer({shard, MemoryCategory::communication}));
    uses.emplace_back(own.front(), Access::allocate);
  }
  if (plan_.job.training.quantised_reductions)
    return traffic_.exchange(*draft_.pipe.parts.parts[batch.part].model, bucket.parameters, bucket.experts, batch.at,
                             std::vector{*batch.complete}, uses);
  const LocalTask task = draft_.data_collective(at_once_ ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter,
                                                size, batch.at, std::vector{*batch.complete}, uses, bucket.tensors,
                                                Precision::fp32, replicas(bucket.experts));
  return leaves ? store(batch, shard, task, own) : task;
}

// The sum of earlier micro-batches is fetched, and the GPU adds to it (DeepSpeed, stage_1_and_2.py,
// async_accumulate_grad_in_cpu_via_gpu; stage3.py does the same).
LocalTask ShardedPasses::store(const Batch& batch, Bytes size, LocalTask complete,
                               const std::vector<BufferId>& sources) {
  const Tier tier = policy_.gradients;
  std::vector<LocalTask> ready{complete};
  auto held = sources;
  if (batch.at.microbatch != first_gradient_.at(batch.at.stage)) {
    held.push_back(draft_.program.buffer({size, MemoryCategory::communication}));
    ready.push_back(
        tiers_
            .move(size, {tier}, {Tier::device, {held.back()}}, batch.at, {ready, ready}, MemoryCategory::communication)
            .there);
  }
  return tiers_.move(size, {Tier::device, held}, {tier}, batch.at, {ready, {}}, MemoryCategory::communication).there;
}

// All ranks have the whole sum, and each updates its shard of the parameters (LOMO's fuse_update_zero3).
void ShardedPasses::update(const Batch& batch, LocalTask reduced) {
  const auto& training = plan_.job.training;
  const auto traffic =
      batch.norms ? models::norm_at_once(training) : models::update_at_once(training, plan_.job.framework);
  auto at = batch.at;
  const auto tensors = models::tensors_of(draft_.pipe.parts.parts[batch.part].model->segments);
  double moved = 0, copies = 0;
  std::vector<BufferUse> uses;
  for (const Bucket& bucket : batch.buckets) {
    const auto replicas = double(bucket.experts ? plan_.expert_replicas() : plan_.replicas());
    moved += bucket.parameters * (traffic.gradient + traffic.parameters / replicas);
    for (const auto& [elements, experts] : tensors)
      if (experts == bucket.experts)
        copies = std::max(copies, elements * (traffic.gradient_copies + traffic.parameter_copies / replicas));
    for (const BufferId gradient : bucket.gradients) uses.emplace_back(gradient, Access::free);
  }
  if (copies > 0) {
    const BufferId wide = draft_.program.buffer({bytes(copies), MemoryCategory::workspace});
    uses.insert(uses.end(), {{wide, Access::allocate}, {wide, Access::free}});
  }
  // Each rank has the norm of its shard: all-reduce them, tensor by tensor.
  if (training.optimizer->needs_norm_of_each && !batch.norms)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      reduced = draft_.data_collective(CollectiveKind::all_reduce, Bytes(4), at, std::vector{reduced});
  at.pass = Pass::optimizer;
  draft_.program.add(
      {draft_.works.intern(MemoryBound{bytes(moved), traffic.kernels * static_cast<std::int64_t>(tensors.size())}),
       graph::Lane::compute, at},
      std::vector{reduced}, uses);
}

std::optional<LocalTask> ShardedPasses::finish() {
  emit_reductions(kAll);
  traffic_.updated();
  return reduced_.empty() ? std::nullopt : std::optional(reduced_.back());
}

}  // namespace rehearsal::lower
