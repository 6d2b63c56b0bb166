#include "lower/fused_tasks.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::AllocationStep;
using graph::MemoryByCategory;
using graph::Pass;

namespace {
bool both_gradients(Pass pass) {
  return pass == Pass::backward || pass == Pass::input_gradient || pass == Pass::norm_backward;
}
std::size_t index(graph::MemoryCategory category) { return static_cast<std::size_t>(category); }
}  // namespace

FusedTasks::Recipe& FusedTasks::recipe(std::uint32_t staged, Pass pass, Grouping grouping,
                                       std::optional<std::size_t> use) {
  const std::size_t n = parts_.stage(staged).uses.size();
  const auto [it, fresh] = recipes_.try_emplace({staged, pass, grouping, use.value_or(n)});
  if (!fresh) return it->second;
  auto& layout = this->layout(staged, grouping);
  if (use && grouping == Grouping::values) return it->second = steps(staged, pass, *use, layout);
  std::vector<std::size_t> uses;
  if (use)
    uses = {*use};
  else
    for (std::size_t i = 0; i < n; ++i) uses.push_back(pass == Pass::forward ? i : n - 1 - i);
  it->second.push_back(folded(staged, pass, uses, layout));
  return it->second;
}

std::uint32_t FusedTasks::input_slot(std::uint32_t staged, Grouping grouping, std::size_t use) {
  const auto& known = layout(staged, grouping);
  const auto& part = parts_.of(parts_.stage(staged).uses[use], staged);
  INVARIANT(part.input, "a part in the middle of a model has an input");
  return known.slot[instance(staged, use, *part.input, known)];
}

std::vector<std::uint32_t> FusedTasks::leaving_slots(std::uint32_t staged, Grouping grouping, std::size_t use) {
  const auto& known = layout(staged, grouping);
  std::set<std::uint32_t> slots;
  for (std::size_t i = 0; i < known.instances.size(); ++i)
    if (const auto& it = known.instances[i]; it.leaves && it.use == use && it.size > Bytes{})
      slots.insert(known.slot[i]);
  return {slots.begin(), slots.end()};
}

// Slot of a value that one piece of a sequence makes and another one consumes.
std::optional<std::uint32_t> FusedTasks::shared_slot(const Part& part, std::size_t value, std::size_t use) const {
  if (!part.model) return std::nullopt;
  for (const auto& shared : part.model->carried)
    if (shared.value == value && shared.begins != shared.ends)
      return kSharedSlots +
             static_cast<std::uint32_t>(2 * (models::kCarried * (use * parts_.pieces + shared.piece) + shared.which) +
                                        shared.gradient);
  return std::nullopt;
}

FusedTasks::Layout& FusedTasks::layout(std::uint32_t staged, Grouping grouping) {
  const auto [it, fresh] = layouts_.try_emplace({staged, grouping});
  if (fresh) it->second = made(staged, grouping);
  return it->second;
}

// Values of the parts, then values at the boundaries (below each part, above the last): activations, then gradients.
FusedTasks::Layout FusedTasks::made(std::uint32_t staged, Grouping grouping) const {
  Layout layout;
  const auto& uses = parts_.stage(staged).uses;
  const std::size_t n = uses.size();
  const auto part = [&](std::size_t use) -> const Part& { return parts_.of(uses[use], staged); };
  for (std::size_t u = 0; u < n; ++u) {
    layout.first.push_back(layout.instances.size());
    for (const auto& v : part(u).values)
      layout.instances.push_back({v.size, v.category, v.again, v.crosses, u, v.contiguous, v.leaves});
  }
  const auto between = [&](std::size_t use, std::optional<std::uint16_t> value, std::size_t border) {
    Instance instance{
        {}, graph::MemoryCategory::activations, graph::MemoryCategory::activations, Crosses::no, n + border};
    if (value) {
      const auto& v = part(use).values[*value];
      instance.size = v.size, instance.category = v.category, instance.again = v.again, instance.crosses = v.crosses;
    }
    layout.instances.push_back(instance);
  };
  for (std::size_t b = 0; b < n; ++b) between(b, part(b).input, b);
  between(n - 1, part(n - 1).output, n);
  if (parts_.stage(staged).keeps_output) layout.instances.back().crosses = Crosses::forward_to_input;
  between(0, part(0).input_gradient, n + 1);
  for (std::size_t b = 1; b <= n; ++b) {
    if (part(b - 1).output_gradient || b == n)
      between(b - 1, part(b - 1).output_gradient, n + 1 + b);
    else  // it has no consumer
      between(b, part(b).input_gradient, n + 1 + b);
  }
  for (std::size_t i = 0; i < layout.instances.size(); ++i) {
    const auto& it = layout.instances[i];
    Layout::Key key{i, it.category, it.crosses, it.contiguous, it.leaves};
    if (grouping == Grouping::parts && it.use < n) std::get<0>(key) = layout.instances.size() + it.use;
    if (grouping == Grouping::stage) std::get<0>(key) = 0;
    if (it.use < n)
      if (const auto shared = shared_slot(part(it.use), i - layout.first[it.use], it.use)) {
        layout.slot.push_back(*shared);
        continue;
      }
    const auto slot = layout.known.try_emplace(key, static_cast<std::uint32_t>(layout.known.size())).first->second;
    layout.slot.push_back(slot);
  }
  layout.in_buffer.resize(layout.instances.size());
  layout.born.resize(layout.instances.size()), layout.dies.resize(layout.instances.size());
  layout.place.resize(layout.instances.size());
  return layout;
}

std::size_t FusedTasks::instance(std::uint32_t staged, std::size_t use, std::uint16_t value,
                                 const Layout& layout) const {
  const auto& uses = parts_.stage(staged).uses;
  const std::size_t n = uses.size(), first = layout.first.back() + parts_.of(uses.back(), staged).values.size();
  const Part& part = parts_.of(uses[use], staged);
  if (value == part.input) return first + use;
  if (value == part.output) return first + use + 1;
  if (value == part.input_gradient) return first + n + 1 + use;
  if (value == part.output_gradient) return first + n + 1 + use + 1;
  // Both ends of a skip connection within the stage use the instance of the part that makes the value.
  if (const auto partner = uses[use].partner) {
    const auto& other = parts_.of(uses[*partner], staged).model->skip;
    if (value == part.model->skip.taken) return layout.first[*partner] + *other.given;
    if (value == part.model->skip.given_gradient) return layout.first[*partner] + *other.taken_gradient;
  }
  return layout.first[use] + value;
}

// Births and deaths of the values of one part in a pass, in order. The first operation of a stage takes in its inputs;
// the last one drops the outputs that have been sent.
std::vector<FusedTasks::Event> FusedTasks::events(std::uint32_t staged, Pass pass, std::size_t use,
                                                  const Layout& layout) const {
  const auto& stage = parts_.stage(staged);
  const auto& uses = stage.uses;
  const bool keeps_output = stage.keeps_output;
  const std::size_t n = uses.size();
  const Part& part = parts_.of(uses[use], staged);
  const auto& operations = part.of(pass).operations;
  const bool forward = pass == Pass::forward, backward = both_gradients(pass), last_use = use + 1 == n;
  std::vector<Event> events;
  // Skip connections with other stages.
  const auto skips = [&](std::size_t operation, auto models::Part::Skip::*end, bool born) {
    for (std::size_t u = 0; u < n; ++u) {
      const auto* model = parts_.of(uses[u], staged).model;
      if (!uses[u].skip || uses[u].partner || !(model->skip.*end)) continue;
      const auto at = layout.first[u] + *(model->skip.*end);
      if (layout.instances[at].size > Bytes{}) events.push_back({at, born, operation});
    }
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const bool first = i == 0, last = i + 1 == operations.size();
    const auto add = [&](std::optional<std::uint16_t> value, bool born) {
      if (!value) return;
      const auto at = instance(staged, use, *value, layout);
      if (layout.instances[at].size > Bytes{}) events.push_back({at, born, i});
    };
    if (first && forward && use == 0) add(part.input, true), skips(i, &models::Part::Skip::taken, true);
    // Behind a loss, the next one reads another hidden state of those that came in.
    if (first && forward && use > 0 && !parts_.of(uses[use - 1], staged).output) add(part.input, true);
    if (first && backward && last_use)
      add(part.output_gradient, true), skips(i, &models::Part::Skip::given_gradient, true);
    for (const auto v : operations[i].born) add(v, true);
    for (const auto v : operations[i].dies) add(v, false);
    if (first && backward && last_use && keeps_output) add(part.output, false);
    if (last && forward && last_use && !keeps_output) add(part.output, false);
    if (last && forward && last_use) skips(i, &models::Part::Skip::given, false);
    if (last && backward && use == 0) skips(i, &models::Part::Skip::taken_gradient, false);
    const bool nobody = use == 0 || !parts_.of(uses[use - 1], staged).output_gradient;
    if (last && backward && nobody) add(part.input_gradient, false);
  }
  return events;
}

FusedTasks::Recipe FusedTasks::steps(std::uint32_t staged, Pass pass, std::size_t use, const Layout& layout) const {
  const auto& its = parts_.stage(staged).uses[use];
  const auto& operations = parts_.of(its, staged).of(pass).operations;
  Recipe recipe;
  for (const auto& operation : operations) {
    TaskRecipe task;
    task.work = operation.work, task.pass = operation.pass, task.layer = its.layer;
    task.group = operation.group, task.beside = operation.beside;
    task.beside_along = operation.beside_along, task.beside_tasks = operation.beside_operations;
    if (operation.step) task.tile = operation.step->tile, task.completes = operation.step->completes;
    recipe.push_back(std::move(task));
  }
  for (const auto& event : events(staged, pass, use, layout)) {
    const auto& it = layout.instances[event.instance];
    auto& task = recipe[event.operation];
    if (event.born)
      task.allocates.push_back(
          {layout.slot[event.instance],
           {.size = it.size, .category = pass == Pass::forward ? it.category : it.again, .contiguous = it.contiguous}});
    else
      task.frees.push_back(layout.slot[event.instance]);
  }
  return recipe;
}

TaskRecipe FusedTasks::folded(std::uint32_t staged, Pass pass, const std::vector<std::size_t>& uses, Layout& layout) {
  const auto& stage_uses = parts_.stage(staged).uses;
  TaskRecipe task;
  task.pass = pass;
  std::vector<WorkId> works;
  std::vector<Event> all;
  for (const auto use : uses) {
    works.push_back(parts_.of(stage_uses[use], staged).of(pass).whole);
    const auto more = events(staged, pass, use, layout);
    all.insert(all.end(), more.begin(), more.end());
  }
  task.work = sequence(works, works_);
  if (uses.size() == 1) task.layer = stage_uses[uses.front()].layer;

  auto &born = layout.born, &dies = layout.dies;
  for (const auto& event : all) (event.born ? born : dies)[event.instance] = true;
  const auto within = [&](std::size_t instance) { return born[instance] && dies[instance]; };

  graph::FusedTask fold;
  constexpr std::uint32_t kFreed = 0x40000000;    // offset by the number of allocations, once known
  std::map<std::uint32_t, std::uint32_t> use_of;  // slot -> index of the use that allocates it
  std::vector<graph::TensorList> tensors;
  std::uint32_t inside = 0;
  MemoryByCategory level{};
  Bytes now{}, most{};
  for (std::size_t e = 0; e < all.size(); ++e) {
    const auto& event = all[e];
    const auto& it = layout.instances[event.instance];
    const auto slot = layout.slot[event.instance];
    const bool from_here = born[event.instance];
    // A value from an earlier pass keeps the category that it had there.
    const bool again = from_here ? pass != Pass::forward : it.crosses == Crosses::input_to_weight;
    const auto as = again ? it.again : it.category;
    auto& at = layout.place[event.instance];
    if (event.born && within(event.instance)) {
      at = AllocationStep::kWithin + inside++;
    } else if (event.born) {
      const auto [known, fresh] = use_of.try_emplace(slot, static_cast<std::uint32_t>(task.allocates.size()));
      if (fresh)
        task.allocates.push_back({slot, {.size = {}, .category = as, .contiguous = it.contiguous}}),
            tensors.emplace_back();
      at = known->second;
      task.allocates[at].buffer.size += it.size;
      layout.in_buffer[event.instance] = static_cast<std::uint32_t>(tensors[at].size());
      tensors[at].push_back(it.size);
    } else if (!from_here) {
      const auto freed = std::find(task.frees.begin(), task.frees.end(), slot);
      at = kFreed + static_cast<std::uint32_t>(freed - task.frees.begin());
      if (freed == task.frees.end()) task.frees.push_back(slot);
    }
    fold.steps.push_back({at, layout.in_buffer[event.instance], event.born ? it.size : Bytes{}});
    level[index(as)] += event.born ? it.size : -it.size, now += event.born ? it.size : -it.size;
    // While an operation runs, its outputs are alive, and so are the inputs that it is the last to need.
    const bool running = event.born && (e + 1 == all.size() || !all[e + 1].born);
    if (running && now > most) most = now, fold.highest = level;
  }
  const auto allocated = static_cast<std::uint32_t>(task.allocates.size());
  for (auto& step : fold.steps)
    if (step.use >= kFreed && step.use < AllocationStep::kWithin) step.use += allocated - kFreed;
  for (std::size_t a = 0; a < task.allocates.size(); ++a) {
    auto& buffer = task.allocates[a].buffer;
    fold.highest[index(buffer.category)] -= buffer.size;
    if (tensors[a].size() > 1) buffer.tensors = program_.tensors(std::move(tensors[a]));
  }
  for (const auto& event : all) born[event.instance] = dies[event.instance] = false;
  while (task.first_births < all.size() && all[task.first_births].born && all[task.first_births].operation == 0)
    ++task.first_births;
  if (!fold.steps.empty()) task.fold = std::move(fold);
  return task;
}

}  // namespace rehearsal::lower
