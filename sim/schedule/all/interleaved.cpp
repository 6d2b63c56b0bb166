// Interleaved schedules: every rank holds v chunks, stage s on rank s mod p, and takes the micro-batches in groups of g
// through one chunk after the other; backwards visit the chunks in the opposite order.
//   interleaved-1f1b  Megatron-LM (arXiv 2104.04473, section 2.2); torch.distributed.pipelining runs the same order
//   with
//                     g = m / max(1, m div p)
//   interleaved-zb    torch.distributed.pipelining's InterleavedZeroBubble: less warm-up, the backward split, weight
//                     gradients late (Zero Bubble, arXiv 2401.10241)
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/group_order.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::schedule {
namespace {

std::uint32_t group_of(const Problem& problem) {
  return problem.group.value_or(std::min(problem.ranks, problem.microbatches));
}

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
  GroupOrder forward(problem, group_of(problem)), backward(problem, group_of(problem));
  for (std::uint64_t k = 0; k < total + lead; ++k) {
    if (k < total) {
      co_yield forward.action(problem, rank, Op::forward);
      forward.advance();
    }
    if (k >= lead) {
      co_yield backward.action(problem, rank, Op::backward);
      backward.advance();
    }
  }
}

// Groups of m / rounds micro-batches, as many rounds as the pipeline fits into m: only complete groups.
std::uint32_t rounds_of(std::uint32_t ranks, std::uint32_t microbatches) { return std::max(1u, microbatches / ranks); }
std::uint32_t zb_group_of(const Problem& problem) {
  return problem.group.value_or(problem.microbatches / rounds_of(problem.ranks, problem.microbatches));
}

// One forward less in flight per later rank than interleaved-1f1b: an input gradient comes back sooner than a whole
// backward. Each rank keeps back as many weight gradients as there are ranks before it.
Order zb_order(const Problem& problem, std::uint32_t rank) {
  const std::uint64_t total = std::uint64_t(problem.microbatches) * problem.chunks;
  const std::uint32_t group = zb_group_of(problem);
  const std::uint64_t lead = std::min(
      std::uint64_t(problem.chunks - 1) * group + (problem.ranks - 1 - rank) + problem.extra_warmup.value_or(0), total);
  GroupOrder forward(problem, group), backward(problem, group), weight(problem, group);
  for (std::uint64_t k = 0; k < total + lead; ++k) {
    if (k < total) {
      co_yield forward.action(problem, rank, Op::forward);
      forward.advance();
    }
    if (k >= lead) {
      co_yield backward.action(problem, rank, Op::input_gradient);
      backward.advance();
    }
    if (k >= lead + rank) {
      co_yield weight.action(problem, rank, Op::weight_gradient);
      weight.advance();
    }
  }
  for (std::uint64_t k = std::max(total, std::uint64_t(rank)) - rank; k < total; ++k) {
    co_yield weight.action(problem, rank, Op::weight_gradient);
    weight.advance();
  }
}

// Megatron's own rule: no group is shorter than the pipeline. A single group is always complete.
bool surely_runs(const Problem& problem, std::uint32_t group) {
  const std::uint32_t p = problem.ranks, m = problem.microbatches, last = m % group;
  return m <= group || (group >= p && (last == 0 || last >= p));
}

// Shorter groups run in some cases (Megatron refuses them all), and which ones depends on the warm-up of every rank:
// where the rule above does not decide, walk the order.
void check_group(const char* name, Order (*of_rank)(const Problem&, std::uint32_t), bool splits_backward,
                 const Problem& problem, std::uint32_t group) {
  const std::uint32_t m = problem.microbatches;
  if (problem.chunks == 1 || surely_runs(problem, group)) return;
  Schedule unchecked;
  unchecked.name = name;
  unchecked.max_chunks = kMaxStages;
  unchecked.splits_backward = splits_backward;
  unchecked.order = of_rank;
  try {
    check_zero_buffer(unchecked, problem);
  } catch (const UserError&) {
    std::uint32_t distance = 1;  // group = m is legal, so this ends
    while (!(group > distance && surely_runs(problem, group - distance)) && !surely_runs(problem, group + distance))
      ++distance;
    const std::uint32_t legal = surely_runs(problem, group + distance) ? group + distance : group - distance;
    throw UserError(
        fmt::format("schedule {}: {} micro-batches in groups of {} deadlock on {} ranks: a group shorter "
                    "than the pipeline makes the ranks wait for each other's chunks; set group to {}",
                    name, m, group, problem.ranks, std::min(legal, m)));
  }
}

void check_zb(const Problem& problem) {
  const std::uint32_t p = problem.ranks, m = problem.microbatches;
  if (!problem.group && m % rounds_of(p, m) != 0) {
    std::uint32_t fewer = m - 1, more = m + 1;  // a multiple of p is legal, so both loops end
    while (fewer > 0 && fewer % rounds_of(p, fewer) != 0) --fewer;
    while (more % rounds_of(p, more) != 0) ++more;
    throw UserError(
        fmt::format("schedule interleaved-zb: {} micro-batches on {} ranks cannot be divided into {} equal rounds; set "
                    "microbatches to {}, or give a group",
                    m, p, rounds_of(p, m), m - fewer <= more - m ? fewer : more));
  }
  check_group("interleaved-zb", zb_order, true, problem, zb_group_of(problem));
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
       .one_chunk = "1f1b",
       .any_graph = true,
       .check =
           [](const Problem& problem) { check_group("interleaved-1f1b", order, false, problem, group_of(problem)); },
       .order = order,
       .closed_form = closed_form});
  registry.add({.name = "interleaved-zb",
                .summary =
                    "interleaved-1f1b with the backward split, less warm-up and weight gradients held back by rank "
                    "(torch.distributed.pipelining InterleavedZeroBubble).",
                .min_chunks = 1,
                .max_chunks = kMaxStages,
                .splits_backward = true,
                .one_chunk = "zb-h1",
                .check = check_zb,
                .order = zb_order});
}

}  // namespace rehearsal::schedule
