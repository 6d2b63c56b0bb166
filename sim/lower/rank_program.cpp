#include "lower/rank_program.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "lower/pass_tasks.hpp"

namespace rehearsal::lower {
namespace {

using graph::Coordinates;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;
using schedule::Op;

class RankLowering {
 public:
  RankLowering(const Pipeline& pipeline, std::uint32_t rank, graph::GraphBuilder& works)
      : pipe_(pipeline),
        rank_(rank),
        works_(works),
        program_("pipeline rank " + std::to_string(rank)),
        emitter_(pipeline.parts, pipeline.detail, works, program_) {}

  LoweredRank run() {
    const auto& placement = pipe_.schedule.placement;
    for (std::uint32_t c = 0; c < pipe_.problem.chunks; c++)
      stages_.push_back(schedule::stage_of(placement, pipe_.problem, rank_, c));
    std::sort(stages_.begin(), stages_.end());
    resident_states();

    std::map<std::uint32_t, std::uint32_t> last_gradient;  // per stage: the micro-batch whose gradient comes last
    for (auto order = pipe_.schedule.order(pipe_.problem, rank_); order.next();)
      if (makes_gradient(order.value())) last_gradient[order.value().stage] = order.value().microbatch;
    if (overlaps())
      for (const auto& [stage, microbatch] : last_gradient) emitter_.split(stage, microbatch);

    for (auto order = pipe_.schedule.order(pipe_.problem, rank_); order.next();) {
      const auto action = order.value();
      const auto is_last = [&](schedule::Action a) {
        return makes_gradient(a) && last_gradient[a.stage] == a.microbatch;
      };
      if (!action.overlaps_next) {
        send(action, compute(action, is_last(action), receive(action)));
        continue;
      }
      // One block: nothing of it begins before both inputs are there, no result leaves before its end.
      const bool whole = order.next();
      INVARIANT(whole, "a pair has two halves");
      const auto second = order.value();
      auto inputs = receive(action);
      for (const auto task : receive(second)) inputs.push_back(task);
      compute(action, is_last(action), std::move(inputs));
      const auto done = compute(second, is_last(second), {});
      send(action, done);
      send(second, done);
    }
    finish_step();
    return {std::move(program_).finish(), std::move(ends_)};
  }

 private:
  static bool makes_gradient(schedule::Action action) {
    return action.op == Op::weight_gradient || action.op == Op::backward;
  }

  // --- messages -----------------------------------------------------------------------------------------------------
  graph::EndpointId end(std::map<std::pair<std::uint32_t, MessageKind>, graph::EndpointId>& ends, std::uint32_t peer,
                        MessageKind kind, EndpointKind endpoint) {
    const auto [it, fresh] = ends.try_emplace({peer, kind});
    if (fresh) it->second = program_.endpoint(endpoint);
    return it->second;
  }

  // Activations move up the stages of a chain, gradients down it.
  struct Message {
    MessageKind kind;
    std::uint32_t peer;
    std::size_t hop;
  };
  std::optional<Message> input(schedule::Action action) const {
    if (action.op == Op::weight_gradient) return std::nullopt;
    const bool forward = action.op == Op::forward;
    return message(action, forward ? schedule::first_of_chain : schedule::last_of_chain, !forward);
  }
  std::optional<Message> output(schedule::Action action) const {
    if (action.op == Op::weight_gradient) return std::nullopt;
    const bool forward = action.op == Op::forward;
    return message(action, forward ? schedule::last_of_chain : schedule::first_of_chain, forward);
  }
  // With the stage above (or below), unless the chain ends here or the same rank holds both.
  std::optional<Message> message(schedule::Action action, decltype(schedule::first_of_chain)& ends, bool above) const {
    const auto& placement = pipe_.schedule.placement;
    if (ends(placement, pipe_.problem, action.stage)) return std::nullopt;
    const std::uint32_t low = above ? action.stage : action.stage - 1u;
    const auto peer = schedule::rank_of(placement, pipe_.problem, above ? low + 1 : low);
    if (peer == rank_) return std::nullopt;
    return Message{action.op == Op::forward ? MessageKind::activation : MessageKind::gradient, peer, low};
  }

  static Coordinates coordinates(schedule::Action action) {
    return {pass(action.op), action.stage, graph::kNoLayer, action.microbatch};
  }

  std::vector<LocalTask> receive(schedule::Action action) {
    const auto from = input(action);
    if (!from) return {};
    const auto endpoint = end(ends_.receives, from->peer, from->kind, EndpointKind::receive);
    return {
        program_.add({works_.intern(graph::Receive{}), Lane::receive, coordinates(action), endpoint.value, Bytes{}})};
  }

  LocalTask compute(schedule::Action action, bool last_gradient, std::vector<LocalTask> after) {
    const auto at = coordinates(action);
    if (last_gradient && overlaps()) return last_gradient_tasks(at, std::move(after));
    return emitter_.emit(at, std::move(after), tensor());
  }

  void send(schedule::Action action, LocalTask done) {
    const auto to = output(action);
    if (!to) return;
    const auto endpoint = end(ends_.sends, to->peer, to->kind, EndpointKind::send);
    const auto lane = pipe_.blocking_sends ? Lane::compute : Lane::send;
    program_.add({pipe_.hops[to->hop], lane, coordinates(action), endpoint.value, Bytes{}}, std::vector{done});
  }

  static Pass pass(Op op) {
    switch (op) {
      case Op::forward:
        return Pass::forward;
      case Op::input_gradient:
        return Pass::input_gradient;
      case Op::weight_gradient:
        return Pass::weight_gradient;
      case Op::backward:
        return Pass::backward;
    }
    return Pass::forward;
  }

  // --- data parallelism and the optimizer
  // -----------------------------------------------------------------------------
  bool replicated() const { return pipe_.plan && pipe_.plan->job.parallelism.data > 1; }
  bool overlaps() const { return replicated() && pipe_.plan->overlaps_gradients(); }
  bool sharded() const { return replicated() && pipe_.plan->job.parallelism.zero >= 1; }

  double gradient_bytes() const { return plan::state_bytes(pipe_.plan->job.training).gradients; }

  std::uint32_t group_end(std::optional<graph::EndpointId>& end) {
    if (!end) end = program_.endpoint(EndpointKind::group);
    return end->value;
  }
  std::optional<std::uint32_t> tensor() {
    if (!pipe_.plan || pipe_.plan->job.parallelism.tensor == 1 || pipe_.detail != Detail::operators)
      return std::nullopt;
    return group_end(ends_.tensor);
  }

  LocalTask data_collective(CollectiveKind kind, double size, const Coordinates& at, std::vector<LocalTask> after) {
    const auto work = works_.intern(graph::Collective{kind, bytes(size), pipe_.plan->data_group});
    return program_.add({work, Lane::data_comm, at, group_end(ends_.data), Bytes{}}, after);
  }
  LocalTask reduce(double parameters, const Coordinates& at, LocalTask after) {
    return data_collective(sharded() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                           parameters * gradient_bytes(), at, {after});
  }

  // The last micro-batch of a stage, part by part, so that the reduction of one part runs under the backward of the
  // next.
  LocalTask last_gradient_tasks(Coordinates at, std::vector<LocalTask> after) {
    const auto& uses = pipe_.parts.stages[at.stage].uses;
    LocalTask done;
    for (std::size_t i = uses.size(); i-- > 0;) {
      done = emitter_.emit_part(at, i, after, tensor());
      after.clear();
      const double parameters = pipe_.parts.parts[uses[i].part].parameters;
      if (parameters > 0)
        reduced_ = reduce(parameters, {Pass::gradient_reduce, at.stage, uses[i].layer, graph::kNoMicrobatch}, done);
    }
    return done;
  }

  void resident_states() {
    if (!pipe_.plan) return;
    parameters_ = pipe_.plan->parameters(stages_);
    const auto states = plan::state_bytes(pipe_.plan->job.training);
    const double shards = sharded() ? double(pipe_.plan->job.parallelism.data) : 1;
    program_.resident({bytes(parameters_ * states.parameters), graph::MemoryCategory::parameters});
    program_.resident({bytes(parameters_ * states.gradients), graph::MemoryCategory::gradients});
    program_.resident({bytes(parameters_ * states.optimizer / shards), graph::MemoryCategory::optimizer});
  }

  // After the last backward: reduce gradients, tie the embedding's two copies, step, gather the shards.
  void finish_step() {
    if (!pipe_.plan) return;
    const auto& plan = *pipe_.plan;
    const Coordinates at{Pass::gradient_reduce, static_cast<std::uint16_t>(stages_.front()), graph::kNoLayer,
                         graph::kNoMicrobatch};
    const auto with_pass = [&](Pass p) {
      auto c = at;
      c.pass = p;
      return c;
    };
    const LocalTask last(program_.size() - 1);
    if (replicated() && !overlaps()) reduced_ = reduce(parameters_, at, last);

    const bool first_stage = stages_.front() == 0, last_stage = stages_.back() + 1 == pipe_.problem.stages();
    if (plan.shares_embedding() && first_stage != last_stage) {
      const double size = double(models::vocabulary_slice(plan.job.model, plan.job.parallelism.tensor)) *
                          double(plan.job.model.hidden) * gradient_bytes();
      const auto work = works_.intern(graph::Collective{CollectiveKind::all_reduce, bytes(size), plan.embedding_group});
      reduced_ =
          program_.add({work, Lane::data_comm, with_pass(Pass::embedding_reduce), group_end(ends_.embedding), Bytes{}},
                       std::vector{reduced_.value_or(last)});
    }

    // Traffic of the update on this rank's shard; ZeRO-1 also copies between its flat shards and the parameters (6 B
    // each: read and write of fp16 parameters and gradients).
    const double shards = sharded() ? double(plan.job.parallelism.data) : 1;
    const double traffic = parameters_ * plan.job.software.optimizer_bytes / shards + (sharded() ? 6 * parameters_ : 0);
    const auto step = works_.intern(graph::OptimizerStep{parameters_ / shards, bytes(traffic)});
    const auto updated = program_.add({step, Lane::compute, with_pass(Pass::optimizer), graph::kNoEndpoint, Bytes{}},
                                      std::vector{reduced_.value_or(last)});
    if (sharded())
      data_collective(CollectiveKind::all_gather, parameters_ * plan::state_bytes(plan.job.training).parameters,
                      with_pass(Pass::parameter_gather), {updated});
  }

  const Pipeline& pipe_;
  std::uint32_t rank_;
  graph::GraphBuilder& works_;
  graph::ProgramBuilder program_;
  PassTasks emitter_;
  Ends ends_;
  std::vector<std::uint32_t> stages_;  // held by this rank, ascending
  double parameters_ = 0;
  std::optional<LocalTask> reduced_;  // the last task of the gradient reduction
};

}  // namespace

LoweredRank lower_rank(const Pipeline& pipeline, std::uint32_t rank, graph::GraphBuilder& builder) {
  return RankLowering(pipeline, rank, builder).run();
}

}  // namespace rehearsal::lower
