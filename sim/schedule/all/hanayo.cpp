// Hanayo (arXiv 2308.15762): the model is folded over the ranks in W waves, down and up again each, so that a
// micro-batch comes by every rank 2W times and fills the gaps that a single pass would leave.
//
// The paper draws its orders and gives no rule for them, and no public generator was found. This one builds an order
// greedily on a clock where a forward takes 1 and a backward 2, the ratio of the paper's figures, and transfers
// nothing: a free rank runs the oldest backward that has arrived, else the oldest forward, else (on rank 0) starts a
// new micro-batch while fewer than p are under way, which keeps the peak at the p activations of 1F1B. Arrivals from
// one neighbour are taken in the order in which it sent them, so that the order also runs without buffers. Real times
// play no part.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

class Waves {
 public:
  explicit Waves(const Problem& problem) : problem_(problem), ranks_(problem.ranks), programs_(problem.ranks) {
    for (auto& program : programs_) program.reserve(std::size_t(problem.microbatches) * problem.chunks * 2);
  }

  std::vector<std::vector<Action>> run() && {
    const std::uint64_t actions = std::uint64_t(problem_.microbatches) * problem_.stages() * 2;
    for (std::uint64_t now = 0; done_ < actions; ++now) {
      for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        if (ranks_[r].busy && ranks_[r].until == now) finish(r);
      for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        if (!ranks_[r].busy) start(r, now);
    }
    return std::move(programs_);
  }

 private:
  enum Source : std::uint8_t { above, below, itself };  // the neighbour before, the one after
  struct Rank {
    bool busy = false;
    std::uint64_t until = 0;
    std::array<std::deque<Action>, 3> forwards, backwards;  // arrived, by source
  };

  std::uint32_t place(std::uint32_t stage) const { return rank_of(Placement::wave, problem_, stage); }

  void deliver(Action action, std::uint32_t from) {
    const std::uint32_t to = place(action.stage);
    const Source source = to == from ? itself : from < to ? above : below;
    auto& queues = action.op == Op::forward ? ranks_[to].forwards : ranks_[to].backwards;
    queues[source].push_back(action);
  }

  void finish(std::uint32_t r) {
    ranks_[r].busy = false;
    ++done_;
    const Action ended = programs_[r].back();
    const bool last = last_of_chain(Placement::wave, problem_, ended.stage);
    if (ended.op == Op::forward && last)
      deliver({ended.microbatch, ended.stage, Op::backward}, r);
    else if (ended.op == Op::forward)
      deliver({ended.microbatch, static_cast<std::uint16_t>(ended.stage + 1), Op::forward}, r);
    else if (ended.stage == 0)
      --under_way_;
    else
      deliver({ended.microbatch, static_cast<std::uint16_t>(ended.stage - 1), Op::backward}, r);
  }

  // The oldest micro-batch at the head of a queue; of one micro-batch, what came last down the pipeline cannot tie.
  static std::deque<Action>* oldest(std::array<std::deque<Action>, 3>& queues) {
    std::deque<Action>* best = nullptr;
    for (auto& queue : queues)
      if (!queue.empty() && (!best || queue.front().microbatch < best->front().microbatch)) best = &queue;
    return best;
  }

  void start(std::uint32_t r, std::uint64_t now) {
    Rank& rank = ranks_[r];
    std::deque<Action>* queue = oldest(rank.backwards);
    if (!queue) queue = oldest(rank.forwards);
    Action action;
    if (queue) {
      action = queue->front();
      queue->pop_front();
    } else if (r == 0 && next_ < problem_.microbatches && under_way_ < problem_.ranks) {
      action = {next_++, 0, Op::forward};
      ++under_way_;
    } else {
      return;
    }
    programs_[r].push_back(action);
    rank.busy = true;
    rank.until = now + (action.op == Op::forward ? 1 : 2);
  }

  const Problem& problem_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Action>> programs_;
  std::uint32_t next_ = 0, under_way_ = 0;
  std::uint64_t done_ = 0;
};

void check_waves(const Problem& problem) {
  const std::uint32_t chunks = problem.chunks;
  if (chunks % 2 != 0)
    throw UserError(
        fmt::format("schedule hanayo: a wave passes every rank twice, so {} chunks per rank are no waves; "
                    "set chunks to {}",
                    chunks, chunks + 1));
  if (problem.waves && *problem.waves != chunks / 2)
    throw UserError(fmt::format("schedule hanayo: {} waves take {} chunks per rank, not {}; give one of the two only",
                                *problem.waves, 2 * std::uint64_t(*problem.waves), chunks));
}

}  // namespace

void register_hanayo(Registry& registry) {
  registry.add({.name = "hanayo",
                .summary =
                    "The model folded over the ranks in waves, order built greedily on a unit clock: the paper gives "
                    "no rule (after Hanayo, arXiv 2308.15762).",
                .placement = Placement::wave,
                .min_chunks = 2,
                .max_chunks = kMaxStages,
                .check = check_waves,
                .plan = [](const Problem& problem) {
                  return Planned{Waves(problem).run(), std::nullopt, std::nullopt};
                }});
}

}  // namespace rehearsal::schedule
