#include "reshard/strategy.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::reshard {

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::send_recv:
      return "send-recv";
    case Strategy::local_allgather:
      return "local-allgather";
    case Strategy::global_allgather:
      return "global-allgather";
    case Strategy::broadcast:
      return "broadcast";
    case Strategy::striped:
      return "striped";
    case Strategy::signal:
      return "signal";
    case Strategy::alpa_allgather:
      return "alpa-allgather";
    case Strategy::automatic:
      return "auto";
  }
  return "";
}

double send_recv_seconds(double bytes, Receivers to, const Link& link) {
  return to.devices * (bytes / link.nic) + link.latency;
}

double gather_seconds(double bytes, double devices, const Link& link) {
  return (devices - 1) * (bytes / devices / link.nvlink + link.latency);
}

double local_allgather_seconds(double bytes, Receivers to, const Link& link) {
  return to.hosts * (bytes / link.nic) + link.latency + gather_seconds(bytes, to.per_host(), link);
}

double global_allgather_seconds(double bytes, Receivers to, const Link& link) {
  const double by_nic = (to.hosts - 1.0) / to.hosts * bytes / link.nic;
  const double by_nvlink = to.devices == to.hosts ? 0 : (to.devices - 1.0) / to.devices * bytes / link.nvlink;
  return bytes / link.nic + link.latency + std::max(by_nic, by_nvlink) + (to.devices - 1) * link.latency;
}

double Chain::slowest(Receivers to) const { return to.devices > to.hosts ? std::max(nic, nvlink) : nic; }

double Chain::seconds(Receivers to) const {
  return to.hosts * nic + (to.devices - to.hosts) * nvlink + double(chunks - 1) * slowest(to);
}

Chain chain(double bytes, Receivers to, std::int64_t chunks, const Link& link) {
  if (to.devices == 1) chunks = 1;  // a chain with a single hop is one message
  const double chunk = bytes / double(chunks);
  return {chunks, chunk / link.nic + link.latency, chunk / link.nvlink + link.latency};
}

std::int64_t best_chunks(double bytes, Receivers to, std::int64_t most, const Link& link) {
  const Chain whole = chain(bytes, to, 1, {link.nic, link.nvlink, 0});
  const double others = whole.seconds(to) - whole.slowest(to);
  if (to.devices == 1 || others <= 0) return 1;
  if (link.latency <= 0) return most;
  // T is convex in K: the best integer is next to the root.
  const auto root = std::clamp<std::int64_t>(std::int64_t(std::sqrt(others / link.latency)), 1, most);
  const auto next = std::min(root + 1, most);
  return chain(bytes, to, next, link).seconds(to) < chain(bytes, to, root, link).seconds(to) ? next : root;
}

}  // namespace rehearsal::reshard
