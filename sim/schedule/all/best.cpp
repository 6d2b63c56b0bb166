// The cheapest order that rules and searches find under a memory limit, over the placements of the chunks.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/search/beam.hpp"
#include "schedule/search/improve.hpp"
#include "schedule/search/orders.hpp"

namespace rehearsal::schedule {
namespace {

using search::Programs;

// Work of one answer in actions bounded (about 30 ns each) for beams and proofs, replayed for annealing: about a
// second. Without a limit the rules are good and the search only smooths them.
constexpr std::uint64_t kWork = 20'000'000, kWorkWithoutLimit = 100'000;
// Beyond that, the order of fewer micro-batches is repeated.
constexpr std::uint64_t kMostActions = 6'000;
constexpr std::uint32_t kSeed = 20240110;

struct Found {
  Programs ranks;
  Placement placement = Placement::loop;
  Time cost = Time(INT64_MAX);
};

// The rules that this schedule may choose from: one chain, a flush at the end of the step, whole micro-batches.
bool eligible(const Schedule& schedule, const Problem& problem) {
  const bool one_chain = schedule.placement == Placement::loop || schedule.placement == Placement::vee ||
                         schedule.placement == Placement::wave;
  return one_chain && !schedule.asynchrony && !schedule.cuts_sequences && schedule.min_chunks <= problem.chunks &&
         problem.chunks <= schedule.max_chunks && schedule.name != "best" && schedule.name != "exact";
}

Schedule fixed(const Programs& ranks, Placement placement) {
  Schedule schedule;
  schedule.name = "best";
  schedule.placement = placement;
  schedule.max_chunks = kMaxStages;
  schedule.splits_backward = true;
  schedule.order = [&ranks](const Problem&, std::uint32_t rank) -> Order {
    return [](const std::vector<Action>& program) -> Order {
      for (const Action& action : program) co_yield action;
    }(ranks[rank]);
  };
  return schedule;
}

bool within(const Problem& problem, const Replay& replay) {
  return std::all_of(replay.peak_memory.begin(), replay.peak_memory.end(),
                     [&](double peak) { return peak <= usable(problem.memory_limit); });
}

// The best of the rules that are legal here and keep the limit; the first of equals.
Found best_rule(const Problem& given) {
  Problem problem = given;
  problem.group.reset(), problem.extra_warmup.reset(), problem.time_limit.reset();
  Found best;
  const Schedule* winner = nullptr;
  Schedule ready;
  for (const auto& [name, schedule] : registry()) {
    if (!eligible(schedule, problem)) continue;
    try {
      Schedule candidate = planned(schedule, problem);
      const Replay result = replay(candidate, problem);
      if (!within(problem, result) || result.cost >= best.cost) continue;
      best.cost = result.cost;
      best.placement = candidate.placement;
      ready = std::move(candidate);
      winner = &schedule;
    } catch (const UserError&) {
      continue;  // not legal here
    }
  }
  if (winner == nullptr) return best;
  for (std::uint32_t r = 0; r < problem.ranks; ++r) {
    auto& program = best.ranks.emplace_back();
    for (Order order = ready.order(problem, r); order.next();) program.push_back(order.value());
  }
  return best;
}

// Every full backward as its two halves.
Programs halves(const Programs& ranks) {
  Programs result(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const Action& a : ranks[r]) {
      if (a.op != Op::backward) {
        result[r].push_back(a);
        continue;
      }
      result[r].push_back({a.microbatch, a.stage, Op::input_gradient});
      result[r].push_back({a.microbatch, a.stage, Op::weight_gradient});
    }
  return result;
}

class Search {
 public:
  Search(const Problem& problem, Placement placement, std::function<bool()> out_of_time, Found& best)
      : problem_(problem),
        placement_(placement),
        out_of_time_(std::move(out_of_time)),
        best_(best),
        model_(problem, placement),
        work_(thorough() ? kWork : kWorkWithoutLimit) {}

  // Returns a proven bound: `bound`, or a better one.
  Time run(Time bound) {
    const std::uint64_t actions = model_.actions();
    if (actions > kMostActions) {
      if (thorough() && open(bound)) take(repeated());
      return bound;
    }
    std::uint64_t spent = 0;
    const auto beam = [&](std::uint32_t width) {
      spent += search::beam_work(model_, width);
      if (open(bound) && spent <= work_) take(search::beam_search(model_, best_.cost.count(), {width, out_of_time_}));
    };
    const auto prove = [&](std::uint64_t work) {
      if (!open(bound)) return;
      // A dive to a complete order at least, and some choices taken back.
      const auto exact = search::branch_and_bound(model_, best_.cost.count(),
                                                  {.nodes = std::max(work / actions, thorough() ? 2 * actions : 0),
                                                   .horizon = search::horizon(model_),
                                                   .out_of_time = out_of_time_});
      take(exact);
      if (!search::full_backward_is_faster(problem_)) bound = std::max(bound, Time(exact.lower_bound));
    };
    for (std::uint32_t width : {1u, 4u, 16u}) beam(width);
    prove(work_ / 10);
    if (best_.placement == placement_ && !best_.ranks.empty() && open(bound))
      take(search::anneal(
          model_, halves(best_.ranks), best_.cost.count(),
          {.steps = work_ / actions, .seed = kSeed, .enough = bound.count(), .out_of_time = out_of_time_}));
    for (std::uint32_t width = 64; spent <= work_ && width <= 1024; width *= 4) beam(width);
    prove(work_ / 4);
    return bound;
  }

 private:
  bool thorough() const { return problem_.memory_limit || problem_.time_limit; }
  bool open(Time bound) const { return best_.cost > bound && !(out_of_time_ && out_of_time_()); }

  // Blocks of micro-batches one after the other, each as a search orders it alone: a block leaves no memory behind, and
  // its ranks begin as soon as they are done with the one before.
  Programs repeated() {
    const auto block = static_cast<std::uint32_t>(kMostActions / (3 * std::uint64_t(problem_.stages())));
    if (block < 4 * problem_.ranks) return {};  // filling and draining would cost more than a search gains
    Programs ranks(problem_.ranks), whole;
    for (std::uint32_t begin = 0; begin < problem_.microbatches; begin += block) {
      const std::uint32_t size = std::min(block, problem_.microbatches - begin);
      if (begin == 0 || size < block) whole = alone(size);
      if (whole.empty()) return {};
      for (std::uint32_t r = 0; r < problem_.ranks; ++r)
        for (Action a : whole[r]) ranks[r].push_back({begin + a.microbatch, a.stage, a.op});
    }
    return ranks;
  }

  Programs alone(std::uint32_t microbatches) {
    Problem part = problem_;
    part.microbatches = microbatches;
    Found found = best_rule(part);
    if (found.placement != placement_) found = {{}, placement_, Time(INT64_MAX)};
    Search(part, placement_, out_of_time_, found).run(search::lower_bound(part, placement_));
    return std::move(found.ranks);
  }

  void take(const search::Outcome& outcome) {
    if (!outcome.moves.empty()) take(search::programs(model_, outcome.moves));
  }

  void take(Programs ranks) {
    if (ranks.empty()) return;
    const Schedule candidate = fixed(ranks, placement_);
    const Time cost = replay(candidate, problem_).cost;
    if (cost >= best_.cost) return;
    // Two stages of one rank may share a channel: both ends must agree on the order of what passes through it.
    if (problem_.chunks > 1) try {
        check_zero_buffer(candidate, problem_);
      } catch (const UserError&) {
        return;
      }
    best_ = {std::move(ranks), placement_, cost};
  }

  const Problem& problem_;
  Placement placement_;
  std::function<bool()> out_of_time_;
  Found& best_;
  search::Model model_;
  std::uint64_t work_;
};

std::vector<Placement> placements(const Problem& problem) {
  if (problem.chunks == 1) return {Placement::loop};
  if (problem.chunks == 2) return {Placement::vee, Placement::loop};
  return {Placement::loop, Placement::wave};
}

Planned plan(const Problem& problem) {
  const auto out_of_time = search::deadline(problem.time_limit);
  Found best = best_rule(problem);
  Planned result;
  const std::uint64_t actions = std::uint64_t(problem.stages()) * problem.microbatches * 3;
  if (actions <= search::kMostBounded) {
    std::vector<std::pair<Placement, Time>> bounds;
    for (Placement placement : placements(problem))
      bounds.emplace_back(placement, search::lower_bound(problem, placement));
    for (auto& [placement, bound] : bounds) bound = Search(problem, placement, out_of_time, best).run(bound);
    const auto least = std::min_element(bounds.begin(), bounds.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    result.lower_bound = std::min(least->second, best.cost);
    result.optimal = best.cost <= *result.lower_bound;
  }
  INVARIANT(!best.ranks.empty(), "one micro-batch at a time is always legal");
  result.ranks = std::move(best.ranks);
  result.placement = best.placement;
  return result;
}

double least_limit(const Problem& problem) {
  double least = std::numeric_limits<double>::infinity();
  for (Placement placement : placements(problem)) least = std::min(least, search::least_limit(problem, placement));
  return least;
}

}  // namespace

void register_best(Registry& registry) {
  registry.add({.name = "best",
                .summary = "Cheapest order found under the memory limit: the best of all rules, then beam search, "
                           "annealing and branch and bound; two chunks per rank on a V or a loop.",
                .min_chunks = 1,
                .max_chunks = kMaxStages,
                .splits_backward = true,
                .check = [](const Problem& problem) { search::check_limit("best", problem, least_limit(problem)); },
                .plan = plan});
}

}  // namespace rehearsal::schedule
