#include "lower/rank_program.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "lower/step_emitter.hpp"

namespace rehearsal::lower {
namespace {

using graph::Coordinates;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;
using schedule::Op;

class RankLowering {
 public:
  RankLowering(const Pipeline& pipeline, const RankClass& role, graph::GraphBuilder& works)
      : pipe_(pipeline),
        role_(role),
        rank_(role.stage),
        works_(works),
        program_("pipeline rank " + std::to_string(role.stage)),
        draft_{pipe_, works_, program_, ends_},
        work_(pipeline.parts.performed ? network_work(draft_) : framework_work(draft_)) {
    if (const auto parts = pipe_.plan ? pipe_.plan->vocabulary_parts() : 0; parts > 0)
      vocabulary_.emplace(pipe_.vocabulary, rank_, parts, pipe_.schedule.splits_backward, program_, ends_);
  }

  LoweredRank run() {
    const auto& placement = pipe_.schedule.placement;
    for (std::uint32_t c = 0; c < pipe_.problem.chunks; c++)
      stages_.push_back(schedule::stage_of(placement, pipe_.problem, rank_, c));
    std::sort(stages_.begin(), stages_.end());

    std::map<std::uint32_t, std::uint32_t> last_gradient;  // per stage: the micro-batch whose gradient comes last
    for (auto order = pipe_.schedule.order(pipe_.problem, rank_); order.next();)
      if (makes_gradient(order.value())) last_gradient[order.value().stage] = coordinates(order.value()).microbatch;
    work_->begin(stages_, last_gradient);

    for (auto left = pipe_.plan ? pipe_.plan->iterations() : 1; left > 0; --left) iteration(last_gradient);
    return {std::move(program_).finish(), std::move(ends_)};
  }

 private:
  void iteration(std::map<std::uint32_t, std::uint32_t>& last_gradient) {
    if (!pipe_.plan || !pipe_.plan->job.training.norms_first()) {
      passes(last_gradient, Turn::usual);
    } else {
      passes(last_gradient, Turn::norms);
      work_->finish_norms();
      if (!pipe_.plan->job.training.skipped) passes(last_gradient, Turn::updates);
    }
    work_->finish_step();
  }

  // With LOMO's gradient norm, a backward that computes the norm precedes the backward that updates (LOMO's grad_norm
  // and fused_backward). Autograd keeps the graph of the forward for it (retain_graph), but ZeRO-3 would not gather
  // parameters a second time for that graph: there all forwards are repeated, while the first graph is still held.
  enum class Turn : std::uint8_t { usual, norms, updates };

  void passes(std::map<std::uint32_t, std::uint32_t>& last_gradient, Turn turn) {
    turn_ = turn;
    bool forgotten = false;
    for (auto order = pipe_.schedule.order(pipe_.problem, rank_); order.next();) {
      const auto action = order.value();
      if (turn == Turn::updates && action.op == Op::forward && !forwards_again()) continue;
      if (turn == Turn::updates && action.op == Op::backward && forwards_again() && !std::exchange(forgotten, true))
        work_->forget({Pass::norm_backward, action.stage, graph::kNoLayer, action.microbatch});
      const auto is_last = [&](schedule::Action a) {
        return makes_gradient(a) && last_gradient[a.stage] == coordinates(a).microbatch;
      };
      if (!action.overlaps_next) {
        send(action, compute(action, is_last(action), receive(action)));
        continue;
      }
      // One block: it starts when both inputs have arrived, and no result leaves before its end.
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
  }
  // The native backward overwrites what its forward has kept.
  bool forwards_again() const { return plan::state_policy(*pipe_.plan).shards_parameters || pipe_.plan->performed(); }

  static bool makes_gradient(schedule::Action action) {
    return action.op == Op::weight_gradient || action.op == Op::backward;
  }

  // --- messages -----------------------------------------------------------------------------------------------------
  graph::EndpointId end(std::map<Ends::Peer, graph::EndpointId>& ends, const P2POp& p2p, MessageKind kind,
                        EndpointKind endpoint) {
    const auto [it, fresh] = ends.try_emplace({p2p.peer, kind, p2p.number});
    if (fresh) it->second = program_.endpoint(endpoint);
    return it->second;
  }

  // Calls `each` for the edges over which values enter or leave a pass. Activations move up the stages, gradients down,
  // over the same edges.
  template <class Each>
  void for_each_edge(schedule::Action action, bool enters, const Each& each) {
    if (action.op == Op::weight_gradient) return;
    const auto kind = action.op == Op::forward ? MessageKind::activation : MessageKind::gradient;
    const bool at_end = enters == (kind == MessageKind::activation);  // of the edges that end at the stage
    for (const auto& [number, at] : role_.edges) {
      const auto& edge = pipe_.transfers.edges()[number];
      if ((at_end ? edge.to : edge.from) != action.stage) continue;
      each((enters ? at.in : at.out)[static_cast<std::size_t>(kind)], kind);
    }
  }

  // Each direction of a bidirectional schedule numbers its own half of the micro-batches.
  Coordinates coordinates(schedule::Action action) const {
    const auto placement = pipe_.schedule.placement;
    const bool second = pipe_.plan && placement == schedule::Placement::bidirectional &&
                        action.stage >= schedule::chain_length(placement, pipe_.problem);
    const std::uint32_t offset = second ? pipe_.problem.microbatches / 2 : 0;
    if (turn_ == Turn::usual) return {pass(action.op), action.stage, graph::kNoLayer, action.microbatch + offset};
    const bool first = turn_ == Turn::norms, again = !first && forwards_again();
    return {first && action.op == Op::backward ? Pass::norm_backward : pass(action.op), action.stage, graph::kNoLayer,
            action.microbatch + (again && !pipe_.plan->performed() ? 1 : 0)};
  }

  // Receives the inputs, and relays some of them to other ranks at once, concurrent with computation.
  std::vector<LocalTask> receive(schedule::Action action) {
    std::vector<LocalTask> all;
    const auto at = coordinates(action);
    for_each_edge(action, true, [&](const std::vector<P2POp>& list, MessageKind kind) {
      std::vector<LocalTask> arrived(list.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto& p2p = list[i];
        if (p2p.what == P2POp::What::relay) {
          post(p2p, kind, at, work_->relay(at, p2p, arrived[*p2p.after]),
               p2p.leaves_domain ? Lane::relay_out : Lane::relay);
          continue;
        }
        const auto endpoint = end(ends_.receives, p2p, kind, EndpointKind::receive);
        const auto received = program_.add({works_.intern(graph::Receive{}), Lane::receive, at, endpoint.value});
        arrived[i] = work_->take(at, p2p, received);
        all.push_back(arrived[i]);
      }
    });
    return all;
  }

  LocalTask compute(schedule::Action action, bool last_gradient, std::vector<LocalTask> after) {
    const auto at = coordinates(action);
    if (vocabulary_) vocabulary_->before(at, after);
    const auto done = work_->pass(at, last_gradient, std::move(after));
    if (vocabulary_) vocabulary_->after(at, done);
    return done;
  }

  void send(schedule::Action action, LocalTask done) {
    const auto at = coordinates(action);
    for_each_edge(action, false, [&](const std::vector<P2POp>& list, MessageKind kind) {
      for (const auto& p2p : list)
        if (p2p.what == P2POp::What::drop)
          work_->drop(at, p2p);
        else
          post(p2p, kind, at, work_->hand_over(at, p2p, done), p2p.leaves_domain ? Lane::send_out : Lane::send);
    });
  }
  void post(const P2POp& p2p, MessageKind kind, const Coordinates& at, LocalTask after, Lane lane) {
    const auto endpoint = end(ends_.sends, p2p, kind, EndpointKind::send);
    program_.add({p2p.message, pipe_.blocking_sends ? Lane::compute : lane, at, endpoint.value}, std::vector{after});
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

  const Pipeline& pipe_;
  const RankClass& role_;
  std::uint32_t rank_;  // pipeline rank
  graph::GraphBuilder& works_;
  graph::ProgramBuilder program_;
  Ends ends_;
  ProgramDraft draft_;
  std::unique_ptr<StepEmitter> work_;
  std::optional<VocabularyMeetings> vocabulary_;
  Turn turn_ = Turn::usual;
  std::vector<std::uint32_t> stages_;  // held by this rank, ascending
};

}  // namespace

LoweredRank lower_rank(const Pipeline& pipeline, const RankClass& role, graph::GraphBuilder& builder) {
  return RankLowering(pipeline, role, builder).run();
}

}  // namespace rehearsal::lower
