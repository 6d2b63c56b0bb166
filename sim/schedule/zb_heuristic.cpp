#include "schedule/zb_heuristic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"

namespace rehearsal::schedule {
namespace {

struct Settings {
  bool bubble_before_first_backward, backward_first, always_fill;
};

constexpr Settings settings(std::size_t index) { return {index / 4 == 0, index / 2 % 2 == 0, index % 2 == 0}; }

// What does not change between the settings.
struct StageCosts {
  Time forward, input, weight;
  Time hop_down, hop_up;  // transfer to the stage before and to the stage after
  double activation, hold;
  double grows;  // net memory that a backward adds, if its weight gradient holds more than the backward frees
  double limit;
};

// One stage while its program grows.
struct Stage {
  Time end;     // of its last action
  Time bubble;  // waits since its first forward
  std::uint32_t forwards = 0, backwards = 0, weights = 0;
  std::uint8_t* next = nullptr;  // of its program
};

// One setting from begin to end.
class Builder {
 public:
  Builder(const std::vector<StageCosts>& costs, std::uint32_t microbatches)
      : costs_(costs),
        m_(microbatches),
        stages_(costs.size()),
        needs_(costs.size()),
        row_(microbatches + kCacheLine),
        forward_ends_(costs.size() * row_),
        program_(costs.size() * microbatches * 3) {}

  // The forwards that each stage adds to its first one before its first backward; to be called before run.
  const std::vector<std::uint32_t>& plan_warm_up(bool bubble_allowed);
  Time run(Settings how);

  // Of the last run: did backward_first (the value of always_fill) ever make a difference?
  bool backward_came_first() const { return backward_came_first_; }
  bool fill_was_open() const { return fill_was_open_; }
  const std::vector<std::uint8_t>& program() const { return program_; }  // 3m operations of each stage

 private:
  // All stages are at about the same micro-batch. Rows a power of two apart would share a few lines of the cache.
  static constexpr std::size_t kCacheLine = 64 / sizeof(Time);

  std::size_t p() const { return costs_.size(); }
  Time forward_end(std::size_t j, std::uint32_t k) const { return forward_ends_[j * row_ + k]; }

  // Memory of stage j with one more forward, with one more backward. From the counts, so that no rounding adds up.
  double with_forward(std::size_t j) const {
    const Stage& stage = stages_[j];
    return double(stage.forwards + 1 - stage.backwards) * costs_[j].activation +
           double(stage.backwards - stage.weights) * costs_[j].hold;
  }
  double with_backward(std::size_t j) const { return with_forward(j) - 2 * costs_[j].activation + costs_[j].hold; }

  void record(Stage& stage, Op op) { *stage.next++ = static_cast<std::uint8_t>(op); }

  // Runs an action that may start at `ready`, and accounts for the wait.
  void advance(Stage& stage, Time ready, Time duration) {
    if (ready > stage.end) {
      if (stage.forwards > 0) {
        stage.bubble += ready - stage.end;
        largest_bubble_ = std::max(largest_bubble_, stage.bubble);
      }
      stage.end = ready;
    }
    stage.end += duration;
  }

  // When the next forward (the next backward) of a stage can start, given its neighbour's results.
  Time forward_ready(std::size_t j) const {
    return j == 0 ? Time() : forward_end(j - 1, stages_[j].forwards) + costs_[j].hop_down;
  }
  Time backward_ready(std::size_t j) const { return j + 1 == p() ? Time() : backward_end_ + costs_[j].hop_up; }

  void put_forward(std::size_t j, Time ready) {
    Stage& stage = stages_[j];
    advance(stage, ready, costs_[j].forward);
    forward_ends_[j * row_ + stage.forwards] = stage.end;
    ++stage.forwards;
    record(stage, Op::forward);
  }
  void put_backward(std::size_t j, Time ready) {
    Stage& stage = stages_[j];
    advance(stage, ready, costs_[j].input);
    backward_end_ = stage.end;
    ++stage.backwards;
    record(stage, Op::input_gradient);
  }
  void put_weight(std::size_t j) {
    Stage& stage = stages_[j];
    stage.end += costs_[j].weight;
    ++stage.weights;
    record(stage, Op::weight_gradient);
  }

  void start();
  void choose_forwards(bool backward_first);
  bool forward_now(std::size_t j);
  void make_room(std::size_t j, double (Builder::*with_next)(std::size_t) const);
  void fill_wait(std::size_t j, Time ready, bool always_fill);

  const std::vector<StageCosts>& costs_;
  const std::uint32_t m_;
  std::vector<Stage> stages_;
  std::vector<std::uint8_t> needs_;   // this round: does the stage run a forward?
  std::vector<std::uint32_t> extra_;  // extra forwards of the warm-up
  const std::size_t row_;
  std::vector<Time> forward_ends_;  // [stage][micro-batch]
  std::vector<std::uint8_t> program_;
  Time backward_end_;  // of the stage after, this round
  Time largest_bubble_;
  bool backward_came_first_ = false, fill_was_open_ = false;
};

// Stage j may run ahead while it waits for the gradient of its first micro-batch, which reaches it at `gradient`
// (estimated as if every stage below ran its own extra forwards first).
const std::vector<std::uint32_t>& Builder::plan_warm_up(bool bubble_allowed) {
  extra_.assign(p(), 0);
  Time first;  // end of the forward of micro-batch 0
  std::vector<Time> ends(p());
  for (std::size_t j = 0; j < p(); ++j) {
    first = first + (j > 0 ? costs_[j].hop_down : Time()) + costs_[j].forward;
    ends[j] = first;
  }
  Time gradient = first + costs_[p() - 1].input;
  for (std::size_t j = p() - 1; j-- > 0;) {
    const StageCosts& cost = costs_[j];
    const Time arrival = gradient + cost.hop_up;
    Time end = ends[j];
    std::uint32_t& extra = extra_[j];
    while (1 + extra < m_ && double(2 + extra) * cost.activation + cost.grows <= cost.limit &&
           (bubble_allowed ? end + cost.forward <= arrival : end < arrival)) {
      end += cost.forward;
      ++extra;
    }
    gradient = std::max(end, arrival) + cost.input;
  }
  // A stage runs fewer forwards ahead than the one that feeds it, except where all of them fit.
  for (std::size_t j = 1; j < p(); ++j) {
    std::uint32_t& extra = extra_[j];
    const std::uint32_t fed = extra_[j - 1];
    extra = std::min(extra, fed);
    if (extra > 0 && extra == fed && 1 + extra < m_) --extra;
  }
  return extra_;
}

void Builder::start() {
  std::fill(stages_.begin(), stages_.end(), Stage());
  for (std::size_t j = 0; j < p(); ++j) stages_[j].next = program_.data() + j * m_ * 3;
  largest_bubble_ = Time();
  backward_came_first_ = fill_was_open_ = false;
  for (std::size_t j = 0; j < p(); ++j) put_forward(j, forward_ready(j));
  for (std::size_t j = 0; j < p(); ++j)
    for (std::uint32_t n = 0; n < extra_[j]; ++n) put_forward(j, forward_ready(j));
  for (std::size_t j = p(); j-- > 0;) put_backward(j, backward_ready(j));
}

// Is it better to run the next forward of stage j before its next backward? Stage j+1 is two micro-batches behind, so
// it lacks nothing; the question is whether the forward delays the gradient that j+1 will send next.
bool Builder::forward_now(std::size_t j) {
  const Stage &stage = stages_[j], &above = stages_[j + 1];
  const StageCosts& cost = costs_[j];
  const Time next_gradient = above.end + costs_[j + 1].forward + costs_[j + 1].input + cost.hop_up;
  if (stage.end >= next_gradient) return false;
  Time forced;  // weight gradients that have to make room first
  double memory = with_forward(j);
  for (std::uint32_t w = stage.weights; memory > cost.limit && w < stage.backwards; ++w) {
    forced += cost.weight;
    memory -= cost.hold;
  }
  if (stage.end + cost.forward + forced <= next_gradient) return true;
  return next_gradient - stage.end > largest_bubble_ - stage.bubble;
}

void Builder::choose_forwards(bool backward_first) {
  for (std::size_t j = 0; j < p(); ++j) {
    const bool left = stages_[j].forwards < m_;
    needs_[j] = left;
    if (left && backward_first && j + 1 < p() && stages_[j].forwards >= stages_[j + 1].forwards + 2 &&
        !forward_now(j)) {
      needs_[j] = false;
      backward_came_first_ = true;
    }
  }
  // A stage that holds back makes the stages before it hold back, so that nothing piles up in front of it.
  for (std::size_t j = p() - 1; j-- > 0;) needs_[j] = std::min(needs_[j], needs_[j + 1]);
}

// Weight gradients until the next action fits. (Without any left it does: the warm-up leaves room for it.)
void Builder::make_room(std::size_t j, double (Builder::*with_next)(std::size_t) const) {
  while ((this->*with_next)(j) > costs_[j].limit) {
    INVARIANT(stages_[j].weights < stages_[j].backwards,
              "a limit that holds one micro-batch lets a forward wait for one");
    put_weight(j);
  }
}

// Weight gradients while stage j waits for the arrival at `ready`. One that ends too late is worth it if the wait would
// give this stage the largest bubble.
void Builder::fill_wait(std::size_t j, Time ready, bool always_fill) {
  const Stage& stage = stages_[j];
  while (stage.weights < stage.backwards && stage.end + costs_[j].weight <= ready) put_weight(j);
  if (stage.weights == stage.backwards || stage.end >= ready) return;
  if (ready - stage.end > largest_bubble_ - stage.bubble) return put_weight(j);
  fill_was_open_ = true;
  if (always_fill) put_weight(j);
}

Time Builder::run(Settings how) {
  start();
  for (std::uint32_t round = 1; round < m_; ++round) {
    choose_forwards(how.backward_first);
    for (std::size_t j = 0; j < p(); ++j) {
      if (!needs_[j]) continue;
      make_room(j, &Builder::with_forward);
      const Time ready = forward_ready(j);
      if (j > 0) fill_wait(j, ready, how.always_fill);
      put_forward(j, ready);
    }
    for (std::size_t j = p(); j-- > 0;) {
      const Time ready = backward_ready(j);
      if (j + 1 < p()) fill_wait(j, ready, how.always_fill);
      // No stage waits for the gradients of stage 0, but its own end does: without forwards left, W runs at once.
      if (j == 0 && stages_[0].forwards == m_)
        while (stages_[0].weights < stages_[0].backwards) put_weight(0);
      if (costs_[j].grows > 0) make_room(j, &Builder::with_backward);
      put_backward(j, ready);
    }
  }
  Time cost;
  for (std::size_t j = 0; j < p(); ++j) {
    while (stages_[j].weights < m_) put_weight(j);
    cost = std::max(cost, stages_[j].end - (forward_end(j, 0) - costs_[j].forward));
  }
  return cost;
}

std::vector<StageCosts> stage_costs(const Problem& problem, const std::vector<double>& limits) {
  std::vector<StageCosts> costs;
  for (std::size_t s = 0; s < problem.stages(); ++s) {
    const double hold = problem.weight_hold[s], activation = problem.activation[s];
    costs.push_back({problem.forward[s], problem.input_gradient[s], problem.weight_gradient[s],
                     s > 0 ? problem.transfer[s - 1] : Time(), s + 1 < problem.stages() ? problem.transfer[s] : Time(),
                     activation, hold, std::max(0.0, hold - activation), limits[s] * kSlack});
  }
  return costs;
}

std::vector<std::vector<Action>> actions(const std::vector<std::uint8_t>& program, std::uint32_t p, std::uint32_t m) {
  std::vector<std::vector<Action>> ranks(p);
  auto op = program.begin();
  for (std::uint32_t rank = 0; rank < p; ++rank) {
    ranks[rank].reserve(std::size_t(m) * 3);
    std::array<std::uint32_t, 3> done{};
    for (std::uint32_t n = 0; n < 3 * m; ++n, ++op)
      ranks[rank].push_back({done[*op]++, static_cast<std::uint16_t>(rank), static_cast<Op>(*op)});
  }
  return ranks;
}

}  // namespace

ZbHeuristic zb_heuristic(const Problem& problem) {
  const double limit = problem.memory_limit.value_or(std::numeric_limits<double>::infinity());
  return zb_heuristic(problem, std::vector<double>(problem.stages(), limit));
}

ZbHeuristic zb_heuristic(const Problem& problem, const std::vector<double>& limits) {
  const auto costs = stage_costs(problem, limits);
  Builder builder(costs, problem.microbatches);
  ZbHeuristic result;
  std::vector<std::uint8_t> best;
  std::vector<std::uint32_t> warm_up;
  bool same_warm_up = false, same_fill = false;
  std::array<bool, 2> same_backward{};
  for (std::size_t n = 0; n < kZbSettings; ++n) {
    const Settings how = settings(n);
    if (n == 0) warm_up = builder.plan_warm_up(how.bubble_before_first_backward);
    if (n == 4) same_warm_up = builder.plan_warm_up(how.bubble_before_first_backward) == warm_up;
    // Most choices make no difference in most problems: a run that would repeat an earlier one is skipped.
    const std::size_t earlier = n >= 4 && same_warm_up               ? 4
                                : n % 4 >= 2 && same_backward[n % 2] ? 2
                                : n % 2 == 1 && same_fill            ? 1
                                                                     : 0;
    if (earlier > 0) {
      result.costs[n] = result.costs[n - earlier];
      continue;
    }
    result.costs[n] = builder.run(how);
    if (n % 2 == 0) same_fill = !builder.fill_was_open();
    if (how.backward_first) {
      same_backward[n % 2] = !builder.backward_came_first();
      if (same_fill) same_backward[1] = same_backward[0];
    }
    if (n > 0 && result.costs[n] >= result.costs[result.best]) continue;
    result.best = n;
    best = builder.program();
  }
  result.ranks = actions(best, problem.ranks, problem.microbatches);
  return result;
}

double zb_least_limit(const Problem& problem) {
  double least = 0;
  for (std::size_t s = 0; s < problem.stages(); ++s)
    least = std::max({least, problem.activation[s], problem.weight_hold[s]});
  return least;
}

}  // namespace rehearsal::schedule
