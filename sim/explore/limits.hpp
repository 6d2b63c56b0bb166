// The roofline of a step: what it computes and moves against what the machine could in that time. The largest share is
// the limit that is near; nothing can make the step shorter than its time without moving less.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::explore {

struct Limit {
  std::string name;    // "NICs"
  std::string unit;    // of `amount`: "FLOP" or "B"
  double amount = 0;   // of the GPU or the link that has most
  double rate = 0;     // per second, as sold or as the cluster says it
  double seconds = 0;  // that this alone would take
  double share = 0;    // of the step
  std::string whose;   // "rank 0 and 127 like it", "node 0 NIC 2 to leaf 0.2 and 1023 like it"
};

// Arithmetic and the GPU's memory, by the rank that has most to do; links inside a domain, NICs, the fabric between
// switches, links to hosts and disks, by the busiest of each, as far as something goes over them. The fabric and the
// others only where works share what they use (`simulate.contention` other than off). In the order of their shares, the
// nearest first; empty for given times.
std::vector<Limit> limits(const answer::Result& prediction);

}  // namespace rehearsal::explore
