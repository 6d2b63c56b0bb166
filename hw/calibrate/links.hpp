// Measures messages and collectives among the threads of one process.
#pragma once
#include "dispatch/probe.hpp"

namespace rehearsal::calibrate {

// dispatch::probe over the transport of hw/loopback.
dispatch::LinkProbe probe_loopback(unsigned ranks, const dispatch::Algorithms& algorithms = {});

}  // namespace rehearsal::calibrate
