// How long a collective takes where nobody measured it: NCCL's choice of algorithm, priced from the links alone.
//
// T = launch + steps x step + w + sqrt(ramp w), w = bytes of the busiest port / (link rate x share). The last term is
// the half-size term of size curves, S/B sqrt(Sg/S), in seconds instead of bytes, which carries over to links of
// another rate: small messages fill neither the channels nor their pipelines. Shares and the choice are facts of
// NCCL 2.30 (src/graph/tuning.cc and topo.h); the constants of Fit were fitted, tests/fidelity/collectives.cpp says how
// well.
#pragma once
#include <cstdint>
#include <string_view>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// One generation of NVLink. Shares of the vendor's one-way rate.
struct Generation {
  int number;               // 2 V100, 3 A100, 4 H100, 5 B200
  double rate;              // bytes/s of one GPU, one way, as sold
  double ring;              // what NCCL's rings count on: 20, 20, 20.6 and 40.1 GB/s a link
  double in_switch;         // of the rate, NCCL's efficiency of reductions in the switch (NVLS); 0 = the switch cannot
  std::uint32_t nvls_from;  // GPUs from which NCCL lets the switch reduce (observed on H200 and B200)
  std::string_view rule;    // the same in words
};

// The generation of this number, or with 0 the one whose rate as sold is nearest.
const Generation& generation(int number, Bandwidth rate);

// Constants common to all systems; seconds or shares. The values are the fit to every sweep of one node.
struct Fit {
  double launch = 3.7e-6;      // s, one collective
  double step = 1.22e-6;       // s, one step of a ring
  double ramp = 35e-6;         // s
  double ring = 1.012;         // of Generation::ring
  double nvls_launch = 41e-6;  // s
  double nvls_ramp = 7.8e-6;   // s
  double nvls = .823;          // of Generation::in_switch
};

struct Choice {
  std::string_view algorithm;  // a name of the registry; empty: nothing to do
  double seconds = 0;
  std::string_view reason;  // "the switch adds from 5 GPUs and 2 MiB on"
};

inline constexpr std::int64_t kLeastNvlsBytes = 2 << 20;  // below, rings are faster (observed on H200)

// Which algorithm NCCL runs among the GPUs of one node.
Choice choose_in_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Generation& links);

// The same with its time on links of `rate`; 0 s for one rank or nothing to move.
Choice in_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, Bandwidth rate, const Generation& links,
               const Fit& fit = {});

}  // namespace rehearsal::collective
