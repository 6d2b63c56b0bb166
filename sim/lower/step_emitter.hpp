// What a pipeline rank does when the schedule says "forward of micro-batch 3", and the memory that it holds for it:
// operators of a framework (framework_emitter.cpp) or native kernels on exact buffers (native_emitter.cpp).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lower/rank_program.hpp"
#include "lower/step_end.hpp"
#include "plan/state_policy.hpp"

namespace rehearsal::lower {

// The program under construction, shared by the code for the schedule and the code for the passes.
struct ProgramDraft {
  const Pipeline& pipe;
  graph::GraphBuilder& works;
  graph::ProgramBuilder& program;
  Ends& ends;

  std::uint32_t group_end(Axis axis) { return ends.group(axis, program); }
  // Whether other ranks compute gradients of the same parameters: of experts, or of all others.
  bool replicated(Axis replicas = Axis::data) const {
    if (!pipe.plan) return false;
    return pipe.plan->replicas(replicas) > 1;
  }
  // Among the ranks along an axis, on the lane of data parallelism.
  LocalTask collective(graph::Collective what, Axis along, const graph::Coordinates& at,
                       std::span<const LocalTask> after, std::span<const graph::BufferUse> uses = {}) {
    what.group = pipe.plan->group(along);
    return program.add({works.intern(what), graph::Lane::data_comm, at, group_end(along)}, after, uses);
  }
  LocalTask data_collective(CollectiveKind kind, Bytes size, const graph::Coordinates& at,
                            std::span<const LocalTask> after, std::span<const graph::BufferUse> uses = {},
                            std::uint32_t tensors = 1, Precision precision = Precision::fp32,
                            Axis replicas = Axis::data) {
    const auto along = kind == CollectiveKind::all_reduce ? replicas : pipe.plan->shared_along(replicas);
    const auto done = collective({kind, size, {}, tensors, precision}, along, at, after, uses);
    if (kind != CollectiveKind::reduce_scatter || along == replicas) return done;
    // What each shard has summed, the copies of it add up.
    const auto copies = works.intern(sum_of_copies(*pipe.plan, size, tensors));
    return program.add({copies, graph::Lane::data_comm, at, group_end(Axis::copy)}, std::vector{done});
  }
};

class StepEmitter {
 public:
  virtual ~StepEmitter() = default;
  // Creates resident buffers. `stages` of the rank, ascending; `last_gradient`: by stage, the micro-batch whose
  // gradient comes last.
  virtual void begin(const std::vector<std::uint32_t>& stages,
                     const std::map<std::uint32_t, std::uint32_t>& last_gradient) = 0;
  // One pass of one stage; returns its last task. `last_gradient`: no gradient of the stage comes after it.
  virtual LocalTask pass(const graph::Coordinates& at, bool last_gradient, std::vector<LocalTask> after) = 0;
  // Messages of the stage at one of its edges, in the order of their list. take() returns what a pass waits for instead
  // of the receive of its input; relay(), what a relay waits for instead of the receive of its value (`taken`);
  // hand_over(), what the send of an output waits for instead of the pass.
  virtual LocalTask take(const graph::Coordinates&, const P2POp&, LocalTask receive) { return receive; }
  virtual LocalTask relay(const graph::Coordinates&, const P2POp&, LocalTask taken) { return taken; }
  virtual LocalTask hand_over(const graph::Coordinates&, const P2POp&, LocalTask done) { return done; }
  // Called instead of hand_over() when another rank already sends this value.
  virtual void drop(const graph::Coordinates&, const P2POp&) {}
  // finish_norms() follows the passes that only compute norms: all ranks learn the norm. forget() follows a second
  // forward, after which nothing needs what the first one of this micro-batch has kept.
  virtual void finish_norms() {}
  virtual void forget(const graph::Coordinates&) {}
  // After the last pass: reductions and the optimizer.
  virtual void finish_step() = 0;
};

std::unique_ptr<StepEmitter> framework_work(ProgramDraft& draft);
std::unique_ptr<StepEmitter> network_work(ProgramDraft& draft);

}  // namespace rehearsal::lower
