#include "search/search.hpp"

#include "search/best_first.hpp"

namespace rehearsal::search {
namespace {

// For a cluster on which nothing keeps to the limits: which cannot be met, and by how much. The cheapest layout in
// time, the fastest, or the cheapest of all; each misses by less than those behind it.
struct Miss {
  std::size_t relaxed = 0;
  Key key;
  Found found;
  friend bool operator<(const Miss& a, const Miss& b) {
    return a.relaxed != b.relaxed ? a.relaxed < b.relaxed : a.key < b.key;
  }
};
std::optional<Miss> miss(const Space& space, const Options& options, const Goal& goal, std::size_t cluster,
                         std::optional<Outcome::Nearest>& nearest) {
  auto other = options;
  other.best = other.proven = 1;
  std::vector<Goal> relaxed;
  if (goal.deadline_days && goal.budget) relaxed.push_back({Goal::Order::cost, goal.deadline_days, {}});
  relaxed.push_back({goal.deadline_days ? Goal::Order::days : Goal::Order::cost, {}, {}});
  for (std::size_t i = 0; i < relaxed.size(); ++i) {
    auto without = best_first(space, other, relaxed[i], cluster);
    nearest = without.nearest;
    if (without.top.empty()) continue;
    auto& found = without.top.front();
    const auto key = key_of(relaxed[i], space.gpus(found.layout), found.step, found.run);
    return Miss{i + (relaxed.size() == 1 ? 1 : 0), key, std::move(found)};
  }
  return std::nullopt;
}

}  // namespace

Outcome search(const Space& space, const Options& options) {
  const auto goal = goal_of(space.file().space);
  auto outcome = best_first(space, options, goal);
  const bool known = outcome.clusters.size() == space.clusters();
  if (!goal.limited() || outcome.stopped || !(known || outcome.top.empty())) return outcome;
  std::optional<Miss> least;
  std::optional<Outcome::Nearest> lacks_least;
  for (std::size_t c = 0; c < space.clusters(); ++c) {
    if (known && outcome.clusters[c].best) continue;
    std::optional<Outcome::Nearest> nearest;
    auto missed = miss(space, options, goal, c, nearest);
    if (known) outcome.clusters[c].nearest = missed ? std::nullopt : nearest;
    const auto lacks = [](const Outcome::Nearest& near) { return near.device - near.capacity; };
    if (nearest && (!lacks_least || lacks(*nearest) < lacks(*lacks_least))) lacks_least = nearest;
    if (!missed) continue;
    if (known) outcome.clusters[c].closest = missed->found;
    if (!least || *missed < *least) least = std::move(missed);
  }
  if (!outcome.top.empty()) return outcome;
  outcome.nearest = least ? std::nullopt : lacks_least;
  if (least) outcome.closest = std::move(least->found);
  return outcome;
}

}  // namespace rehearsal::search
