#include "lower/shard_traffic.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "models/traffic.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;
using Again = plan::StatePolicy::Again;

namespace {
constexpr double kScale = 4;    // bytes: fp32
constexpr double kNarrow = .5;  // of a gradient in 4 bits
}  // namespace

ShardTraffic::ShardTraffic(ProgramDraft& draft, const plan::StatePolicy& policy)
    : draft_(draft), plan_(*draft.pipe.plan), again_(policy.again) {}

BufferId ShardTraffic::buffer(double size) {
  return draft_.program.buffer({bytes(size), MemoryCategory::communication});
}

LocalTask ShardTraffic::kernel(double moved, std::int64_t kernels, const Coordinates& at, std::vector<LocalTask> after,
                               std::vector<BufferUse> uses) {
  return draft_.program.add({draft_.works.intern(MemoryBound{bytes(moved), kernels}), graph::Lane::data_comm, at},
                            after, uses);
}

// Parts that a forward left are gone when they are whole again (torch, _fsdp_param.py, to_unsharded); a copy stays.
void ShardTraffic::take_part(Place place, std::vector<BufferUse>& uses) {
  const auto found = parts_.find(place);
  if (found == parts_.end()) return;
  uses.insert(uses.begin(), {found->second.front(), Access::free});
  found->second.erase(found->second.begin());
  if (found->second.empty()) parts_.erase(found);
}

// In 8 bits a rank quantises its shard, and the values and their scales are gathered one after the other (DeepSpeed,
// partition_parameters.py, all_gather_coalesced), also from a second copy, which has 16.
LocalTask ShardTraffic::gather(Place place, graph::Collective what, double count, const Coordinates& at,
                               std::vector<LocalTask> after, std::vector<BufferUse> uses, bool experts) {
  const bool few = again(place);
  take_part(place, uses);
  const Axis replicas = rehearsal::replicas(experts), along = few ? Axis::secondary : plan_.shared_along(replicas);
  if (!plan_.job.training.quantised_gathers) {
    const auto done = draft_.collective(what, along, at, after, uses);
    const double copied = plan_.job.framework.gather_copy_bytes;
    return copied > 0 ? kernel(count * copied, 1, at, {done}, {}) : done;
  }
  const double wide = double(what.size.count()) / count, scales = count * kScale / plan::Plan::kQuantisedBlock;
  const auto ranks = double(few ? plan_.gathered_again_over() : plan_.shards(replicas));
  const BufferUse whole = uses.back();
  uses.pop_back();
  const BufferId own = buffer((count + scales) / ranks), narrow = buffer(count + scales);
  auto done = kernel((count * (wide + 1) + scales) / ranks, 1, at, std::move(after), {{own, Access::allocate}});
  what.size = bytes(count);
  done = draft_.collective(what, along, at, std::vector{done}, std::vector<BufferUse>{{narrow, Access::allocate}});
  what.size = bytes(scales), what.tensors = 1;
  uses.emplace_back(own, Access::free);
  done = draft_.collective(what, along, at, std::vector{done}, uses);
  return kernel(count * (1 + wide) + scales, 1, at, {done}, {whole, {narrow, Access::free}});
}

bool ShardTraffic::keeps(Place place, graph::Pass pass) const {
  if (again_ == Again::from_parts) return pass == graph::Pass::forward;
  return again_ == Again::from_copy && copied_.count(place) == 0;
}

LocalTask ShardTraffic::keep(Place place, const std::array<double, 2>& parameters, double each,
                             const models::Part& part, const Coordinates& at, std::vector<BufferUse> dropped) {
  double own = 0;
  for (const double some : parameters) {
    if (some <= 0) continue;
    const double kept = some * each / double(plan_.gathered_again_over());
    own += kept;
    if (again_ == Again::from_copy) continue;  // which is resident
    const BufferId shard = buffer(kept);
    parts_[place].push_back(shard);
    dropped.emplace_back(shard, Access::allocate);
  }
  if (again_ == Again::from_copy) copied_.insert(place);
  const auto tensors = static_cast<std::int64_t>(models::tensors_of(part.segments).size());
  return draft_.program.add(
      {draft_.works.intern(MemoryBound{bytes(2 * own), std::max<std::int64_t>(1, tensors)}), graph::Lane::compute, at},
      {}, dropped);
}

// Matrix by matrix: quantised, with a scale for each row or each column, whichever are more; exchanged inside the node;
// widened, summed and quantised in one kernel; exchanged across nodes; widened, and summed (DeepSpeed,
// runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce). Values and scales are messages of their own.
LocalTask ShardTraffic::exchange(const models::Part& part, double count, bool experts, const Coordinates& at,
                                 std::vector<LocalTask> after, std::vector<BufferUse> uses) {
  double scales = 0, all = 0;
  std::int64_t matrices = 0;
  for (const auto& segment : part.segments) {
    if ((replicas_of(segment.tensors) == Axis::expert_data) != experts) continue;
    for (const auto& place : models::matrices_of(segment.tensors)) {
      if (place.rows == 1 || place.columns == 1) continue;
      ++matrices;
      scales += double(std::max(place.rows, place.columns)), all += double(place.rows) * double(place.columns);
    }
  }
  if (matrices == 0) matrices = 1, scales = 1, all = count;
  const auto& mesh = plan_.mesh;
  const double near = mesh.size(Axis::near), across = mesh.size(Axis::across);
  const double wide = plan::state_bytes(plan_.job.training).gradients;
  const double of_scales = kScale * scales / all * count, narrow = kNarrow * count;
  const BufferId sent = buffer(narrow + of_scales), received = buffer(narrow + of_scales);
  const auto each = [&](double size, Axis along) {
    const graph::Collective one{CollectiveKind::all_to_all, bytes(size / double(matrices)), plan_.group(along)};
    return graph::Sequence::Item{draft_.works.intern(one), static_cast<std::uint32_t>(matrices)};
  };
  const auto hop = [&](double part_of, Axis along, LocalTask before, std::vector<BufferUse> of_hop) {
    const auto work =
        draft_.works.intern(graph::Sequence{{each(narrow * part_of, along), each(of_scales * part_of, along)}});
    return draft_.program.add({work, graph::Lane::data_comm, at, draft_.group_end(along)}, std::vector{before}, of_hop);
  };
  auto done = kernel(count * wide + narrow + of_scales, matrices, at, std::move(after), {{sent, Access::allocate}});
  done = hop(1, Axis::near, done, {{received, Access::allocate}});
  done = kernel((narrow + of_scales) * (1 + 1 / near), matrices, at, {done}, {});
  done = hop(1 / near, Axis::across, done, {});
  uses.insert(uses.end(), {{sent, Access::free}, {received, Access::free}});
  // Widened, written and read again, and each shard's sum.
  return kernel((narrow + of_scales) / near + count * wide * (2 / near + 1 / (near * across)), 2 * matrices, at, {done},
                std::move(uses));
}

}  // namespace rehearsal::lower
