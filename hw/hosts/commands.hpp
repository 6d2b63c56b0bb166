// The plan in the words of iproute2: one text for `ip -batch` and one for `tc -batch` in each namespace, and what
// switches that route are told through /proc/sys. Pure, as the plan is.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hosts/plan.hpp"

namespace rehearsal::hosts {

// All namespaces of all sets begin with this; "rehearsal-NAME.PLACE".
inline constexpr const char* kNamespaces = "rehearsal-";
std::string namespace_of(const std::string& set, const std::string& place);

struct InNamespace {
  std::string place;
  std::string links;                                       // batch of `ip` that makes both ends of links
  std::string ip, tc;                                      // batches; empty: nothing to do
  std::vector<std::pair<std::string, std::string>> files;  // below /proc/sys, with what is written into them
};

// For each place of the plan. All `links` come before all else. Without `netem` no latency is performed.
std::vector<InNamespace> commands(const Plan& plan, const std::string& set, bool netem);

// The arguments of the shaper of one end, behind `tc qdisc add dev INTERFACE`.
std::string shaper(Bandwidth wire);

}  // namespace rehearsal::hosts
