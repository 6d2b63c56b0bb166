// The roofline of a step: its work and traffic compared with the machine's capacity in that time. The limit with the
// largest share is nearest: the step cannot be shorter than its time without less work or traffic.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::explore {

struct Limit {
  std::string name;    // "NICs"
  std::string unit;    // of `amount`: "FLOP" or "B"
  double amount = 0;   // of the busiest GPU or link
  double rate = 0;     // per second, from the data sheet or the cluster file
  double seconds = 0;  // that this alone would take
  double share = 0;    // of the step
  std::string whose;   // "rank 0 and 127 like it", "node 0 NIC 2 to leaf 0.2 and 1023 like it"
};

// Arithmetic and GPU memory, for the busiest rank; links inside a domain, NICs, the fabric between switches, links to
// hosts and disks, for the busiest of each, if used. Fabric, host links and disks are included only with contention
// (`simulate.contention` other than off). Sorted by share, largest
// first; empty for given times.
std::vector<Limit> limits(const answer::Result& prediction);

}  // namespace rehearsal::explore
