// Generations of NVLink as NCCL sees them, and the constants of its calls inside a node.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal::collective {

// Shares of the vendor's one-way rate: facts of NCCL 2.30 (src/graph/tuning.cc and topo.h).
struct NvLink {
  int generation;           // 2 V100, 3 A100, 4 H100, 5 B200
  double rate;              // bytes/s of one GPU, one way, as sold
  double ring;              // what NCCL's rings count on: 20, 20, 20.6 and 40.1 GB/s a link
  double in_switch;         // NCCL's efficiency of reductions in the switch (NVLS); 0 = the switch cannot
  std::uint32_t nvls_from;  // GPUs from which NCCL lets the switch reduce (observed on H200 and B200)
};

// The generation of this number, or with 0 the one whose rate as sold is nearest.
const NvLink& nvlink(int generation, Bandwidth rate);

// Constants common to all systems; seconds or shares. The values are the fit to every sweep of one node;
// tests/fidelity/collectives.cpp says how well they meet systems left out.
struct Fit {
  double launch = 3.7e-6;      // s, one collective
  double step = 1.22e-6;       // s, one step of a ring: the latency of NVLink where a cluster does not say it
  double ramp = 35e-6;         // s
  double ring = 1.012;         // of NvLink::ring
  double nvls_launch = 41e-6;  // s, its four steps included
  double nvls_ramp = 7.8e-6;   // s
  double nvls = .823;          // of NvLink::in_switch
};

}  // namespace rehearsal::collective
