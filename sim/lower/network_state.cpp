#include "lower/network_state.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;

// With tokens split over the tensor group, its ranks have gradients from different rows for parameters that all of them
// hold: these are packed into one buffer, all-reduced, and unpacked.
void NetworkState::sum_over_tensor(const ShardState& held, BufferId gradient, const Coordinates& at) {
  struct Run {
    std::int64_t from, elements;
  };
  std::vector<Run> runs;
  std::int64_t all = 0;
  for (const auto& tensor : held.segment->tensors) {
    if (!tensor.summed_over_tensor) continue;
    if (runs.empty() || runs.back().from + runs.back().elements != tensor.offset) runs.push_back({tensor.offset, 0});
    runs.back().elements += tensor.elements(), all += tensor.elements();
  }
  if (runs.empty()) return;
  const BufferId packed = draft_.program.buffer({floats(all), MemoryCategory::communication});
  const auto copy = [&](const Run& run, std::int64_t at_packed, bool back, std::vector<BufferUse> uses) {
    Kernel kernel{.kind = KernelKind::copy, .dims = {run.elements}};
    kernel.offsets = {back ? at_packed : run.from, back ? run.from : at_packed};
    const BufferUse from(back ? packed : gradient, Access::read), to(back ? gradient : packed, Access::write);
    uses.insert(uses.end(), {from, to});
    if (back && at_packed + run.elements == all) uses.emplace_back(packed, Access::free);
    sequencer_.compute(draft_.works.intern(kernel), at, uses);
  };
  std::int64_t filled = 0;
  for (const Run& run : runs) {
    std::vector<BufferUse> uses;
    if (filled == 0) uses.emplace_back(packed, Access::allocate);
    copy(run, filled, false, std::move(uses));
    filled += run.elements;
  }
  const BufferUse sum(packed, Access::write);
  sequencer_.tensor_sum(all, at, std::span(&sum, 1));
  filled = 0;
  for (const Run& run : runs) copy(run, filled, true, {}), filled += run.elements;
}

std::size_t first_position(const Parts& parts, std::uint32_t stage) {
  std::size_t position = 0;
  for (std::uint32_t s = 0; s < stage; s++) position += parts.stages[s].uses.size();
  return position;
}

NetworkState::NetworkState(ProgramDraft& draft, Sequencer& sequencer)
    : draft_(draft),
      sequencer_(sequencer),
      policy_(plan::state_policy(*draft.pipe.plan)),
      tiers_(draft, &sequencer),
      updates_(draft, sequencer, tiers_),
      matrices_(draft, sequencer) {
  if (draft.pipe.plan->job.data_parallel.served()) served_.emplace(draft);
}

Precision NetworkState::precision() const { return draft_.pipe.plan->network().precision; }

void NetworkState::begin(const std::vector<std::uint32_t>& stages) {
  const auto& plan = *draft_.pipe.plan;
  if (plan.job.training.norms_first())
    norm_ = draft_.program.resident({Bytes(sizeof(double)), MemoryCategory::buffers});
  for (const auto stage : stages) {
    const std::size_t of_model = stage % plan.stages.size();
    std::uint32_t layer = 0;
    for (std::size_t s = 0; s < of_model; s++) layer += static_cast<std::uint32_t>(plan.stages[s].layers);
    std::size_t position = first_position(draft_.pipe.parts, stage);
    const auto& uses = draft_.pipe.parts.stages[stage].uses;
    for (std::size_t i = 0; i < uses.size(); i++, position++) {
      const bool head = plan.stages[of_model].head && i + 1 == uses.size();
      const std::uint32_t number = uses[i].layer == graph::kNoLayer ? 0 : layer + uses[i].layer;
      hold(*draft_.pipe.parts.parts[uses[i].part].model, position, stage, number, head);
      if (head) loss_ = draft_.program.resident({Bytes(sizeof(double)), MemoryCategory::buffers});
    }
  }
  open_rooms();
  updates_.begin(held_);
}

void NetworkState::open_rooms() {
  if (!tiers_.offload().states()) return;
  if (updates_.active()) updates_.open(held_);
  std::int64_t largest = 0;
  std::size_t segments = 0;
  for (const ShardState& held : held_) largest = std::max(largest, held.shard());
  for (const auto& [position, here] : at_) segments = std::max(segments, here.size());
  const auto open = [&](BufferPool& room, std::size_t slots, Bytes size, MemoryCategory category, Tier tier) {
    room.open(draft_, slots, {.size = size, .category = category, .tier = tier});
  };
  const auto share = sized(largest, precision());
  if (policy_.parameters != Tier::device)
    open(parameters_, segments * tiers_.slots(), share, MemoryCategory::communication, Tier::device);
  if (policy_.parameters == Tier::nvme)
    open(parameters_staged_, segments * tiers_.slots(), share, MemoryCategory::parameters, Tier::host);
  if (policy_.gradients != Tier::device) open(sums_, 2, floats(largest), MemoryCategory::communication, Tier::device);
  if (policy_.gradients == Tier::nvme)
    open(gradients_staged_, 2, floats(largest), MemoryCategory::gradients, Tier::host);
}

void NetworkState::hold(const models::Part& part, std::size_t position, std::uint32_t stage, std::uint32_t layer,
                        bool head) {
  auto& program = draft_.program;
  for (const auto& segment : part.segments) {
    if (segment.tied) {  // embedding and head on one rank share the table
      const auto other = std::find_if(held_.begin(), held_.end(), [](const ShardState& h) { return h.tied; });
      if (other != held_.end()) {
        other->both_ends = true;
        at_[position].push_back(static_cast<std::size_t>(other - held_.begin()));
        continue;
      }
    }
    const std::size_t stages = draft_.pipe.plan->stages.size();
    ShardState held;
    held.segment = &segment, held.tied = segment.tied, held.stage = static_cast<std::uint16_t>(stage % stages);
    const auto& plan = *draft_.pipe.plan;
    held.replicas = replicas_of(segment.tensors);
    held.along = held.replicas;
    if (policy_.shards_optimizer) {
      held.along = plan.shared_along(held.replicas);
      held.shards = held.replicas == Axis::expert_data ? plan.expert_replicas() : plan.shards();
    }
    const std::int64_t cut = served_ ? plan.job.data_parallel.servers : held.shards;
    held.elements = (segment.elements + cut - 1) / cut * cut;
    held.copy = segment.tied && head && plan.job.copies == 1;  // with two directions each rank has one, like replicas
    const std::int64_t shard = held.shard();
    const auto keep = [&](Bytes size, MemoryCategory category, Tier tier) {
      return program.resident({.size = size, .category = category, .tier = tier});
    };
    held.parameters = keep(sized(policy_.shards_parameters ? shard : held.elements, precision()),
                           MemoryCategory::parameters, policy_.parameters);
    if (!in_backward())
      held.gradients =
          keep(floats(policy_.shards_gradients ? shard : held.elements), MemoryCategory::gradients, policy_.gradients);
    const bool away = policy_.update != plan::StatePolicy::Update::device && !in_backward();
    const std::int64_t states = away ? 0 : models::kept_elements(optimizer(), held.own(precision()));
    if (updates_.active()) updates_.hold(held);
    if (states > 0) held.states = program.resident({floats(states), MemoryCategory::optimizer});

    const bool late = updates() == schedule::Updates::late;
    for (std::int64_t v = 0; v < (late ? 1 : served_ ? 0 : plan.job.data_parallel.delay); ++v)
      held.older.push_back(program.resident({sized(held.elements, precision()), MemoryCategory::parameters}));
    graph::Segment described{
        held.parameters, held.elements, held.shards, policy_.shards_parameters && held.shards > 1, {}, held.copy,
        segment.tensors, precision(),   {}};
    described.copied = held.copied();
    if (late) described.previous = held.older.front();
    described.master = models::keeps_master(optimizer(), precision()) && !away ? held.states : held.master;
    if (optimizer().moments > 0) described.moments = held.states;
    for (auto& tensor : described.tensors) tensor.layer = layer;
    held.described = program.segment(std::move(described));
    at_[position].push_back(held_.size());
    held_.push_back(held);
  }
  at_.try_emplace(position);
}

BufferId NetworkState::parameters(std::size_t index, std::uint32_t stage, std::uint32_t microbatch) const {
  const ShardState& held = held_[index];
  if (updates() == schedule::Updates::late) return held.older.front();
  if (const auto late = static_cast<std::uint32_t>(held.older.size()); iteration_ > 0 && late > 0)
    return held.older[(iteration_ > late ? iteration_ - late : 0) % late];
  if (updates() != schedule::Updates::every_backward) return held.parameters;
  const std::uint32_t version = version_.at({stage, microbatch});
  const auto kept = kept_.find({index, version});
  return kept == kept_.end() ? held.parameters : kept->second;
}

void NetworkState::begin_forward(std::uint32_t stage, std::uint32_t microbatch) {
  if (updates() != schedule::Updates::every_backward) return;
  const auto& given = draft_.pipe.schedule.weight_version;
  version_[{stage, microbatch}] = given ? given(stage, microbatch) : taken_[stage];
}

// Whether a micro-batch in flight, or one later than `after` whose version is given, computes with this version.
bool NetworkState::wanted(std::uint32_t stage, std::uint32_t version, std::uint32_t after) const {
  for (const auto& [key, its] : version_)
    if (key.first == stage && its == version) return true;
  const auto& given = draft_.pipe.schedule.weight_version;
  for (std::uint32_t m = after + 1; given && m < draft_.pipe.problem.microbatches; m++)
    if (given(stage, m) == version) return true;
  return false;
}

void NetworkState::end_backward(const Coordinates& at, const std::vector<std::size_t>& positions) {
  if (updates() != schedule::Updates::every_backward) return;
  const std::uint32_t used = version_.at({at.stage, at.microbatch});
  version_.erase({at.stage, at.microbatch});
  const std::uint32_t current = taken_[at.stage]++;
  auto here = at;
  here.layer = graph::kNoLayer;
  for (const std::size_t position : positions)
    for (const std::size_t index : at_.at(position)) {
      const ShardState& held = held_[index];
      here.pass = Pass::optimizer;
      std::optional<BufferId> old;  // the version of this micro-batch, once nothing needs it
      if (const auto it = kept_.find({index, used});
          it != kept_.end() && used != current && !wanted(at.stage, used, at.microbatch)) {
        old = it->second;
        kept_.erase(it);
      }
      if (wanted(at.stage, current, at.microbatch)) {  // into the old version's buffer if there is one
        const BufferId place =
            old ? *old : draft_.program.buffer({sized(held.elements, precision()), MemoryCategory::parameters});
        std::vector<BufferUse> uses{{held.parameters, Access::read}, {place, Access::write}};
        if (!old) uses.emplace_back(place, Access::allocate);
        sequencer_.kernel({.kind = KernelKind::copy, .dims = {held.elements}}, here, uses);
        kept_[{index, current}] = place;
        old.reset();
      }
      here.pass = Pass::gradient_reduce;
      sum_over_tensor(held, *held.gradients, here);
      const BufferUse gradient(*held.gradients, Access::write);
      if (draft_.replicated(held.replicas))
        sequencer_.collective(CollectiveKind::all_reduce, Precision::fp32, held.elements, here, std::span(&gradient, 1),
                              held.replicas);
      here.pass = Pass::optimizer;
      update(held, *held.gradients, false, here, old);
    }
}

void NetworkState::consume(std::size_t index, BufferId gradient, Coordinates at) {
  const ShardState& held = held_[index];
  const BufferUse whole(gradient, Access::write);
  const auto clip = !norm_ ? Clip::none : at.pass == Pass::norm_backward ? Clip::add : Clip::scale;
  at.pass = Pass::gradient_reduce;
  sum_over_tensor(held, gradient, at);
  if (in_backward()) {
    if (draft_.replicated(held.replicas))
      sequencer_.collective(CollectiveKind::all_reduce, Precision::fp32, held.elements, at, std::span(&whole, 1),
                            held.replicas);
    at.pass = Pass::optimizer;
    update(held, gradient, false, at, gradient, clip);
    return;
  }
  if (held.shards > 1)
    sequencer_.collective(CollectiveKind::reduce_scatter, Precision::fp32, held.elements, at, std::span(&whole, 1),
                          held.replicas);
  if (policy_.gradients != Tier::device) return store(index, gradient, at);
  const std::vector<BufferUse> uses{
      {gradient, Access::read}, {*held.gradients, Access::write}, {gradient, Access::free}};
  sequencer_.kernel({.kind = KernelKind::add_own_shard, .dims = {held.shard(), dim_of(held.along)}}, at, uses);
}

// The first gradient of a step is copied out as it is; for later ones the sum so far is fetched, added to and stored
// again. The gradient of one segment leaves while the next one is computed.
void NetworkState::store(std::size_t index, BufferId gradient, const Coordinates& at) {
  ShardState& held = held_[index];
  const TierBuffer home{policy_.gradients, {*held.gradients}};
  const Bytes size = floats(held.shard());
  if (held.stored.empty()) {
    const auto shard = held.shards > 1 ? std::optional(held.replicas) : std::nullopt;
    held.stored = {tiers_.leave(size, gradient, home, false, at, {{}, held.may_store}, &gradients_staged_, {1, shard})};
    return;
  }
  auto& sum = sums_.next();
  const TierBuffer here{Tier::device, {sum.buffer}};
  sequencer_.wait_for(tiers_.move(size, home, here, at, {held.stored, sum.used}, &gradients_staged_).there);
  const std::vector<BufferUse> uses{{gradient, Access::read}, {sum.buffer, Access::write}, {gradient, Access::free}};
  sequencer_.kernel({.kind = KernelKind::add_own_shard, .dims = {held.shard(), dim_of(held.along)}}, at, uses);
  const auto way = tiers_.move(size, here, home, at, {sequencer_.so_far(), {}}, &gradients_staged_);
  held.stored = {way.there}, sum.used = {way.left};
}

BufferPool::Slot& NetworkState::fetch(std::size_t index, const Coordinates& at) {
  const ShardState& held = held_[index];
  auto& slot = parameters_.next();
  const auto size = sized(policy_.shards_parameters ? held.shard() : held.elements, precision());
  sequencer_.wait_for(tiers_
                          .move(size, {policy_.parameters, {held.parameters}}, {Tier::device, {slot.buffer}}, at,
                                {{}, slot.used}, &parameters_staged_)
                          .there);
  return slot;
}

void NetworkState::update(const ShardState& held, BufferId gradient, bool part_of_gradient, const Coordinates& at,
                          std::optional<BufferId> free, Clip clip) {
  auto own = held.own(precision());
  // With ZeRO-3 a rank holds only its shard; else all parameters, of which a sharded update touches a part.
  if (held.shards > 1 && !policy_.shards_parameters) own.parameters = Flat::part;
  if (part_of_gradient) own.gradient = Flat::part;
  own.clip = clip;
  if (models::steps_whole(optimizer(), held.segment->tensors))
    return matrices_.step(held, own, gradient, held.shards > 1 && !part_of_gradient, at, free);
  std::vector<BufferUse> uses{{gradient, Access::write}, {held.parameters, Access::write}};
  if (held.states) uses.emplace_back(*held.states, Access::write);
  if (clip != Clip::none) uses.emplace_back(*norm_, Access::write);
  const auto kernels = optimizer().kernels(own);
  for (const auto& kernel : kernels) {
    if (free && &kernel == &kernels.back()) uses.emplace_back(*free, Access::free);
    sequencer_.kernel(kernel, at, uses);
  }
}

void NetworkState::clear_double(BufferId buffer, Pass pass) {
  const BufferUse all(buffer, Access::write);
  sequencer_.kernel({.kind = KernelKind::clear, .dims = {2}}, {pass, 0, graph::kNoLayer, graph::kNoMicrobatch},
                    std::span(&all, 1));
}

void NetworkState::finish_norms() { clear_double(loss(), Pass::norm_backward); }

// Reduce, update, gather: ZeRO-0 all-reduces gradients; 1 reduces each shard to its owner, which updates it for all; 2
// and 3 have reduced already; 3 needs no gather, because every pass gathers anew.
void NetworkState::finish_step() {
  if (norm_) clear_double(*norm_, Pass::optimizer);
  if (in_backward() || updates() == schedule::Updates::every_backward) return;  // done
  if (served_) return finish_served();
  const auto& plan = *draft_.pipe.plan;
  const Coordinates at{Pass::gradient_reduce, 0, graph::kNoLayer, graph::kNoMicrobatch};
  const auto with = [&](Pass pass, const ShardState& held) {
    auto c = at;
    c.pass = pass, c.stage = held.stage;
    return c;
  };
  // In an order that is the same on all ranks that hold the same: with two directions, one starts at the other's end.
  auto ordered = held_;
  std::stable_sort(ordered.begin(), ordered.end(), [](const ShardState& a, const ShardState& b) {
    return std::make_pair(!a.tied, a.stage) < std::make_pair(!b.tied, b.stage);
  });
  for (const ShardState& held : ordered) {
    const BufferUse gradient(*held.gradients, Access::write);
    if (!transient_gradients()) sum_over_tensor(held, *held.gradients, with(Pass::gradient_reduce, held));
    if (held.tied && plan.shares_embedding() && !held.both_ends)
      sequencer_.embedding_sum(policy_.shards_gradients ? held.shard() : held.elements,
                               with(Pass::embedding_reduce, held), std::span(&gradient, 1));
    if (held.copied()) {
      if (policy_.shards_gradients) sum_copies(held, *held.gradients, with(Pass::gradient_reduce, held));
    } else if (draft_.replicated(held.replicas) && !policy_.shards_gradients)
      sequencer_.collective(policy_.sums_to_shards ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                            Precision::fp32, held.elements, with(Pass::gradient_reduce, held), std::span(&gradient, 1),
                            held.replicas);
  }
  tiers_.settle(0, at);
  if (updates_.active()) return updates_.finish(ordered);
  for (const ShardState& held : ordered) {
    if (!held.older.empty()) {
      const std::vector<BufferUse> uses{{held.parameters, Access::read},
                                        {held.older[iteration_ % held.older.size()], Access::write}};
      sequencer_.kernel({.kind = KernelKind::copy, .dims = {held.elements}}, with(Pass::optimizer, held), uses);
    }
    const bool part = held.shards > 1 && !policy_.shards_gradients;
    if (part && held.copied())
      reduce_and_update(held, with(Pass::gradient_reduce, held));
    else
      update(held, *held.gradients, part, with(Pass::optimizer, held));
    if (part) {  // the update cleared its own part; the others hold sums that went to their owners
      const BufferUse gradient(*held.gradients, Access::write);
      sequencer_.kernel({.kind = KernelKind::clear, .dims = {held.elements}}, with(Pass::optimizer, held),
                        std::span(&gradient, 1));
    }
    if (held.shards > 1 && policy_.gathers_updated()) {
      const BufferUse parameters(held.parameters, Access::write);
      sequencer_.collective(CollectiveKind::all_gather, precision(), held.elements, with(Pass::parameter_gather, held),
                            std::span(&parameters, 1), held.replicas);
    }
  }
  ++iteration_;
}

// Of a shard that is summed over those that share it, the sum over its copies.
void NetworkState::sum_copies(const ShardState& held, BufferId shard, const Coordinates& at) {
  const BufferUse sum(shard, Access::write);
  sequencer_.collective(CollectiveKind::all_reduce, Precision::fp32, held.shard(), at, std::span(&sum, 1), Axis::copy);
}

// ZeRO-1 with copies of the shards: each sum leaves the gradients of all, which the collective over the copies does not
// need, for a buffer of its own.
void NetworkState::reduce_and_update(const ShardState& held, const Coordinates& at) {
  const BufferId shard = draft_.program.buffer({floats(held.shard()), MemoryCategory::communication});
  const std::vector<BufferUse> uses{{shard, Access::allocate}, {*held.gradients, Access::read}, {shard, Access::write}};
  sequencer_.collective(CollectiveKind::reduce_scatter, Precision::fp32, held.elements, at, uses, held.replicas);
  sum_copies(held, shard, at);
  auto here = at;
  here.pass = Pass::optimizer;
  update(held, shard, false, here, shard);
}

void NetworkState::push(std::int64_t elements, BufferId gradients) {
  const auto here = in_step(Pass::gradient_reduce);
  const Bytes part = sized(elements / served_->servers(), Precision::fp32);
  const std::vector<BufferUse> read{{gradients, Access::read}};
  served_->push(double(elements), here, [&](std::size_t turn) {
    const graph::StagingCopy out{part, false, part * static_cast<std::int64_t>(turn)};
    return sequencer_.compute(draft_.works.intern(out), here, read);
  });
}

void NetworkState::pull(std::int64_t elements, Precision precision, BufferId into) {
  const auto here = in_step(Pass::parameter_gather);
  const Bytes part = sized(elements / served_->servers(), precision);
  const std::vector<BufferUse> write{{into, Access::write}};
  served_->pull(here, [&](std::size_t turn, LocalTask arrived) {
    const graph::StagingCopy in{part, true, part * static_cast<std::int64_t>(turn)};
    sequencer_.compute(draft_.works.intern(in), here, write, graph::kNoEndpoint, arrived);
  });
}

// Sends gradients and receives the results of `delay` iterations ago; the last iteration receives all that are left.
void NetworkState::finish_served() {
  const auto& plan = *draft_.pipe.plan;
  const auto& data = plan.job.data_parallel;
  const bool here = policy_.update != plan::StatePolicy::Update::server;
  const auto delay = static_cast<std::uint32_t>(data.delay), last = plan.iterations() - 1;
  const Coordinates at{Pass::optimizer, 0, graph::kNoLayer, graph::kNoMicrobatch};
  for (const ShardState& held : held_) push(held.elements, *held.gradients);
  for (const ShardState& held : held_) {
    if (here && delay == 0) continue;  // the sum is written over them
    const BufferUse gradient(*held.gradients, Access::write);
    sequencer_.kernel({.kind = KernelKind::clear, .dims = {held.elements}}, at, std::span(&gradient, 1));
  }
  const auto begun = iteration_++;
  for (auto k = begun; k <= (begun == last ? last + delay : begun); ++k) {
    if (k < delay) continue;
    for (const ShardState& held : held_) {
      pull(held.elements, here ? Precision::fp32 : precision(), here ? *held.gradients : held.parameters);
      if (here) update(held, *held.gradients, false, at);
    }
  }
}

}  // namespace rehearsal::lower
