// The condition of the hardware that a work runs on: how it differs from the cluster's description of its kind. The
// same work on a slow GPU is another WorkId, so one time per WorkId suffices, and evaluators of a graph need no
// conditions.
#pragma once
#include <compare>
#include <cstdint>

namespace rehearsal::graph {

struct Condition {
  std::uint16_t gpu = 0;  // its kind (cluster::ClusterSpec::kind_of)
  double slowdown = 1;    // of kernels
  // Remaining share of the rate of the narrowest link on the path: inside a domain, and between domains.
  double port = 1, wire = 1;

  bool sound() const { return *this == Condition{}; }
  friend auto operator<=>(const Condition&, const Condition&) = default;
};

}  // namespace rehearsal::graph
