#include "search/bounds.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cost/device_memory.hpp"

namespace rehearsal::search {
namespace {

using schedule::Op;

// Bytes on the device of what a rank holds throughout.
double states(const plan::Plan& plan, const plan::Plan::Held& held) {
  const auto all = [](const plan::StateBytes& b) { return b.parameters + b.gradients + b.optimizer; };
  return held.dense * all(plan.resident_bytes(plan.replicas())) +
         held.experts * all(plan.resident_bytes(plan.expert_replicas()));
}

Bytes context(const scenario::Scenario& scenario) {
  const auto& c = *scenario.concrete;
  return cost::device_overhead(cost::context(c.cluster.gpu, c.software), 0);
}

// A copy of the plan under another setting, for its rules of who keeps what.
plan::Plan with_setting(plan::Plan plan, const scenario::Scenario& scenario) {
  plan.job.parallelism.zero = scenario.parallelism.zero;
  plan.job.training.offload = scenario.concrete->training.offload;
  return plan;
}

// The least that a backward of a stage takes, in one piece or two.
Time backward(const schedule::Schedule& schedule, const schedule::Problem& problem, std::size_t stage) {
  const auto s = static_cast<std::uint16_t>(stage);
  const Time whole = problem.time({0, s, Op::backward});
  if (!schedule.splits_backward) return whole;
  return std::min(whole, problem.time({0, s, Op::input_gradient}) + problem.time({0, s, Op::weight_gradient}));
}

}  // namespace

FamilyFloor family_floor(const Space& space, const Layout& family) {
  FamilyFloor floor;
  auto whole = family;
  whole.zero = 0, whole.offload = 0, whole.chunks = 1, whole.schedule = 0;
  auto s = space.scenario(whole);
  s.parallelism.pipeline = 1, s.schedule = {}, s.concrete->training.offload = {};
  s.concrete->partition = {};
  try {
    const auto staged = answer::stage(s);
    const auto& plan = *staged.lowering.plan();
    // Groups of another shape have other prices: nothing is known from here where the axes do not stand as usual.
    const auto real = plan::mesh_of(space.scenario(family).parallelism, s.placement);
    const bool alike = real.shape(Axis::tensor) == plan.mesh.shape(Axis::tensor) &&
                       real.shape(Axis::context) == plan.mesh.shape(Axis::context) &&
                       (!s.concrete->model.is_moe() || real.shape(Axis::expert) == plan.mesh.shape(Axis::expert));
    const Time once = staged.problem.forward[0] +
                      std::min(staged.problem.time({0, 0, Op::backward}),
                               staged.problem.input_gradient[0] + staged.problem.weight_gradient[0]);
    if (alike) floor.passes = Time(once.count() / family.pipeline * s.microbatches);
    const auto held = plan.held({0});
    double least = -1;
    for (const auto& setting : space.settings(family)) {
      auto layout = family;
      layout.zero = setting.zero, layout.offload = setting.offload;
      const double kept = states(with_setting(plan, space.scenario(layout)), held) / family.pipeline;
      if (least < 0 || kept < least) least = kept;
    }
    floor.device = bytes(std::max(least, 0.)) + context(s);
    floor.legal = true;
  } catch (const UserError&) {  // by rules that only a plan knows; the layouts themselves say why
  }
  return floor;
}

Time passes_floor(const schedule::Schedule& schedule, const schedule::Problem& problem) {
  const auto stages = problem.stages();
  const bool graph = !problem.edges.empty();  // who feeds whom is not a chain
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
    rank.busy += Time((problem.forward[s] + back).count() * microbatches);
    if (graph || schedule::first_of_chain(schedule.placement, problem, s)) head = tail = Time{};
    if (!rank.seen || head < rank.head) rank.head = head;
    if (!rank.seen || tail < rank.tail) rank.tail = tail;
    rank.seen = true;
    // A piece of a sequence goes on before the rest of it.
    if (schedule.cuts_sequences) continue;
    const Time transfer = s + 1 < stages && !graph &&
                                  schedule::rank_of(schedule.placement, problem, s) !=
                                      schedule::rank_of(schedule.placement, problem, s + 1)
                              ? problem.transfer[s]
                              : Time{};
    head += problem.forward[s] + transfer;
    // Of a split backward the weight gradient may come last, behind what it was waited for.
    if (!schedule.splits_backward) tail += back + transfer;
  }
  Time most;
  for (const auto& rank : ranks) most = std::max(most, rank.head + rank.busy + rank.tail);
  return most;
}

Bytes device_floor(const scenario::Scenario& scenario, const answer::Staged& staged, const schedule::Replay& passes) {
  const auto plan = with_setting(*staged.lowering.plan(), scenario);
  const auto& schedule = scenario.schedule.schedule();
  const auto& problem = staged.problem;
  // Checkpoints that are cut or on another tier are counted by nobody here.
  const bool activations = !plan.job.training.cuts_checkpoints() && !plan.job.training.leaves_device();
  double most = 0;
  for (std::uint32_t r = 0; r < problem.ranks; ++r) {
    std::vector<std::uint32_t> stages;
    for (std::uint32_t c = 0; c < problem.chunks; ++c)
      stages.push_back(schedule::stage_of(schedule.placement, problem, r, c));
    std::sort(stages.begin(), stages.end());
    most = std::max(most, states(plan, plan.held(stages)) + (activations ? passes.peak_memory[r] : 0));
  }
  return bytes(most) + context(scenario);
}

}  // namespace rehearsal::search
