#include "reshard/timing.hpp"

#include <algorithm>
#include <limits>

namespace rehearsal::reshard {
namespace {

Receivers receivers_of(const Transfer& t) { return {t.receiving_hosts, std::uint32_t(t.receiver_devices.size())}; }

// Relative to its start: how long the sender is busy, when and how long each host is busy, and when all data has
// arrived.
struct Footprint {
  double sending = 0, between_hosts = 0, receiving = 0, complete = 0;
};

Footprint footprint(const Transfer& t, double bytes, const Method& method) {
  const Link& link = method.link;
  const Receivers to = receivers_of(t);
  Footprint f;
  const double gather = t.gathered ? gather_seconds(double(t.gathered * method.element_bytes), t.gatherers, link) : 0;
  switch (t.strategy) {
    case Strategy::global_allgather:
      f.sending = f.receiving = f.complete = global_allgather_seconds(bytes, to, link);
      break;
    case Strategy::broadcast:
    case Strategy::striped: {
      const Chain c = chain(bytes, to, std::min(method.chunks, t.size), link);
      f.sending = f.receiving = double(c.chunks - 1) * c.slowest(to) + c.nic;
      f.between_hosts = c.nic + (to.per_host() - 1) * c.nvlink;
      f.complete = c.seconds(to) + gather;
      break;
    }
    default:  // a message; its latency overlaps with the next one
      f.sending = f.receiving = bytes / link.nic;
      f.complete = f.sending + link.latency + gather;
  }
  return f;
}

}  // namespace

double plan_seconds(const std::vector<Transfer>& transfers, const Numbered& numbered,
                    const std::vector<Sending>& schedule, const Method& method) {
  auto order = schedule;
  std::stable_sort(order.begin(), order.end(), [](const Sending& a, const Sending& b) { return a.start < b.start; });
  std::vector<double> sends(numbered.problem.senders), receives(numbered.problem.receivers);
  double last = 0;
  for (const auto& s : order) {
    const Transfer& t = transfers[s.task];
    const auto& nics = numbered.problem.tasks[s.task].receivers;
    const double share = double(s.end - s.start) / double(t.work);  // for a task shared between senders
    const Footprint f = footprint(t, double(t.size) * double(method.element_bytes) * share, method);
    const std::size_t per_host = nics.size() / std::min<std::size_t>(nics.size(), t.receiving_hosts);
    const auto offset = [&](std::size_t i) { return double(i / per_host) * f.between_hosts; };
    double start = sends[s.sender];
    for (std::size_t i = 0; i < nics.size(); i++) start = std::max(start, receives[nics[i]] - offset(i));
    sends[s.sender] = start + f.sending;
    for (std::size_t i = 0; i < nics.size(); i++) receives[nics[i]] = start + offset(i) + f.receiving;
    last = std::max(last, start + f.complete);
  }
  return last;
}

std::int64_t plan_chunks(const std::vector<Transfer>& transfers, const Numbered& numbered,
                         const std::vector<Sending>& schedule, const Method& method) {
  std::int64_t most = 1;
  for (const auto& t : transfers)
    if (t.strategy == Strategy::broadcast || t.strategy == Strategy::striped)
      most = std::max(most,
                      best_chunks(double(t.size) * double(method.element_bytes), receivers_of(t), t.size, method.link));
  Method with = method;
  std::int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](std::int64_t chunks) {
    with.chunks = chunks;
    if (const double seconds = plan_seconds(transfers, numbered, schedule, with); seconds < least)
      least = seconds, best = chunks;
  };
  for (std::int64_t k = 1; k < most; k = k * 5 / 4 + 1) consider(k);
  consider(most);
  constexpr std::int64_t kSteps = 16;
  for (std::int64_t reach = best / 4 + 1; reach > 1; reach = reach * 2 / kSteps) {
    const std::int64_t low = std::max<std::int64_t>(1, best - reach), high = std::min(most, best + reach);
    for (std::int64_t i = 0; i <= kSteps; i++) consider(low + (high - low) * i / kSteps);
  }
  return best;
}

}  // namespace rehearsal::reshard
