#include "answer/estimate.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "answer/simulated.hpp"

namespace rehearsal::answer {
namespace {

// The end of a rank whose last backward pass ends at `passes_end`: its parts on one lane, the reductions on the other.
Time overlapped_end(const lower::Lowering::End& end, const schedule::Problem& problem, Time passes_end,
                    const std::vector<Time>& durations) {
  Time clock = passes_end - problem.time({0, 0, schedule::Op::backward}), reduced = clock;
  for (const auto& part : end.last_backward) {
    clock += durations[part.backward.index()];
    for (const auto reduction : part.reductions) reduced = std::max(reduced, clock) + durations[reduction.index()];
  }
  return std::max(clock, reduced);
}

// Adds what every rank does after its passes. The two ends of a tied embedding synchronise once in between.
Time iteration(const schedule::Problem& problem, std::vector<Time> free, const lower::Lowering::End& end,
               const std::vector<Time>& durations) {
  if (!end.last_backward.empty()) free[0] = overlapped_end(end, problem, free[0], durations);

  Time meeting;
  const auto before_meeting = [&](const auto& tasks) {
    return std::find_if(tasks.begin(), tasks.end(), [](const auto& task) { return task.second; });
  };
  for (std::size_t r = 0; r < free.size(); r++) {
    const auto& tasks = end.ranks[r];
    const auto meets = before_meeting(tasks);
    for (auto task = tasks.begin(); task != meets; ++task) free[r] += durations[task->first.index()];
    if (meets != tasks.end()) meeting = std::max(meeting, free[r]);
  }
  Time last;
  for (std::size_t r = 0; r < free.size(); r++) {
    const auto& tasks = end.ranks[r];
    const auto meets = before_meeting(tasks);
    if (meets != tasks.end()) free[r] = meeting;
    for (auto task = meets; task != tasks.end(); ++task) free[r] += durations[task->first.index()];
    last = std::max(last, free[r]);
  }
  return last;
}

// A rank's work after its passes starts when its last task has ended or, if that is a message, when the message has
// arrived. Follows messages wire by wire, as the replay does.
class Sent {
 public:
  Sent(const schedule::Schedule& schedule, const schedule::Problem& problem) : up_(problem.stages()), down_(up_) {
    last_.resize(problem.ranks), wires_.resize(problem.ranks);
    auto edges = problem.edges;
    for (std::uint32_t s = 0; edges.empty() && s + 1 < problem.stages(); ++s)
      if (!schedule::last_of_chain(schedule.placement, problem, s))
        chain_.push_back({s, s + 1, problem.transfer[s], problem.held.empty() ? Time{} : problem.held[s],
                          problem.wire.empty() ? std::uint8_t{0} : problem.wire[s]});
    for (const auto& edge : edges.empty() ? chain_ : edges) {
      const auto rank = [&](std::uint32_t s) { return schedule::rank_of(schedule.placement, problem, s); };
      if (rank(edge.from) == rank(edge.to)) continue;
      up_[edge.from].push_back(edge), down_[edge.to].push_back(edge);
    }
  }
  void visit(const schedule::ReplayedAction& done) {
    using schedule::Op;
    auto& last = last_[done.rank];
    last = {};
    if (done.action.op == Op::weight_gradient) return;
    for (const auto& edge : (done.action.op == Op::forward ? up_ : down_)[done.action.stage]) {
      Time& wire = wires_[done.rank][edge.wire];
      const Time leaves = std::max(done.end, wire);
      wire = leaves + edge.held, last = leaves + edge.transfer;
    }
  }
  // Arrival of the message that ends a rank's program; 0 if another task ends it.
  Time last(std::uint32_t rank) const { return last_[rank]; }

 private:
  std::vector<schedule::Edge> chain_;
  std::vector<std::vector<schedule::Edge>> up_, down_;  // by stage: edges to other ranks
  std::vector<Time> last_;
  std::vector<std::array<Time, 2>> wires_;  // by rank: when each wire is free
};

// All replicas do the same work, and steps do not overlap.
bool is_regular(const scenario::Scenario& scenario) {
  return scenario.concrete && !scenario.optimizer_sync.post_validation && scenario.faults.empty() &&
         scenario.concrete->cluster.groups.empty();
}

}  // namespace

schedule::Replay passes(const scenario::Scenario& scenario, const StageCosts& staged) {
  const auto& problem = staged.problem;
  const auto schedule = schedule::planned(scenario.schedule.schedule(), problem);
  schedule::ReplayOptions options;
  if (staged.lowering.blocking_sends()) {
    options.transfers = schedule::Transfers::blocking;
    return schedule::replay(schedule, problem, options);
  }
  Sent sent(schedule, problem);
  options.visit = [&](const schedule::ReplayedAction& done) { sent.visit(done); };
  auto replay = schedule::replay(schedule, problem, options);
  for (std::uint32_t r = 0; r < problem.ranks; ++r) replay.end[r] = std::max(replay.end[r], sent.last(r));
  return replay;
}

std::optional<Time> with_step_ends(const scenario::Scenario& scenario, StageCosts& staged,
                                   const schedule::Replay& passes) {
  if (!is_regular(scenario)) return std::nullopt;
  const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem);
  if (!end) return std::nullopt;
  return iteration(staged.problem, passes.end, *end, staged.cost.price(staged.lowering.works()));
}

Estimate estimate(const scenario::Scenario& scenario) {
  if (is_regular(scenario)) {
    auto staged = stage(scenario);
    // Cases that need the graph are known before the walk.
    if (const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem))
      return {iteration(staged.problem, passes(scenario, staged).end, *end, staged.cost.price(staged.lowering.works())),
              false};
  }
  return {KnownSteps().iteration(scenario), true};
}

}  // namespace rehearsal::answer
