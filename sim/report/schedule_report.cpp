#include "report/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/sha256.hpp"
#include "report/json.hpp"
#include "schedule/text.hpp"

namespace rehearsal::report {
namespace {

using schedule::Op;
using schedule::Problem;

char letter(Op op) {
  switch (op) {
    case Op::forward:
      return 'F';
    case Op::input_gradient:
      return 'I';
    case Op::weight_gradient:
      return 'W';
    case Op::backward:
      return 'B';
  }
  return '?';
}

bool meets_limit(const Problem& problem, const schedule::Replay& replay) {
  return problem.memory_limit && std::all_of(replay.peak_memory.begin(), replay.peak_memory.end(),
                                             [&](double peak) { return peak <= *problem.memory_limit; });
}

}  // namespace

// Let rank r hold the stages s0 < ... < s1 of S and start at time t. Its first action is F(s0,k) for some k.
// 1. Before its first input gradient starts, rank r can only run forwards. That gradient belongs to some stage s of r
//    and some k, and needs F(s0,k) ... F(S-1,k), I(S-1,k) ... I(s+1,k) one after the other, with a transfer wherever
//    the rank changes; F(s0,k) starts at t or later. The chain is shortest for s = s1, so no gradient of r starts
//    before t + D, D = sum F(s0..S-1) + sum I(s1+1..S-1) + their transfers.
// 2. All m*(I+W) of r come after that moment, and so its span >= D + m*(I+W); it also holds all its work. Together:
//    span >= max(D, m*F) + m*(I+W), with F, I, W summed over the stages of r.
// 3. Under a memory limit L at most K = floor(L / least activation) forwards are done before the first gradient, so of
//    the m*F all but K * longest F come after it: span >= D + (m*F - K * longest F) + m*(I+W).
// A full backward B is I and W without the gap, and ends later than I alone; where it has a time of its own, the
// shorter of both counts.
Time lower_bound(schedule::Placement placement, const Problem& problem, bool within_limit) {
  const std::uint32_t stages = problem.stages();
  const std::int64_t m = problem.microbatches;
  const auto hop = [&](std::uint32_t s) {  // from stage s to s+1, or back
    return rank_of(placement, problem, s) == rank_of(placement, problem, s + 1) ? Time() : problem.transfer[s];
  };
  const auto full = [&](std::uint32_t s) { return problem.time({0, static_cast<std::uint16_t>(s), Op::backward}); };
  const auto gradient = [&](std::uint32_t s) { return std::min(problem.input_gradient[s], full(s)); };
  const auto both = [&](std::uint32_t s) {
    return std::min(problem.input_gradient[s] + problem.weight_gradient[s], full(s));
  };
  // What a micro-batch passes from stage s upwards, and on its way back down to stage s.
  std::vector<Time> forward_from(stages + 1), gradient_after(stages);
  for (std::uint32_t s = stages; s-- > 0;) {
    forward_from[s] = problem.forward[s] + (s + 1 < stages ? hop(s) + forward_from[s + 1] : Time());
    gradient_after[s] = s + 1 < stages ? hop(s) + gradient(s + 1) + gradient_after[s + 1] : Time();
  }
  Time bound;
  for (std::uint32_t rank = 0; rank < problem.ranks; rank++) {
    std::uint32_t lowest = stages, highest = 0;
    Time forward, gradients, longest;
    double least_activation = INFINITY;
    for (std::uint32_t c = 0; c < problem.chunks; c++) {
      const auto s = stage_of(placement, problem, rank, c);
      lowest = std::min(lowest, s), highest = std::max(highest, s);
      forward += m * problem.forward[s];
      gradients += m * both(s);
      longest = std::max(longest, problem.forward[s]);
      least_activation = std::min(least_activation, problem.activation[s]);
    }
    const Time delay = forward_from[lowest] + gradient_after[highest];
    Time before = std::max(forward, delay);
    if (within_limit && problem.memory_limit && least_activation > 0) {
      // The slack keeps the bound true where the quotient of two doubles falls just below a whole number.
      const double fit = std::floor(*problem.memory_limit / least_activation * (1 + 1e-9));
      if (fit * double(longest.count()) < double(forward.count()))
        before = std::max(before, delay + forward - static_cast<std::int64_t>(fit) * longest);
    }
    bound = std::max(bound, before + gradients);
  }
  return bound;
}

ScheduleResult evaluate(const schedule::Schedule& schedule, Problem problem, const ScheduleWishes& wishes) {
  check(schedule, problem);
  ScheduleResult result;
  result.schedule = &schedule;
  result.problem = std::move(problem);
  const Problem& p = result.problem;
  const std::uint64_t cells = std::uint64_t(p.microbatches) * p.stages();  // an order has 2 or 3 actions for each
  const bool draw = wishes.picture && cells * 2 <= kPictureLimit;
  const bool keep =
      wishes.order == WantOrder::always || (wishes.order == WantOrder::when_small && cells * 2 <= kOrderLimit);

  // One pass for everything: searching schedules would have to search again for a second one.
  std::vector<std::string> order(keep ? p.ranks : 0);
  schedule::ReplayOptions options;
  if (wishes.picture) result.first_start.assign(p.ranks, Time(-1)), result.last_end.assign(p.ranks, Time());
  if (keep || wishes.picture) {
    options.visit = [&](const schedule::ReplayedAction& a) {
      if (keep) {
        if (!order[a.rank].empty()) order[a.rank] += ',';
        append(order[a.rank], a.action);
      }
      if (!wishes.picture) return;
      if (result.first_start[a.rank] < Time()) result.first_start[a.rank] = a.start;
      result.last_end[a.rank] = a.end;
      if (!draw) return;
      const bool odd_chunk = schedule.placement == schedule::Placement::vee ? a.action.stage >= p.ranks
                                                                            : a.action.stage / p.ranks % 2 == 1;
      const char kind = letter(a.action.op);
      result.spans.push_back(
          {a.rank, a.start, a.end, odd_chunk ? static_cast<char>(kind - 'A' + 'a') : kind, a.action.microbatch});
    };
  }
  result.replay = replay(schedule, p, options);
  if (result.replay.actions > kPictureLimit) result.spans.clear();

  if (keep) {
    Sha256 hash;
    for (std::size_t r = 0; r < order.size(); r++) {
      if (r) hash.update("\n");
      hash.update(order[r]);
    }
    result.sha256 = hash.hex();
    if (wishes.order == WantOrder::always || result.replay.actions <= kOrderLimit) result.order = std::move(order);
  } else {
    result.sha256 = order_sha256(schedule, p);
  }
  result.lower_bound = lower_bound(schedule.placement, p, meets_limit(p, result.replay));
  return result;
}

nlohmann::ordered_json to_json(const ScheduleResult& result) {
  const auto& r = result.replay;
  nlohmann::ordered_json json{{"schedule", result.schedule->name},
                              {"pipeline", result.problem.ranks},
                              {"microbatches", result.problem.microbatches},
                              {"chunks", result.problem.chunks},
                              {"cost_s", to_seconds(r.cost)},
                              {"makespan_s", to_seconds(r.makespan)},
                              {"bubble_rate", r.bubble_rate()}};
  auto& busy = json["busy_s"] = nlohmann::ordered_json::array();
  for (const Time t : r.busy) busy.push_back(to_seconds(t));
  json["in_flight_FW"] = r.in_flight_FW;
  json["in_flight_FB"] = r.in_flight_FB;
  auto& peak = json["peak_memory"] = nlohmann::ordered_json::array();
  for (const double m : r.peak_memory) peak.push_back(number(m));
  json["actions"] = r.actions;
  json["sha256"] = result.sha256;
  if (result.order) json["order"] = *result.order;
  json["optimal"] = result.optimal ? nlohmann::ordered_json(*result.optimal) : nlohmann::ordered_json();
  json["lower_bound_s"] = to_seconds(result.lower_bound);
  return json;
}

void write_csv(const schedule::Schedule& schedule, const Problem& problem,
               const std::function<void(std::string_view)>& write) {
  check(schedule, problem);
  std::string piece;
  for (std::uint32_t rank = 0; rank < problem.ranks; rank++) {
    auto order = schedule.order(problem, rank);
    for (bool first = true; order.next(); first = false) {
      if (!first) piece += ',';
      append(piece, order.value());
      if (piece.size() > (1 << 16)) write(piece), piece.clear();
    }
    piece += '\n';
  }
  write(piece);
}

}  // namespace rehearsal::report
