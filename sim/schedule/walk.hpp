// Runs the programs of all ranks side by side, each until it must wait for another, and checks that they are legal.
// Shared by replay (arrival times) and the zero-buffer check (channels), which say through `Rules` what waiting means.
//
// State: one coroutine and one pending action per rank, two bits per (stage, micro-batch). Ranks take turns of at most
// kTurn actions, so what one rank sends ahead of its reader stays short even when the program allows it to run far
// ahead. The result does not depend on the turns: ranks meet only through what they send. `schedule` and `problem` are
// borrowed and must outlive the walk; `problem` has passed check().
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/stage_graph.hpp"

namespace rehearsal::schedule {

class Walk {
 public:
  Walk(const Schedule& schedule, const Problem& problem);

  // Rules::step(rank, action) either performs the action and returns true, or returns false because something that
  // another rank sends has not arrived; whoever delivers it calls wake(). Rules::step_pair(rank, forward, backward)
  // does the same with an overlapped pair. Throws UserError for an illegal order or when ranks are left waiting.
  template <class Rules>
  void run(Rules& rules) {
    for (std::uint32_t rank = 0; rank < cursors_.size(); ++rank) enqueue(rank);
    while (queued_ > 0) {
      const std::uint32_t rank = dequeue();
      if (turn(rules, rank, cursors_[rank])) enqueue(rank);
    }
    finish();
  }

  // Something for (stage, micro-batch) has reached `rank`: an activation if `forward`, else a gradient.
  void wake(std::uint32_t rank, std::uint32_t stage, std::uint32_t microbatch, bool forward) {
    Cursor& cursor = cursors_[rank];
    if (!cursor.waiting) return;
    const Action& head = cursor.program.value();
    if ((head.stage != stage || head.microbatch != microbatch || (head.op == Op::forward) != forward) && !cursor.paired)
      return;
    cursor.waiting = false;
    enqueue(rank);
  }
  // Something has changed that the rank may or may not be waiting for.
  void wake_any(std::uint32_t rank) {
    if (!cursors_[rank].waiting) return;
    cursors_[rank].waiting = false;
    enqueue(rank);
  }

  std::uint32_t rank_of(std::uint32_t stage) const { return places_[stage].rank; }
  const StageGraph& graph() const { return graph_; }
  // Whether what goes over an edge changes its rank.
  bool crosses(const Edge& edge) const { return rank_of(edge.from) != rank_of(edge.to); }
  std::uint64_t actions() const { return actions_; }

  // "schedule 1f1b: rank 2, cell 17 (2B3)", to begin an error message about the pending action of a rank.
  std::string where(std::uint32_t rank) const;

 private:
  static constexpr int kTurn = 64;

  struct Cursor {
    Order program;           // its value is the pending action, read in place: copies of what was just written stall
    std::uint64_t cell = 0;  // of the pending action, from 0
    bool pending = false, waiting = false, ended = false;
    bool paired = false;  // pending are `first` and the program's value, overlapped
    Action first;
  };

  struct Place {
    std::uint32_t rank = 0;
    // A forward (gradient) here needs more of its own rank than what its cell has been through.
    bool forward_needs_own = false, gradient_needs_own = false;
  };
  static_assert(sizeof(Place) == 8);

  // How far one micro-batch is on one stage. B goes from forwarded to done.
  enum Progress : std::uint8_t { kNothing, kForwarded, kInputGradient, kDone };

  // Runs a rank until it waits, ends, or its turn is over (true).
  template <class Rules>
  bool turn(Rules& rules, std::uint32_t rank, Cursor& cursor) {
    for (int n = 0; n < kTurn; ++n) {
      if (!cursor.pending && !cursor.program.next()) return cursor.ended = true, false;
      const Action& action = cursor.program.value();
      if (action.overlaps_next || cursor.paired) [[unlikely]] {
        if (!pair(rules, rank, cursor)) return false;
        continue;
      }
      if (!legal(rank, action)) illegal(rank);
      cursor.pending = true;
      if (!rules.step(rank, action)) return cursor.waiting = true, false;
      cursor.pending = false;
      done(action);
      ++cursor.cell;
      ++actions_;
    }
    return true;
  }

  // Runs an overlapped pair; false: it must wait.
  template <class Rules>
  [[gnu::noinline]] bool pair(Rules& rules, std::uint32_t rank, Cursor& cursor) {
    if (!cursor.paired) {
      cursor.first = cursor.program.value();
      cursor.pending = true;
      if (!legal(rank, cursor.first)) illegal(rank);
      if (!cursor.program.next()) unpaired(rank, nullptr);
      cursor.paired = true;
    }
    const Action& first = cursor.first;
    const Action& second = cursor.program.value();
    const bool backward = second.op == Op::backward || second.op == Op::input_gradient;
    if (first.op != Op::forward || !backward || second.overlaps_next) unpaired(rank, &second);
    if (!legal(rank, second)) illegal(rank);
    if (!rules.step_pair(rank, first, second)) return cursor.waiting = true, false;
    cursor.pending = cursor.paired = false;
    done(first);
    done(second);
    ++cursor.cell;
    actions_ += 2;
    return true;
  }

  void done(const Action& action) {
    static constexpr std::array<Progress, 4> kAfter{kForwarded, kInputGradient, kDone, kDone};
    set_progress(action, kAfter[static_cast<std::size_t>(action.op)]);
  }

  bool legal(std::uint32_t rank, const Action& action) const {
    static constexpr std::array<Progress, 4> kBefore{kNothing, kForwarded, kInputGradient, kForwarded};
    if (action.stage >= places_.size() || action.microbatch >= microbatches_) return false;
    const Place& place = places_[action.stage];
    if (place.rank != rank || progress(action.stage, action.microbatch) != kBefore[static_cast<std::size_t>(action.op)])
      return false;
    if (place.forward_needs_own && action.op == Op::forward) return own_rank_ready(action);
    if (place.gradient_needs_own && (action.op == Op::input_gradient || action.op == Op::backward))
      return own_rank_ready(action);
    return true;
  }
  // Has the same rank run what this forward or gradient needs of a neighbouring stage and of other pieces?
  bool own_rank_ready(const Action& action) const {
    if (pieces_ > 1 && !pieces_in_order(action)) return false;
    return !missing(action, false);
  }
  // The first stage of the same rank, or of any, that has not run what this forward or gradient needs of it.
  std::optional<std::uint32_t> missing(const Action& action, bool of_any_rank) const {
    const bool forward = action.op == Op::forward;
    for (const auto& edge : forward ? graph_.into(action.stage) : graph_.out_of(action.stage)) {
      const auto other = forward ? edge.from : edge.to;
      const auto now = progress(other, action.microbatch);
      if ((of_any_rank || !crosses(edge)) && (forward ? now == kNothing : now < kInputGradient)) return other;
    }
    if (forward || !of_any_rank) return std::nullopt;
    for (const auto& edge : graph_.turned_into(action.stage))
      if (progress(edge.from, action.microbatch) == kNothing) return edge.from;
    return std::nullopt;
  }
  // Attention looks back: a piece needs the keys and values of the piece before it, and adds to their gradient before
  // that piece can be gone through backwards.
  bool pieces_in_order(const Action& action) const {
    const std::uint32_t piece = action.microbatch % pieces_;
    if (action.op == Op::forward) return piece == 0 || progress(action.stage, action.microbatch - 1) != kNothing;
    if (action.op == Op::weight_gradient || piece + 1 == pieces_) return true;
    return progress(action.stage, action.microbatch + 1) >= kInputGradient;
  }
  [[noreturn]] void illegal(std::uint32_t rank) const;  // says why the pending action is not legal
  [[noreturn]] void unpaired(std::uint32_t rank, const Action* second) const;
  void finish() const;

  Progress progress(std::uint32_t stage, std::uint32_t microbatch) const {
    return Progress(progress_[stage * row_ + microbatch / 16] >> (microbatch % 16 * 2) & 3);
  }
  void set_progress(const Action& action, Progress to) {
    std::uint32_t& word = progress_[action.stage * row_ + action.microbatch / 16];
    const unsigned shift = action.microbatch % 16 * 2;
    word = (word & ~(3u << shift)) | unsigned(to) << shift;
  }

  // Each rank is queued at most once, so a ring of p entries is enough.
  void enqueue(std::uint32_t rank) {
    std::size_t tail = queue_head_ + queued_++;
    if (tail >= queue_.size()) tail -= queue_.size();
    queue_[tail] = rank;
  }
  std::uint32_t dequeue() {
    const std::uint32_t rank = queue_[queue_head_];
    if (++queue_head_ == queue_.size()) queue_head_ = 0;
    --queued_;
    return rank;
  }

  const Schedule& schedule_;
  std::uint32_t microbatches_;  // or pieces of them: numbers that every stage sees
  std::uint32_t pieces_;
  StageGraph graph_;
  std::vector<Place> places_;    // per stage
  std::vector<Cursor> cursors_;  // per rank
  std::size_t row_;              // words of progress per stage
  std::vector<std::uint32_t> progress_;
  std::vector<std::uint32_t> queue_;
  std::size_t queue_head_ = 0, queued_ = 0;
  std::uint64_t actions_ = 0;
};

}  // namespace rehearsal::schedule
