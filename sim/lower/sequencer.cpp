#include "lower/sequencer.hpp"

#include <utility>

#include "lower/shard_state.hpp"

namespace rehearsal::lower {

using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;

LocalTask Sequencer::compute(WorkId work, const Coordinates& at, std::span<const BufferUse> uses,
                             std::uint32_t endpoint, std::optional<LocalTask> after) {
  auto before = std::exchange(awaited_, {});
  if (waits_) before.push_back(*waits_), waits_.reset();
  if (after) before.push_back(*after);
  any_ = true;
  return last_ = draft_.program.add({work, Lane::compute, at, endpoint}, before, uses);
}

LocalTask Sequencer::kernel(Kernel kernel, const Coordinates& at, std::span<const BufferUse> uses) {
  kernel.precision = draft_.pipe.plan->network().precision;
  return compute(draft_.works.intern(kernel), at, uses);
}

LocalTask Sequencer::join(const Coordinates& at, std::span<const BufferUse> uses) {
  return compute(draft_.works.intern(graph::FixedDelay{}), at, uses);
}

std::vector<LocalTask> Sequencer::before() {
  auto tasks = std::exchange(awaited_, {});
  if (any_) tasks.push_back(last_);
  return tasks;
}

std::vector<LocalTask> Sequencer::so_far() const {
  auto tasks = awaited_;
  if (any_) tasks.push_back(last_);
  if (waits_) tasks.push_back(*waits_);
  return tasks;
}

LocalTask Sequencer::collective(CollectiveKind kind, Precision precision, std::int64_t elements, const Coordinates& at,
                                std::span<const BufferUse> uses, Axis replicas) {
  // Sums over copies of shards are tasks of their own here, which name what they add up.
  const auto& plan = *draft_.pipe.plan;
  const Axis along = kind == CollectiveKind::all_reduce ? replicas : plan.shared_along(replicas);
  const auto work =
      draft_.works.intern(graph::Collective{kind, sized(elements, precision), plan.group(along), 1, precision});
  waits_ = draft_.program.add({work, Lane::data_comm, at, draft_.group_end(along)}, before(), uses);
  return *waits_;
}

void Sequencer::tensor_sum(std::int64_t elements, const Coordinates& at, std::span<const BufferUse> uses) {
  graph::Collective sum{CollectiveKind::all_reduce, sized(elements, Precision::fp32),
                        draft_.pipe.plan->group(Axis::tensor)};
  sum.inside = Axis::tensor;
  compute(draft_.works.intern(sum), at, uses, draft_.group_end(Axis::tensor));
}

void Sequencer::tensor_gather(Bytes whole, const Coordinates& at, std::span<const BufferUse> uses) {
  graph::Collective gather{CollectiveKind::all_gather, whole, draft_.pipe.plan->group(Axis::tensor)};
  gather.inside = Axis::tensor, gather.precision = draft_.pipe.plan->network().precision;
  compute(draft_.works.intern(gather), at, uses, draft_.group_end(Axis::tensor));
}

void Sequencer::embedding_sum(std::int64_t elements, const Coordinates& at, std::span<const BufferUse> uses) {
  const graph::Collective sum{CollectiveKind::all_reduce, sized(elements, Precision::fp32),
                              draft_.pipe.plan->group(Axis::pipeline)};
  waits_ = draft_.program.add({draft_.works.intern(sum), Lane::data_comm, at, draft_.group_end(Axis::pipeline)},
                              before(), uses);
}

}  // namespace rehearsal::lower
