#include "lower/pass_tasks.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "models/tensors.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;

PassTasks::Footprint PassTasks::footprint(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {{kReleased, kKept, kGathered, kWorking}, {kGathered, kWorking}};
    case Pass::input_gradient:
      return {{kRecomputed, kGradients, kGathered, kWorking}, {kRecomputed, kReleased, kGathered, kWorking}};
    case Pass::weight_gradient:
      return {{}, {kKept, kGradients}};
    case Pass::backward:
      return {{kRecomputed, kGathered, kWorking}, {kRecomputed, kReleased, kKept, kGathered, kWorking}};
    default:
      return {};
  }
}

Bytes PassTasks::size(const Held& held, Kind kind, Pass pass) {
  const Bytes kept = std::min(held.activation, held.weight_hold);
  switch (kind) {
    case kReleased:
      return held.activation - kept;
    case kKept:
      return kept;
    case kGradients:
      return held.weight_hold - kept;
    case kRecomputed:
      return held.recomputed;
    case kGathered:
      return held.gathered;
    default:
      return pass == Pass::forward ? held.forward : held.backward;
  }
}

std::vector<Bytes> PassTasks::tensors(const Held& held, Kind kind, Pass pass) {
  const Bytes kept = std::min(held.activation, held.weight_hold);
  const auto& t = held.tensors;
  switch (kind) {
    case kReleased:
      return models::part_of(t.saved, kept, held.activation);
    case kKept:
      return models::part_of(t.saved, Bytes{}, kept);
    case kGradients:
      return {};
    case kRecomputed:
      return models::part_of(t.saved, held.activation, held.activation + held.recomputed);
    case kGathered:
      return t.gathered;
    default:
      return pass == Pass::forward ? t.forward : t.backward;
  }
}

MemoryCategory PassTasks::category(const Held& held, Kind kind) {
  switch (kind) {
    case kRecomputed:
      return MemoryCategory::recomputed;
    case kGathered:
      return MemoryCategory::communication;
    case kWorking:
      return held.tensors.loss ? MemoryCategory::loss : MemoryCategory::workspace;
    default:
      return held.tensors.loss ? MemoryCategory::loss : MemoryCategory::activations;
  }
}

graph::Buffer PassTasks::buffer(std::size_t part, Kind kind, Pass pass) {
  if (buffers_.empty()) buffers_.resize(2 * parts_.parts.size() * kKinds);
  auto& known = buffers_[(2 * part + (pass == Pass::forward)) * kKinds + kind];
  if (!known) {
    const Held& held = parts_.parts[part].held;
    known = {size(held, kind, pass), category(held, kind), program_.tensors(tensors(held, kind, pass))};
  }
  return *known;
}

const PassWork& PassTasks::pass_work(const Part& part, Pass pass) {
  switch (pass) {
    case Pass::forward:
      return part.forward;
    case Pass::input_gradient:
      return part.input_gradient;
    case Pass::weight_gradient:
      return part.weight_gradient;
    default:
      return part.backward;
  }
}

PassTasks::Live& PassTasks::live(const Coordinates& at) {
  const auto [it, fresh] = live_.try_emplace({at.stage, at.microbatch});
  if (fresh) {
    const auto split = split_.find(at.stage);
    it->second.merged =
        detail_ == Detail::stage && !split_all_ && !(split != split_.end() && split->second == at.microbatch);
    it->second.slots.resize((it->second.merged ? 2 : parts_.stages[at.stage].uses.size()) * kKinds);
  }
  return it->second;
}

void PassTasks::take(Live& live, std::size_t part, Kind kind, const graph::Buffer& buffer,
                     std::vector<BufferUse>& uses) {
  if (buffer.size.count() == 0) return;
  const BufferId id = program_.buffer(buffer);
  live.slots[part * kKinds + kind] = id;
  uses.emplace_back(id, Access::allocate);
}

void PassTasks::give(Live& live, std::size_t part, Kind kind, std::vector<BufferUse>& uses) {
  auto& slot = live.slots[part * kKinds + kind];
  if (!slot) return;  // of size zero
  uses.emplace_back(*slot, Access::free);
  slot.reset();
}

LocalTask PassTasks::emit(const Coordinates& at, std::vector<LocalTask> after, std::optional<std::uint32_t> tensor) {
  if (detail_ == Detail::stage) return emit_stage(at, after);
  const auto n = parts_.stages[at.stage].uses.size();
  LocalTask last;
  for (std::size_t i = 0; i < n; i++) {
    last = emit_part(at, at.pass == Pass::forward ? i : n - 1 - i, after, tensor);
    after.clear();  // one lane: the rest follows by order
  }
  return last;
}

LocalTask PassTasks::emit_part(const Coordinates& at, std::size_t use, std::vector<LocalTask> after,
                               std::optional<std::uint32_t> tensor, const Extra& extra) {
  const auto& [index, layer] = parts_.stages[at.stage].uses[use];
  const Part& part = parts_.parts[index];
  const PassWork& work = pass_work(part, at.pass);
  auto& buffers = live(at);
  INVARIANT(!buffers.merged, "a pass comes part by part without notice");

  std::vector<BufferUse> taken = extra.first, given;
  const auto [takes, gives] = footprint(at.pass);
  for (const Kind kind : takes) take(buffers, use, kind, buffer(index, kind, at.pass), taken);
  for (const Kind kind : gives) give(buffers, use, kind, given);
  given.insert(given.end(), extra.last.begin(), extra.last.end());

  auto here = at;
  here.layer = layer;
  if (detail_ != Detail::operators || work.operations.empty()) {
    taken.insert(taken.end(), given.begin(), given.end());
    return program_.add({work.whole, Lane::compute, here, graph::kNoEndpoint, Bytes{}}, after, taken);
  }
  LocalTask last;
  const auto& operations = work.operations;
  const bool closes = operations.back().beside.has_value();
  for (std::size_t i = 0; i < operations.size(); i++) {
    const auto& op = operations[i];
    here.pass = op.pass;
    std::vector<BufferUse> uses;
    if (i == 0) uses = taken;
    if (i + 1 == operations.size() && !closes) uses.insert(uses.end(), given.begin(), given.end());
    const auto group = tensor.value_or(graph::kNoEndpoint);
    std::optional<LocalTask> beside;
    if (op.beside) {  // starts when the lane of the kernel comes to it
      auto before = after;
      if (const auto computed = program_.last(Lane::compute)) before.push_back(*computed);
      beside = program_.add({*op.beside, Lane::tensor_comm, here, group, Bytes{}}, before, {});
    }
    last = program_.add({op.work, Lane::compute, here, op.tensor_collective ? group : graph::kNoEndpoint, Bytes{}},
                        after, uses);
    after.clear();
    if (beside) after.push_back(*beside);
  }
  if (closes)  // whoever waits for the part waits for both
    last = program_.add({works_.intern(graph::Wait{}), Lane::compute, here, graph::kNoEndpoint, Bytes{}}, after, given);
  return last;
}

PassTasks::Coarse& PassTasks::coarse(const Coordinates& at) {
  const auto [it, fresh] = coarse_.try_emplace({at.stage, at.pass});
  Coarse& result = it->second;
  if (!fresh) return result;
  const auto& uses = parts_.stages[at.stage].uses;
  const auto [takes, gives] = footprint(at.pass);
  std::vector<WorkId> works;
  // Walk the fine form: level over the pass from its start, and its highest point.
  Bytes level{}, peak{};
  result.highest = uses.front().part;
  for (std::size_t i = 0; i < uses.size(); i++) {
    const std::size_t index = uses[at.pass == Pass::forward ? i : uses.size() - 1 - i].part;
    const Held& held = parts_.parts[index].held;
    works.push_back(pass_work(parts_.parts[index], at.pass).whole);
    for (const Kind kind : takes) {
      const Bytes bytes = size(held, kind, at.pass);
      level += bytes;
      if (within_pass(kind) || bytes == Bytes{}) continue;
      const std::size_t slot = held.tensors.loss * kKinds + kind;
      result.merged[slot].size += bytes;
      result.merged[slot].category = category(held, kind);
    }
    if (level > peak) peak = level, result.highest = index;
    for (const Kind kind : gives) level -= size(held, kind, at.pass);
  }
  result.work = sequence(works, works_);
  result.transient = peak - level;
  // Of what lives within the pass only the part at the highest point is a buffer.
  for (const Kind kind : takes) {
    if (!within_pass(kind)) continue;
    if (const auto here = buffer(result.highest, kind, at.pass); here.size > Bytes{}) result.passing.push_back(here);
  }
  return result;
}

// Part by part what emit_part would do. Tensors of a merged buffer lie in the order in which the parts made them: those
// of the input gradient from the last part on, the others from the first.
std::vector<graph::AllocationStep> PassTasks::allocation_steps(const Coordinates& at, bool merged,
                                                               const Places& places) {
  const auto& uses = parts_.stages[at.stage].uses;
  const std::size_t n = uses.size();
  const auto slot = [&](std::size_t use, Kind kind) {
    return (merged ? parts_.parts[uses[use].part].held.tensors.loss : use) * kKinds + kind;
  };
  const auto count = [&](std::size_t use, Kind kind) {
    const Held& held = parts_.parts[uses[use].part].held;
    if (size(held, kind, at.pass) == Bytes{}) return std::size_t{0};
    return std::max<std::size_t>(1, tensors(held, kind, at.pass).size());
  };
  const auto [takes, gives] = footprint(at.pass);
  std::vector<std::uint32_t> first(n * kKinds), so_far(std::max<std::size_t>(2, n) * kKinds);
  for (const Kind kind : gives) {
    if (within_pass(kind)) continue;
    for (std::size_t i = 0; i < n; i++) {
      const std::size_t use = kind == kGradients ? n - 1 - i : i;
      auto& place = so_far[slot(use, kind)];
      first[use * kKinds + kind] = place;
      place += static_cast<std::uint32_t>(count(use, kind));
    }
  }
  std::vector<graph::AllocationStep> steps;
  for (std::size_t i = 0; i < n; i++) {
    const std::size_t use = at.pass == Pass::forward ? i : n - 1 - i;
    const std::size_t part = uses[use].part;
    const auto place = [&](Kind kind, const std::vector<std::uint32_t>& of) {
      return within_pass(kind) ? graph::AllocationStep::kWithin + static_cast<std::uint32_t>(kind)
                               : of[slot(use, kind)];
    };
    for (const bool communication : {false, true})  // as an allocator model sorts the buffers of one task
      for (const Kind kind : takes) {
        const auto made = buffer(part, kind, at.pass);
        if (made.size == Bytes{} || (made.category == MemoryCategory::communication) != communication) continue;
        steps.push_back({place(kind, places.allocated), true, made.size, made.tensors, 0, 0});
      }
    for (const Kind kind : gives) {
      if (size(parts_.parts[part].held, kind, at.pass) == Bytes{}) continue;
      const std::uint32_t begin = first[use * kKinds + kind];
      steps.push_back(
          {place(kind, places.freed), false, {}, 0, begin, begin + static_cast<std::uint32_t>(count(use, kind))});
    }
  }
  return steps;
}

LocalTask PassTasks::emit_stage(const Coordinates& at, const std::vector<LocalTask>& after) {
  const auto& stage = parts_.stages[at.stage];
  auto& buffers = live(at);
  const auto [takes, gives] = footprint(at.pass);
  Coarse& whole = coarse(at);
  std::vector<BufferUse> uses;
  const std::size_t n = buffers.merged ? 2 : stage.uses.size();
  Places places{std::vector<std::uint32_t>(n * kKinds), std::vector<std::uint32_t>(n * kKinds)};
  for (const Kind kind : takes) {
    if (within_pass(kind)) continue;  // one part at a time, see below
    for (std::size_t i = 0; i < n; i++) {
      places.allocated[i * kKinds + kind] = static_cast<std::uint32_t>(uses.size());
      take(buffers, i, kind,
           buffers.merged ? whole.merged[i * kKinds + kind] : buffer(stage.uses[i].part, kind, at.pass), uses);
    }
  }
  // Backward: what was made last goes first.
  for (const Kind kind : gives)
    if (!within_pass(kind))
      for (std::size_t i = n; i-- > 0;) {
        places.freed[i * kKinds + kind] = static_cast<std::uint32_t>(uses.size());
        give(buffers, i, kind, uses);
      }
  for (const auto& here : whole.passing) {
    const BufferId id = program_.buffer(here);
    uses.emplace_back(id, Access::allocate);
    uses.emplace_back(id, Access::free);
  }
  auto& allocation = whole.allocation[buffers.merged];
  if (!allocation) allocation = program_.allocations(allocation_steps(at, buffers.merged, places));
  return program_.add({whole.work, Lane::compute, at, graph::kNoEndpoint, whole.transient, *allocation}, after, uses);
}

}  // namespace rehearsal::lower
