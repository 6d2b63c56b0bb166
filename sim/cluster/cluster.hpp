// The machine: flat tables of devices and links, built by a topology plug-in from a description, and routes over them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/kernels.hpp"
#include "base/registry.hpp"
#include "base/units.hpp"

namespace rehearsal::cluster {

// One GPU type (configs/gpus/*.yaml). Every number has a source there; `assumed` lists the keys that nobody measured.
struct Gpu {
  std::string name;
  std::map<Precision, FlopRate> peak;  // dense
  std::int64_t sms = 0;
  Bytes memory;
  Bandwidth memory_bandwidth;            // vendor peak
  Bandwidth sustained_memory_bandwidth;  // what memory-bound kernels reach
  double gemm_efficiency = 0;            // ceiling of large GEMMs in short bursts, of peak
  double sustained_clock = 1;            // training against bursts: power and heat
  double weight_gradient_rate = 1;       // of weight-gradient GEMMs relative to forward ones
  double small_tile_loss = 0;            // rate of small output tiles: 1/(1 + this x (128/rows + 128/columns - 1.5))
  Time gemm_overhead;                    // fixed cost of a GEMM (t0)
  Time tile_overhead;                    // prologue and epilogue of each wave of 256 x 128 tiles (t_pro)
  // Fused attention: causal, head size 128, forward and backward, long sequences, every SM busy. 0 = no such kernel.
  FlopRate fused_attention_rate;   // FlashAttention-2
  FlopRate flash3_attention_rate;  // FlashAttention-3
  FlopRate cudnn_attention_rate;   // cuDNN
  double attention_tail = .65;     // thread blocks per slot of an SM that a forward attention loses at its end
  // GEMMs in fp8 over bf16, casts not included, by how the scales are kept; 0 = none.
  double fp8_speedup = 0;  // one scale a tensor
  double fp8_rowwise_speedup = 0, fp8_blockwise_speedup = 0;
  Time kernel_gap;                             // between two kernels of a stream
  std::map<std::string, std::string> sources;  // key -> where its number comes from
  std::vector<std::string> assumed;            // keys
};

// One kind of cluster (configs/clusters/*.yaml).
struct ClusterSpec {
  std::string name;
  Gpu gpu;
  std::int64_t gpus_per_node = 8;
  std::int64_t nodes = 1;
  std::string topology;  // a name of the topology registry
  Bandwidth nvlink;      // one GPU, one way
  Time nvlink_latency;
  int nvlink_generation = 0;  // 2 V100, 3 A100, 4 H100, 5 B200; 0 = told by its rate
  Bandwidth nvlink_message;   // what a pipeline send reaches inside a node
  Bandwidth nvlink_gather;    // all-gather that puts a sharded send together
  std::int64_t nics_per_node = 0;
  Bandwidth nic;  // one NIC, one way
  Time nic_latency;
  double nic_efficiency = 1;          // collectives over NICs
  double nic_message_efficiency = 1;  // point-to-point over NICs
  std::int64_t nics_per_group = 0;    // of a node, reached by a group with several but not all of its GPUs; 0 = all
  double fabric = 1;                  // share that reaches the far side, relative to InfiniBand
  Time message_overhead;              // fixed cost of a pipeline send
  std::string collectives;            // name of the measured size curves (configs/collectives), may be empty
  std::string profile;                // name of measured kernel and message times (configs/profiles), may be empty
  std::map<std::string, std::string> sources;
  std::vector<std::string> assumed;

  std::int64_t gpus() const { return gpus_per_node * nodes; }
  Bandwidth node_rate() const { return nic * double(nics_per_node); }
};

enum class DeviceKind : std::uint8_t { gpu, nvswitch, host, nic, leaf, spine };
struct Device {
  DeviceKind kind;
  std::uint32_t node;   // machine; switches of the fabric: 0xffffffff
  std::uint32_t index;  // within its kind and machine (rail of a leaf)
};
struct Link {  // directed
  NodeId from, to;
  Bandwidth bandwidth;
  Time latency;
};

// Regular topologies know their own paths; the oracle (and any irregular one) is Dijkstra of Boost.Graph over latency.
class Cluster {
 public:
  const ClusterSpec& spec() const { return spec_; }
  std::span<const Device> devices() const { return devices_; }
  std::span<const Link> links() const { return links_; }
  NodeId gpu(std::int64_t rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  std::int64_t gpus() const { return static_cast<std::int64_t>(gpus_.size()); }
  std::int64_t machine_of(std::int64_t rank) const { return rank / spec_.gpus_per_node; }

  // Links from one GPU to another, in order; computed on first use and kept. Throws UserError when there is no path.
  std::span<const LinkId> route(NodeId from, NodeId to) const;
  Time latency(std::span<const LinkId> route) const;
  Bandwidth bandwidth(std::span<const LinkId> route) const;  // of the narrowest link
  std::optional<LinkId> link(NodeId from, NodeId to) const;  // the direct link, if there is one

  // For topology plug-ins.
  NodeId add_device(Device device);
  void add_link(NodeId a, NodeId b, Bandwidth bandwidth, Time latency);  // both directions
  // Closed-form route as the devices it passes, ends included; without one every route is a run of Dijkstra.
  using Path = std::function<std::vector<NodeId>(const Cluster&, NodeId from, NodeId to)>;
  void route_by(Path path) { path_ = std::move(path); }
  explicit Cluster(ClusterSpec spec) : spec_(std::move(spec)) {}

 private:
  ClusterSpec spec_;
  std::vector<Device> devices_;
  std::vector<Link> links_;
  std::vector<NodeId> gpus_;
  std::vector<std::vector<LinkId>> out_;
  Path path_;
  mutable std::map<std::pair<NodeId, NodeId>, std::vector<LinkId>> routes_;
};

// Least latency by Dijkstra, fewest links among equals; empty when there is no path. The oracle of the closed forms.
std::vector<LinkId> shortest_route(const Cluster& cluster, NodeId from, NodeId to);

// What a topology promises; checked against the built tables by tests.
struct TopologyPromise {
  Bandwidth bisection;         // half of the GPUs against the other half, one way
  std::int64_t diameter_hops;  // links on the longest shortest route between GPUs
};

struct Topology {
  std::string name;
  std::string summary;
  std::function<void(const ClusterSpec&)> check;  // throws UserError
  std::function<void(Cluster&)> build;
  std::function<TopologyPromise(const ClusterSpec&)> promise;
};

Cluster build(const ClusterSpec& spec);

}  // namespace rehearsal::cluster
