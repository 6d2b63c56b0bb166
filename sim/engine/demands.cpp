#include "engine/demands.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.hpp"
#include "base/stopping.hpp"

namespace rehearsal::engine {
namespace {

struct Ask {
  std::uint32_t resource;
  Wide most;  // capacity units/s
};

using ByResource = std::unordered_map<std::uint32_t, Wide>;

void add_most(ByResource& most, const fluid::Row& row) {
  ByResource phase_asks;
  for (const auto& phase : row.phases) {
    phase_asks.clear();
    for (const auto& flow : phase.flows)
      for (const auto& use : flow.uses) phase_asks[use.resource] += Wide{use.weight} * flow.rate + use.hold;
    for (const auto& [resource, asked] : phase_asks) {
      auto& so_far = most[resource];
      so_far = std::max(so_far, asked);
    }
  }
}

// The most that any phase asks of each resource, including what runs beside it.
std::vector<Ask> asks(const std::vector<Part>& parts) {
  ByResource most;
  for (const auto& part : parts) {
    ByResource row, beside;
    add_most(row, part.row), add_most(beside, part.beside);
    for (const auto& [resource, asked] : beside) row[resource] += asked;
    for (const auto& [resource, asked] : row) {
      auto& so_far = most[resource];
      so_far = std::max(so_far, asked);
    }
  }
  std::vector<Ask> all;
  for (const auto& [resource, asked] : most) all.push_back({resource, asked});
  return all;
}

class Sweep {
 public:
  Sweep(const Prepared& graph, const Demands& demands, const Timeline& timeline)
      : graph_(graph), demands_(demands), timeline_(timeline), crowded_(demands.places().resources.size(), false) {}

  bool run() {
    if (!find_crowded()) return false;
    collect();
    return std::any_of(of_.begin(), of_.end(), [&](auto& of) { return short_of(of.first, of.second); });
  }

 private:
  struct Change {
    Time at;
    Wide asked;
    // What ends at an instant makes room for what starts then.
    bool operator<(const Change& other) const { return std::tie(at, asked) < std::tie(other.at, other.asked); }
  };
  // Tasks of a lane follow each other, so changes come in few runs that are in order; merging those is the sort.
  struct Changes {
    std::vector<Change> all;
    std::vector<std::size_t> runs;  // where each begins

    // If one task ends when the next begins, that is one change; none if both ask for the same, as kernels do of
    // processors.
    void add(Time at, Wide asked) {
      if (!all.empty() && all.back().at == at) {
        if ((all.back().asked += asked) != 0) return;
        all.pop_back();
        if (runs.back() == all.size()) runs.pop_back();
        return;
      }
      if (all.empty() || at < all.back().at) runs.push_back(all.size());
      all.push_back({at, asked});
    }
    void sort() {
      const auto at = [&](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
      while (runs.size() > 1) {
        std::vector<std::size_t> longer;
        for (std::size_t i = 0; i < runs.size(); i += 2) {
          longer.push_back(runs[i]);
          if (i + 1 < runs.size())
            std::inplace_merge(at(runs[i]), at(runs[i + 1]), i + 2 < runs.size() ? at(runs[i + 2]) : all.end());
        }
        runs = std::move(longer);
      }
    }
  };

  bool short_of(std::uint32_t resource, Changes& changes) const {
    go_on();
    changes.sort();
    Wide asked = 0;
    for (const auto& change : changes.all)
      if (asked += change.asked; asked > demands_.places().resources[resource].capacity) return true;
    return false;
  }

  const std::vector<Ask>& asked(const Actor& actor, std::uint32_t work) {
    auto& by_work = known_[actor.key()];
    for (const auto& [w, asks] : by_work)
      if (w == work) return asks;
    return by_work.emplace_back(work, asks(demands_.parts(actor, WorkId(work)))).second;
  }

  // A lane runs one task at a time (the bytes of its messages leave one after the other), so it asks for no more than
  // its largest task. If the sum over all lanes fits, no resource can be short.
  bool find_crowded() {
    struct Lane {
      std::uint32_t rank;
      std::uint8_t slot;
      bool operator==(const Lane&) const = default;
    };
    struct Most {
      Lane lane;
      Wide asked;
    };
    std::vector<std::vector<Most>> of(crowded_.size());
    std::vector<std::uint64_t> seen;
    for (std::uint32_t r = 0; r < graph_.ranks().size(); ++r) {
      const auto& view = graph_.ranks()[r];
      seen.clear();
      for (const auto& step : view.steps) {
        looks_.step();
        if (!asks_here(r, step)) continue;
        const std::uint64_t what =
            std::uint64_t(step.slot) << 56 | std::uint64_t{step.endpoint & 0xffffff} << 32 | step.work;
        if (std::find(seen.begin(), seen.end(), what) != seen.end()) continue;
        seen.push_back(what);
        for (const auto& ask : asked(Actor::of(r, step, view.ends), step.work)) {
          auto& all = of[ask.resource];
          const Lane lane{r, step.slot};
          const auto same = std::find_if(all.begin(), all.end(), [&](const Most& m) { return m.lane == lane; });
          if (same == all.end())
            all.push_back({lane, ask.most});
          else
            same->asked = std::max(same->asked, ask.most);
        }
      }
    }
    bool any = false;
    for (std::size_t i = 0; i < of.size(); ++i) {
      Wide sum = 0;
      for (const auto& most : of[i]) sum += most.asked;
      if (sum > demands_.places().resources[i].capacity) crowded_[i] = any = true;
    }
    return any;
  }

  // The load of a group counts at its first member.
  bool asks_here(std::uint32_t rank, const Step& step) const {
    if (step.kind == Kind::receive) return false;
    if (step.kind != Kind::group) return true;
    const auto group = graph_.ranks()[rank].ends[step.endpoint].peer;
    return graph_.graph().groups()[group].members.front().rank.value == rank;
  }

  void collect() {
    for (std::uint32_t r = 0; r < graph_.ranks().size(); ++r) {
      const auto& view = graph_.ranks()[r];
      std::map<std::uint8_t, std::vector<std::size_t>> of_lane;
      for (std::size_t i = 0; i < view.steps.size(); ++i)
        if (asks_here(r, view.steps[i])) of_lane[view.steps[i].slot].push_back(i);
      for (const auto& [slot, steps] : of_lane) collect(r, steps);
    }
  }
  void collect(std::uint32_t r, const std::vector<std::size_t>& steps) {
    const auto& view = graph_.ranks()[r];
    for (const auto i : steps) {
      looks_.step();
      const auto& step = view.steps[i];
      const Time start = timeline_.start[view.first_task + i];
      const Time end =
          step.kind == Kind::send ? start + demands_.moving(WorkId(step.work)) : timeline_.end[view.first_task + i];
      if (start == end) continue;
      for (const auto& ask : asked(Actor::of(r, step, view.ends), step.work)) {
        if (!crowded_[ask.resource]) continue;
        auto& changes = of_[ask.resource];
        changes.add(start, ask.most), changes.add(end, -ask.most);
      }
    }
  }

  const Prepared& graph_;
  const Demands& demands_;
  const Timeline& timeline_;
  std::vector<bool> crowded_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<std::uint32_t, std::vector<Ask>>>> known_;
  std::map<std::uint32_t, Changes> of_;  // of resources that may be short
  LooksUp looks_{4096};
};

}  // namespace

std::span<const graph::Load> Demands::loads(const Actor& actor, graph::Way way) const {
  switch (actor.kind) {
    case Actor::Kind::rank:
      return places_.of_rank(RankId(actor.id), way);
    case Actor::Kind::group:
      return places_.of_group(GroupId(actor.id), way);
    case Actor::Kind::send:
      return places_.of_send(RankId(actor.id), graph::EndpointId(actor.endpoint), way);
  }
  return {};
}

std::vector<Part> Demands::parts(const Actor& actor, WorkId work) const {
  std::vector<Part> all(1);
  add(actor, work, all);
  if (all.size() > 1 && all.back().row.empty()) all.pop_back();
  return all;
}

void Demands::add(const Actor& actor, WorkId work, std::vector<Part>& parts) const {
  if (const auto* sequence = std::get_if<graph::Sequence>(&works_[work.index()])) {
    for (const auto& item : sequence->items)
      for (std::uint32_t i = 0; i < item.count; ++i) add(actor, item.work, parts);
    return;
  }
  const auto* both = std::get_if<graph::Overlapped>(&works_[work.index()]);
  if (!both || !std::holds_alternative<graph::Sequence>(works_[both->kernel.index()]))
    return add_phases(actor, work, parts.back().row);
  if (!parts.back().row.empty()) parts.emplace_back();
  add_phases(actor, both->kernel, parts.back().row), add_phases(actor, both->collective, parts.back().beside);
  parts.emplace_back();
}

void Demands::add_phases(const Actor& actor, WorkId work, Part::Works& row) const {
  if (const auto* sequence = std::get_if<graph::Sequence>(&works_[work.index()])) {
    for (const auto& item : sequence->items)
      for (std::uint32_t i = 0; i < item.count; ++i) add_phases(actor, item.work, row);
    return;
  }
  const auto number = static_cast<std::size_t>(std::find(row.of.begin(), row.of.end(), work) - row.of.begin());
  if (number == row.of.size()) {
    fluid::Phase phase;
    if (const auto* both = std::get_if<graph::Overlapped>(&works_[work.index()])) {
      add_strand(actor, both->kernel, phase), add_strand(actor, both->collective, phase);
    } else {
      add_strand(actor, work, phase);
    }
    if (phase.flows.empty() && phase.trailing == Time{}) return;
    row.of.push_back(work), row.phases.push_back(std::move(phase));
  }
  row.order.push_back(static_cast<std::uint32_t>(number));
}

void Demands::add_strand(const Actor& actor, WorkId work, fluid::Phase& phase) const {
  const auto& footprint = footprints_[work.index()];
  phase.trailing = std::max(phase.trailing, footprint.trailing);
  if (footprint.moving > Time{}) {
    auto& flow = phase.flows.emplace_back(fluid::Flow{footprint.moving, std::max<std::int64_t>(1, footprint.rate), {}});
    std::size_t uses = 0;
    for (const auto& share : footprint.shares) uses += loads(actor, share.way).size();
    flow.uses.reserve(uses);
    for (const auto& share : footprint.shares)
      for (const auto& load : loads(actor, share.way))
        flow.uses.push_back({load.resource, share.weight * load.parts, Wide{share.hold} * load.parts});
  }
}

bool overloaded(const Prepared& graph, const Demands& demands, const Timeline& timeline) {
  return Sweep(graph, demands, timeline).run();
}

}  // namespace rehearsal::engine
