#include "lower/pass_tasks.hpp"

#include <utility>

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::AllocationStep;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::Pass;

PassTasks::Live& PassTasks::live(const Coordinates& at) {
  const auto [it, fresh] = live_.try_emplace({at.stage, at.microbatch});
  if (fresh) {
    const bool in_parts = split_all_ || split_.count({at.stage, at.microbatch}) > 0;
    it->second.grouping = detail_ == Detail::operators           ? Grouping::values
                          : detail_ == Detail::layer || in_parts ? Grouping::parts
                                                                 : Grouping::stage;
    it->second.slots.resize(folds_.slots(parts_.staged(at), it->second.grouping));
  }
  return it->second;
}

std::optional<BufferId>& PassTasks::slot_of(Live& live, const Coordinates& at, std::uint32_t slot) {
  return slot < kSharedSlots ? live.slots[slot] : shared_[{at.stage, at.microbatch / parts_.pieces, slot}];
}

std::vector<std::optional<BufferId>*> PassTasks::leaving_of(const Coordinates& at, std::size_t use) {
  auto& held = live(at);
  std::vector<std::optional<BufferId>*> all;
  for (const auto slot : folds_.leaving_slots(parts_.staged(at), held.grouping, use))
    all.push_back(&slot_of(held, at, slot));
  return all;
}

void PassTasks::release(const Coordinates& at) {
  std::vector<BufferUse> kept;
  for (auto& slot : live(at).slots)
    if (slot) kept.emplace_back(*std::exchange(slot, std::nullopt), Access::free);
  program_.add({works_.intern(graph::FixedDelay{}), Lane::compute, at}, {}, kept);
}

LocalTask PassTasks::emit(const Coordinates& at, std::vector<LocalTask> after) {
  if (parts_.stages[at.stage].uses.empty())  // what comes in goes on
    return program_.add({works_.intern(graph::FixedDelay{}), Lane::compute, at}, after);
  if (detail_ == Detail::stage) {
    auto& buffers = live(at);
    return emit(at, folds_.recipe(parts_.staged(at), at.pass, buffers.grouping, std::nullopt), buffers,
                std::move(after), {});
  }
  return emit_parts(at, std::move(after));
}

LocalTask PassTasks::emit_parts(const Coordinates& at, std::vector<LocalTask> after, const AroundParts& around) {
  const auto n = parts_.stages[at.stage].uses.size();
  LocalTask last;
  for (std::size_t i = 0; i < n; i++) {
    const auto use = at.pass == Pass::forward ? i : n - 1 - i;
    if (around.before) around.before(use, after);
    last = emit_part(at, use, std::exchange(after, {}));  // one lane: the rest follows by order
    if (around.after) around.after(use, last);
  }
  return last;
}

LocalTask PassTasks::emit_part(const Coordinates& at, std::size_t use, std::vector<LocalTask> after, const Extra& extra,
                               Around* around) {
  auto& buffers = live(at);
  INVARIANT(buffers.grouping != Grouping::stage, "a pass comes part by part without notice");
  INVARIANT(!around || buffers.grouping == Grouping::values, "what comes around operations sees them");
  return emit(at, folds_.recipe(parts_.staged(at), at.pass, buffers.grouping, use), buffers, std::move(after), extra,
              around);
}

LocalTask PassTasks::emit(const Coordinates& at, FusedTasks::Recipe& recipe, Live& live, std::vector<LocalTask> after,
                          const Extra& extra, Around* around) {
  LocalTask last;
  struct UnderWay {
    LocalTask task;
    std::size_t left;  // tasks to emit before the next one waits for it
  };
  std::vector<UnderWay> beside;  // collectives on lanes of their own
  bool closes = false;
  for (std::size_t i = 0; i < recipe.size(); ++i)
    closes = closes || (recipe[i].beside && i + recipe[i].beside_tasks == recipe.size());
  for (auto& task : recipe) {
    auto here = at;
    here.layer = task.layer, here.pass = task.pass;
    const bool first = &task == &recipe.front(), ends = &task == &recipe.back();
    std::vector<BufferUse> uses, released;
    Extra own;
    if (around) around->before(task, after, own);
    for (const auto& [slot, buffer] : task.allocates) {
      const BufferId id = program_.buffer(buffer);
      slot_of(live, at, slot) = id;
      uses.emplace_back(id, Access::allocate);
    }
    for (const auto slot : task.frees) {
      auto& held = slot_of(live, at, slot);
      INVARIANT(held, "what is freed is there");
      released.emplace_back(*held, Access::free);
      held.reset();
    }
    if (task.beside) {  // starts when the kernel's lane reaches it
      auto before = after;
      if (const auto computed = program_.last(Lane::compute)) before.push_back(*computed);
      const auto started = program_.add(
          {*task.beside, graph::lane_beside(task.beside_along), here, ends_.group(task.beside_along, program_)}, before,
          {});
      beside.push_back({started, task.beside_tasks});
    }
    const bool takes = first && !extra.first.empty(), gives = ends && !closes && !extra.last.empty();
    if (takes && !task.fold) uses.insert(uses.end(), extra.first.begin(), extra.first.end());
    if (!(ends && closes)) uses.insert(uses.end(), released.begin(), released.end());
    const auto folded =
        task.fold
            ? fold(task, uses,
                   {takes ? extra.first : std::vector<BufferUse>{}, gives ? extra.last : std::vector<BufferUse>{}})
            : 0;
    if (takes && task.fold) uses.insert(uses.end(), extra.first.begin(), extra.first.end());
    if (gives) uses.insert(uses.end(), extra.last.begin(), extra.last.end());
    for (const auto* more : {&own.first, &own.last}) uses.insert(uses.end(), more->begin(), more->end());
    const auto group = task.group ? ends_.group(*task.group, program_) : graph::kNoEndpoint;
    last = program_.add({task.work, Lane::compute, here, group, folded}, after, uses);
    after.clear();
    if (around) around->after(task, last);
    std::erase_if(beside, [&](UnderWay& other) {
      if (--other.left > 0) return false;
      after.push_back(other.task);
      return true;
    });
    if (ends && closes) {  // a task that waits for the part waits for both
      released.insert(released.end(), extra.last.begin(), extra.last.end());
      last = program_.add({works_.intern(graph::FixedDelay{}), Lane::compute, here}, after, released);
    }
  }
  return last;
}

// The fold of a task, between the extra buffers that it allocates and frees.
std::uint32_t PassTasks::fold(const TaskRecipe& task, const std::vector<BufferUse>& uses, const Extra& extra) {
  std::vector<Bytes> taken;
  for (const auto& use : extra.first) taken.push_back(program_.buffer(use.id()).size);
  const auto [known, fresh] = known_folds_.try_emplace({&task, taken, extra.last.size()});
  if (!fresh) return known->second;
  graph::FusedTask fold = *task.fold;
  auto use = static_cast<std::uint32_t>(uses.size());
  std::vector<AllocationStep> before;
  for (const auto size : taken) before.push_back({use++, 0, size});
  fold.steps.insert(fold.steps.begin() + static_cast<std::ptrdiff_t>(task.first_births), before.begin(), before.end());
  for (std::size_t i = 0; i < extra.last.size(); ++i) fold.steps.push_back({use++, 0, {}});
  return known->second = program_.fold(std::move(fold));
}

}  // namespace rehearsal::lower
