// Hanayo (arXiv 2308.15762): the model is folded over the ranks in W waves, down and up again each, so that a
// micro-batch comes by every rank 2W times and fills the gaps that a single pass would leave.
//
// The paper draws its orders and gives no rule for them, and no public generator was found. This one builds an order
// greedily on a clock where a forward takes 1 and a backward 2, the ratio of the paper's figures, and transfers
// nothing: a free rank runs the oldest backward that has arrived, else the oldest forward, else (on rank 0) starts a
// new micro-batch while fewer than a bound are under way. Arrivals from one neighbour are taken in the order in which
// it sent them, so that the order also runs without buffers. The paper's runs have p micro-batches, and all of them fit
// under way at once; with more, the bound decides between idle time and memory: of five from p to 2p the one with the
// least cost on that clock is taken, among those whose peak keeps the memory limit if there is one. Real times play no
// part.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

class Waves {
 public:
  Waves(const Problem& problem, std::uint32_t bound)
      : problem_(problem), bound_(bound), ranks_(problem.ranks), programs_(problem.ranks) {
    for (auto& program : programs_) program.reserve(std::size_t(problem.microbatches) * problem.chunks * 2);
  }

  void run() {
    const std::uint64_t actions = std::uint64_t(problem_.microbatches) * problem_.stages() * 2;
    for (std::uint64_t now = 0; done_ < actions; ++now) {
      for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        if (ranks_[r].busy && ranks_[r].until == now) finish(r);
      for (std::uint32_t r = 0; r < ranks_.size(); ++r)
        if (!ranks_[r].busy) start(r, now);
    }
  }

  std::uint64_t cost() const {
    std::uint64_t cost = 0;
    for (const Rank& rank : ranks_) cost = std::max(cost, rank.until - rank.first);
    return cost;
  }
  double peak_memory() const {
    double peak = 0;
    for (const Rank& rank : ranks_) peak = std::max(peak, rank.peak_memory);
    return peak;
  }
  std::vector<std::vector<Action>> programs() && { return std::move(programs_); }

 private:
  enum Source : std::uint8_t { above, below, itself };  // the neighbour before, the one after
  struct Rank {
    bool busy = false;
    std::uint64_t first = 0, until = 0;  // start of its first action, end of its last
    double memory = 0, peak_memory = 0;
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
    } else if (r == 0 && next_ < problem_.microbatches && under_way_ < bound_) {
      action = {next_++, 0, Op::forward};
      ++under_way_;
    } else {
      return;
    }
    if (programs_[r].empty()) rank.first = now;
    programs_[r].push_back(action);
    rank.memory += (action.op == Op::forward ? 1 : -1) * problem_.activation[action.stage];
    rank.peak_memory = std::max(rank.peak_memory, rank.memory);
    rank.busy = true;
    rank.until = now + (action.op == Op::forward ? 1 : 2);
  }

  const Problem& problem_;
  std::uint32_t bound_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Action>> programs_;
  std::uint32_t next_ = 0, under_way_ = 0;
  std::uint64_t done_ = 0;
};

void check_waves(const Problem& problem) {
  const std::uint32_t chunks = problem.chunks;
  if (chunks % 2 != 0)
    throw UserError(fmt::format(
        "schedule hanayo: a wave passes every rank twice, so {} chunks per rank are not whole waves; set chunks to {}",
        chunks, chunks + 1));
  if (problem.waves && *problem.waves != chunks / 2)
    throw UserError(fmt::format("schedule hanayo: {} waves take {} chunks per rank, not {}; give only one of the two",
                                *problem.waves, 2 * std::uint64_t(*problem.waves), chunks));
}

Planned plan(const Problem& problem) {
  std::optional<Waves> best;
  double least = 0;  // memory that some bound gets along with
  for (std::uint32_t quarter = 0; quarter <= 4; ++quarter) {
    const auto bound = std::uint32_t(problem.ranks + (std::uint64_t(problem.ranks) * quarter + 3) / 4);
    Waves waves(problem, bound);
    waves.run();
    least = quarter == 0 ? waves.peak_memory() : std::min(least, waves.peak_memory());
    if (problem.memory_limit && waves.peak_memory() > *problem.memory_limit) continue;
    if (!best || waves.cost() < best->cost()) best.emplace(std::move(waves));
  }
  if (!best)
    throw UserError(fmt::format(
        "schedule hanayo: no order it can build stays within the memory limit of {:g}; set the limit to {:g} or more",
        *problem.memory_limit, least));
  return {std::move(*best).programs(), std::nullopt, std::nullopt};
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
                .plan = plan});
}

}  // namespace rehearsal::schedule
