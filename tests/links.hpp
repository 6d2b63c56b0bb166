// NVLink by generation and NCCL for tests, independent of configs/: rates that NCCL's tables assume (20, 20, 20.6 and
// 40.1 GB/s per link; .85 and .74 in switches), and constants fitted to sweeps of one node.
#pragma once
#include <algorithm>
#include <array>
#include <string>

#include "cluster/interconnect.hpp"

namespace rehearsal::test {

// Constants shared by all systems, in seconds or as shares.
struct Fit {
  double launch = 3.7e-6, step = 1.22e-6, ramp = 35e-6;
  double ring = 1.012;         // share of the rate that NCCL assumes
  double nvls_launch = 41e-6;  // including its four steps
  double nvls_ramp = 7.8e-6;
  double nvls = .823;  // share of the rate that NCCL assumes
};

inline double as_sold(int generation) { return std::array{150e9, 300e9, 450e9, 900e9}.at(std::size_t(generation) - 2); }

inline cluster::Interconnect nvlink(int generation, const Fit& fit = {}) {
  const auto at = std::size_t(generation) - 2;
  const double switches = std::array{0., 0., .85, .74}.at(at);
  cluster::Interconnect links;
  links.name = "nvlink-" + std::to_string(generation), links.title = "NVLink " + std::to_string(generation);
  links.ring_share = std::array{.80, .80, .824, .802}.at(at) * fit.ring;
  links.launch = seconds(fit.launch), links.step = seconds(fit.step), links.ramp = seconds(fit.ramp);
  links.switch_share = switches * fit.nvls, links.switch_ranks = generation == 5 ? 6 : 5;
  links.switch_launch = seconds(std::max(0., fit.nvls_launch - 4 * fit.step)),
  links.switch_ramp = seconds(fit.nvls_ramp);
  return links;
}

inline cluster::Library nccl() {
  return {"nccl",
          "NCCL",
          {{"ring-all-reduce", {{2, 0}, {2, 0}}},
           {"ring-all-gather", {{2, 0}, {2, 0}}},
           {"ring-reduce-scatter", {{2, 0}, {2, 0}}},
           {"chain-broadcast", {{2, 0}, {2, 0}}},
           {"tree-all-reduce", {{2, 4}, {2, 9}}},
           {"nvls-all-reduce", {{2, 17}, {2, 17}}},
           {"pat-all-gather", {{2, 23}, {2, 23}}},
           {"pat-reduce-scatter", {{2, 23}, {2, 23}}},
           {"pairwise-all-to-all", {{2, 7}, {2, 7}}},
           {"neighbour-shift", {{2, 7}, {2, 7}}}}};
}

}  // namespace rehearsal::test
