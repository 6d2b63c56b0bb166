// What one rank knows while it trains, apart from its memory: what its buffers begin with, which micro-batch a task
// works on, how many steps each segment has taken, where the loss is. Workers of a CPU and of a GPU share it.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cpu/operands.hpp"
#include "dispatch/worker.hpp"
#include "kernels/call.hpp"

namespace rehearsal::cpu {

class TrainingState {
 public:
  // The graph outlives it. Checks that there is one loss at most, a resident double.
  TrainingState(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options);

  // Hands out what the parameters and their master copies begin with; all other residents begin as zeros.
  using Fill = std::function<void(const Extent&, std::span<const std::byte>)>;
  void initialise(const Fill& fill) const;

  // The parameters of a segment as this rank holds them: the newest version.
  Extent held(std::size_t segment) const { return held(segment, segments()[segment].parameters); }
  // The master copy of what this rank updates, where its optimizer keeps one.
  std::optional<Extent> master(std::size_t segment) const;
  // AdamW's two moments of what this rank updates, one behind the other.
  std::optional<Extent> moments(std::size_t segment) const;

  // Fills in what the rank has learned of its parameters, from the bytes of its buffers.
  using Read = std::function<std::vector<std::byte>(const Extent&)>;
  void show_parameters(const Read& read, dispatch::Learned& learned) const;

  std::optional<BufferId> loss() const { return loss_; }

  // Index, in the global batch, of the micro-batch whose data the task uses.
  std::int64_t global_microbatch(LocalTask task) const;
  // Which part of its sequences the task sees: the rank's place in its context group, or a piece of them.
  std::int64_t sequence_part(LocalTask task) const;

  // An optimizer kernel is about to run, until the next call: how many steps its segment has taken before the one that
  // is taken or undone, and which of the e elements count for the norm of all gradients (no ranges: none). A rollback
  // uses none up, and the step after it takes the same gradient again, which counts once.
  struct Update {
    std::size_t segment = 0;
    std::int64_t steps = 0;
    std::span<const kernels::Range> counted;
  };
  Update update(LocalTask task);
  // Of a step of the host that takes gradients of the step before: true the first time, when there are none.
  bool waits_for_gradients(LocalTask host_step);
  // An AdamW step has been taken with these moments, the `steps`-th of the segment, counting from 0. To first order an
  // error d in every gradient so far moves the step rate mhat / (s + eps), s = sqrt(vhat), by no more than
  //   d rate (1 + |mhat| / (s + eps)) / (s + eps),
  // because mhat is a mean of gradients and s a norm of them, both with weights that add up to one. Sums that up.
  void note_response(std::size_t segment, std::int64_t steps, std::span<const float> moments);
  // The most that update() can name of a segment.
  std::span<const kernels::Range> counted(std::size_t segment) const { return progress_[segment].counted; }

 private:
  struct Progress {
    std::vector<kernels::Range> counted = {};
    std::vector<float> response = {};  // note_response
    std::int64_t steps = 0;            // taken; several in an iteration where every backward updates
    bool again = false;                // a rollback was the last
    bool updated = false;              // by this rank; else a server does it
    bool begun = false;                // waits_for_gradients
  };

  const std::vector<graph::Segment>& segments() const { return program_.segments; }
  Extent held(std::size_t segment, BufferId version) const;
  std::vector<float> initial(std::size_t segment) const;                       // of held()
  std::span<float> updated(std::size_t segment, std::span<float> held) const;  // the elements that this rank updates
  std::size_t segment_of(LocalTask optimizer) const;
  void note_loss(LocalTask task);
  void note_updates(LocalTask task);

  kernels::Range matrix_;  // of what update() returned last
  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  backend::TrainingData learning_;
  std::function<std::uint32_t(RankId, LocalTask, std::uint32_t)> other_microbatch_;
  bool weights_;                    // are shown in the end
  std::vector<Progress> progress_;  // by segment
  std::optional<BufferId> loss_;
};

// Parameters as numbers, from the bytes that hold them (fp32 or bf16), and the way back, which rounds.
std::vector<float> decode(Precision precision, std::span<const std::byte> bytes);
std::vector<std::byte> encode(Precision precision, std::span<const float> values);

}  // namespace rehearsal::cpu
