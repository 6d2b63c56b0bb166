// Evaluates a single layout, and extracts the Pareto front of many.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.hpp"
#include "search/bounds.hpp"
#include "search/search.hpp"

namespace rehearsal::search {

double capacity(const Space& space, const Layout& layout) {
  const auto& file = space.file();
  return double(file.bases[layout.base].scenario.concrete->cluster.gpu.memory.count()) * (1 - file.space.margin);
}

std::vector<Found> front(const Space& space, const std::vector<Found>& found) {
  std::vector<Found> front;
  const auto goal = goal_of(space.file().space);
  const auto key = [&](const Found& f) {
    return std::tuple(f.step, f.device, space.gpus(f.layout), f.run ? f.run->cost.value_or(0) : 0,
                      f.run ? goal.worth(*f.run).value_or(0) : 0);
  };
  for (const auto& one : found) {
    const bool beaten = std::any_of(found.begin(), found.end(), [&](const Found& other) {
      const auto [t, m, g, c, w] = key(other);
      const auto [time, memory, gpus, cost, worth] = key(one);
      const bool no_worse = t <= time && m <= memory && g <= gpus && c <= cost && w <= worth;
      return no_worse && (key(other) != key(one) || other.layout < one.layout);
    });
    if (!beaten) front.push_back(one);
  }
  return front;
}

std::optional<Found> evaluate(const Space& space, const Layout& layout, std::string* why) {
  const auto no = [&](const std::string& reason) -> std::optional<Found> {
    if (why) *why = reason;
    return std::nullopt;
  };
  try {
    auto scenario = space.scenario(layout);
    scenario.simulate.detail = space.file().bases[layout.base].scenario.simulate.detail;
    const auto summary = answer::predict(scenario, answer::Options::summary_alone()).summary;
    for (const auto& tier : summary.tiers)  // tiers that are too small; the bytes on the device do not matter
      if (tier.fits == false) return no("what leaves the device does not fit where it goes");
    const Time step = summary.useful ? summary.useful->step : summary.iteration;
    return Found{layout, summary.iteration,    summary.iteration - summary.contention.value_or(Time{}),
                 step,   *summary.peak.device, space.runs().expected(layout.base, to_seconds(step), layout.data),
                 {}};
  } catch (const UserError& error) {
    return no(said(error));
  } catch (const InternalError& error) {
    // Among millions of layouts, one that meets an internal error must not stop the others.
    return no(fmt::format("internal error: {}; please report it", error.what()));
  }
}

}  // namespace rehearsal::search
