// Event-driven evaluation of works that share resources: max-min fair rates decide how long a task lasts (sim/fluid).
#include <algorithm>
#include <unordered_map>

#include "base/error.hpp"
#include "engine/demands.hpp"
#include "engine/event_loop.hpp"
#include "fluid/flows.hpp"

namespace rehearsal::engine {
namespace {

std::vector<Wide> capacities(const graph::ResourceTable& places) {
  std::vector<Wide> all;
  for (const auto& resource : places.resources) all.push_back(resource.capacity);
  return all;
}

class Shared {
 public:
  static constexpr bool kTogether = true;

  Shared(const Prepared& graph, const Demands& demands)
      : graph_(graph),
        demands_(demands),
        flows_(capacities(demands.places())),
        works_(graph.graph().works().size()),
        of_ranks_(graph.ranks().size() * works_, kNone) {}

  Time now() const { return flows_.now(); }
  bool next(std::vector<TaskRef>& told) {
    if (flows_.empty()) return false;
    happened_.clear();
    flows_.pop_instant(happened_);
    for (const auto& event : happened_) {
      const auto task = TaskRef::from(event.tag);
      if (event.kind != fluid::Event::Kind::moved) {
        if (ended(task)) told.push_back(task);
      } else if (const Step& step = this->step(task); step.kind == Kind::send && is_send(step.slot)) {
        told.push_back(TaskRef::wire_of(task));
      }
    }
    return !happened_.empty();  // else all remaining work is stuck
  }
  bool start(TaskRef task, const Step& step) { return step.kind == Kind::receive || run(task, profile(task, step)); }
  bool start_group(std::uint32_t, TaskRef first, const Step& step) { return run(first, profile(first, step)); }
  Time wire_free(TaskRef, const Step& step) const {
    return demands_.moving(WorkId(step.work)) == Time{} ? now() : kNever;
  }
  void tell(Time at, TaskRef task) { flows_.at(at, task.key()); }

  const fluid::Flows& flows() const { return flows_; }

 private:
  const Step& step(TaskRef task) const { return graph_.ranks()[task.rank()].steps[task.local()]; }

  bool run(TaskRef task, std::uint32_t what) {
    if (what & kScript) return !go_on(task, under_way_[task.key()] = {what & ~kScript});
    if (flows_.alone(what) == Time{}) return true;
    flows_.start(task.key(), what);
    return false;
  }

  // Tasks of several parts, or of one with something beside it. A part is one run or two.
  struct Profiles {
    std::uint32_t row, beside;
  };
  struct Progress {
    std::uint32_t script, next = 0, running = 0;
  };
  // Starts the next part that takes time; without one the task has ended.
  bool go_on(TaskRef task, Progress& progress) {
    const auto& script = scripts_[progress.script];
    while (progress.running == 0 && progress.next < script.size()) {
      const auto& part = script[progress.next++];
      for (const auto profile : {part.row, part.beside})
        if (flows_.alone(profile) > Time{}) flows_.start(task.key(), profile), ++progress.running;
    }
    if (progress.running > 0) return true;
    under_way_.erase(task.key());
    return false;
  }
  bool ended(TaskRef task) {
    const auto found = under_way_.empty() ? under_way_.end() : under_way_.find(task.key());
    return found == under_way_.end() || (--found->second.running == 0 && !go_on(task, found->second));
  }

  std::uint32_t profile(TaskRef task, const Step& step) {
    const auto actor = Actor::of(task.rank(), step, graph_.ranks()[task.rank()].ends);
    auto& known = actor.kind == Actor::Kind::rank ? of_ranks_[actor.id * works_ + step.work]
                                                  : of_others_[actor.key()].try_emplace(step.work, kNone).first->second;
    if (known == kNone) known = made(demands_.parts(actor, WorkId(step.work)));
    return known;
  }
  std::uint32_t made(const std::vector<Part>& parts) {
    if (parts.size() == 1 && parts.front().beside.empty()) return flows_.profile(parts.front().row);
    scripts_.emplace_back();
    for (const auto& part : parts) scripts_.back().push_back({flows_.profile(part.row), flows_.profile(part.beside)});
    return kScript | static_cast<std::uint32_t>(scripts_.size() - 1);
  }

  static constexpr std::uint32_t kScript = std::uint32_t{1} << 31;  // no profile, but a number of scripts_

  const Prepared& graph_;
  const Demands& demands_;
  fluid::Flows flows_;
  std::size_t works_;
  std::vector<std::uint32_t> of_ranks_;  // profiles, by rank and work
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint32_t, std::uint32_t>> of_others_;
  std::vector<std::vector<Profiles>> scripts_;
  std::unordered_map<std::uint64_t, Progress> under_way_;  // by key of the task
  std::vector<fluid::Event> happened_;
};

}  // namespace

Outcome simulate_shared(const Prepared& graph, const Demands& demands, Timeline& timeline,
                        std::vector<fluid::Usage>* usage) {
  Shared clock(graph, demands);
  const auto outcome = loop(graph, clock, timeline);
  auto& contention = timeline.contention.emplace();
  auto all = clock.flows().usage();
  for (std::uint32_t r = 0; r < all.size(); ++r) {
    INVARIANT(all[r].busy < 1 + 1e-9, "nothing carries more than it can");
    if (all[r].slowed > Time{}) contention.resources.push_back({r, all[r].slowed, all[r].busy});
  }
  std::stable_sort(contention.resources.begin(), contention.resources.end(),
                   [](const auto& a, const auto& b) { return a.slowed > b.slowed; });
  if (usage) *usage = std::move(all);
  return outcome;
}

}  // namespace rehearsal::engine
