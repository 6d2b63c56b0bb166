// A closed form by its terms: the start of the call, latency, bytes.
#pragma once
#include "collective/collective.hpp"

namespace rehearsal::collective {

// In seconds: T = fixed + steps x latency + hops x net_latency + inside + wire - hidden + ramp.
struct ClosedForm {
  double fixed = 0;                  // the start of the call, and what depends on no link
  double steps = 0, latency = 0;     // inside a domain
  double hops = 0, net_latency = 0;  // between domains
  double inside = 0, wire = 0;       // the bytes inside and between domains, each by itself
  double hidden = 0;                 // the part of these two that overlaps
  double ramp = 0;                   // until channels and their pipelines are full (Protocol)
  double seconds() const { return fixed + steps * latency + hops * net_latency + inside + wire - hidden + ramp; }
};

// Times are sums of counted latencies and of bytes: an algorithm's own formula, evaluated with all but one of them
// zero, yields that term.
ClosedForm take_apart(const Algorithm& algorithm, Shape shape, Bytes size, const Wires& wires);

}  // namespace rehearsal::collective
