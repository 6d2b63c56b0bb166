// Interleaved 1F1B of Megatron-LM (arXiv 2104.04473, section 2.2): every rank holds v chunks, stage s on rank s mod p,
// and takes the micro-batches in groups of g: the whole group through chunk 0, then through chunk 1, and so on.
// Backwards visit the chunks in the opposite order. torch.distributed.pipelining runs the same order with g = m /
// max(1, m div p).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::schedule {
namespace {

std::uint32_t group_of(const Problem& problem) {
  return problem.group.value_or(std::min(problem.ranks, problem.microbatches));
}

// Walks the m*v (chunk, micro-batch) pairs in the order of the groups; the last group may be shorter.
class GroupOrder {
 public:
  explicit GroupOrder(const Problem& problem)
      : microbatches_(problem.microbatches),
        chunks_(problem.chunks),
        group_(group_of(problem)),
        end_(std::min(group_, microbatches_)) {}

  std::uint32_t microbatch() const { return microbatch_; }
  std::uint32_t chunk() const { return chunk_; }
  void advance() {
    if (++microbatch_ < end_) return;
    if (++chunk_ < chunks_) {
      microbatch_ = begin_;
      return;
    }
    chunk_ = 0;
    begin_ = end_;
    end_ += std::min(group_, microbatches_ - end_);
  }

 private:
  std::uint32_t microbatches_, chunks_, group_;
  std::uint32_t begin_ = 0, end_;  // micro-batches of the current group
  std::uint32_t microbatch_ = 0, chunk_ = 0;
};

// Forwards before the first backward. With one chunk there is nothing to interleave and Megatron runs plain 1F1B.
std::uint64_t warm_up(const Problem& problem, std::uint32_t rank) {
  const std::uint64_t later = problem.ranks - 1 - rank;
  const std::uint64_t fill =
      problem.chunks == 1 ? later : 2 * later + std::uint64_t(problem.chunks - 1) * group_of(problem);
  return std::min(fill + problem.extra_warmup.value_or(0), std::uint64_t(problem.microbatches) * problem.chunks);
}

Order order(const Problem& problem, std::uint32_t rank) {
  const std::uint64_t total = std::uint64_t(problem.microbatches) * problem.chunks;
  const std::uint64_t lead = warm_up(problem, rank);
  GroupOrder forward(problem), backward(problem);
  for (std::uint64_t k = 0; k < total + lead; ++k) {
    if (k < total) {
      const auto stage = stage_of(Placement::loop, problem, rank, forward.chunk());
      co_yield {forward.microbatch(), static_cast<std::uint16_t>(stage), Op::forward};
      forward.advance();
    }
    if (k >= lead) {
      const auto stage = stage_of(Placement::loop, problem, rank, problem.chunks - 1 - backward.chunk());
      co_yield {backward.microbatch(), static_cast<std::uint16_t>(stage), Op::backward};
      backward.advance();
    }
  }
}

// Megatron's own rule: no group is shorter than the pipeline. A single group is always complete.
bool surely_runs(const Problem& problem, std::uint32_t group) {
  const std::uint32_t p = problem.ranks, m = problem.microbatches, last = m % group;
  return m <= group || (group >= p && (last == 0 || last >= p));
}

// Shorter groups run in some cases (Megatron refuses them all), and which ones depends on the warm-up of every rank:
// where the rule above does not decide, walk the order.
void check_group(const Problem& problem) {
  const std::uint32_t group = group_of(problem), m = problem.microbatches;
  if (problem.chunks == 1 || surely_runs(problem, group)) return;
  Schedule unchecked;
  unchecked.name = "interleaved-1f1b";
  unchecked.max_chunks = kMaxStages;
  unchecked.order = order;
  try {
    check_zero_buffer(unchecked, problem);
  } catch (const UserError&) {
    std::uint32_t distance = 1;  // group = m is legal, so this ends
    while (!(group > distance && surely_runs(problem, group - distance)) && !surely_runs(problem, group + distance))
      ++distance;
    const std::uint32_t legal = surely_runs(problem, group + distance) ? group + distance : group - distance;
    throw UserError(
        fmt::format("schedule interleaved-1f1b: {} micro-batches in groups of {} deadlock on {} ranks: a group shorter "
                    "than the pipeline makes the ranks wait for each other's chunks; set group to {}",
                    m, group, problem.ranks, std::min(legal, m)));
  }
}

// m*S + (p-1)S/v + 2(pv-1)C with S = v stages: the fill shrinks by v, and every micro-batch crosses pv-1 gaps each way,
// which only the first and the last one show. For groups of p micro-batches that divide m, while one action hides one
// transfer, C <= min(F, B): a neighbour lags by one F and one B in steady state, and each way crosses one gap.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  const std::int64_t p = problem.ranks, m = problem.microbatches, v = problem.chunks;
  if (!times || v == 1 || group_of(problem) != p || m % p != 0 || problem.extra_warmup.value_or(0) != 0)
    return std::nullopt;
  if (times->transfer > std::min(times->forward, times->backward)) return std::nullopt;
  ClosedForm form;
  form.cost = (m * v + p - 1) * times->combined() + 2 * (p * v - 1) * times->transfer;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
    form.in_flight.push_back(double(std::min<std::uint64_t>(warm_up(problem, rank) + 1, std::uint64_t(m * v))));
  return form;
}

}  // namespace

void register_interleaved(Registry& registry) {
  registry.add(
      {.name = "interleaved-1f1b",
       .summary = "1F1B over several chunks per rank, micro-batches in groups (Megatron-LM, arXiv 2104.04473).",
       .min_chunks = 1,
       .max_chunks = kMaxStages,
       .check = check_group,
       .order = order,
       .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
