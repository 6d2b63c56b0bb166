#include "explore/deciding.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::explore {
namespace {

// What a number adds to ln(second / first) at an end of its range.
double moved(const Contender& of, Time iteration) {
  return std::log(iteration / of.asked.prediction->summary.iteration);
}

}  // namespace

std::vector<Deciding> deciding(const Contender& first, const Contender& second, double behind, unsigned jobs) {
  const auto one = uncertain(first.asked, first.width, jobs), other = uncertain(second.asked, second.width, jobs);
  const auto& a = *first.asked.prediction->scenario().concrete;
  const auto& b = *second.asked.prediction->scenario().concrete;
  const auto shared = [&](const std::string& key) {
    return key.starts_with("framework.") ? a.framework.name == b.framework.name : first.machine == second.machine;
  };
  const auto in = [](const std::vector<Uncertain>& all, const std::string& key) -> const Uncertain* {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& u) { return u.key == key; });
    return found == all.end() ? nullptr : &*found;
  };
  const double gap = std::log1p(behind);
  std::vector<Deciding> all;
  const auto add = [&](const Uncertain& u, Deciding::Of of, double at_low, double at_high) {
    const double nearer = -std::min(at_low, at_high);
    if (nearer > 0) all.push_back({u.key, u.value, u.help, of, u.width, u.assumed, std::expm1(nearer), nearer >= gap});
  };
  for (const auto& u : one) {
    const double low = -moved(first, u.low.iteration), high = -moved(first, u.high.iteration);
    const auto* too = shared(u.key) ? in(other, u.key) : nullptr;
    if (too)
      add(u, Deciding::Of::both, low + moved(second, too->low.iteration), high + moved(second, too->high.iteration));
    else
      add(u, shared(u.key) ? Deciding::Of::both : Deciding::Of::first, low, high);
  }
  for (const auto& u : other) {
    if (shared(u.key) && in(one, u.key)) continue;
    add(u, shared(u.key) ? Deciding::Of::both : Deciding::Of::second, moved(second, u.low.iteration),
        moved(second, u.high.iteration));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.moves > y.moves; });
  return all;
}

}  // namespace rehearsal::explore
