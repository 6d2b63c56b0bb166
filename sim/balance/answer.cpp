#include "balance/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance/rebalance.hpp"
#include "balance/registry.hpp"
#include "balance/search/layers.hpp"
#include "base/error.hpp"

namespace rehearsal::balance {
namespace {

void check_previous(const Question& question, std::vector<Fault>& found) {
  const auto& problem = question.problem;
  const auto layers = problem.layers(), experts = problem.experts();
  if (question.previous.size() != std::size_t(layers) * problem.replicas) {
    found.push_back(
        {"previous", fmt::format("'phy2log' must hold {} layers of {} replicas each", layers, problem.replicas)});
    return;
  }
  for (std::uint32_t l = 0; l < layers; ++l) {
    std::vector<bool> seen(experts);
    for (std::uint32_t s = 0; s < problem.replicas; ++s) {
      const auto e = question.previous[std::size_t(l) * problem.replicas + s];
      if (e >= 0 && std::uint32_t(e) < experts) {
        seen[e] = true;
        continue;
      }
      found.push_back(
          {"previous", fmt::format("slot {} of layer {} holds expert {}, but there are {}", s, l, e, experts)});
      return;
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing == seen.end()) continue;
    found.push_back({"previous", fmt::format("layer {} has no copy of expert {}", l, missing - seen.begin())});
    return;
  }
}

class Planner {
 public:
  Planner(const Question& question, unsigned threads)
      : question_(question), method_(registry().at(question.method)), effort_(effort_within(question.time_limit)) {
    effort_.threads = threads;
  }

  // The placement for these loads, close to the one in use (which may be empty).
  Plan plan(const std::vector<Loads>& weights, const std::vector<std::int32_t>& in_use) const {
    Problem problem = question_.problem;
    problem.weights = weights;
    Plan fresh = method_.plan(problem, effort_);
    if (fresh.lower_bound.empty()) fresh.lower_bound = search::lower_bounds(problem);
    if (in_use.empty()) return fresh;
    const Shape shape = shape_of(problem);
    std::vector<std::int32_t> phy2log;
    for (std::uint32_t l = 0; l < problem.layers(); ++l) {
      const auto before = std::span(in_use).subspan(std::size_t(l) * shape.replicas, shape.replicas);
      const auto slots = rebalanced(shape, weights[l], before, fresh.placement.slots(l), question_.move_cost);
      phy2log.insert(phy2log.end(), slots.begin(), slots.end());
    }
    fresh.placement = placed(std::move(phy2log), problem.layers(), shape.experts);
    return fresh;
  }

 private:
  const Question& question_;
  const Method& method_;
  Effort effort_;
};

Moves total(const Question& question, const Shape& shape, const std::vector<std::int32_t>& before,
            const Placement& after) {
  Moves sum;
  for (std::uint32_t l = 0; l < after.layers; ++l) {
    const auto then = std::span(before).subspan(std::size_t(l) * shape.replicas, shape.replicas);
    const auto m = moves(shape, question.problem.nodes, then, after.slots(l));
    sum.replicas += m.replicas, sum.between_nodes += m.between_nodes;
  }
  return sum;
}

// Each GPU receives over two ports at once: from its own node, and from others.
std::optional<double> moving(const Question& question, const Shape& shape, const std::vector<std::int32_t>& before,
                             const Placement& after) {
  if (!question.in_node || question.bytes_per_expert == Bytes{}) return std::nullopt;
  std::vector<Moves> to(shape.gpus);
  for (std::uint32_t l = 0; l < after.layers; ++l) {
    const auto then = std::span(before).subspan(std::size_t(l) * shape.replicas, shape.replicas);
    const auto layer = moves_to_gpus(shape, question.problem.nodes, then, after.slots(l));
    for (std::uint32_t g = 0; g < shape.gpus; ++g)
      to[g].replicas += layer[g].replicas, to[g].between_nodes += layer[g].between_nodes;
  }
  const double expert = double(question.bytes_per_expert.count());
  const double inside = expert / question.in_node->value(),
               outside = expert / question.between_nodes.value_or(*question.in_node).value();
  double longest = 0;
  for (const auto& gpu : to)
    longest =
        std::max({longest, double(gpu.replicas - gpu.between_nodes) * inside, double(gpu.between_nodes) * outside});
  return longest;
}

std::optional<Held> held(const Question& question, const Shape& shape) {
  if (!question.serving) return std::nullopt;
  const auto& s = *question.serving;
  std::uint32_t slots = 0;
  for (std::uint32_t g = 0; g < shape.gpus; ++g) slots = std::max(slots, shape.slots(g));
  const double expert = s.expert * question.problem.layers();
  Held all{
      slots * expert, s.others, s.cache * s.tokens, (shape.replicas - shape.experts) * expert / shape.gpus, {}, {}};
  if (!s.memory) return all;
  const double memory = double(s.memory->count());
  all.fits = all.all() <= memory;
  if (s.cache > 0) all.tokens = std::max(0., std::floor((memory - all.experts - all.others) / s.cache));
  return all;
}

double mean(const Loads& of) { return std::accumulate(of.begin(), of.end(), 0.) / double(of.size()); }

void fill_layers(Answer& a, const Question& question, const std::vector<Loads>& weights,
                 const std::vector<std::int32_t>& before, const Loads& bounds) {
  const auto& shape = a.shape;
  for (std::uint32_t l = 0; l < weights.size(); ++l) {
    LayerBalance layer;
    layer.layer = l;
    layer.after = gpu_loads(shape, weights[l], a.placement.slots(l));
    layer.max_over_mean = max_over_mean(layer.after);
    layer.lower_bound = std::min(bounds[l], layer.max_over_mean);
    if (before.empty()) {
      layer.before = gpu_loads_in_order(shape, weights[l]);
    } else {
      const auto then = std::span(before).subspan(std::size_t(l) * shape.replicas, shape.replicas);
      layer.before = gpu_loads(shape, weights[l], then);
      layer.moves = moves(shape, question.problem.nodes, then, a.placement.slots(l));
    }
    layer.before_max_over_mean = max_over_mean(layer.before);
    a.layers.push_back(std::move(layer));
  }
}

std::vector<Loads> mean_of(const std::vector<std::vector<Loads>>& trace, std::size_t from, std::size_t to) {
  std::vector<Loads> mean = trace[from];
  for (auto t = from + 1; t < to; ++t)
    for (std::size_t l = 0; l < mean.size(); ++l)
      for (std::size_t e = 0; e < mean[l].size(); ++e) mean[l][e] += trace[t][l][e];
  for (auto& layer : mean)
    for (auto& w : layer) w /= double(to - from);
  return mean;
}

Answer follow(const Question& question, const Planner& planner) {
  Answer a;
  a.shape = shape_of(question.problem);
  auto plan = planner.plan(question.trace.front(), question.previous);
  const auto first = plan.placement;
  a.from_previous = !question.previous.empty();
  for (std::size_t t = 0; t < question.trace.size(); ++t) {
    TraceStep step;
    if (t == 0) {
      step.rebalanced = true;
      if (a.from_previous) {
        step.moves = total(question, a.shape, question.previous, plan.placement);
        a.moving = step.moving = moving(question, a.shape, question.previous, plan.placement);
      }
    } else if (question.every && t % question.every == 0) {
      const auto in_use = plan.placement.phy2log;
      const std::size_t window = question.window ? question.window : question.every;
      const auto seen = mean_of(question.trace, t - std::min(t, window), t);
      Loads uneven;
      for (std::uint32_t l = 0; l < first.layers; ++l)
        uneven.push_back(max_over_mean(gpu_loads(a.shape, seen[l], plan.placement.slots(l))));
      step.rebalanced = mean(uneven) >= question.threshold;
      if (step.rebalanced) {
        plan = planner.plan(seen, in_use);
        step.moves = total(question, a.shape, in_use, plan.placement);
        step.moving = moving(question, a.shape, in_use, plan.placement);
        if (step.moving) a.moving = a.moving.value_or(0) + *step.moving;
      }
    }
    a.moves.replicas += step.moves.replicas, a.moves.between_nodes += step.moves.between_nodes;
    for (std::uint32_t l = 0; l < first.layers; ++l) {
      const auto& weights = question.trace[t][l];
      step.max_over_mean.push_back(max_over_mean(gpu_loads(a.shape, weights, plan.placement.slots(l))));
      step.kept_max_over_mean.push_back(max_over_mean(gpu_loads(a.shape, weights, first.slots(l))));
    }
    if (question.layer_time > Time{})
      a.saved = a.saved.value_or(0) + (mean(step.kept_max_over_mean) - mean(step.max_over_mean)) * first.layers *
                                          to_seconds(question.layer_time);
    a.steps.push_back(std::move(step));
  }
  a.placement = std::move(plan.placement);
  // The last placement was made from loads other than those of the last step, so the bound uses the latter alone.
  Problem last = question.problem;
  last.weights = question.trace.back();
  fill_layers(a, question, question.trace.back(), first.phy2log, search::lower_bounds(last));
  return a;
}

}  // namespace

std::vector<Fault> faults(const Question& question) {
  const auto* method = registry().find(question.method);
  INVARIANT(method, "the method is known by now");
  auto found = faults(question.problem, method->even);
  for (std::size_t t = 0; t < question.trace.size() && found.empty(); ++t) {
    Problem step = question.problem;
    step.weights = question.trace[t];
    if (step.layers() != question.problem.layers() || step.experts() != question.problem.experts())
      found.push_back(
          {"trace", fmt::format("step {} has {} layers of {} experts, but step 0 has {} of {}", t, step.layers(),
                                step.experts(), question.problem.layers(), question.problem.experts())});
    else
      for (const auto& fault : faults(step, method->even))
        found.push_back({"trace", fmt::format("step {}: {}", t, fault.rule)});
  }
  if (found.empty() && !question.previous.empty()) check_previous(question, found);
  return found;
}

Answer answer(const Question& question, unsigned threads) {
  std::vector<Diagnostic> wrong;
  for (const auto& fault : faults(question)) wrong.push_back({{}, fmt::format("'{}': {}", fault.key, fault.rule)});
  if (!wrong.empty()) throw UserError(std::move(wrong));
  const Planner planner(question, threads);
  Answer a;
  if (!question.trace.empty()) {
    a = follow(question, planner);
  } else {
    const auto plan = planner.plan(question.problem.weights, question.previous);
    a.shape = shape_of(question.problem);
    a.placement = plan.placement;
    a.from_previous = !question.previous.empty();
    if (a.from_previous) {
      a.moves = total(question, a.shape, question.previous, a.placement);
      a.moving = moving(question, a.shape, question.previous, a.placement);
    }
    fill_layers(a, question, question.problem.weights, question.previous, plan.lower_bound);
  }
  a.held = held(question, a.shape);
  a.moved_bytes = Bytes(static_cast<std::int64_t>(a.moves.replicas) * question.bytes_per_expert.count());
  return a;
}

}  // namespace rehearsal::balance
