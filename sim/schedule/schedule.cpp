#include "schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/range.hpp"
#include "schedule/registry.hpp"
#include "schedule/stage_graph.hpp"

namespace rehearsal::schedule {

Problem uniform_problem(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t chunks, Time forward,
                        Time input_gradient, Time weight_gradient, Time transfer) {
  Problem problem;
  problem.ranks = ranks;
  problem.microbatches = microbatches;
  problem.chunks = chunks;
  const std::size_t stages = std::size_t(ranks) * chunks;
  problem.forward.assign(stages, forward);
  problem.input_gradient.assign(stages, input_gradient);
  problem.weight_gradient.assign(stages, weight_gradient);
  problem.transfer.assign(stages > 0 ? stages - 1 : 0, transfer);
  problem.activation.assign(stages, 1);
  problem.weight_hold.assign(stages, 0);
  return problem;
}

namespace {

// Chunk 1 of a vee or of two directions, and every second chunk of a wave, runs over the ranks in reverse.
std::uint32_t mirrored(Placement placement, const Problem& problem, std::uint32_t chunk, std::uint32_t index) {
  const bool turns = placement != Placement::loop && placement != Placement::vocabulary;
  return turns && chunk % 2 == 1 ? problem.ranks - 1 - index : index;
}

}  // namespace

std::uint32_t rank_of(Placement placement, const Problem& problem, std::uint32_t stage) {
  if (placement == Placement::listed) return problem.stage_ranks[stage];
  return mirrored(placement, problem, stage / problem.ranks, stage % problem.ranks);
}

std::uint32_t stage_of(Placement placement, const Problem& problem, std::uint32_t rank, std::uint32_t chunk) {
  if (placement == Placement::listed) {
    for (std::uint32_t stage = 0; stage < problem.stages(); ++stage)
      if (problem.stage_ranks[stage] == rank && chunk-- == 0) return stage;
    INVARIANT(false, "a rank holds fewer stages than chunks");
  }
  return chunk * problem.ranks + mirrored(placement, problem, chunk, rank);
}

std::uint32_t chain_length(Placement placement, const Problem& problem) {
  const bool one_a_rank = placement == Placement::bidirectional || placement == Placement::vocabulary;
  return one_a_rank ? problem.ranks : problem.stages();
}

bool first_of_chain(Placement placement, const Problem& problem, std::uint32_t stage) {
  const bool part = placement == Placement::vocabulary && stage >= problem.ranks;  // fed by a chain, and in none
  return part || stage % chain_length(placement, problem) == 0;
}

bool last_of_chain(Placement placement, const Problem& problem, std::uint32_t stage) {
  const bool part = placement == Placement::vocabulary && stage >= problem.ranks;
  return part || (stage + 1) % chain_length(placement, problem) == 0;
}

std::uint32_t pieces(const Schedule& schedule, const Problem& problem) {
  return schedule.cuts_sequences ? problem.pieces.value_or(kUsualPieces) : 1;
}

std::uint32_t units(const Schedule& schedule, const Problem& problem) {
  const std::uint32_t directions = schedule.placement == Placement::bidirectional ? 2 : 1;
  return problem.microbatches / directions * pieces(schedule, problem);
}

Time share(Time whole, std::uint32_t pieces, std::uint32_t unit) {
  const std::int64_t piece = unit % pieces, each = whole.count() / pieces, rest = whole.count() % pieces;
  return Time(each + (piece < rest ? 1 : 0));
}

std::vector<Edge> vocabulary_edges(const Problem& problem, bool barrier) {
  const std::uint32_t p = problem.ranks;
  std::vector<Edge> edges;
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::size_t hop) {
    const bool holds = !problem.held.empty();
    edges.push_back({from, to, problem.transfer[hop], holds ? problem.held[hop] : Time(),
                     holds ? problem.wire[hop] : std::uint8_t{0}});
  };
  for (std::uint32_t s = 0; s + 1 < p; ++s) add(s, s + 1, s);
  for (std::uint32_t part = p; part < 2 * p; ++part) add(p - 1, part, part - 1);
  for (std::uint32_t from = p; barrier && from < 2 * p; ++from)
    for (std::uint32_t to = p; to < 2 * p; ++to)
      if (from != to) edges.push_back({from, to, problem.transfer[std::max(from, to) - 1], {}, 0, true});
  return edges;
}

bool holds_wires(const Problem& problem) {
  if (!problem.edges.empty())
    return std::any_of(problem.edges.begin(), problem.edges.end(), [](const Edge& e) { return e.held > Time(); });
  return std::any_of(problem.held.begin(), problem.held.end(), [](Time held) { return held > Time(); });
}

std::optional<UniformTimes> uniform_times(Placement placement, const Problem& problem) {
  const auto backward = [&](std::uint32_t s) { return problem.time({0, static_cast<std::uint16_t>(s), Op::backward}); };
  UniformTimes times{problem.forward[0], problem.input_gradient[0], problem.weight_gradient[0], backward(0), Time()};
  std::optional<Time> transfer;
  if (holds_wires(problem) || !problem.edges.empty()) return std::nullopt;
  for (std::uint32_t s = 0; s < problem.stages(); ++s) {
    if (problem.forward[s] != times.forward || problem.input_gradient[s] != times.input_gradient ||
        problem.weight_gradient[s] != times.weight_gradient || backward(s) != times.backward)
      return std::nullopt;
    if (last_of_chain(placement, problem, s) || rank_of(placement, problem, s) == rank_of(placement, problem, s + 1))
      continue;
    if (transfer.value_or(problem.transfer[s]) != problem.transfer[s]) return std::nullopt;
    transfer = problem.transfer[s];
  }
  times.transfer = transfer.value_or(Time());
  return times;
}

namespace {

void check_times(const std::string& who, const char* what, const std::vector<Time>& times, std::size_t expected,
                 const char* per) {
  if (times.size() != expected)
    throw UserError(
        fmt::format("{}: {} has {} values, but needs {}: one per {}", who, what, times.size(), expected, per));
  for (std::size_t s = 0; s < times.size(); ++s)
    if (times[s] < Time())
      throw UserError(fmt::format("{}: {} of stage {} is negative ({} ps); give a time of 0 or more", who, what, s,
                                  times[s].count()));
}

// No order takes longer than all of its actions and transfers in sequence.
void check_sum(const Problem& problem) {
  double all = 0;
  for (std::size_t s = 0; s < problem.forward.size(); ++s) {
    const double halves = to_seconds(problem.input_gradient[s]) + to_seconds(problem.weight_gradient[s]);
    const double whole = problem.backward.empty() ? 0 : to_seconds(problem.backward[s]);
    all += to_seconds(problem.forward[s]) + std::max(halves, whole);
  }
  for (const Time time : problem.transfer) all += 2 * to_seconds(time);
  for (const auto& edge : problem.edges) all += 2 * to_seconds(edge.transfer);
  if (!(all * problem.microbatches < kMostSeconds)) refuse_time();
}

void check_memory(const std::string& who, const char* what, const std::vector<double>& memory, std::size_t stages) {
  if (memory.size() != stages)
    throw UserError(fmt::format("{}: {} has {} values, but needs {}: one per stage", who, what, memory.size(), stages));
  for (std::size_t s = 0; s < stages; ++s)
    if (!(memory[s] >= 0) || std::isinf(memory[s]))
      throw UserError(
          fmt::format("{}: {} of stage {} is {}; give a finite amount of 0 or more", who, what, s, memory[s]));
}

void check_chunks(const Schedule& schedule, std::uint32_t chunks) {
  if (chunks >= schedule.min_chunks && chunks <= schedule.max_chunks) return;
  const std::string allowed = schedule.min_chunks == schedule.max_chunks ? fmt::format("{}", schedule.min_chunks)
                              : schedule.max_chunks >= kMaxStages
                                  ? fmt::format("{} or more", schedule.min_chunks)
                                  : fmt::format("{} to {}", schedule.min_chunks, schedule.max_chunks);
  throw UserError(fmt::format("schedule {}: takes {} chunk{} per rank, not {}; set chunks to {}", schedule.name,
                              allowed, allowed == "1" ? "" : "s", chunks,
                              chunks < schedule.min_chunks ? schedule.min_chunks : schedule.max_chunks));
}

void check_counts(const Schedule& schedule, const Problem& problem, const std::string& who) {
  const std::uint32_t m = problem.microbatches;
  if (schedule.placement == Placement::bidirectional && m % 2 != 0)
    throw UserError(fmt::format("{}: {} micro-batches cannot be split evenly between its two directions; use {}", who,
                                m, m == 1 ? 2 : m - 1));
  if (!schedule.cuts_sequences) return;
  const std::uint64_t q = problem.pieces.value_or(kUsualPieces);
  if (q == 0) throw UserError(who + ": pieces is 0; give 1 or more");
  if (q * m >= UINT32_MAX)
    throw UserError(fmt::format("{}: {} micro-batches in {} pieces make {} pieces; at most {} are supported", who, m, q,
                                q * m, UINT32_MAX - 1));
}

void check_edges(const Schedule& schedule, const Problem& problem, const std::string& who) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;
  for (const auto& edge : problem.edges) {
    const auto text = fmt::format("{}: an edge from stage {} to stage {}", who, edge.from, edge.to);
    const bool ascends = edge.from < edge.to || (edge.turns && edge.from != edge.to);
    if (!ascends || std::max(edge.from, edge.to) >= problem.stages())
      throw UserError(fmt::format("{} is not possible; an edge leads to a later stage, and the last stage is {}", text,
                                  problem.stages() - 1));
    if (!known.insert({edge.from, edge.to}).second) throw UserError(text + " is listed twice");
    if (edge.transfer < Time()) throw UserError(text + " takes a negative time; give a time of 0 or more");
    INVARIANT(edge.held >= Time() && edge.held <= edge.transfer && edge.wire < 2,
              "a message holds one of two wires, no longer than it takes");
  }
  if (schedule.any_graph || schedule.placement == Placement::vocabulary) return;
  if (const auto why = no_chain(problem)) {
    std::string takers;
    for (const auto& [name, other] : registry())
      if (other.any_graph) takers += (takers.empty() ? "" : ", ") + name;
    throw UserError(
        fmt::format("{}: needs stages that form a chain, but {}; schedules for any graph are {}", who, *why, takers));
  }
}

}  // namespace

void check(const Schedule& schedule, const Problem& problem) {
  const std::string who = "schedule " + schedule.name;
  if (problem.ranks == 0) throw UserError(who + ": needs at least 1 pipeline rank, not 0");
  if (problem.microbatches == 0) throw UserError(who + ": needs at least 1 micro-batch, not 0");
  if (problem.microbatches == UINT32_MAX)
    throw UserError(fmt::format("{}: at most {} micro-batches are supported", who, UINT32_MAX - 1));
  check_chunks(schedule, problem.chunks);
  const std::uint64_t stages = std::uint64_t(problem.ranks) * problem.chunks;
  if (stages > kMaxStages)
    throw UserError(fmt::format("{}: {} ranks x {} chunks = {} stages, but at most {} are supported", who,
                                problem.ranks, problem.chunks, stages, kMaxStages));
  check_times(who, "forward", problem.forward, stages, "stage");
  check_times(who, "input_gradient", problem.input_gradient, stages, "stage");
  check_times(who, "weight_gradient", problem.weight_gradient, stages, "stage");
  if (!problem.backward.empty()) check_times(who, "backward", problem.backward, stages, "stage");
  if (!problem.overlapped.empty()) check_times(who, "overlapped", problem.overlapped, stages, "stage");
  check_times(who, "transfer", problem.transfer, stages - 1, "pair of neighbouring stages");
  check_edges(schedule, problem, who);
  INVARIANT(problem.held.empty() || problem.held.size() == stages - 1, "one time on the wire per hop");
  INVARIANT(problem.wire.size() == problem.held.size(), "one wire per hop");
  for (std::size_t s = 0; s < problem.held.size(); ++s)
    INVARIANT(problem.held[s] >= Time() && problem.held[s] <= problem.transfer[s] && problem.wire[s] < 2,
              "a message holds one of two wires, no longer than it takes");
  check_sum(problem);
  check_memory(who, "activation", problem.activation, stages);
  check_memory(who, "weight_hold", problem.weight_hold, stages);
  if (problem.memory_limit && !(*problem.memory_limit > 0))
    throw UserError(fmt::format("{}: memory_limit is {}; give a positive amount or none", who, *problem.memory_limit));
  if (problem.group && *problem.group == 0) throw UserError(who + ": group is 0; give 1 micro-batch or more");
  check_counts(schedule, problem, who);
  if (schedule.check) schedule.check(problem);
  if (schedule.placement == Placement::listed)
    INVARIANT(problem.stage_ranks.size() == stages, "a listed placement needs Problem::stage_ranks");
}

namespace {

Order walk_list(std::shared_ptr<const Planned> plan, std::uint32_t rank) {
  for (const Action& action : plan->ranks[rank]) co_yield action;
}

}  // namespace

Schedule planned(const Schedule& schedule, const Problem& problem) {
  if (!schedule.plan) return schedule;
  check(schedule, problem);
  const auto plan = std::make_shared<const Planned>(schedule.plan(problem));
  INVARIANT(plan->ranks.size() == problem.ranks, "a plan needs one program per rank");
  Schedule result = schedule;
  result.plan = {};
  result.order = [plan](const Problem&, std::uint32_t rank) { return walk_list(plan, rank); };
  result.optimal = plan->optimal;
  result.lower_bound = plan->lower_bound;
  result.placement = plan->placement.value_or(schedule.placement);
  return result;
}

}  // namespace rehearsal::schedule
