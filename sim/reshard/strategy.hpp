// How one box gets from one sender to its receivers, and how long that takes alone.
//
// Symbols: t = time of the box over one NIC; A receiving hosts, n receiving devices on them; a = latency of a message.
// NVLink times count where a bandwidth is given. Chunks of a broadcast travel down a chain, from host to host by NIC
// and inside a host from GPU to GPU (Zhuang et al., MLSys 2023, arXiv 2211.05322, section 3).
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

namespace rehearsal::reshard {

// Signal: what crosses arrives at once, which no run could do. (Zhuang et al. compare with send/recv of a byte in the
// place of every message; a broadcast, which has fewer of them, can be faster than that.)
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
  double nvlink = std::numeric_limits<double>::infinity();  // bytes/s; infinity = its time is left out
  double latency = 0;                                       // seconds, of a message on either
};

// Who receives. Hosts of the same tile hold the same number of its devices; `devices` counts them all.
struct Receivers {
  std::uint32_t hosts = 1, devices = 1;
  double per_host() const { return double(devices) / double(hosts); }
};

// One full copy after the other: n t + a.
double send_recv_seconds(double bytes, Receivers to, const Link& link);
// 1/B to each of the B devices of a host, an all-gather by NVLink inside it: A t + a + gather.
double local_allgather_seconds(double bytes, Receivers to, const Link& link);
// 1/n to each device, then a ring over all, host after host: t + (A - 1)/A t + a + (n - 1) a; NVLink where it is
// slower.
double global_allgather_seconds(double bytes, Receivers to, const Link& link);
// The all-gather by NVLink among `devices` that hold equal parts of `bytes`.
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
// The number of chunks, up to `most`, that makes the chain shortest. With h the slowest hop's whole time and H the sum
// of the other hops' whole times T(K) = const + H / K + (K - 1) a, so K = sqrt(H / a).
std::int64_t best_chunks(double bytes, Receivers to, std::int64_t most, const Link& link);

}  // namespace rehearsal::reshard
