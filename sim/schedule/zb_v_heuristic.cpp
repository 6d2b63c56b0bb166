#include "schedule/zb_v_heuristic.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"

namespace rehearsal::schedule {
namespace {

struct Settings {
  bool fill_backward, fill_forward;
};

constexpr Settings settings(std::size_t index) { return {index / 2 == 0, index % 2 == 0}; }

// A rank's numbers for one of its chunks: times, and the transfer from the rank that it receives from.
struct ChunkCosts {
  Time forward, input, weight;
  Time hop_forward, hop_backward;  // from the stage before, of the gradient from the stage after
};

struct Costs {
  std::vector<std::array<ChunkCosts, 2>> ranks;
  double activation, hold;  // the most of any stage
};

// One rank while its program grows.
struct Rank {
  Time end, bubble;
  std::array<std::uint32_t, 2> forwards{}, backwards{};  // by chunk
  // The chunk of each backward, in order: their weight gradients run first come, first served.
  std::uint8_t *first_pending = nullptr, *end_pending = nullptr;
  std::uint8_t* next = nullptr;  // of its program

  bool has_pending() const { return first_pending < end_pending; }
  // Activations that weight gradients cannot free.
  std::uint32_t in_flight() const { return forwards[0] + forwards[1] - backwards[0] - backwards[1]; }
};

// One pass with one setting. F0 and F1 are the forwards of the rank's first and second chunk, I1 and I0 the input
// gradients. A micro-batch passes F0 down the ranks, F1 up, I1 down and I0 up.
class Builder {
 public:
  Builder(const Costs& costs, std::uint32_t microbatches, double limit)
      : costs_(costs),
        m_(microbatches),
        limit_(limit),
        ranks_(costs.ranks.size()),
        row_(microbatches + kCacheLine),
        forward_ends_(ranks_.size() * row_ * 2),
        backward_ends_(ranks_.size() * row_ * 2),
        spare_(ranks_.size()),
        runs_chunk_0_(ranks_.size()),
        pending_(ranks_.size() * m_ * 2),
        program_(ranks_.size() * m_ * 6) {}

  // `approved`: the bubbles that the ranks may have; empty on the first pass.
  void run(Settings how, const std::vector<Time>& approved);

  // Of the last pass.
  Time largest_bubble() const { return largest_bubble_; }
  std::vector<Time> bubbles() const;
  bool backward_filled() const { return backward_filled_; }  // did fill_backward make a difference?
  bool forward_filled() const { return forward_filled_; }
  const std::vector<std::uint8_t>& program() const { return program_; }  // 6m of operation * 2 + chunk for each rank

 private:
  static constexpr Time kNever = Time(-1);
  // All ranks are at about the same micro-batch. Rows a power of two apart would share a few lines of the cache.
  static constexpr std::size_t kCacheLine = 64 / sizeof(Time);

  std::uint32_t p() const { return std::uint32_t(ranks_.size()); }
  std::size_t at(std::uint32_t r, std::size_t chunk, std::uint32_t k) const { return (r * 2 + chunk) * row_ + k; }
  // The rank that sends to r; nothing if there is none or it is r itself (the turn of the V).
  std::optional<std::uint32_t> from(std::uint32_t r, bool down) const {
    if (down ? r == 0 : r + 1 == p()) return std::nullopt;
    return down ? r - 1 : r + 1;
  }
  // When the next forward (backward) of a chunk can start, given its neighbour's sends; kNever = not sent yet.
  Time forward_arrival(std::uint32_t r, std::size_t chunk) const {
    const auto source = from(r, chunk == 0);
    if (!source) return Time();
    const Time sent = forward_ends_[at(*source, chunk, ranks_[r].forwards[chunk])];
    return sent == kNever ? kNever : sent + costs_.ranks[r][chunk].hop_forward;
  }
  Time backward_arrival(std::uint32_t r, std::size_t chunk) const {
    const auto source = from(r, chunk == 1);
    if (!source) return Time();
    const Time sent = backward_ends_[at(*source, chunk, ranks_[r].backwards[chunk])];
    return sent == kNever ? kNever : sent + costs_.ranks[r][chunk].hop_backward;
  }

  // Have all predecessors of the next forward (backward) of a chunk run, and will it fit?
  bool can_forward(std::uint32_t r, std::size_t chunk) const;
  bool can_backward(std::uint32_t r, std::size_t chunk) const;

  // Memory of rank r with some more forwards. From the counts, so that no rounding adds up.
  double with_forwards(std::uint32_t r, std::uint32_t more) const {
    const Rank& rank = ranks_[r];
    return double(rank.in_flight() + more) * costs_.activation +
           double(rank.end_pending - rank.first_pending) * costs_.hold;
  }

  static void record(Rank& rank, std::size_t chunk, Op op) {
    *rank.next++ = static_cast<std::uint8_t>(static_cast<std::size_t>(op) * 2 + chunk);
  }
  void advance(Rank& rank, Time ready, Time duration);
  void put_forward(std::uint32_t r, std::size_t chunk);
  void put_backward(std::uint32_t r, std::size_t chunk);
  void put_weight(std::uint32_t r);

  void fill_wait(std::uint32_t r, Time arrival, bool late_one, bool& open);
  void lead_in();
  void level();
  void backwards();
  void forwards();

  const Costs& costs_;
  const std::uint32_t m_;
  const double limit_;
  Settings how_{};
  std::vector<Rank> ranks_;
  const std::size_t row_;
  std::vector<Time> forward_ends_, backward_ends_;  // [rank][chunk][micro-batch]
  std::vector<Time> spare_;                         // largest approved bubble minus the rank's own
  std::vector<std::uint8_t> runs_chunk_0_;          // of this round's backwards
  std::vector<std::uint8_t> pending_, program_;     // [rank], see Rank
  Time largest_bubble_;
  std::uint64_t done_ = 0;  // forwards and backwards
  bool backward_filled_ = false, forward_filled_ = false, always_ = false;
};

void Builder::advance(Rank& rank, Time ready, Time duration) {
  if (ready > rank.end) {
    if (rank.forwards[0] > 0) {
      rank.bubble += ready - rank.end;
      largest_bubble_ = std::max(largest_bubble_, rank.bubble);
    }
    rank.end = ready;
  }
  rank.end += duration;
}

// F0 leaves room for an F1 unless the rank holds a micro-batch that has passed F1. So the oldest micro-batch in flight
// can always go on: on a rank that lacks its F1 no micro-batch has passed F1, and its backwards need no room.
bool Builder::can_forward(std::uint32_t r, std::size_t chunk) const {
  const Rank& rank = ranks_[r];
  if (rank.forwards[chunk] >= (chunk == 0 ? m_ : rank.forwards[0]) || forward_arrival(r, chunk) == kNever) return false;
  const bool reserve = chunk == 0 && rank.forwards[1] == rank.backwards[0];
  return double(rank.in_flight() + (reserve ? 2 : 1)) * costs_.activation <= limit_;
}

bool Builder::can_backward(std::uint32_t r, std::size_t chunk) const {
  const Rank& rank = ranks_[r];
  return rank.backwards[chunk] < (chunk == 1 ? rank.forwards[1] : rank.backwards[1]) &&
         backward_arrival(r, chunk) != kNever;
}

void Builder::put_forward(std::uint32_t r, std::size_t chunk) {
  Rank& rank = ranks_[r];
  advance(rank, forward_arrival(r, chunk), costs_.ranks[r][chunk].forward);
  forward_ends_[at(r, chunk, rank.forwards[chunk])] = rank.end;
  ++rank.forwards[chunk];
  record(rank, chunk, Op::forward);
  ++done_;
}

void Builder::put_backward(std::uint32_t r, std::size_t chunk) {
  Rank& rank = ranks_[r];
  advance(rank, backward_arrival(r, chunk), costs_.ranks[r][chunk].input);
  backward_ends_[at(r, chunk, rank.backwards[chunk])] = rank.end;
  ++rank.backwards[chunk];
  *rank.end_pending++ = static_cast<std::uint8_t>(chunk);
  record(rank, chunk, Op::input_gradient);
  ++done_;
}

void Builder::put_weight(std::uint32_t r) {
  Rank& rank = ranks_[r];
  const std::size_t chunk = *rank.first_pending++;
  rank.end += costs_.ranks[r][chunk].weight;
  record(rank, chunk, Op::weight_gradient);
}

// Weight gradients while a rank waits; also one that ends too late, if the wait would exceed the bubble that the rank
// may have. Results of the rank itself arrive at once.
void Builder::fill_wait(std::uint32_t r, Time arrival, bool late_one, bool& open) {
  Rank& rank = ranks_[r];
  const auto next_weight = [&] { return costs_.ranks[r][*rank.first_pending].weight; };
  while (rank.has_pending() && arrival >= rank.end + next_weight()) put_weight(r);
  const Time allowed = std::max(largest_bubble_, spare_[r]) - rank.bubble;
  if (!rank.has_pending() || arrival - rank.end <= allowed) return;
  open = true;
  if (late_one) put_weight(r);
}

// Micro-batch 0 goes down and up; on its way up every rank waits, and uses the wait for more F0 on itself and on all
// ranks before it. They hold 1 + 2r activations more by the time that micro-batch 0 has come back to rank 0.
void Builder::lead_in() {
  for (std::uint32_t r = 0; r < p(); ++r) put_forward(r, 0);
  for (std::uint32_t r = p(); r-- > 0;) {
    const Time arrival = forward_arrival(r, 1);
    if (r + 1 < p())
      while (with_forwards(r, 2 + 2 * r) <= limit_ && ranks_[r].end + costs_.ranks[r][0].forward <= arrival &&
             ranks_[r].forwards[0] < m_)
        for (std::uint32_t before = 0; before <= r; ++before) put_forward(before, 0);
    put_forward(r, 1);
  }
}

// Every rank gets as many forwards as the one before it, and more F1 than that, chunks in turn; all later ranks run at
// least the same.
void Builder::level() {
  std::size_t chunk = 0;
  for (std::uint32_t r = 1; r < p(); ++r) {
    const auto &mine = ranks_[r].forwards, &before = ranks_[r - 1].forwards;
    for (int idle = 0;
         idle < 2 && (mine[0] + mine[1] < before[0] + before[1] || (mine[1] <= before[1] && before[1] < m_)); ++idle) {
      for (std::uint32_t behind = p(); behind-- > r;)
        if (can_forward(behind, chunk)) put_forward(behind, chunk), idle = -1;
      chunk = 1 - chunk;
    }
  }
}

// At most one backward on every rank: I0 where it is ready (or where I1 are exhausted), else I1.
void Builder::backwards() {
  for (std::uint32_t r = 0; r < p(); ++r)
    runs_chunk_0_[r] =
        ranks_[r].backwards[0] < ranks_[r].backwards[1] && (can_backward(r, 0) || ranks_[r].backwards[1] == m_);
  for (std::uint32_t r = p(); r-- > 0;) {
    if (!runs_chunk_0_[r] || !can_backward(r, 0)) continue;
    if (r + 1 < p()) fill_wait(r, backward_arrival(r, 0), true, always_);
    put_backward(r, 0);
  }
  for (std::uint32_t r = 0; r < p(); ++r) {
    if (runs_chunk_0_[r] || !can_backward(r, 1)) continue;
    if (r > 0) fill_wait(r, backward_arrival(r, 1), how_.fill_backward, backward_filled_);
    put_backward(r, 1);
  }
}

// F1 if it is ready, else F0 if that is.
void Builder::forwards() {
  for (std::uint32_t r = 0; r < p(); ++r) {
    const std::size_t chunk = can_forward(r, 1) ? 1 : 0;
    if (!can_forward(r, chunk)) continue;
    while (with_forwards(r, 1) > limit_) put_weight(r);
    if (from(r, chunk == 0)) fill_wait(r, forward_arrival(r, chunk), how_.fill_forward, forward_filled_);
    put_forward(r, chunk);
  }
}

void Builder::run(Settings how, const std::vector<Time>& approved) {
  how_ = how;
  largest_bubble_ = Time();
  done_ = 0;
  backward_filled_ = forward_filled_ = false;
  std::fill(forward_ends_.begin(), forward_ends_.end(), kNever);
  std::fill(backward_ends_.begin(), backward_ends_.end(), kNever);
  for (std::uint32_t r = 0; r < p(); ++r) {
    ranks_[r] = Rank();
    ranks_[r].first_pending = ranks_[r].end_pending = pending_.data() + std::size_t(r) * m_ * 2;
    ranks_[r].next = program_.data() + std::size_t(r) * m_ * 6;
  }
  std::fill(spare_.begin(), spare_.end(), Time());
  if (!approved.empty()) {
    const Time most = *std::max_element(approved.begin(), approved.end());
    for (std::uint32_t r = 0; r < p(); ++r) spare_[r] = most - approved[r];
  }
  lead_in();
  level();
  const std::uint64_t all = std::uint64_t(m_) * 4 * p();
  for (std::uint64_t before = 0; done_ < all;) {
    INVARIANT(done_ != before, "the oldest micro-batch in flight can always go on");
    before = done_;
    backwards();
    forwards();
  }
  for (std::uint32_t r = 0; r < p(); ++r)
    while (ranks_[r].has_pending()) put_weight(r);
}

std::vector<Time> Builder::bubbles() const {
  std::vector<Time> result;
  for (const Rank& rank : ranks_) result.push_back(rank.bubble);
  return result;
}

// With stages of several sizes every chunk counts like the largest: the limit holds for all of them.
Costs chunk_costs(const Problem& problem) {
  Costs costs;
  const auto most = [](const std::vector<double>& of) { return *std::max_element(of.begin(), of.end()); };
  costs.hold = most(problem.weight_hold);
  costs.activation = std::max(most(problem.activation), costs.hold);
  const std::uint32_t last = problem.stages() - 1;
  for (std::uint32_t r = 0; r < problem.ranks; ++r) {
    std::array<ChunkCosts, 2> rank;
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      const std::uint32_t s = stage_of(Placement::vee, problem, r, chunk);
      rank[chunk] = {problem.forward[s], problem.input_gradient[s], problem.weight_gradient[s],
                     s > 0 ? problem.transfer[s - 1] : Time(), s < last ? problem.transfer[s] : Time()};
    }
    costs.ranks.push_back(rank);
  }
  return costs;
}

std::vector<std::vector<Action>> actions(const std::vector<std::uint8_t>& program, std::uint32_t p, std::uint32_t m) {
  std::vector<std::vector<Action>> ranks(p);
  auto code = program.begin();
  for (std::uint32_t r = 0; r < p; ++r) {
    ranks[r].reserve(std::size_t(m) * 6);
    std::array<std::uint32_t, 6> done{};
    for (std::uint32_t n = 0; n < 6 * m; ++n, ++code) {
      const std::uint32_t stage = *code % 2 == 0 ? r : 2 * p - 1 - r;
      ranks[r].push_back({done[*code]++, static_cast<std::uint16_t>(stage), static_cast<Op>(*code / 2)});
    }
  }
  return ranks;
}

}  // namespace

double zb_v_least_limit(const Problem& problem) { return 2.0 * problem.ranks * chunk_costs(problem).activation; }

ZbVHeuristic zb_v_heuristic(const Problem& problem) {
  const Costs costs = chunk_costs(problem);
  Builder builder(costs, problem.microbatches, usable(problem.memory_limit.value_or(zb_v_least_limit(problem))));
  ZbVHeuristic result;
  std::vector<std::uint8_t> best;
  bool same_forward = false;
  std::array<bool, 2> same_backward{};
  for (std::size_t n = 0; n < kZbVSettings; ++n) {
    // A setting that made no difference is not tried with the other value.
    const std::size_t earlier = n >= 2 && same_backward[n % 2] ? 2 : n % 2 == 1 && same_forward ? 1 : 0;
    if (earlier > 0) {
      result.bubbles[n] = result.bubbles[n - earlier];
      if (n == 1) same_backward[1] = same_backward[0];
      continue;
    }
    std::optional<Time> least;
    std::vector<Time> approved;
    bool backward_filled = false, forward_filled = false;
    while (true) {
      builder.run(settings(n), approved);
      backward_filled = backward_filled || builder.backward_filled();
      forward_filled = forward_filled || builder.forward_filled();
      if (least && builder.largest_bubble() >= *least) break;
      least = builder.largest_bubble();
      approved = builder.bubbles();
      if (n > 0 && *least >= result.bubbles[result.best]) continue;
      result.best = n;
      result.bubbles[n] = *least;
      best = builder.program();
    }
    same_backward[n % 2] = !backward_filled;
    if (n % 2 == 0) same_forward = !forward_filled;
    result.bubbles[n] = *least;
  }
  result.ranks = actions(best, problem.ranks, problem.microbatches);
  return result;
}

}  // namespace rehearsal::schedule
