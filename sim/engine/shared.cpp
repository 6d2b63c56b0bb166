// Event-driven evaluation of works that share what they use: a task lasts as long as max-min fair rates let it
// (sim/fluid).
#include <algorithm>
#include <unordered_map>

#include "base/error.hpp"
#include "engine/demands.hpp"
#include "engine/event_loop.hpp"
#include "fluid/flows.hpp"

namespace rehearsal::engine {
namespace {

std::vector<Wide> capacities(const graph::Places& places) {
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
      if (event.kind != fluid::Event::Kind::moved)
        told.push_back(task);
      else if (const Step& step = this->step(task); step.kind == Kind::send && is_send(step.slot))
        told.push_back(TaskRef::wire_of(task));
    }
    return !happened_.empty();  // else all that is left stands still
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

  bool run(TaskRef task, std::uint32_t profile) {
    if (flows_.alone(profile) == Time{}) return true;
    flows_.start(task.key(), profile);
    return false;
  }

  std::uint32_t profile(TaskRef task, const Step& step) {
    const auto actor = Actor::of(task.rank(), step, graph_.ranks()[task.rank()].ends);
    auto& known = actor.kind == Actor::Kind::rank ? of_ranks_[actor.id * works_ + step.work]
                                                  : of_others_[actor.key()].try_emplace(step.work, kNone).first->second;
    if (known == kNone) known = flows_.profile(demands_.phases(actor, WorkId(step.work)));
    return known;
  }

  const Prepared& graph_;
  const Demands& demands_;
  fluid::Flows flows_;
  std::size_t works_;
  std::vector<std::uint32_t> of_ranks_;  // profiles, by rank and work
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint32_t, std::uint32_t>> of_others_;
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
