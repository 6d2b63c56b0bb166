#include "lower/pass_tasks.hpp"

#include <algorithm>

#include "base/error.hpp"

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
      return {{kReleased, kKept}, {}};
    case Pass::input_gradient:
      return {{kRecomputed, kGradients}, {kRecomputed, kReleased}};
    case Pass::weight_gradient:
      return {{}, {kKept, kGradients}};
    case Pass::backward:
      return {{kRecomputed}, {kRecomputed, kReleased, kKept}};
    default:
      return {};
  }
}

Bytes PassTasks::size(const Held& held, Kind kind) {
  const Bytes kept = std::min(held.activation, held.weight_hold);
  switch (kind) {
    case kReleased:
      return held.activation - kept;
    case kKept:
      return kept;
    case kGradients:
      return held.weight_hold - kept;
    default:
      return held.recomputed;
  }
}

MemoryCategory PassTasks::category(Kind kind) {
  return kind == kRecomputed ? MemoryCategory::workspace : MemoryCategory::activations;
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
    it->second.slots.resize((it->second.merged ? 1 : parts_.stages[at.stage].uses.size()) * kKinds);
  }
  return it->second;
}

void PassTasks::take(Live& live, std::size_t part, Kind kind, Bytes size, std::vector<BufferUse>& uses) {
  if (size.count() == 0) return;
  const BufferId id = program_.buffer({size, category(kind)});
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
  for (const Kind kind : takes) take(buffers, use, kind, size(part.held, kind), taken);
  for (const Kind kind : gives) give(buffers, use, kind, given);
  given.insert(given.end(), extra.last.begin(), extra.last.end());

  auto here = at;
  here.layer = layer;
  if (detail_ != Detail::operators || work.operations.empty()) {
    taken.insert(taken.end(), given.begin(), given.end());
    return program_.add({work.whole, Lane::compute, here, graph::kNoEndpoint, Bytes{}}, after, taken);
  }
  LocalTask last;
  for (std::size_t i = 0; i < work.operations.size(); i++) {
    const auto& op = work.operations[i];
    here.pass = op.pass;
    std::vector<BufferUse> uses;
    if (i == 0) uses = taken;
    if (i + 1 == work.operations.size()) uses.insert(uses.end(), given.begin(), given.end());
    const auto endpoint = op.tensor_collective ? tensor.value_or(graph::kNoEndpoint) : graph::kNoEndpoint;
    last = program_.add({op.work, Lane::compute, here, endpoint, Bytes{}}, after, uses);
    after.clear();
  }
  return last;
}

const PassTasks::Coarse& PassTasks::coarse(const Coordinates& at) {
  const auto [it, fresh] = coarse_.try_emplace({at.stage, at.pass});
  if (!fresh) return it->second;
  const auto& uses = parts_.stages[at.stage].uses;
  const auto [takes, gives] = footprint(at.pass);
  std::vector<WorkId> works;
  // Walk the fine form: level over the pass from its start, and its highest point.
  Bytes level{}, peak{}, recomputed{};
  for (std::size_t i = 0; i < uses.size(); i++) {
    const Part& part = parts_.parts[uses[at.pass == Pass::forward ? i : uses.size() - 1 - i].part];
    works.push_back(pass_work(part, at.pass).whole);
    for (const Kind kind : takes) level += size(part.held, kind);
    if (level > peak) {
      peak = level;
      recomputed = std::count(takes.begin(), takes.end(), kRecomputed) ? part.held.recomputed : Bytes{};
    }
    for (const Kind kind : gives) level -= size(part.held, kind);
  }
  it->second = {sequence(works, works_), peak - level, recomputed};
  return it->second;
}

LocalTask PassTasks::emit_stage(const Coordinates& at, const std::vector<LocalTask>& after) {
  const auto& stage = parts_.stages[at.stage];
  auto& buffers = live(at);
  const auto [takes, gives] = footprint(at.pass);
  std::vector<BufferUse> uses;
  const auto each = [&](Kind kind, auto&& act) {
    if (kind == kRecomputed) return;  // one part at a time, see below
    Bytes sum{};
    for (std::size_t i = 0; i < stage.uses.size(); i++) {
      const Bytes bytes = size(parts_.parts[stage.uses[i].part].held, kind);
      if (!buffers.merged) act(i, bytes);
      sum += bytes;
    }
    if (buffers.merged) act(std::size_t{0}, sum);
  };
  for (const Kind kind : takes)
    each(kind, [&](std::size_t part, Bytes bytes) { take(buffers, part, kind, bytes, uses); });
  for (const Kind kind : gives) each(kind, [&](std::size_t part, Bytes) { give(buffers, part, kind, uses); });
  const auto& [work, transient, recomputed] = coarse(at);
  if (recomputed > Bytes{}) {  // lives within the task
    const BufferId id = program_.buffer({recomputed, category(kRecomputed)});
    uses.emplace_back(id, Access::allocate);
    uses.emplace_back(id, Access::free);
  }
  return program_.add({work, Lane::compute, at, graph::kNoEndpoint, transient}, after, uses);
}

}  // namespace rehearsal::lower
