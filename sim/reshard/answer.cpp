#include "reshard/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"

namespace rehearsal::reshard {

std::optional<std::string> too_large(const Resharding& problem, Strategy strategy) {
  // Per dimension, the overlapping pairs of destination and source parts.
  constexpr double kMostIds = 2e7;  // device ids in all lists of senders and receivers together
  double units = 1, source_tiles = 1, destination_tiles = 1;
  for (std::size_t d = 0; d < problem.shape.size(); d++) {
    const auto n = problem.shape[d];
    const auto from = std::int64_t(problem.source.parts(d)), to = std::int64_t(problem.destination.parts(d));
    const std::int64_t source = (n + from - 1) / from, destination = (n + to - 1) / to;
    std::int64_t pairs = 0;
    for (std::int64_t low = 0; low < n; low += destination)
      pairs += (std::min(low + destination, n) - 1) / source - low / source + 1;
    units *= double(pairs), source_tiles *= double(from), destination_tiles *= double(to);
  }
  const double senders = problem.source.mesh.devices() / source_tiles;
  const double receivers = problem.destination.mesh.devices() / destination_tiles;
  const bool one_each = strategy == Strategy::send_recv || strategy == Strategy::local_allgather ||
                        strategy == Strategy::striped || strategy == Strategy::alpa_allgather;
  const double count = units * (one_each ? receivers : 1);
  if (count > double(kMostTransfers))
    return fmt::format("{:.0f} transfers are more than {}; use smaller meshes or specs that split less", count,
                       kMostTransfers);
  if (count * (senders + receivers) > kMostIds)
    return fmt::format("{:.0f} transfers with {:.0f} devices each are too many; use smaller meshes", count,
                       senders + receivers);
  return std::nullopt;
}

namespace {

std::vector<Strategy> strategies(const std::vector<Transfer>& transfers) {
  std::map<Strategy, std::size_t> count;
  for (const auto& t : transfers) ++count[t.strategy];
  std::vector<Strategy> result;
  for (const auto& [strategy, n] : count) result.push_back(strategy);
  std::stable_sort(result.begin(), result.end(), [&](auto a, auto b) { return count[a] > count[b]; });
  return result;
}

// Destinations for which the original's all-gather rule does not apply (transfers.hpp), so that it sends full
// copies. (With one receiver per tile every strategy is a single message, so that is not reported.)
std::vector<std::string> departures(const Question& question, const std::vector<Transfer>& transfers) {
  if (!question.resharding || question.method.strategy != Strategy::alpa_allgather) return {};
  if (alpa_allgather_applies(side_of(question.resharding->destination, question.resharding->shape))) return {};
  std::set<std::uint32_t> units;
  for (const auto& t : transfers) units.insert(t.unit);
  if (units.size() == transfers.size()) return {};
  return {
      "strategy alpa-allgather was performed as send-recv: by its rule tiles are gathered where all their copies share "
      "a host and their number divides a side of the tile, which is not so here; set strategy to auto, broadcast or "
      "local-allgather for fewer copies over the NICs"};
}

Answer planned(const Question& question, Strategy strategy) {
  Answer a;
  Method method = question.method;
  method.strategy = strategy;
  std::int64_t size = 0;
  if (question.resharding) {
    a.transfers = transfers(*question.resharding, method);
    size = 1;
    for (const auto n : question.resharding->shape) size *= n;
  } else if (question.between) {
    a.transfers = transfers(question.between->source, question.between->destination, method);
    size = question.between->elements;
  } else {
    a.transfers = question.given;
    for (const auto& t : a.transfers) size += t.size;
  }
  a.tensor_bytes = size * method.element_bytes;
  a.numbered = number(a.transfers);
  a.numbered.problem.seed = question.seed;
  a.numbered.problem.split = question.split;
  a.plan = make_plan(registry().at(question.planner), a.numbered.problem);
  if (method.chunks == 0) method.chunks = plan_chunks(a.transfers, a.numbered, a.plan.schedule, method);
  a.chunks = method.chunks;
  a.seconds = plan_seconds(a.transfers, a.numbered, a.plan.schedule, method);
  a.bandwidth_bound = double(a.tensor_bytes) /
                      (double(a.plan.lower_bound * method.element_bytes) / method.link.nic + method.link.latency);
  a.performed = strategies(a.transfers);
  return a;
}

Answer chosen(const Question& question) {
  if (question.method.strategy != Strategy::automatic || !question.given.empty())
    return planned(question, question.method.strategy);
  // The fastest strategy for one task may block others (a broadcast holds every receiving NIC, a stripe
  // one per host), so whole plans are compared. The first of equals is kept.
  Answer best = planned(question, Strategy::broadcast);
  for (const auto strategy : {Strategy::automatic, Strategy::striped, Strategy::local_allgather,
                              Strategy::alpa_allgather, Strategy::global_allgather, Strategy::send_recv}) {
    if (strategy == Strategy::striped && question.method.nic == NicSharing::host) continue;
    // With a choice per task, any strategy is possible; send/recv makes the most transfers.
    const auto largest = strategy == Strategy::automatic ? Strategy::send_recv : strategy;
    if (question.resharding && too_large(*question.resharding, largest)) continue;
    Answer other = planned(question, strategy);
    if (other.seconds < best.seconds) best = std::move(other);
  }
  return best;
}

}  // namespace

Answer answer(const Question& question) {
  Answer a = chosen(question);
  // Reports use picoseconds, which overflow at 106 days.
  constexpr double kLongest = 100 * 86400.0;
  const double by_nic = double(a.plan.makespan) * double(question.method.element_bytes) / question.method.link.nic;
  if (!(std::max(a.seconds, by_nic) < kLongest))
    throw UserError("the plan takes more than 100 days; is 'link.nic' right?");
  a.warnings = departures(question, a.transfers);
  return a;
}

}  // namespace rehearsal::reshard
