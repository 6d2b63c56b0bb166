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

const Description& gpu_fields() {
  static const Description all = describe<Gpu>(
      {.groups = {{.key = "peak", .help = "rates such as {bf16: 312TFLOP/s}", .required = true}}},
      settled(field<&Gpu::name>("name", text(), kUsual, "")),
      each<&Gpu::peak, Precision>("peak",
                                  {{"fp32", Precision::fp32},
                                   {"tf32", Precision::tf32},
                                   {"fp16", Precision::fp16},
                                   {"bf16", Precision::bf16},
                                   {"fp8", Precision::fp8},
                                   {"fp4", Precision::fp4}},
                                  flop_rate(), "dense rate of the vendor; absent: it does not compute in that"),
      field<&Gpu::sms>("sms", whole(1, 100'000), kRequired, "multiprocessors"),
      field<&Gpu::memory>("memory", size(), kRequired, "what `fits` compares with"),
      field<&Gpu::memory_bandwidth>("memory_bandwidth", bandwidth(), kRequired,
                                    "peak of the vendor; of a named GPU the sustained one goes with it"),
      field<&Gpu::sustained_memory_bandwidth>("sustained_memory_bandwidth", bandwidth(), kRequired,
                                              "what memory-bound kernels reach"),
      field<&Gpu::gemm_efficiency>("gemm_efficiency", fraction(), kRequired,
                                   "ceiling of large matrix products in short bursts, of peak"),
      field<&Gpu::sustained_clock>("sustained_clock", number_above(0, 2), kRequired,
                                   "training against bursts: power and heat"),
      field<&Gpu::power>("power", number(0, 100'000), kUsual,
                         "in watts, with which `sustained_clock` was found; 0: not stated"),
      field<&Gpu::power_limit>("power_limit", number(0, 100'000), kUsual,
                               "in watts: the clock goes with what may be drawn above 150 W; 0: not stated"),
      field<&Gpu::weight_gradient_rate>("weight_gradient_rate", number_above(0, 2), kUsual,
                                        "of weight-gradient products relative to forward ones"),
      field<&Gpu::small_tile_loss>("small_tile_loss", number(0, 10), kUsual,
                                   "rate of small output tiles: 1/(1 + this x (128/rows + 128/columns - 1.5))"),
      field<&Gpu::gemm_overhead>("gemm_overhead", time(), kRequired, "fixed cost of a matrix product"),
      field<&Gpu::tile_overhead>("tile_overhead", time(), kRequired,
                                 "beginning and end of each wave of 256 x 128 tiles"),
      field<&Gpu::persistent_gemms>("persistent_gemms", boolean(), kUsual,
                                    "matrix products launch a block for each multiprocessor; beside a collective, "
                                    "which holds some of these, they take two rounds"),
      field<&Gpu::fused_attention_rate>(
          "fused_attention_rate", flop_rate_or_none(), kRequired,
          "FlashAttention-2: causal, head size 128, forward and backward, long sequences; 0: no such kernel"),
      field<&Gpu::flash3_attention_rate>("flash3_attention_rate", flop_rate_or_none(), kUsual,
                                         "FlashAttention-3; 0: no such kernel"),
      field<&Gpu::cudnn_attention_rate>("cudnn_attention_rate", flop_rate_or_none(), kUsual,
                                        "cuDNN; 0: no such kernel"),
      field<&Gpu::attention_tail>(
          "attention_tail", number(0, 10), kUsual,
          "tail effect of a forward attention kernel: idle thread-block slots per SM in the last wave"),
      field<&Gpu::fp8_speedup>("fp8_speedup", number(0, 10), kUsual,
                               "matrix products in fp8 over bf16 with one scale a tensor; 0: none"),
      field<&Gpu::fp8_rowwise_speedup>("fp8_rowwise_speedup", number(0, 10), kUsual, "with one scale a row"),
      field<&Gpu::fp8_blockwise_speedup>("fp8_blockwise_speedup", number(0, 10), kUsual,
                                         "with one scale a block of 128"),
      field<&Gpu::fp8_mx_speedup>("fp8_mx_speedup", number(0, 10), kUsual,
                                  "with one scale, a power of two, for 32 elements, which the hardware applies"),
      field<&Gpu::fp4_speedup>("fp4_speedup", number(0, 20), kUsual,
                               "matrix products in NVFP4 over bf16, with one scale per 16 elements; 0: none"),
      field<&Gpu::eager_context>(
          "eager_context", size(), kUsual,
          "what context and libraries take of it with `software.lazy_modules: false`; 0: as with"),
      field<&Gpu::kernel_gap>("kernel_gap", time(), kRequired, "between two kernels of a stream"),
      aside<&Gpu::sources>("citations move no answer"), aside<&Gpu::assumed>("citations move no answer"));
  return all;
}

const Description& host_fields() {
  static const Description all = describe<Host>(
      {.groups = {{.key = "pcie", .help = "between a GPU and its host: PCIe, or NVLink-C2C"},
                  {.key = "nvme", .help = "disks of a node, together"}}},
      field<&Host::cores>("cores", whole(1, 100'000), std::nullopt, "of a node"),
      field<&Host::memory>("memory", size(), std::nullopt, "of a node"),
      field<&Host::memory_bandwidth>("memory_bandwidth", bandwidth(), std::nullopt,
                                     "of a node, read and written: what a stream triad sustains"),
      assumed(field<&Host::core_bandwidth>("core_bandwidth", bandwidth(), kUsual, "that one core draws of it")),
      field<&Host::pcie>("pcie.bandwidth", bandwidth(), std::nullopt, "of one link, one way, from pinned memory"),
      assumed(field<&Host::pcie_latency>("pcie.latency", time(), kUsual, "of a copy: launch and completion")),
      field<&Host::gpus_per_link>("pcie.gpus_per_link", whole(1, 1024), kUsual,
                                  "GPUs that share a link on the way to memory"),
      field<&Host::nvme>("nvme.capacity", size(), std::nullopt, ""),
      field<&Host::nvme_read>("nvme.read", bandwidth(), std::nullopt, "large blocks, of all of them together"),
      field<&Host::nvme_write>("nvme.write", bandwidth(), std::nullopt, "likewise"),
      assumed(field<&Host::nvme_latency>("nvme.latency", time(), kUsual, "of a request")));
  return all;
}

const Description& cluster_fields() {
  static const auto microseconds = [](double us) { return seconds(us * 1e-6); };
  static const Description all = describe<ClusterSpec>(
      {.groups = {{.key = "links", .help = "a mapping with 'nvlink' and, for several nodes, 'nic'", .required = true},
                  {.key = "links.nvlink", .help = "a mapping with the bandwidth inside a node", .required = true},
                  {.key = "links.nic", .help = "between nodes; several need it"},
                  {.key = "host", .help = "what `training.offload` needs: memory, PCIe and disks of a node"}}},
      settled(field<&ClusterSpec::name>("name", text(), kUsual, "")), nested<&ClusterSpec::gpu>("gpu", gpu_fields()),
      field<&ClusterSpec::gpus_per_node>("gpus_per_node", whole(1, 1024), kRequired, "GPUs of a node"),
      settled(field<&ClusterSpec::nodes>("nodes", whole(1, 1'000'000), kUsual, "")),
      topology<&ClusterSpec::topology>("topology", "rail-optimized",
                                       "what joins the nodes; what is inside of them where one switch joins them"),
      topology<&ClusterSpec::node_topology>("node_topology", "nvswitch", "what is inside a node"),
      settled(opaque<&ClusterSpec::written>(
          "written_links", "links",
          [](const std::vector<WrittenLink>& links) {
            std::string text;
            for (const auto& l : links)
              text += fmt::format("{} {} {} {}; ", l.from, l.to, l.rate.value(), l.latency.count());
            return text;
          },
          "")),
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
          "nodes with GPUs of another kind, in the order of the nodes"),
      field<&ClusterSpec::nvlink>("links.nvlink.bandwidth", bandwidth(), kRequired, "of one GPU, one way"),
      assumed(field<&ClusterSpec::nvlink_latency>("links.nvlink.latency", time(),
                                                  {[](const ClusterSpec&) { return microseconds(1.22); }, "1.22us"},
                                                  "of a message between two GPUs of a node, a step of a ring")),
      field<&ClusterSpec::nvlink_generation>("links.nvlink.generation", whole(2, 5),
                                             {[](const ClusterSpec&) { return 0; }, "told by the bandwidth"},
                                             "2 (V100) to 5 (B200)"),
      assumed(field<&ClusterSpec::nvlink_message>(
          "links.nvlink.message", bandwidth(),
          {[](const ClusterSpec& c) { return c.nvlink * kMessageShare; }, "0.27 of `bandwidth`"},
          "what a pipeline send reaches inside a node")),
      assumed(field<&ClusterSpec::nvlink_gather>(
          "links.nvlink.gather", bandwidth(),
          {[](const ClusterSpec& c) { return c.nvlink * kGatherShare; }, "0.73 of `bandwidth`"},
          "all-gather after a sharded send")),
      field<&ClusterSpec::nics_per_node>("links.nic.per_node", whole(1, 1024),
                                         {[](const ClusterSpec& c) { return c.gpus_per_node; }, "one per GPU"},
                                         "NICs of a node"),
      field<&ClusterSpec::nic>("links.nic.bandwidth", bandwidth(), kRequired, "of one NIC, one way"),
      assumed(field<&ClusterSpec::nic_latency>("links.nic.latency", time(),
                                               {[](const ClusterSpec&) { return microseconds(25); }, "25us"},
                                               "one hop of a ring between nodes")),
      assumed(field<&ClusterSpec::nic_efficiency>("links.nic.efficiency", fraction(),
                                                  {[](const ClusterSpec&) { return .85; }, "0.85"},
                                                  "share of the wire that collectives reach")),
      assumed(field<&ClusterSpec::nic_message_efficiency>("links.nic.message_efficiency", fraction(),
                                                          {[](const ClusterSpec&) { return .9; }, "0.9"},
                                                          "share of the wire that pipeline sends reach")),
      field<&ClusterSpec::nics_per_group>("links.nic.per_group", whole(1, 1024),
                                          {[](const ClusterSpec&) -> std::int64_t { return 0; }, "all"},
                                          "NICs that a group of several but not all GPUs of a node reaches"),
      choice<&ClusterSpec::fabric>("links.nic.fabric",
                                   {{"infiniband", 1.},
                                    {"roce-tuned", kFabricRoceTuned / kFabricInfiniband},
                                    {"ecmp-one-leaf", kFabricEcmpOneLeaf / kFabricInfiniband},
                                    {"ecmp", kFabricEcmp / kFabricInfiniband}},
                                   kUsual, "how switches choose among paths"),
      field<&ClusterSpec::launch_factor>("launch_factor", number_above(0, 100), kUsual,
                                         "what a launch takes of its hosts, over a server with x86 cores"),
      assumed(field<&ClusterSpec::message_overhead>("message_overhead", time(),
                                                    {[](const ClusterSpec&) { return microseconds(250); }, "0.25ms"},
                                                    "fixed cost of a pipeline send")),
      nested<&ClusterSpec::host>("host", host_fields()),
      aside<&ClusterSpec::collectives>("a name; the curves themselves are described"),
      aside<&ClusterSpec::profile>("a name; the profile's own digest counts"),
      aside<&ClusterSpec::sources>("citations move no answer"),
      aside<&ClusterSpec::assumed>("citations move no answer"));
  return all;
}

}  // namespace rehearsal::cluster
