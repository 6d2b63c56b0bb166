#include "plan/routing.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "balance/answer.hpp"
#include "balance/placement.hpp"
#include "balance/problem.hpp"

namespace rehearsal::plan {
namespace {

using balance::Loads;
using models::Skew;

constexpr double kSearch = .05;  // seconds of search for a placement, counted in steps

// Of the busiest expert over the mean: a loss of balance leaves .72 and .52 above it (models of 1 and 3 billion
// parameters with 64 experts, arXiv 2408.15664, table 2: MaxVio over a validation set). The busiest experts are counted
// as neighbours on one rank, in place of the larger swings of single micro-batches, which the table does not give.
constexpr double kNaturalBusiest = 1 + (.72 + .52) / 2;

Loads by_power(std::size_t experts, double exponent) {
  Loads loads(experts);
  for (std::size_t e = 0; e < experts; ++e) loads[e] = std::pow(double(e + 1), -exponent);
  return loads;
}

// Zipf's law with the exponent at which the busiest expert has `busiest` times the mean.
Loads natural(std::size_t experts, double busiest) {
  double low = 0, high = 4;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (balance::max_over_mean(by_power(experts, middle)) < busiest ? low : high) = middle;
  }
  return by_power(experts, low);
}

// Loads of each layer of each step, as far as they are distinguished.
std::vector<std::vector<Loads>> loads_of(const models::ExpertSettings& settings, const models::Transformer& model) {
  const auto& skew = settings.skew;
  const auto experts = static_cast<std::size_t>(model.experts);
  Loads loads(experts, 1);
  switch (skew.kind) {
    case Skew::Kind::uniform:
      break;
    case Skew::Kind::natural:  // no expert gets more tokens than there are
      loads = natural(experts, std::min(kNaturalBusiest, double(experts) / double(model.experts_per_token)));
      break;
    case Skew::Kind::zipf:
      loads = by_power(experts, skew.zipf);
      break;
    case Skew::Kind::loads:
      loads = skew.loads;
      break;
    case Skew::Kind::trace:
      return skew.trace;
  }
  return {{loads}};
}

// Rows of the ranks over their mean, the busiest first.
using Ranks = std::vector<double>;

Ranks busiest_first(Loads loads) {
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(loads.size());
  for (double& load : loads) load = mean > 0 ? load / mean : 1;
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

// Where only the busiest is known: the others have as much as each other.
Ranks one_busiest(double most, std::uint32_t ranks) {
  Ranks all(ranks, (ranks - most) / (ranks - 1));
  all.front() = most;
  return all;
}

// Of all steps and layers, the mean of their busiest, of their second, and so on.
Ranks mean_of(const std::vector<Ranks>& all) {
  Ranks mean(all.front().size());
  for (const Ranks& one : all)
    for (std::size_t r = 0; r < mean.size(); ++r) mean[r] += one[r] / double(all.size());
  return mean;
}

// Of ranks whose experts have these loads. Without replicas experts may stay in place, so balancing never makes the
// busiest rank busier.
Ranks ranks_of(const Job& job, const std::vector<std::vector<Loads>>& steps) {
  const auto& settings = job.experts;
  const auto ranks = static_cast<std::uint32_t>(job.parallelism.expert);
  const auto experts = static_cast<std::uint32_t>(job.model.experts);
  std::vector<Ranks> in_order, all;
  const balance::Shape shape{false, experts, experts, 1, 1, ranks};
  for (const auto& step : steps)
    for (const auto& loads : step) in_order.push_back(busiest_first(balance::gpu_loads_in_order(shape, loads)));
  if (settings.balance == models::ExpertBalance::none) return mean_of(in_order);
  balance::Question question;
  question.problem = {
      steps.front(), experts + static_cast<std::uint32_t>(settings.redundant), 1, 1, ranks, balance::Policy::automatic};
  question.method = settings.balance == models::ExpertBalance::best ? "best" : "eplb";
  question.time_limit = seconds(kSearch);
  if (steps.size() > 1) question.trace = steps;
  question.every = static_cast<std::uint32_t>(settings.every.value_or(0));
  const auto answer = balance::answer(question);
  for (const auto& step : answer.steps)
    for (const double most : step.max_over_mean) all.push_back(one_busiest(most, ranks));
  if (answer.steps.empty())
    for (const auto& layer : answer.layers) all.push_back(busiest_first(layer.after));
  return settings.redundant > 0 ? mean_of(all) : std::min(mean_of(all), mean_of(in_order));
}

}  // namespace

models::Routed routing(const Job& job) {
  models::Routed routing;
  if (!job.model.is_moe()) return routing;
  const auto& settings = job.experts;
  routing.waits = !settings.capacity;
  routing.two_hop =
      job.framework.dispatcher != models::Dispatcher::nccl || settings.dispatch == models::Dispatch::two_hop;
  routing.most_domains = settings.limit_nodes.value_or(0);
  auto steps = loads_of(settings, job.model);
  double kept = 0, layers = 0;
  for (auto& step : steps)
    for (auto& loads : step) {
      const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(loads.size());
      for (auto& load : loads) {
        load = mean > 0 ? load / mean : 1;
        if (settings.capacity) load = std::min(load, *settings.capacity);
        kept += load / double(loads.size());
      }
      ++layers;
    }
  if (settings.capacity) routing.kept = kept / layers;
  routing.load = routing.kept;
  if (job.parallelism.expert == 1 || settings.skew.kind == Skew::Kind::uniform) return routing;
  routing.loads = ranks_of(job, steps);
  for (double& load : routing.loads) load *= routing.kept;
  routing.load = routing.loads.front();
  return routing;
}

}  // namespace rehearsal::plan
