#include "cluster/fields.hpp"

#include <fmt/format.h>

namespace rehearsal::cluster {
namespace {

using namespace fields;

// What an inline cluster leaves out: the behaviour of NCCL on the NVSwitch machines that were measured.
constexpr double kMessageShare = 80. / 300;  // of NVLink that a pipeline send reaches (A100, Zero Bubble profile)
constexpr double kGatherShare = 220. / 300;  // all-gather that follows a sharded send

// A name, or {name: X, parameter: value}; the parameters are those of the topology (`list topologies`).
template <auto M>
Member<M> topology(std::string key, std::string usual, std::string help) {
  Field f{.key = std::move(key), .form = name_of("topology"), .help = std::move(help)};
  f.others = {table("{name: X, parameter: value, ...}")};
  f.get = [](const void* s) {
    const TopologyChoice& choice = static_cast<const ClusterSpec*>(s)->*M;
    std::string text = choice.name;
    for (const auto& [name, values] : choice.parameters) text += fmt::format(" {}={}", name, fmt::join(values, ","));
    return Value(text);
  };
  f.set = [](void* s, const Value& v) { static_cast<ClusterSpec*>(s)->*M = {std::get<std::string>(v), {}}; };
  f.otherwise = [usual](const void*) { return Value(usual); };
  f.otherwise_said = std::move(usual);
  return Member<M>(std::move(f));
}

}  // namespace

namespace {

constexpr const char* kFaults =
    "{gpu: 37, slowdown: 1.2}, {nic: 12, rate: 0.5}, {nvlink: 5, rate: 0.5}, {link: [leaf 0.0, spine 0.0], rate: 0.5}, "
    "{node: 3, slowdown: 1.2}, {share: 1%, slowdown: 1.2}, {share: 1%, rate: 0.5} or {jitter: 2%, seed: 1}";

// One of the first seven, and with it how much.
void one_fault(const Fault& f, Keys& keys) {
  const char* kind = nullptr;
  for (const char* key : {"gpu", "nic", "nvlink", "link", "node", "share", "jitter"}) {
    if (!keys.given(key)) continue;
    if (kind) return keys.refuse(key, fmt::format("a fault has one of '{}' and '{}'; give two faults", kind, key));
    kind = key;
  }
  if (!kind) return keys.refuse("", fmt::format("a fault is {}", kFaults));
  if (f.kind() == Fault::Kind::link && f.link.size() != 2)
    keys.refuse("link", "a link is named by its two ends: link: [leaf 0.0, spine 0.0]");
  const bool slows = f.kind() == Fault::Kind::gpu, drawn = f.share || f.jitter;
  const auto goes_with = [&](const char* key, bool takes, bool needs) {
    if (keys.given(key) && !takes)
      keys.refuse(key, fmt::format("'{}' does not go with '{}' of 'faults'", key, kind));
    else if (!keys.given(key) && needs)
      keys.refuse("", fmt::format("missing key '{}' in 'faults': it goes with '{}'", key, kind));
  };
  goes_with("slowdown", slows, slows);
  goes_with("rate", !slows && !f.jitter, !slows && !f.jitter);
  goes_with("seed", drawn, false);
  if (f.rate == 0. && !f.nic)
    keys.refuse("rate", "of links and of shares a part is left, above 0; a NIC may be down: {nic: 3, rate: 0}");
}

const Description& fault_fields() {
  using F = Fault;
  static const Description all = describe<F>(
      {.rules = {check(one_fault)}},
      field<&F::gpu>("gpu", whole(0, 1e6), std::nullopt, "a GPU whose kernels are slow, counted through the machine"),
      field<&F::nic>("nic", whole(0, 1e6), std::nullopt,
                     "a NIC with a part of its rate, counted likewise; at rate 0 the others of its node take over"),
      field<&F::node>("node", whole(0, 1e6), std::nullopt, "a node all of whose GPUs are slow"),
      field<&F::nvlink>("nvlink", whole(0, 1e6), std::nullopt,
                        "a GPU whose links inside the node have a part of theirs"),
      field<&F::link>("link", list_of(text(), "its two ends, such as [leaf 0.0, spine 0.0]"), kDefault,
                      "a cable with a part of its rate, by its ends as reports name them"),
      field<&F::share>("share", share(), std::nullopt,
                       "of all GPUs (with `slowdown`) or NICs (with `rate`), drawn at random"),
      field<&F::jitter>("jitter", share(), std::nullopt, "standard deviation of every pass over its time"),
      field<&F::slowdown>("slowdown", number(1, 1e6), std::nullopt, "kernels take so many times as long"),
      field<&F::rate>("rate", number(0, 1), std::nullopt, "the part that is left, both ways"),
      field<&F::seed>("seed", whole(0, 9e18), kDefault, "of what is drawn"));
  return all;
}

const Description& written_link_fields() {
  using L = WrittenLink;
  static const Description all = describe<L>(
      {}, field<&L::from>("from", text(), kRequired, "a GPU, or a device of any other name"),
      field<&L::to>("to", text(), kRequired, "another"), field<&L::rate>("rate", bandwidth(), kRequired, "each way"),
      field<&L::latency>("latency", time(), kRequired, ""));
  return all;
}

}  // namespace

Form fault_list() { return entries<Fault>(fault_fields(), kFaults); }
Form written_links() {
  return entries<WrittenLink>(written_link_fields(),
                              "[device, device, rate, latency] such as [gpu0, gpu1, 25GB/s, 1us]", true);
}

const Description& gpu_fields() {
  static const Description all = describe<Gpu>(
      {.groups = {{.key = "peak", .help = "rates such as {bf16: 312TFLOP/s}", .required = true}}},
      settled(field<&Gpu::name>("name", text(), kDefault, "")),
      each<&Gpu::peak, Precision>("peak",
                                  {{"fp32", Precision::fp32},
                                   {"tf32", Precision::tf32},
                                   {"fp16", Precision::fp16},
                                   {"bf16", Precision::bf16},
                                   {"fp8", Precision::fp8},
                                   {"fp4", Precision::fp4}},
                                  flop_rate(),
                                  "the vendor's dense rate; absent: the GPU does not compute in this precision"),
      field<&Gpu::sms>("sms", whole(1, 100'000), kRequired, "multiprocessors"),
      field<&Gpu::memory>("memory", size(), kRequired, "memory that `fits` is judged against"),
      field<&Gpu::memory_bandwidth>("memory_bandwidth", bandwidth(), kRequired,
                                    "the vendor's peak; on a named GPU the sustained bandwidth scales with it"),
      field<&Gpu::sustained_memory_bandwidth>("sustained_memory_bandwidth", bandwidth(), kRequired,
                                              "bandwidth that memory-bound kernels reach"),
      field<&Gpu::eager_rate>("eager_rate", bandwidth_or_none(), kDefault,
                              "rate that bounds eager kernels beyond their traffic; it scales with multiprocessors and "
                              "clock, not with memory; 0: the memory bounds them"),
      field<&Gpu::gemm_efficiency>("gemm_efficiency", fraction(), kRequired,
                                   "share of peak that large matrix products reach in short bursts"),
      field<&Gpu::sustained_clock>("sustained_clock", number_above(0, 2), kRequired,
                                   "clock in long training runs over the clock in bursts: power and heat"),
      field<&Gpu::power>("power", number(0, 100'000), kDefault,
                         "power limit in watts at which `sustained_clock` was found; 0: not stated"),
      field<&Gpu::power_limit>("power_limit", number(0, 100'000), kDefault,
                               "power limit in watts; the clock scales with the power above 150 W; 0: not stated"),
      field<&Gpu::weight_gradient_rate>("weight_gradient_rate", number_above(0, 2), kDefault,
                                        "rate of weight-gradient products over that of forward ones"),
      field<&Gpu::small_tile_loss>(
          "small_tile_loss", number(0, 10), kDefault,
          "slows small output tiles: their rate is 1/(1 + this x (128/rows + 128/columns - 1.5))"),
      field<&Gpu::gemm_overhead>("gemm_overhead", time(), kRequired, "fixed cost of a matrix product"),
      field<&Gpu::tile_overhead>("tile_overhead", time(), kRequired, "fixed cost of each wave of 256 x 128 tiles"),
      field<&Gpu::persistent_gemms>("persistent_gemms", boolean(), kDefault,
                                    "matrix products launch one block per multiprocessor; beside a collective, which "
                                    "holds some of them, they take two rounds"),
      field<&Gpu::fused_attention_rate>(
          "fused_attention_rate", flop_rate_or_none(), kRequired,
          "FlashAttention-2: causal, head size 128, forward and backward, long sequences; 0: no such kernel"),
      field<&Gpu::flash3_attention_rate>("flash3_attention_rate", flop_rate_or_none(), kDefault,
                                         "FlashAttention-3; 0: no such kernel"),
      field<&Gpu::cudnn_attention_rate>("cudnn_attention_rate", flop_rate_or_none(), kDefault,
                                        "cuDNN; 0: no such kernel"),
      field<&Gpu::attention_tail>(
          "attention_tail", number(0, 10), kDefault,
          "tail effect of a forward attention kernel: idle thread-block slots per SM in the last wave"),
      field<&Gpu::fp8_speedup>("fp8_speedup", number(0, 10), kDefault,
                               "matrix products in fp8 over bf16, with one scale per tensor; 0: no such kernel"),
      field<&Gpu::fp8_rowwise_speedup>("fp8_rowwise_speedup", number(0, 10), kDefault,
                                       "the same, with one scale per row"),
      field<&Gpu::fp8_blockwise_speedup>("fp8_blockwise_speedup", number(0, 10), kDefault,
                                         "the same, with one scale per block of 128"),
      field<&Gpu::fp8_mx_speedup>("fp8_mx_speedup", number(0, 10), kDefault,
                                  "the same, with one power-of-two scale per 32 elements, applied by the hardware"),
      field<&Gpu::fp4_speedup>("fp4_speedup", number(0, 20), kDefault,
                               "matrix products in NVFP4 over bf16, with one scale per 16 elements; 0: no such kernel"),
      field<&Gpu::fp4_limited_speedup>("fp4_limited_speedup", number(0, 20), kDefault,
                                       "the same where power, not the tensor cores, limits both; 0: as `fp4_speedup`"),
      field<&Gpu::eager_context>(
          "eager_context", size(), kDefault,
          "memory that context and libraries take with `framework.lazy_modules: false`; 0: as much as with true"),
      field<&Gpu::kernel_gap>("kernel_gap", time(), kRequired, "idle time between two kernels of a stream"),
      aside<&Gpu::sources>("citations move no answer"), aside<&Gpu::assumed>("citations move no answer"),
      aside<&Gpu::fitted>("moves the error band, and no answer"));
  return all;
}

const char* name(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "nvlink";
    case LinkKind::xgmi:
      return "xgmi";
    case LinkKind::pcie:
      return "pcie";
    case LinkKind::memory:
      return "memory";
  }
  return "";
}

const Description& interconnect_fields() {
  using I = Interconnect;
  static const Description all = describe<I>(
      {}, settled(field<&I::name>("name", text(), kDefault, "")), aside<&I::title>("words"),
      choice<&I::kind>("kind",
                       {{name(LinkKind::nvlink), LinkKind::nvlink},
                        {name(LinkKind::xgmi), LinkKind::xgmi},
                        {name(LinkKind::pcie), LinkKind::pcie},
                        {name(LinkKind::memory), LinkKind::memory}},
                       kRequired, "type of the links; on its own, it brings cautious constants of that type"),
      field<&I::ring_share>("ring_share", fraction(), kRequired,
                            "share of the advertised one-way rate that rings reach"),
      field<&I::launch>("launch", time(), kRequired, "fixed cost of a collective"),
      field<&I::step>("step", time(), kRequired, "latency of one ring step, if `latency` is not given"),
      field<&I::ramp>("ramp", time(), kRequired, "r of T = ... + w + sqrt(r w), w the time on the wire"),
      field<&I::switch_share>("switch_share", number(0, 1), kDefault,
                              "share of the one-way rate when switches reduce (NVLS); 0: they cannot"),
      field<&I::switch_ranks>("switch_ranks", whole(2, 100'000), kDefault,
                              "least number of ranks for which the library lets switches reduce"),
      field<&I::switch_launch>("switch_launch", time(), kDefault,
                               "fixed cost of a collective in which switches reduce"),
      field<&I::switch_ramp>("switch_ramp", time(), kDefault, "ramp of such a collective"),
      field<&I::library>("library", name_of("collective library"), kDefault, "a name in `configs/libraries`"),
      aside<&I::basis>("words"), aside<&I::sources>("citations move no answer"),
      aside<&I::assumed>("citations move no answer"));
  return all;
}

const Description& host_fields() {
  static const Description all = describe<Host>(
      {.groups = {{.key = "pcie", .help = "link between a GPU and its host: PCIe or NVLink-C2C"},
                  {.key = "nvme", .help = "all disks of a node together"}}},
      field<&Host::domains>(
          "domains", whole(1, 1024), kDefault,
          "hosts in a node, each with an equal share of its GPUs; a job on some of the GPUs gets only their hosts"),
      field<&Host::cores>("cores", whole(1, 100'000), std::nullopt, "per node"),
      field<&Host::memory>("memory", size(), std::nullopt, "per node"),
      field<&Host::memory_bandwidth>("memory_bandwidth", bandwidth(), std::nullopt,
                                     "per node, reads plus writes, as a STREAM triad sustains"),
      assumed(
          field<&Host::core_bandwidth>("core_bandwidth", bandwidth(), kDefault, "share of it that one core can use")),
      field<&Host::pcie>("pcie.bandwidth", bandwidth(), std::nullopt, "per link, one way, from pinned memory"),
      assumed(
          field<&Host::pcie_latency>("pcie.latency", time(), kDefault, "fixed time of a copy: launch and completion")),
      field<&Host::gpus_per_link>("pcie.gpus_per_link", whole(1, 1024), kDefault, "GPUs that share one link to memory"),
      field<&Host::nvme>("nvme.capacity", size(), std::nullopt, ""),
      field<&Host::nvme_read>("nvme.read", bandwidth(), std::nullopt, "rate of large blocks, all disks together"),
      field<&Host::nvme_write>("nvme.write", bandwidth(), std::nullopt, "likewise"),
      assumed(field<&Host::nvme_latency>("nvme.latency", time(), kDefault, "latency of one request")));
  return all;
}

const Description& cluster_fields() {
  static const auto microseconds = [](double us) { return seconds(us * 1e-6); };
  static const Description all = describe<ClusterSpec>(
      {.groups = {{.key = "links",
                   .help = "links of a GPU: `scale_up`, and `scale_out` for several nodes",
                   .required = true},
                  {.key = "links.scale_up", .help = "links inside a node", .required = true},
                  {.key = "links.scale_out", .help = "links between nodes; required for several nodes"},
                  {.key = "host", .help = "memory, PCIe and disks of a node, which `training.offload` needs"}}},
      settled(field<&ClusterSpec::name>("name", text(), kDefault, "")), nested<&ClusterSpec::gpu>("gpu", gpu_fields()),
      field<&ClusterSpec::gpus_per_node>("gpus_per_node", whole(1, 1024), kRequired, "GPUs of a node"),
      settled(field<&ClusterSpec::nodes>("nodes", whole(1, 1'000'000), kDefault, "")),
      topology<&ClusterSpec::topology>(
          "topology", "rail-optimized",
          "network between the nodes; if a single switch joins them, the network inside a node"),
      topology<&ClusterSpec::node_topology>("node_topology", "nvswitch", "network inside a node"),
      settled(list_of<&ClusterSpec::written>(
          "written_links", written_links(), "",
          [](const WrittenLink& link) { return line_of(written_link_fields(), &link) + " "; })),
      opaque<&ClusterSpec::groups>(
          "groups", "{nodes, gpu}",
          [](const std::vector<NodeGroup>& groups) {
            std::string text;
            for (const auto& group : groups) {
              text += fmt::format("{} ", group.nodes);
              for (const auto& field : gpu_fields().fields)
                if (group.gpu && field.acts) text += written(field.get(&*group.gpu)) + ",";
              text += ";";
            }
            return text;
          },
          "groups of nodes with different GPUs, in node order"),
      field<&ClusterSpec::nvlink>("links.scale_up.bandwidth", bandwidth(), kRequired, "per GPU, one way"),
      field<&ClusterSpec::nvlink_uncut>("links.scale_up.uncut_bandwidth", bandwidth(), std::nullopt,
                                        "for GPUs with some links disabled (H800): bandwidth with all of them; NCCL's "
                                        "expert all-to-all reaches its share of this, or .75 of `bandwidth`"),
      field<&ClusterSpec::nvlink_domain>(
          "links.scale_up.domain", whole(1, 1024), {[](const ClusterSpec&) -> std::int64_t { return 0; }, "all"},
          "GPUs of a node that these links connect; the others are reached over NICs, as between trays of a rack "
          "without multi-node NVLink. Must divide `gpus_per_node` and the NICs of a node"),
      nested<&ClusterSpec::interconnect>("links.scale_up.interconnect", interconnect_fields()),
      settled(opaque<&ClusterSpec::library>(
          "library", "algorithms",
          [](const Library& library) {
            std::string text = library.name + (library.nccl_protocols ? "" : " without protocols");
            for (const auto& [name, entry] : library.algorithms)
              text += fmt::format(" {} {} {};", name, show(entry.since), show(entry.on_two_nodes));
            return text;
          },
          "")),
      assumed(field<&ClusterSpec::nvlink_latency>(
          "links.scale_up.latency", time(),
          {[](const ClusterSpec& c) { return c.interconnect.step; }, "the interconnect's `step`"},
          "of a message between two GPUs of a node, or one ring step")),
      assumed(field<&ClusterSpec::nvlink_message>(
          "links.scale_up.p2p_bandwidth", bandwidth(),
          {[](const ClusterSpec& c) { return c.nvlink * kMessageShare; }, "0.27 of `bandwidth`"},
          "bandwidth of a pipeline send inside a node")),
      assumed(field<&ClusterSpec::nvlink_gather>(
          "links.scale_up.sharded_p2p_gather_bandwidth", bandwidth(),
          {[](const ClusterSpec& c) { return c.nvlink * kGatherShare; }, "0.73 of `bandwidth`"},
          "bandwidth of the all-gather after a sharded send")),
      field<&ClusterSpec::nics_per_node>("links.scale_out.per_node", whole(1, 1024),
                                         {[](const ClusterSpec& c) { return c.gpus_per_node; }, "one per GPU"},
                                         "NICs per node"),
      field<&ClusterSpec::nic>("links.scale_out.bandwidth", bandwidth(), kRequired, "per NIC, one way"),
      assumed(field<&ClusterSpec::nic_latency>("links.scale_out.latency", time(),
                                               {[](const ClusterSpec&) { return microseconds(25); }, "25us"},
                                               "latency of one ring hop between nodes")),
      field<&ClusterSpec::nic_ramp>(
          "links.scale_out.ramp", time(), kDefault,
          "r of w + sqrt(r w), where w is a collective's time on the wire; not applied to expert all-to-alls"),
      assumed(field<&ClusterSpec::nic_efficiency>(
          "links.scale_out.efficiency", fraction(), {[](const ClusterSpec&) { return .96; }, "0.96"},
          "share of the wire rate that collectives reach when nothing else runs")),
      assumed(field<&ClusterSpec::nic_message_efficiency>("links.scale_out.message_efficiency", fraction(),
                                                          {[](const ClusterSpec&) { return .9; }, "0.9"},
                                                          "share of the wire rate that pipeline sends reach")),
      field<&ClusterSpec::nics_per_group>("links.scale_out.per_group", whole(1, 1024),
                                          {[](const ClusterSpec&) -> std::int64_t { return 0; }, "all"},
                                          "NICs that a group uses if it has several but not all GPUs of a node"),
      choice<&ClusterSpec::fabric>("links.scale_out.fabric",
                                   {{"infiniband", 1.},
                                    {"roce-tuned", kFabricRoceTuned / kFabricInfiniband},
                                    {"ecmp-one-leaf", kFabricEcmpOneLeaf / kFabricInfiniband},
                                    {"ecmp", kFabricEcmp / kFabricInfiniband},
                                    {"tcp", kFabricTcp / kFabricInfiniband}},
                                   kDefault, "how switches choose paths, and how much payload a frame carries"),
      field<&ClusterSpec::launch_factor>("launch_factor", number_above(0, 100), kDefault,
                                         "time a kernel launch takes on its hosts over the time on an x86 server"),
      assumed(field<&ClusterSpec::message_overhead>("message_overhead", time(),
                                                    {[](const ClusterSpec&) { return microseconds(250); }, "0.25ms"},
                                                    "fixed cost of a pipeline send")),
      nested<&ClusterSpec::host>("host", host_fields()),
      aside<&ClusterSpec::collectives>("a name; the curves themselves are described"),
      aside<&ClusterSpec::profile>("a name; the profile's own digest counts"),
      aside<&ClusterSpec::sources>("citations move no answer"),
      aside<&ClusterSpec::assumed>("citations move no answer"),
      aside<&ClusterSpec::fitted>("moves the error band, and no answer"));
  return all;
}

}  // namespace rehearsal::cluster
