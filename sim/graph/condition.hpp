// Under which condition a work runs: how what it runs on differs from what the cluster says of its kind. The same work
// on a slow GPU is another WorkId, so a time for each WorkId says all, and nobody who evaluates a graph knows of it.
#pragma once
#include <compare>
#include <cstdint>

namespace rehearsal::graph {

struct Condition {
  std::uint16_t gpu = 0;  // its kind (cluster::ClusterSpec::kind_of)
  double slowdown = 1;    // of kernels
  // Share of its rate that the narrowest link on the way has left: inside a domain, and between domains.
  double port = 1, wire = 1;

  bool sound() const { return *this == Condition{}; }
  friend auto operator<=>(const Condition&, const Condition&) = default;
};

}  // namespace rehearsal::graph
