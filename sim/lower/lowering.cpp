#include "lower/lowering.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/range.hpp"
#include "lower/gradient_buckets.hpp"
#include "lower/joined.hpp"
#include "lower/rank_program.hpp"
#include "lower/served.hpp"
#include "lower/step_end.hpp"
#include "plan/state_policy.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::lower {
namespace {

// Limit for an operator-level graph that the user did not ask for: some seconds of simulation.
constexpr std::uint64_t kMostFineTasks = 2'000'000;

// A task graph holds whole micro-batches and one update at the end of the step.
void refuse_what_runs_would_misstate(const schedule::Schedule& schedule, const schedule::Problem& problem,
                                     const plan::Plan* plan) {
  const bool native_kernels = plan && plan->performed();
  const auto refuse = [&](const char* why) {
    throw UserError("schedule " + schedule.name + " runs in `rehearse schedule` but not yet in `rehearse run`: " + why);
  };
  if (schedule.placement == schedule::Placement::bidirectional && native_kernels &&
      plan->job.training.updates_at_once())
    refuse("the gradients of its two copies meet at the end only; set training.optimizer to sgd");
  if (schedule.updates != schedule::Updates::at_flush && native_kernels) {
    if (plan->job.data_parallel.served()) refuse("workers of parameter servers step once; set schedule to 1f1b");
    if (plan->job.training.offload.states())
      refuse("old versions of the weights stay on the device; leave training.offload out");
    if (plan->zero() > 0) refuse("old versions of the weights are kept whole; set parallelism.zero to 0");
    if (plan->shares_embedding())
      refuse(
          "the two copies of a tied embedding would be updated at different times; set model.tie_embeddings to false");
    if (plan->job.training.updates_at_once())
      refuse("optimizer lomo has weights of one version only; set training.optimizer to sgd");
  }
  if (schedule.updates != schedule::Updates::at_flush && !native_kernels)
    refuse("it never ends a step, and a run is one step after the other; framework native fills and drains it once");
  if (schedule.splits_backward && plan && plan->job.training.norms_first())
    refuse("the norm of the gradients takes a backward of its own, which it does not divide; set schedule to 1f1b");
  if (schedule.placement == schedule::Placement::vocabulary && (!plan || plan->vocabulary_parts() == 0))
    refuse("given times name no vocabulary that ranks could share; give a model");
  if (!problem.overlapped.empty())
    refuse("a block shorter than its forward and its backward says nothing about their operators");
}

}  // namespace

Lowering::Lowering(plan::Plan plan, const std::vector<std::uint32_t>& stage_ranks)
    : parts_(model_parts(plan, builder_)),
      ranks_(static_cast<std::uint32_t>(plan.job.parallelism.pipeline)),
      chunks_(static_cast<std::uint32_t>(plan.job.parallelism.chunks)),
      microbatches_(static_cast<std::uint32_t>(plan.job.microbatches)),
      blocking_(plan.job.framework.blocking_sends) {
  INVARIANT(stage_ranks.size() == std::size_t(ranks_) * chunks_, "one rank per stage");
  auto edges = stage_edges(static_cast<std::uint32_t>(stage_ranks.size()), &plan);
  if (plan.laid_out()) {
    transfers_ = StageTransfers(std::move(edges), plan, builder_);
  } else {
    std::vector<StageTransfers::Straight> messages;
    for (const auto& edge : edges) {
      const auto hop = plan.hop(stage_ranks[edge.from], stage_ranks[edge.to]);
      const auto states = plan.carried(edge.from);
      const Bytes size(plan.message.count() * states), gathered(plan.message_gathered.count() * states);
      const auto message = builder_.intern(graph::Message{
          size, hop.from, hop.to, gathered, gathered > Bytes{} ? plan.group(Axis::tensor) : GroupShape{}});
      messages.push_back(
          {message, plan.machine->reach(hop.from, hop.to).leaves_domain, size.count(), plan.rank_layout.members(0)});
    }
    transfers_ = StageTransfers(std::move(edges), messages);
  }
  vocabulary_ = vocabulary_works(plan, builder_);
  plan_ = std::move(plan);
}

Lowering::Lowering(const GivenPipeline& pipeline)
    : parts_(given_parts(pipeline.stages, pipeline.pieces, builder_)),
      ranks_(pipeline.ranks),
      chunks_(pipeline.chunks),
      microbatches_(pipeline.microbatches),
      blocking_(pipeline.blocking_sends) {
  INVARIANT(pipeline.stages.size() == std::size_t(ranks_) * chunks_, "one entry per stage");
  const auto message = builder_.intern(graph::FixedDelay{pipeline.transfer});
  std::vector<StageTransfers::Straight> messages;
  auto edges = stage_edges(static_cast<std::uint32_t>(pipeline.stages.size()), nullptr);
  for (std::size_t s = 0; s < edges.size(); s++)
    messages.push_back({message, s < pipeline.leaves_domain.size() && pipeline.leaves_domain[s], 0, 1});
  if (!pipeline.edges.empty()) {
    edges.clear(), messages.clear();
    for (const auto& edge : pipeline.edges) {
      edges.push_back({edge.from, edge.to});
      messages.push_back({builder_.intern(graph::FixedDelay{edge.transfer}), edge.wire == 1, 0, 1});
    }
  }
  transfers_ = StageTransfers(std::move(edges), messages);
}

schedule::Problem Lowering::problem(std::span<const Time> durations, std::span<const Time> held) const {
  INVARIANT(durations.size() == works().size(), "one duration per work");
  schedule::Problem problem;
  problem.ranks = ranks_, problem.chunks = chunks_, problem.microbatches = microbatches_;
  for (const auto& stage : parts_.stages) {
    struct {
      Time forward, input, weight, full;
    } times;
    double activation = 0, hold = 0;
    for (std::uint32_t unit = 0; unit < stage.uses.size() * parts_.pieces; unit++) {
      using enum models::PassKind;
      const Part& part = parts_.of(stage.uses[unit / parts_.pieces], unit);
      const auto add = [&](Time& time, models::PassKind pass) {
        time = sum(time, durations[part.of(pass).whole.index()]);
      };
      add(times.forward, forward), add(times.input, input_gradient);
      add(times.weight, weight_gradient), add(times.full, backward);
      activation += double(part.activation.count());
      hold += double(part.weight_hold.count());
    }
    if (stage.keeps_output) activation += double(stage.output.count()) * parts_.pieces;
    problem.forward.push_back(times.forward);
    problem.input_gradient.push_back(times.input);
    problem.weight_gradient.push_back(times.weight);
    problem.backward.push_back(times.full);
    problem.activation.push_back(activation);
    problem.weight_hold.push_back(hold);
  }
  const auto& edges = transfers_.edges();
  if (is_graph(edges) || edges.size() + 1 < parts_.stages.size()) {
    problem.transfer.resize(parts_.stages.size() - 1);
    for (std::size_t e = 0; e < edges.size(); e++) {
      const auto times = transfers_.times(e, durations, held);
      problem.edges.push_back({edges[e].from, edges[e].to, times.transfer, held.empty() ? Time{} : times.held,
                               std::uint8_t{times.leaves_domain}});
    }
    if (plan_ && plan_->vocabulary_parts() > 0) {
      const auto takes = [&](WorkId work) { return durations[work.index()]; };
      for (const auto& edge :
           vocabulary_edges(ranks_, takes(vocabulary_.in), takes(vocabulary_.sums), takes(vocabulary_.out)))
        problem.edges.push_back(edge);
    }
    return problem;
  }
  for (std::size_t s = 0; s < edges.size(); s++) {
    const auto times = transfers_.times(s, durations, held);
    problem.transfer.push_back(times.transfer);
    if (held.empty()) continue;
    problem.held.push_back(times.held);
    problem.wire.push_back(times.leaves_domain ? 1 : 0);
  }
  return problem;
}

std::optional<Lowering::End> Lowering::step_ends(const schedule::Schedule& schedule, const schedule::Problem& problem) {
  refuse_what_runs_would_misstate(schedule, problem, plan_ ? &*plan_ : nullptr);
  End end;
  end.ranks.resize(ranks_);
  if (!plan_) return end;
  const auto policy = plan::state_policy(*plan_);
  const bool replicated = plan_->replicas() > 1,
             overlapped = policy.reduce == plan::StatePolicy::Reduce::under_backward;
  if (plan_->performed() || plan::passes_in_parts(*plan_) || parts_.pieces > 1 || plan_->job.training.norms_first())
    return std::nullopt;
  if (plan_->laid_out() || plan_->job.training.leaves_device()) return std::nullopt;
  if (plan_->vocabulary_parts() > 0) return std::nullopt;  // its ranks meet on lanes of their own
  if (plan_->job.data_parallel.served()) return std::nullopt;
  if (plan_->job.copies > 1) return std::nullopt;  // ranks of both directions wait for each other there
  if (overlapped && plan_->fuses_gradients()) return std::nullopt;
  if (policy.gather == plan::StatePolicy::Gather::under_forward) return std::nullopt;
  if (overlapped && (problem.stages() > 1 || schedule.splits_backward)) return std::nullopt;
  if (overlapped) end.last_backward = last_backward();
  for (std::uint32_t r = 0; r < ranks_; r++) {
    std::vector<std::uint32_t> stages;
    for (std::uint32_t c = 0; c < chunks_; c++) stages.push_back(schedule::stage_of(schedule.placement, problem, r, c));
    std::sort(stages.begin(), stages.end());
    for (const auto& task : step_end(*plan_, stages, overlapped || !replicated))
      end.ranks[r].emplace_back(task.intern(builder_), task.group == Axis::pipeline);
  }
  return end;
}

// A single stage, split into tasks as framework_emitter.cpp does.
std::vector<Lowering::End::LastPart> Lowering::last_backward() {
  std::vector<End::LastPart> parts;
  GradientBuckets buckets(*plan_, parts_, plan_->job.model.tie_embeddings);
  const auto& uses = parts_.stages.front().uses;
  const auto backward = [&](std::size_t i) { return parts_.parts[uses[i].part].of(models::PassKind::backward).whole; };
  for (std::size_t i = uses.size(); i-- > 0;) {
    auto& part = parts.emplace_back(End::LastPart{backward(i), {}});
    const auto reduce = [&](double parameters, bool experts) {
      const auto sum = gradient_reduction(*plan_, parameters, replicas(experts));
      part.reductions.push_back(builder_.intern(sum));
      if (plan_->copies_states() && sum.kind == CollectiveKind::reduce_scatter)
        part.reductions.push_back(builder_.intern(sum_of_copies(*plan_, sum.size)));
    };
    for (const auto& share : buckets.add(uses[i]))
      if (share.full) reduce(share.bucket, share.experts);
    for (const bool experts : {false, true})
      if (const double rest = i == 0 ? buckets.close(experts) : 0; rest > 0) reduce(rest, experts);
  }
  return parts;
}

Time Lowering::time(ModelPart part, std::size_t stage, std::span<const Time> durations) const {
  const auto at = parts_.layouts[parts_.stages[stage].layout][part];
  INVARIANT(at < parts_.parts.size(), "a model has this part");
  Time sum;
  for (std::uint32_t piece = 0; piece < parts_.pieces; piece++)
    for (const auto pass : {models::PassKind::forward, models::PassKind::backward})
      sum += durations[parts_.parts[at + piece].of(pass).whole.index()];
  return sum;
}

Lowered Lowering::lower(const schedule::Schedule& schedule, const schedule::Problem& problem,
                        const Options& options) && {
  refuse_what_runs_would_misstate(schedule, problem, plan_ ? &*plan_ : nullptr);
  schedule::check(schedule, problem);
  const auto ready = schedule::planned(schedule, problem);  // searches once for the check and the programs
  schedule::check_zero_buffer(ready, problem);
  if (!plan_ || !plan_->laid_out()) {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t s = 0; s < problem.stages(); s++)
      ranks.push_back(schedule::rank_of(ready.placement, problem, s));
    transfers_.seat(ranks);
  }
  const plan::Plan* plan = plan_ ? &*plan_ : nullptr;
  const bool shares = plan && options.shares;
  const auto build = [&](Detail detail, graph::GraphBuilder builder, std::optional<std::uint32_t> classes) {
    std::vector<LoweredRank> ranks;
    std::uint64_t tasks = 0;
    for (const auto& role : transfers_.roles()) {
      const Pipeline pipeline{
          parts_, plan ? &plan->of(role.stage) : nullptr, ready, problem, transfers_, vocabulary_, blocking_, detail};
      ranks.push_back(lower_rank(pipeline, role, builder));
      tasks = std::max<std::uint64_t>(tasks, ranks.back().program.size());
    }
    if (classes && tasks * *classes > kMostFineTasks) return std::optional<Lowered>();
    auto joined = options;
    joined.detail = detail;
    const bool served = plan && plan->job.data_parallel.served();
    auto resource_map = served ? join_served(std::move(ranks.front()), *plan, joined, builder)
                               : join(std::move(ranks), transfers_, plan, joined, builder);
    return std::optional(Lowered{std::move(builder).finish(), std::move(resource_map), detail});
  };
  const auto detail = plan && plan->job.training.offload.tiles > 1 ? Detail::operators : options.detail;
  auto lowered = *build(detail, builder_, std::nullopt);
  if (detail == Detail::operators || !shares || lowered.resource_map->classes_in_groups == 0) return lowered;
  auto fine = build(Detail::operators, std::move(builder_), lowered.resource_map->classes_in_groups);
  return fine ? *std::move(fine) : lowered;
}

}  // namespace rehearsal::lower
