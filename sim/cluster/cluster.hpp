// The components of a cluster, as its description gives them: the GPU, links by kind, NICs, topologies. What follows
// from it (routes, shared links) is in machine.hpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "base/sources.hpp"
#include "base/units.hpp"
#include "cluster/interconnect.hpp"

namespace rehearsal::cluster {

inline constexpr double kIdlePower = 150;  // watts; assumed

// One GPU type (configs/gpus/*.yaml). Every number has a source there; `assumed` lists the keys that were not measured.
struct Gpu {
  std::string name;
  std::map<Precision, FlopRate> peak;  // dense
  std::int64_t sms = 0;
  Bytes memory;
  Bandwidth memory_bandwidth;            // vendor peak
  Bandwidth sustained_memory_bandwidth;  // what memory-bound kernels reach
  // Of what eager kernels take beyond their traffic, which goes with the multiprocessors and their clock (an H100's takes
  // as long as its memory, models/traffic.hpp); 0: as the memory.
  Bandwidth eager_rate;
  double gemm_efficiency = 0;            // ceiling of large GEMMs in short bursts, of peak
  double sustained_clock = 1;            // training against bursts: power and heat
  // In watts: the power at which the clock was found, and the limit of this GPU; 0 = not stated, for either.
  double power = 0, power_limit = 0;
  // The clock under the power limit. Energy goes with the clock, beyond the idle power of a GPU: this fits the one pair
  // of limits with training runs, 500 and 700 W of the H100 (configs/gpus/h100-80g-sxm.yaml).
  double clock() const {
    if (power <= 0 || power_limit <= 0) return sustained_clock;
    return std::min(std::max(1., sustained_clock), sustained_clock * (power_limit - kIdlePower) / (power - kIdlePower));
  }
  double weight_gradient_rate = 1;  // of weight-gradient GEMMs relative to forward ones
  double small_tile_loss = 0;       // rate of small output tiles: 1/(1 + this x (128/rows + 128/columns - 1.5))
  Time gemm_overhead;               // fixed cost of a GEMM (t0)
  Time tile_overhead;               // prologue and epilogue of each wave of 256 x 128 tiles (t_pro)
  // GEMMs are persistent kernels: one thread block for each multiprocessor, which works through its share of the tiles.
  // Blocks whose multiprocessor another kernel holds start after the others have ended: the GEMM takes twice as long.
  bool persistent_gemms = false;
  // Fused attention: causal, head size 128, forward and backward, long sequences, every SM busy. 0 = no such kernel.
  FlopRate fused_attention_rate;   // FlashAttention-2
  FlopRate flash3_attention_rate;  // FlashAttention-3
  FlopRate cudnn_attention_rate;   // cuDNN
  double attention_tail = .65;     // tail effect of a forward: idle thread-block slots per SM in the last wave
  // GEMMs in fp8 over bf16, casts not included, by how the scales are kept; 0 = none.
  double fp8_speedup = 0;  // one scale a tensor
  double fp8_rowwise_speedup = 0, fp8_blockwise_speedup = 0, fp8_mx_speedup = 0;
  double fp4_speedup = 0;  // in NVFP4, a scale for each 16 elements
  // The same where power limits the rate: a FLOP in fewer bits takes less energy, but not by its rate in bursts. 0: as
  // in bursts.
  double fp4_limited_speedup = 0;
  Bytes eager_context;  // memory of a process before it allocates, if modules load eagerly; 0: not measured
  Time kernel_gap;      // between two kernels of a stream
  Sources sources;      // key -> where its number comes from
  std::vector<std::string> assumed;  // keys
  std::vector<std::string> fitted;   // keys whose values are fitted to real runs of a machine
};

// A topology by its name in the registry, with the given parameters; others have their defaults.
struct TopologyChoice {
  std::string name;
  std::map<std::string, std::vector<double>> parameters;  // a rate in bytes/s
  friend bool operator==(const TopologyChoice&, const TopologyChoice&) = default;
};

// A link that a user wrote out, both ways: between "gpu0", "gpu1", ... and devices of any other name.
struct WrittenLink {
  std::string from, to;
  Bandwidth rate;
  Time latency;
  friend bool operator==(const WrittenLink&, const WrittenLink&) = default;
};

// Consecutive nodes with GPUs of their own kind.
struct NodeGroup {
  std::int64_t nodes = 1;
  std::optional<Gpu> gpu;  // none: the cluster's
};

// What the GPUs of a node share apart from their links: where states are kept that do not fit into GPU memory.
struct Host {
  // Hosts of a node, with equally many GPUs each (several in a rack of superchips); a job on some GPUs of a node has
  // the hosts that these are attached to.
  std::int64_t domains = 1;
  std::optional<std::int64_t> cores;          // of a node
  std::optional<Bytes> memory;                // of a node
  std::optional<Bandwidth> memory_bandwidth;  // of a node, read and written: what a stream triad sustains
  Bandwidth core_bandwidth{12e9};             // of it, for one core
  std::optional<Bandwidth> pcie;              // of a GPU's link to its host, one way, sustained from pinned memory
  Time pcie_latency{10'000'000};              // of a copy: launch and completion
  std::int64_t gpus_per_link = 1;             // that share one link to host memory
  std::optional<Bytes> nvme;                  // disks of a node, together
  std::optional<Bandwidth> nvme_read, nvme_write;
  Time nvme_latency{100'000'000};
};

// One kind of cluster (configs/clusters/*.yaml).
struct ClusterSpec {
  std::string name;
  Gpu gpu;
  std::int64_t gpus_per_node = 8;
  std::int64_t nodes = 1;
  std::vector<NodeGroup> groups;  // of all nodes, in their order; empty: all are alike
  TopologyChoice topology{"rail-optimized",
                          {}};  // what joins the nodes; or what is inside of them, and then one switch joins them
  TopologyChoice node_topology{"nvswitch", {}};  // topology inside a node, if `topology` does not cover it
  std::vector<WrittenLink> written;              // of topology "links"
  Bandwidth nvlink;                              // one GPU, one way
  std::optional<Bandwidth> nvlink_uncut;         // with all links of its generation, where some are cut off (H800)
  std::int64_t nvlink_domain = 0;                // GPUs of a node that reach each other by these links; 0: all of it
  Time nvlink_latency;
  Interconnect interconnect;  // what those links are
  Library library;            // that runs collectives over them
  Bandwidth nvlink_message;   // what a pipeline send reaches inside a node
  Bandwidth nvlink_gather;    // of the all-gather after a sharded send
  std::int64_t nics_per_node = 0;
  Bandwidth nic;  // one NIC, one way
  Time nic_latency;
  Time nic_ramp;                      // w seconds on the wire take the root of w times this longer
  double nic_efficiency = 1;          // collectives over NICs
  double nic_message_efficiency = 1;  // point-to-point over NICs
  std::int64_t nics_per_group = 0;    // of a node, used by a group with several but not all of its GPUs; 0 = all
  double fabric = 1;                  // share that reaches the far side, relative to InfiniBand
  Time message_overhead;              // fixed cost of a pipeline send
  double launch_factor = 1;           // launch time on its hosts, relative to a server with x86 cores
  Host host;
  std::string collectives;  // name of the measured size curves (configs/collectives), may be empty
  std::string profile;      // name of measured kernel and message times (configs/profiles), may be empty
  Sources sources;
  std::vector<std::string> assumed, fitted;

  std::int64_t gpus() const { return gpus_per_node * nodes; }
  // The kind of a GPU: 0 that of the cluster, k that of groups[k - 1].
  std::uint16_t kind_of(std::int64_t number) const {
    std::int64_t node = number / gpus_per_node;
    for (std::size_t g = 0; g < groups.size(); ++g, node -= groups[g - 1].nodes)
      if (node < groups[g].nodes) return groups[g].gpu ? static_cast<std::uint16_t>(g + 1) : std::uint16_t{0};
    return 0;
  }
  const Gpu& of_kind(std::uint16_t kind) const { return kind == 0 ? gpu : *groups[kind - 1u].gpu; }
  const Gpu& gpu_at(std::int64_t number) const { return of_kind(kind_of(number)); }
  Bandwidth node_rate() const { return nic * double(nics_per_node); }
};

}  // namespace rehearsal::cluster
