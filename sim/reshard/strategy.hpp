// How one box is sent from a sender to its receivers, and how long that takes without other transfers.
//
// Symbols: t = time of the box over one NIC; A receiving hosts, n receiving devices on them; a = latency of a message.
// NVLink time is included if its bandwidth is given. Chunks of a broadcast travel down a chain, from host to host by
// NIC and within a host from GPU to GPU (Zhuang et al., MLSys 2023, arXiv 2211.05322, section 3).
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

namespace rehearsal::reshard {

// Signal: transfers take no time, as an unattainable bound. (Zhuang et al. compare with sending one byte in
// place of every message; a broadcast, which has fewer messages, can be faster than that.)
enum class Strategy : std::uint8_t {
  send_recv,
  local_allgather,
  global_allgather,
  broadcast,
  striped,
  automatic,
  signal,
  alpa_allgather
};
std::string_view name(Strategy strategy);

struct Link {
  double nic = 1.25e9;                                      // bytes/s
  double nvlink = std::numeric_limits<double>::infinity();  // bytes/s; infinity = ignored
  double latency = 0;                                       // seconds per message, on NIC or NVLink
};

// The receivers. Hosts of one tile hold equal numbers of its devices; `devices` counts all of them.
struct Receivers {
  std::uint32_t hosts = 1, devices = 1;
  double per_host() const { return double(devices) / double(hosts); }
};

// Full copies in sequence: n t + a.
double send_recv_seconds(double bytes, Receivers to, const Link& link);
// 1/B to each of the B devices of a host, then an NVLink all-gather within it: A t + a + gather.
double local_allgather_seconds(double bytes, Receivers to, const Link& link);
// 1/n to each device, then a ring over all, host by host: t + (A - 1)/A t + a + (n - 1) a; NVLink time if it is the
// slower one.
double global_allgather_seconds(double bytes, Receivers to, const Link& link);
// An NVLink all-gather among `devices` that hold equal parts of `bytes`.
double gather_seconds(double bytes, double devices, const Link& link);

// A chain of A hops by NIC and n - A by NVLink, each chunk taking `nic` or `nvlink` seconds per hop:
// sum of the hops + (K - 1) x the slowest.
struct Chain {
  std::int64_t chunks = 1;
  double nic = 0, nvlink = 0;
  double slowest(Receivers to) const;
  double seconds(Receivers to) const;
};
Chain chain(double bytes, Receivers to, std::int64_t chunks, const Link& link);
// The number of chunks, up to `most`, that minimises the chain's time. With h the whole time of the slowest hop and H
// the sum of the other hops' whole times, T(K) = const + H / K + (K - 1) a, so K = sqrt(H / a).
std::int64_t best_chunks(double bytes, Receivers to, std::int64_t most, const Link& link);

}  // namespace rehearsal::reshard
