#include "search/bounds.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "base/error.hpp"
#include "cost/device_memory.hpp"
#include "plan/partition.hpp"
#include "plan/state_policy.hpp"

namespace rehearsal::search {
namespace {

using schedule::Op;

// Bytes on the device that a rank holds throughout the step.
double states(const plan::Plan& plan, const plan::Plan::HeldParameters& held) {
  const bool frozen = !plan.learns_all();  // adapters are small, and this is a lower bound
  const auto all = [&](const plan::StateBytes& b) { return b.parameters + (frozen ? 0 : b.gradients + b.optimizer); };
  const auto stored = held.stored();
  return stored.dense * all(plan.resident_bytes(plan.shards())) +
         stored.experts * all(plan.resident_bytes(plan.expert_replicas()));
}

Bytes context(const scenario::Scenario& scenario) {
  const auto& c = *scenario.concrete;
  return cost::device_overhead(cost::context(c.cluster.gpu, c.framework), 0);
}

// A copy of the plan under another setting, to apply its rules of sharding.
plan::Plan with_setting(plan::Plan plan, const scenario::Scenario& scenario) {
  plan.job.parallelism.zero = scenario.parallelism.zero;
  // With a pipeline gradients may wait for the last micro-batch.
  plan.job.parallelism.pipeline = scenario.parallelism.pipeline;
  plan.job.training.offload = scenario.concrete->training.offload;
  return plan;
}

// Each work of a layer is rounded to a picosecond, in every micro-batch.
constexpr std::int64_t kRoundedPerLayer = 256;

// At least one of `ranks` ranks has this much or more.
Time share(Time all, std::int64_t ranks) { return Time(all.count() / ranks); }

std::vector<std::uint32_t> stages_on(const schedule::Schedule& schedule, const schedule::Problem& problem,
                                     std::uint32_t rank) {
  std::vector<std::uint32_t> stages;
  for (std::uint32_t c = 0; c < problem.chunks; ++c)
    stages.push_back(schedule::stage_of(schedule.placement, problem, rank, c));
  std::sort(stages.begin(), stages.end());
  return stages;
}

// The data lane of one rank, for layers alone. ZeRO-3 gathers the parameters of a layer for its forward and for its
// backward, and reduces its gradients, in each micro-batch. ZeRO-2 reduces in buckets: a single piece is a lower bound,
// because one message takes no longer than its parts. Anything uncertain counts as zero.
Lane lane_of(const plan::Plan& plan, const cost::CostModel& cost, const std::vector<std::uint32_t>& stages,
             std::int64_t over) {
  Lane lane;
  const auto& training = plan.job.training;
  const bool plain = !training.updates_at_once() && !training.offload.one_owner && training.offload.tiles <= 1;
  // Both copies on a rank share what is gathered.
  if (plan.zero() < 2 || !plain || plan.job.copies > 1) return lane;
  if (plan::state_policy(plan).reduces_last) return lane;  // once a step: little, and not counted
  // Nor what travels in fewer bits or among fewer GPUs.
  if (plan.gathered_again_over() > 0 || training.quantised_gathers || training.quantised_reductions) return lane;
  const auto bytes_of = plan::state_bytes(training);
  const auto price = [&](CollectiveKind kind, double size, const GroupShape& group, std::uint32_t tensors) {
    const graph::Work work = graph::Collective{kind, Bytes(static_cast<std::int64_t>(size)), group, tensors};
    return cost.price(std::span(&work, 1)).front();
  };
  const auto tensors = static_cast<std::uint32_t>(std::max<std::int64_t>(1, plan.job.framework.sharded_tensors));
  Time gathers, reduces;
  double dense = 0, experts = 0;  // bytes that ZeRO-2 reduces
  const auto& network = plan.network();
  std::vector<std::int64_t> layers(network.layers.size());
  for (const auto s : stages)
    for (std::int64_t l = 0; l < plan.stage(s).layers; ++l)
      layers[network.of_layer[std::size_t(plan.stage(s).first + l)]]++;
  for (std::size_t row = 0; row < layers.size(); ++row) {
    const auto& part = network.layers[row];
    const auto count = layers[row];
    if (count == 0) continue;
    const double own = part.parameters - part.expert_parameters;
    const bool several = plan.expert_replicas() > 1;
    const double shared = several ? part.expert_parameters : 0;
    const double own_learns = part.learning - part.expert_learning, shared_learns = several ? part.expert_learning : 0;
    dense += own_learns * double(count), experts += shared_learns * double(count);
    if (plan.zero() < 3) continue;
    const auto add = [&](double parameters, double learns, const GroupShape& group) {
      if (parameters <= 0) return;
      gathers += price(CollectiveKind::all_gather, parameters * plan.gathered_bytes(), group, tensors) * (2 * count);
      if (learns > 0)
        reduces += price(CollectiveKind::reduce_scatter, learns * bytes_of.gradients, group, tensors) * count;
    };
    add(own - (part.spared - part.expert_spared), own_learns, plan.group(plan.shared_along(Axis::data)));
    add(several ? shared - part.expert_spared : 0, shared_learns, plan.group(Axis::expert_data));
  }
  if (!training.reshards()) gathers = {};
  if (plan.zero() == 2) {
    const auto add = [&](double parameters, const GroupShape& group) {
      if (parameters > 0)
        reduces +=
            price(CollectiveKind::reduce_scatter, parameters / double(over) * bytes_of.gradients, group, 1) * over;
    };
    add(dense, plan.group(plan.shared_along(Axis::data))), add(experts, plan.group(Axis::expert_data));
  }
  const auto m = plan.job.microbatches;
  gathers = share(gathers * m, over), reduces = share(reduces * m, over);
  lane.all = gathers + reduces;
  const auto policy = plan::state_policy(plan);
  if (!policy.reduces_beside) lane.serial += reduces;
  if (!policy.gathers_beside) lane.serial += gathers;
  return lane;
}

// The minimum time of a stage's backward, whether or not it is split.
Time backward(const schedule::Schedule& schedule, const schedule::Problem& problem, std::size_t stage) {
  const auto s = static_cast<std::uint16_t>(stage);
  const Time whole = problem.time({0, s, Op::backward});
  if (!schedule.splits_backward) return whole;
  return std::min(whole, problem.time({0, s, Op::input_gradient}) + problem.time({0, s, Op::weight_gradient}));
}

}  // namespace

std::string said(const UserError& error) {
  return error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
}

answer::StageCosts stage_plain(scenario::Scenario scenario, const std::function<std::vector<Setting>()>& settings) {
  scenario.concrete->training.offload = {};
  scenario.parallelism.zero = 0;
  try {
    return answer::stage(scenario);
  } catch (const UserError& error) {
    for (const auto& setting : settings()) {
      if (setting.zero == scenario.parallelism.zero) continue;
      scenario.parallelism.zero = setting.zero;
      try {
        return answer::stage(scenario);
      } catch (const UserError&) {
      }
    }
    throw UserError(error);
  }
}

namespace {

FamilyPrices prices_of(const Space& space, const Layout& family, bool with_floors) {
  auto whole = family;
  whole.zero = 0, whole.offload = 0, whole.schedule = 0;
  auto s = space.scenario(whole);
  auto& c = *s.concrete;
  s.schedule = {};
  // Layers of one kind are equal: one of them and all the others together are sufficient.
  const auto layers = c.model.layers;
  const bool ends = c.model.family != models::Family::mlp;
  const bool one_kind = ends && layers > 1 && models::layer_table(c.model).rows.size() == 1;
  auto alone = one_kind ? std::vector<std::int64_t>{1, layers - 1} : std::vector<std::int64_t>(std::size_t(layers), 1);
  if (ends) alone.insert(alone.begin(), 0), alone.push_back(0);
  s.parallelism.pipeline = 1, s.parallelism.chunks = std::int64_t(alone.size());
  c.partition = {plan::Partition::Kind::listed, std::move(alone)};
  FamilyPrices prices;
  try {
    const auto staged = stage_plain(s, [&] { return space.settings(family); });
    const auto& plan = *staged.lowering.plan();
    prices.parts = staged.problem;
    Time once;
    std::vector<std::uint32_t> all;
    for (std::uint32_t part = 0; part < prices.parts.stages(); ++part) {
      const Time split = prices.parts.input_gradient[part] + prices.parts.weight_gradient[part];
      once += prices.parts.forward[part] + std::min(prices.parts.time({0, std::uint16_t(part), Op::backward}), split);
      all.push_back(part);
    }
    if (one_kind)
      for (auto* times : {&prices.parts.forward, &prices.parts.input_gradient, &prices.parts.weight_gradient,
                          &prices.parts.backward}) {
        auto& t = *times;
        if (!t.empty()) t.erase(t.begin() + 2), t.insert(t.begin() + 1, std::size_t(layers - 1), Time(t[1]));
      }
    const auto held = plan.held(all);
    // Groups of another shape have other prices, so there is no bound unless the axes are in their usual order.
    const bool alike = s.placement == plan::kUsualOrder;
    if (!alike) prices.parts = {};
    const auto orders = space.orders(family);
    const bool both_ways = std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
      return schedule::registry().at(space.schedules()[order.schedule]).placement == schedule::Placement::bidirectional;
    });
    if (alike) {
      const Time rounded((layers + 2) * kRoundedPerLayer);
      prices.each = std::max(Time{}, once - rounded);
      prices.compute = compute_of(space, family, prices.each);
    }
    if (!with_floors) return prices;
    for (const auto& setting : space.settings(family)) {
      auto layout = family;
      layout.zero = setting.zero, layout.offload = setting.offload;
      const auto under = with_setting(plan, space.scenario(layout));
      FamilyPrices::Floor floor{setting, {}, bytes(states(under, held) / family.pipeline) + context(s)};
      if (alike) {
        const auto lane = both_ways ? Lane{} : lane_of(under, staged.cost, all, family.pipeline);
        floor.iteration = std::max(prices.compute + lane.serial, lane.all);
      }
      prices.floors.push_back(floor);
    }
  } catch (const UserError& error) {
    prices.floors.clear(), prices.refused = said(error);
  }
  return prices;
}

}  // namespace

Time compute_of(const Space& space, const Layout& family, Time each) {
  return share(each * space.microbatches(family), family.pipeline);
}

FamilyPrices family_prices(const Space& space, const Layout& family) { return prices_of(space, family, true); }
FamilyPrices family_compute(const Space& space, const Layout& family) { return prices_of(space, family, false); }

std::optional<schedule::Problem> stages_of(const FamilyPrices& prices, const scenario::Scenario& scenario) {
  const auto& c = *scenario.concrete;
  const auto& schedule = scenario.schedule.schedule();
  // A searched schedule may place its stages differently from its declared placement.
  if (c.partition.kind == plan::Partition::Kind::balanced || schedule.plan || prices.parts.forward.empty())
    return std::nullopt;
  const bool both_ways = schedule.placement == schedule::Placement::bidirectional;
  const auto& p = scenario.parallelism;
  std::vector<std::string> ignored;
  const auto layers =
      plan::deal_layers(c.model.layers, p.stages() / (both_ways ? 2 : 1), c.partition, ignored, c.model.mtp_layers);
  const bool ends = c.model.family != models::Family::mlp;
  schedule::Problem problem;
  problem.ranks = std::uint32_t(p.pipeline), problem.chunks = std::uint32_t(p.chunks);
  problem.microbatches = std::uint32_t(scenario.microbatches());
  for (int copy = 0; copy < (both_ways ? 2 : 1); ++copy) {
    std::size_t part = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      auto count = std::size_t(layers[s]);
      if (ends) count += (s == 0) + (s + 1 == layers.size());
      Time forward, input, weight, whole;
      for (; count > 0; --count, ++part) {
        forward += prices.parts.forward[part], input += prices.parts.input_gradient[part];
        weight += prices.parts.weight_gradient[part];
        whole += prices.parts.time({0, std::uint16_t(part), Op::backward});
      }
      problem.forward.push_back(forward), problem.input_gradient.push_back(input);
      problem.weight_gradient.push_back(weight), problem.backward.push_back(whole);
    }
  }
  problem.transfer.assign(problem.forward.size() - 1, Time{});
  return problem;
}

std::vector<Lane> lanes(const scenario::Scenario& scenario, const answer::StageCosts& staged) {
  const auto& plan = *staged.lowering.plan();
  std::vector<Lane> all;
  for (std::uint32_t r = 0; plan.zero() >= 2 && r < staged.problem.ranks; ++r)
    all.push_back(lane_of(plan, staged.cost, stages_on(scenario.schedule.schedule(), staged.problem, r), 1));
  return all;
}

Time passes_floor(const schedule::Schedule& schedule, const schedule::Problem& problem,
                  const std::vector<Lane>& lanes) {
  const auto stages = problem.stages();
  const bool graph = !problem.edges.empty();  // stages form a graph, not a chain
  const bool both_ways = schedule.placement == schedule::Placement::bidirectional;
  const std::int64_t microbatches = both_ways ? problem.microbatches / 2 : problem.microbatches;
  struct Rank {
    Time busy, head, tail;
    bool seen = false;
  };
  std::vector<Rank> ranks(problem.ranks);
  Time head, tail;
  for (std::uint32_t s = 0; s < stages; ++s) {
    auto& rank = ranks[schedule::rank_of(schedule.placement, problem, s)];
    const Time back = backward(schedule, problem, s);
    rank.busy += (problem.forward[s] + back) * microbatches;
    if (graph || schedule::first_of_chain(schedule.placement, problem, s)) head = tail = Time{};
    if (!rank.seen || head < rank.head) rank.head = head;
    if (!rank.seen || tail < rank.tail) rank.tail = tail;
    rank.seen = true;
    const Time transfer = s + 1 < stages && !graph &&
                                  schedule::rank_of(schedule.placement, problem, s) !=
                                      schedule::rank_of(schedule.placement, problem, s + 1)
                              ? problem.transfer[s]
                              : Time{};
    head += problem.forward[s] + transfer;
    // In a split backward the weight gradient may come last, after the part that others wait for.
    if (!schedule.splits_backward) tail += back + transfer;
  }
  Time most;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& rank = ranks[r];
    most = std::max(most, rank.head + rank.busy + rank.tail);
    if (!lanes.empty()) most = std::max({most, rank.head + rank.busy + lanes[r].serial, lanes[r].all});
  }
  return most;
}

Bytes device_floor(const scenario::Scenario& scenario, const answer::StageCosts& staged,
                   const schedule::Replay& passes) {
  const auto plan = with_setting(*staged.lowering.plan(), scenario);
  const auto& schedule = scenario.schedule.schedule();
  const auto& problem = staged.problem;
  // Partitioned or offloaded checkpoints are not counted here.
  const bool activations =
      !plan.job.training.cuts_checkpoints() && plan.job.training.offload.activations == graph::Tier::device;
  double most = 0;
  for (std::uint32_t r = 0; r < problem.ranks; ++r) {
    const auto stages = stages_on(schedule, problem, r);
    most = std::max(most, states(plan, plan.held(stages)) + (activations ? passes.peak_memory[r] : 0));
  }
  return bytes(most) + context(scenario);
}

}  // namespace rehearsal::search
