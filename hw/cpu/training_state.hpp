// A rank's state of training, apart from its memory: the initial content of its buffers, the micro-batch of a task, the
// steps taken by each segment, the place of the loss. Shared by the workers of a CPU and of a GPU.
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
  // Keeps a reference to the graph. Checks that there is at most one loss, a resident double.
  TrainingState(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options);

  // Provides the initial parameters and master copies; all other resident buffers start as zeros.
  using Fill = std::function<void(const Extent&, std::span<const std::byte>)>;
  void initialise(const Fill& fill) const;

  // The newest version of a segment's parameters, as this rank holds them.
  Extent held(std::size_t segment) const { return held(segment, segments()[segment].parameters); }
  // The master copy of the elements that this rank updates, if its optimizer keeps one.
  std::optional<Extent> master(std::size_t segment) const;
  // The first moment of the elements that this rank updates, if its optimizer keeps one.
  std::optional<Extent> moment(std::size_t segment) const;

  // Reports the rank's trained parameters, decoded from the bytes of its buffers.
  using Read = std::function<std::vector<std::byte>(const Extent&)>;
  void show_parameters(const Read& read, dispatch::Learned& learned) const;

  std::optional<BufferId> loss() const { return loss_; }

  // Index in the global batch of the micro-batch whose data the task uses.
  std::int64_t global_microbatch(LocalTask task) const;
  // The part of the sequences that a task sees: the rank's index in its context group, or the index of a piece.
  std::int64_t sequence_part(LocalTask task) const;

  // For an optimizer kernel about to run; valid until the next call. The steps of its segment before the one taken or
  // undone, and which of the e elements count for the norm of all gradients (no ranges: none). A rollback uses up no
  // gradients: the next step takes them again, and they count once.
  struct Update {
    std::size_t segment = 0;
    std::int64_t steps = 0;
    std::span<const kernels::Range> counted;
  };
  Update update(LocalTask task);
  // For a host step that takes the previous step's gradients: true the first time, when there are none yet.
  bool waits_for_gradients(LocalTask host_step);
  // Call after an AdamW step that left these moments, the `steps`-th of the segment, counting from 0. To first order an
  // error d in every gradient so far moves the step rate mhat / (s + eps), s = sqrt(vhat), by no more than
  //   d rate (1 + |mhat| / (s + eps)) / (s + eps),
  // because mhat is a mean of gradients and s a norm of them, both with weights that sum to one. Accumulates this
  // bound.
  void note_response(std::size_t segment, std::int64_t steps, std::span<const float> moments);
  // All ranges of a segment that update() can return.
  std::span<const kernels::Range> counted(std::size_t segment) const { return progress_[segment].counted; }

 private:
  struct Progress {
    std::vector<kernels::Range> counted = {};
    std::vector<float> response = {};  // note_response
    std::int64_t steps = 0;            // several per iteration if every backward updates
    bool again = false;                // the last one was a rollback
    bool updated = false;              // by this rank; otherwise by a server
    bool begun = false;                // waits_for_gradients
  };

  const std::vector<graph::Segment>& segments() const { return program_.segments; }
  Extent held(std::size_t segment, BufferId version) const;
  std::vector<float> initial(std::size_t segment) const;                       // of held()
  std::span<float> updated(std::size_t segment, std::span<float> held) const;  // the elements that this rank updates
  std::size_t segment_of(LocalTask optimizer) const;
  void note_loss(LocalTask task);
  void note_updates(LocalTask task);

  kernels::Range matrix_;  // range that the last update() returned
  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  backend::TrainingData learning_;
  std::function<std::uint32_t(RankId, LocalTask, std::uint32_t)> other_microbatch_;
  bool weights_;                    // whether weights are reported at the end
  std::vector<Progress> progress_;  // by segment
  std::optional<BufferId> loss_;
};

// Parameters as numbers, from their bytes (fp32 or bf16), and back, which rounds.
std::vector<float> decode(Precision precision, std::span<const std::byte> bytes);
std::vector<std::byte> encode(Precision precision, std::span<const float> values);

}  // namespace rehearsal::cpu
