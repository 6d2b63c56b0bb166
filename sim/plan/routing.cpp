#include "plan/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance/eplb.hpp"
#include "balance/placement.hpp"
#include "balance/problem.hpp"

namespace rehearsal::plan {
namespace {

using balance::Loads;
using models::Skew;

// Of each layer of each step that is told apart.
std::vector<std::vector<Loads>> loads_of(const models::ExpertSettings& settings, std::int64_t experts) {
  const auto& skew = settings.skew;
  Loads loads(static_cast<std::size_t>(experts), 1);
  switch (skew.kind) {
    case Skew::Kind::uniform:
      break;
    case Skew::Kind::zipf:
      for (std::size_t e = 0; e < loads.size(); ++e) loads[e] = std::pow(double(e + 1), -skew.zipf);
      break;
    case Skew::Kind::loads:
      loads = skew.loads;
      break;
    case Skew::Kind::trace:
      return skew.trace;
  }
  return {{loads}};
}

}  // namespace

models::Routing routing(const Job& job) {
  models::Routing routing;
  if (!job.model.is_moe()) return routing;
  const auto& settings = job.experts;
  routing.waits = !settings.capacity;
  routing.two_hop = job.software.dispatcher != models::Dispatcher::nccl ||
                    settings.dispatch == models::Dispatch::two_hop;
  routing.most_domains = settings.limit_nodes.value_or(0);
  const auto ranks = static_cast<std::size_t>(job.parallelism.expert);
  double busiest = 0, kept = 0, layers = 0;
  for (const auto& step : loads_of(settings, job.model.experts))
    for (auto loads : step) {
      const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(loads.size());
      double all = 0;
      for (auto& load : loads) {
        load = mean > 0 ? load / mean : 1;
        if (settings.capacity) load = std::min(load, *settings.capacity);
        all += load;
      }
      const balance::Shape shape{false, std::uint32_t(loads.size()), std::uint32_t(loads.size()), 1, 1,
                                 std::uint32_t(ranks)};
      const auto of_ranks = balance::gpu_loads_in_order(shape, loads);
      busiest += *std::max_element(of_ranks.begin(), of_ranks.end()) * double(ranks) / double(loads.size());
      kept += all / double(loads.size()), layers += 1;
    }
  routing.load = busiest / layers, routing.kept = kept / layers;
  return routing;
}

}  // namespace rehearsal::plan
