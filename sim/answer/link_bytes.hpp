// The bytes over each link between nodes in an iteration, for comparison with what was counted there.
#pragma once
#include <map>
#include <string>

#include "answer/lowered_job.hpp"

namespace rehearsal::answer {

// One way, by the name of the link: "node 0 NIC 2 to leaf 0.2". Links that nothing crosses are left out; empty for a
// job without places (LoweredJob::resource_map).
std::map<std::string, double> link_bytes(const LoweredJob& lowered);

}  // namespace rehearsal::answer
