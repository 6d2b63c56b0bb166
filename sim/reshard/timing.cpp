#include "reshard/timing.hpp"

#include <algorithm>

namespace rehearsal::reshard {
namespace {

// From its start: how long the sender is held, when each host begins and how long it is held, when everything is there.
struct Footprint {
  double sending = 0, between_hosts = 0, receiving = 0, complete = 0;
};

Footprint footprint(const Transfer& t, double bytes, const Method& method) {
  const Link& link = method.link;
  const Receivers to{t.receiving_hosts, std::uint32_t(t.receiver_devices.size())};
  Footprint f;
  const double gather = t.gathered ? gather_seconds(double(t.gathered * method.element_bytes), t.gatherers, link) : 0;
  switch (t.strategy) {
    case Strategy::global_allgather:
      f.sending = f.receiving = f.complete = global_allgather_seconds(bytes, to, link);
      break;
    case Strategy::broadcast:
    case Strategy::striped: {
      const Chain c = chain(bytes, to, chunks_of(t, method), link);
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

std::int64_t chunks_of(const Transfer& t, const Method& method) {
  const Receivers to{t.receiving_hosts, std::uint32_t(t.receiver_devices.size())};
  const double bytes = double(t.size) * double(method.element_bytes);
  return method.chunks ? std::min(method.chunks, t.size) : best_chunks(bytes, to, t.size, method.link);
}

double plan_seconds(const std::vector<Transfer>& transfers, const Numbered& numbered,
                    const std::vector<Sending>& schedule, const Method& method) {
  auto order = schedule;
  std::stable_sort(order.begin(), order.end(), [](const Sending& a, const Sending& b) { return a.start < b.start; });
  std::vector<double> sends(numbered.problem.senders), receives(numbered.problem.receivers);
  double last = 0;
  for (const auto& s : order) {
    const Transfer& t = transfers[s.task];
    const auto& nics = numbered.problem.tasks[s.task].receivers;
    const double share = double(s.end - s.start) / double(t.work);  // of a task shared between senders
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

}  // namespace rehearsal::reshard
