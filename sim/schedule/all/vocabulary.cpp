// 1F1B with the vocabulary cut over the pipeline (Yeung et al., Balancing Pipeline Parallelism with Vocabulary
// Parallelism, arXiv 2411.05288). Each rank holds a part of the output layer. For each micro-batch it computes its part
// of the logits (S), all ranks agree on their softmax, and it computes gradients (T):
//   vocab-1      two barriers: the largest logits and their sums between S and T, the sum of input gradients behind T
//                (algorithm 1)
//   vocab-2      one barrier: S makes its part of the input gradient as well, and T, gradients of weights alone, is
//                awaited by nobody (algorithm 2)
//   interlaced   two barriers that all ranks wait in (nnScaler's interlaced pipeline, section 2 of the paper)
// S and T are passes of stages of their own (Placement::vocabulary): S their forward, T their backward or, in vocab-2,
// S forward and input gradient together and T the weight gradient.
//
// The order of each rank is that of a steady state in which every pass is as long as the longest of its kind, messages
// take no time, and each rank repeats F, S, T and B in one interval I, one of each (the building blocks of section 5).
// With vocab-1 and vocab-2 all ranks have the same interval, later by phi >= F on each rank, and gradients come back
// after psi = I - phi >= B. A part runs S in the first slot after the last stage's F, so all of them have within I; and
// T, whose slot follows that of S, within another. So gradients begin one interval (vocab-2) or two (vocab-1) later
// than in 1F1B, and p+1 or p+2 micro-batches are in flight. Interlaced, all ranks run S and T at once; between them
// every second rank has F before B, so a stage is passed in both directions within I and a half: 1.5 p are in flight.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

struct Method {
  bool one_barrier = false, at_once = false;
};

// When a rank starts each pass of the first micro-batch; those of the k-th start k intervals later.
class SteadyState {
 public:
  SteadyState(const Problem& problem, Method method) : p_(problem.ranks), method_(method) {
    // No pass is free: what follows another one starts later.
    const auto longest = [&](std::uint32_t first, std::initializer_list<Op> ops) {
      std::int64_t most = 0;
      for (std::uint32_t s = first; s < first + problem.ranks; ++s) {
        std::int64_t all = 1;
        for (const Op op : ops) all += problem.time({0, static_cast<std::uint16_t>(s), op}).count();
        most = std::max(most, all);
      }
      return most;
    };
    forward_ = longest(0, {Op::forward}), backward_ = longest(0, {Op::backward});
    if (method.one_barrier)
      part_ = longest(problem.ranks, {Op::forward, Op::input_gradient}),
      gradients_ = longest(problem.ranks, {Op::weight_gradient});
    else
      part_ = longest(problem.ranks, {Op::forward}), gradients_ = longest(problem.ranks, {Op::backward});
    interval_ = forward_ + backward_ + part_ + gradients_;
  }

  std::int64_t interval() const { return interval_; }
  struct Starts {
    std::int64_t forward = 0, part = 0, gradients = 0, backward = 0;
  };
  Starts of(std::uint32_t rank) const { return method_.at_once ? meeting(rank) : shifted(rank); }

 private:
  // The first of from, from + I, from + 2 I, ... that is not before `earliest`.
  std::int64_t slot(std::int64_t from, std::int64_t earliest) const {
    return from + std::max<std::int64_t>(0, (earliest - from + interval_ - 1) / interval_) * interval_;
  }

  Starts shifted(std::uint32_t rank) const {
    const std::int64_t phi = forward_ + (part_ + gradients_) * forward_ / (forward_ + backward_);
    const std::int64_t fed = (p_ - 1) * phi + forward_;
    const auto part = [&](std::int64_t r) { return slot(r * phi + forward_, fed); };
    std::int64_t parts_end = 0, gradients_end = 0;
    for (std::int64_t r = 0; r < p_; ++r) parts_end = std::max(parts_end, part(r) + part_);
    const auto gradients = [&](std::int64_t r) { return slot(part(r) + part_, parts_end); };
    for (std::int64_t r = 0; r < p_; ++r) gradients_end = std::max(gradients_end, gradients(r) + gradients_);
    const std::int64_t last = slot(fed + part_ + gradients_, method_.one_barrier ? parts_end : gradients_end);
    return {rank * phi, part(rank), gradients(rank), last + (p_ - 1 - rank) * (interval_ - phi)};
  }

  // S starts at 0. The last rank has B and then F behind S and T, the one before it F and then B, and so on.
  Starts meeting(std::uint32_t rank) const {
    const std::int64_t begin = part_ + gradients_;
    const auto first = [&](std::int64_t r) { return (p_ - 1 - r) % 2 == 0; };  // B
    std::int64_t forward = -forward_, backward = begin;
    for (std::int64_t r = p_ - 1; r-- > rank;) {
      const std::int64_t f = begin + (first(r) ? backward_ : 0), b = begin + (first(r) ? 0 : forward_);
      backward = slot(b, backward + backward_);
      forward = -slot(-f, forward_ - forward);  // the last one that ends before the next rank's starts
    }
    return {forward, 0, part_, backward};
  }

  std::int64_t p_;
  Method method_;
  std::int64_t forward_ = 0, backward_ = 0, part_ = 0, gradients_ = 0, interval_ = 0;
};

Order in_order(Method method, const Problem& problem, std::uint32_t rank) {
  const SteadyState steady(problem, method);
  const auto starts = steady.of(rank);
  const auto stage = static_cast<std::uint16_t>(rank), part = static_cast<std::uint16_t>(problem.ranks + rank);
  struct Row {
    std::int64_t next;
    std::uint16_t stage;
    std::uint32_t microbatch;
    std::array<Op, 2> ops;  // equal: one
  };
  using enum Op;
  const auto first = method.one_barrier ? input_gradient : forward;
  const auto second = method.one_barrier ? weight_gradient : backward;
  std::array rows{Row{starts.part, part, 0, {forward, first}}, Row{starts.gradients, part, 0, {second, second}},
                  Row{starts.backward, stage, 0, {backward, backward}},
                  Row{starts.forward, stage, 0, {forward, forward}}};
  for (std::uint64_t left = std::uint64_t{4} * problem.microbatches; left > 0; --left) {
    Row* now = nullptr;
    for (auto& row : rows)
      if (row.microbatch < problem.microbatches && (!now || row.next < now->next)) now = &row;
    co_yield {now->microbatch, now->stage, now->ops[0]};
    if (now->ops[1] != now->ops[0]) co_yield {now->microbatch, now->stage, now->ops[1]};
    ++now->microbatch, now->next += steady.interval();
  }
}

void check_knobs(const std::string& name, const Problem& problem) {
  if (problem.memory_limit)
    throw UserError(fmt::format(
        "schedule {}: takes no memory_limit, because its barriers fix what is in flight; leave it out", name));
}

Schedule method(std::string name, std::string summary, Method method) {
  Schedule schedule{.name = name,
                    .summary = std::move(summary),
                    .placement = Placement::vocabulary,
                    .min_chunks = 2,
                    .max_chunks = 2,
                    .splits_backward = method.one_barrier};
  schedule.check = [name](const Problem& problem) { check_knobs(name, problem); };
  schedule.order = [method](const Problem& problem, std::uint32_t rank) { return in_order(method, problem, rank); };
  return schedule;
}

}  // namespace

void register_vocabulary(Registry& registry) {
  registry.add(method("vocab-1",
                      "1F1B with embedding and head split over the pipeline's ranks, two barriers per micro-batch: "
                      "holds p+2 (arXiv 2411.05288, algorithm 1).",
                      {}));
  registry.add(method("vocab-2",
                      "1F1B with embedding and head split over the pipeline's ranks, one barrier per micro-batch: "
                      "holds p+1 (arXiv 2411.05288, algorithm 2).",
                      {.one_barrier = true}));
  registry.add(method("interlaced",
                      "1F1B with embedding and head split over the pipeline's ranks, which all wait for each other in "
                      "every micro-batch: holds 1.5 p (nnScaler, as in arXiv 2411.05288).",
                      {.at_once = true}));
}

}  // namespace rehearsal::schedule
