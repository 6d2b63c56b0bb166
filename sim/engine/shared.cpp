// Event-driven evaluation of works that share what they use: a task lasts as long as max-min fair rates let it
// (sim/fluid). A coarse task runs the works that it consists of one after the other, each with its own footprint.
#include <unordered_map>

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

  Shared(const Prepared& graph, const Contended& contended)
      : graph_(graph),
        works_(graph.graph().works()),
        places_(contended.places),
        footprints_(contended.footprints),
        flows_(capacities(places_)),
        of_ranks_(graph.ranks().size() * works_.size(), kNone),
        of_others_() {}

  Time now() const { return flows_.now(); }
  bool next(std::vector<TaskRef>& told) {
    if (flows_.empty()) return false;
    flows_.pop_instant(happened_);
    for (const auto& event : happened_) {
      const auto task = TaskRef::from(event.tag);
      if (event.kind != fluid::Happened::moved) {
        told.push_back(task);
      } else if (const Step& step = this->step(task); step.kind == Kind::send && is_send(step.lane)) {
        told.push_back(TaskRef::wire_of(task));
      }
    }
    happened_.clear();
    return true;  // an instant may have nothing to tell
  }
  bool start(TaskRef task, const Step& step) {
    if (step.kind == Kind::receive) return true;
    return run(task, step.kind == Kind::send ? of_send(task, step) : of_rank(task.rank(), step.work));
  }
  bool start_group(std::uint32_t group, TaskRef first, const Step& step) { return run(first, of_group(group, step)); }
  Time wire_free(TaskRef task, const Step& step) {
    return flows_.alone(of_send(task, step)) == Time{} ? now() : kNever;
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

  std::uint32_t of_rank(std::uint32_t rank, std::uint32_t work) {
    auto& profile = of_ranks_[rank * works_.size() + work];
    if (profile == kNone)
      profile = profile_of(WorkId(work), [&](graph::Way way) { return places_.of_rank(RankId(rank), way); });
    return profile;
  }
  std::uint32_t of_send(TaskRef task, const Step& step) {
    const auto channel = graph_.ranks()[task.rank()].ends[step.endpoint].first;
    return other(std::uint64_t{1} << 63 | channel << 32 | step.work, step.work, [&](graph::Way way) {
      return places_.of_send(RankId(task.rank()), graph::EndpointId(step.endpoint), way);
    });
  }
  std::uint32_t of_group(std::uint32_t group, const Step& step) {
    return other(std::uint64_t{group} << 32 | step.work, step.work,
                 [&](graph::Way way) { return places_.of_group(GroupId(group), way); });
  }
  template <class Loads>
  std::uint32_t other(std::uint64_t key, std::uint32_t work, const Loads& loads) {
    const auto [known, fresh] = of_others_.try_emplace(key);
    if (fresh) known->second = profile_of(WorkId(work), loads);
    return known->second;
  }

  template <class Loads>
  std::uint32_t profile_of(WorkId work, const Loads& loads) {
    std::vector<fluid::Phase> phases;
    add_phases(work, loads, phases);
    return flows_.profile(std::move(phases));
  }
  template <class Loads>
  void add_phases(WorkId work, const Loads& loads, std::vector<fluid::Phase>& phases) const {
    if (const auto* sequence = std::get_if<graph::Sequence>(&works_[work.index()])) {
      for (const auto& item : sequence->items)
        for (std::uint32_t i = 0; i < item.count; ++i) add_phases(item.work, loads, phases);
      return;
    }
    const auto& footprint = footprints_[work.index()];
    fluid::Phase phase{{}, footprint.trailing};
    if (footprint.moving > Time{}) {
      fluid::Strand strand{footprint.moving, std::max<std::int64_t>(1, footprint.rate), {}};
      for (const auto& share : footprint.shares)
        for (const auto& load : loads(share.way))
          strand.uses.push_back({load.resource, share.weight * load.parts, Wide{share.hold} * load.parts});
      phase.strands.push_back(std::move(strand));
    }
    if (footprint.moving + footprint.trailing > Time{}) phases.push_back(std::move(phase));
  }

  const Prepared& graph_;
  std::span<const graph::Work> works_;
  const graph::Places& places_;
  std::span<const graph::Footprint> footprints_;
  fluid::Flows flows_;
  std::vector<std::uint32_t> of_ranks_;  // profiles, by rank and work
  std::unordered_map<std::uint64_t, std::uint32_t> of_others_;
  std::vector<fluid::Happened> happened_;
};

}  // namespace

Outcome simulate_shared(const Prepared& graph, const Contended& contended, Timeline& timeline) {
  Shared clock(graph, contended);
  return EventLoop<Shared>(graph, clock, timeline).run();
}

}  // namespace rehearsal::engine
