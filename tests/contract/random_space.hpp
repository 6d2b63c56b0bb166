// Small random spaces of layouts: scenarios with a section `plan`.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace rehearsal::contract {

class RandomSpace {
 public:
  explicit RandomSpace(std::uint64_t seed) : random_(Random(seed).next()) {
    const int nodes = one_of({1, 1, 2, 2, 4}), each = one_of({2, 4, 8});
    const bool experts = chance(20);
    const int layers = one_of({2, 4, 6});
    text_ = "version: 1\n";
    text_ += experts ? fmt::format(
                           "model: {{family: moe, layers: {}, hidden: 1024, heads: 16, experts: 8, "
                           "experts_per_token: 2, expert_ffn: 256, vocabulary: 32000, sequence: 512}}\n",
                           layers)
                     : fmt::format(
                           "model: {{family: {}, layers: {}, hidden: {}, heads: 16, vocabulary: {}, sequence: {}}}\n",
                           one_of({"gpt", "llama"}), layers, one_of({512, 1024, 2048}), one_of({1024, 32000}),
                           one_of({256, 1024}));
    // The memory is chosen so that about half of the layouts fit.
    text_ += fmt::format(
        "cluster:\n  gpu: {{use: {}, memory: {}MB}}\n  gpus_per_node: {}\n  nodes: {}\n  topology: rail-optimized\n"
        "  node_topology: nvswitch\n  links: {{scale_up: {{bandwidth: {}GB/s, latency: 3us}}, scale_out: {{bandwidth: "
        "{}Gb/s, "
        "latency: 5us, per_node: {}}}}}\n"
        "  host: {{memory: 1TB, memory_bandwidth: 200GB/s, cores: 64, pcie: {{bandwidth: 25GB/s, latency: 5us}}}}\n",
        one_of({"a100-80g-sxm", "h100-80g-sxm"}), one_of({2000, 2500, 3000, 4000, 6000, 80000}), each, nodes,
        one_of({50, 300}), one_of({25, 100, 400}), each);
    text_ += fmt::format(
        "batch: {{global: {}}}\ntraining: {{precision: bf16, attention: {}{}}}\nframework: {{use: {}{}}}\n",
        one_of({8, 16, 24}), one_of({"flash", "flash", "unfused"}), chance(8) ? ", optimizer: lomo" : "",
        one_of({"megatron-2021", "megatron-2024", "titan-2024", "deepspeed-2021"}),
        one_of({"", ", blocking_sends: true", ", gradient_overlap: always", ", gradient_overlap: never",
                ", gather_overlap: true"}) +
            std::string(chance(60) ? ", supports: {sequence: true, context: true, zero: [], zero_in_pipeline: [], "
                                     "schedules: [], recompute: []}"
                                   : ""));
    if (chance(15)) text_ += "partition: balanced\n";
    if (chance(15)) text_ += "placement: [pipeline, tensor, context, expert, data]\n";
    const bool priced = chance(50);
    if (priced) {
      text_ += fmt::format("job: {{{}, gpu_hour: {}, currency: USD",
                           one_of({"steps: 300", "steps: 2000", "tokens: 30M"}), one_of({"2.5", "0.7"}));
      if (chance(60)) {
        // Failure rates at which about a tenth to a half of the time is lost.
        text_ +=
            fmt::format(", failures: {{per_1000_node_days: {}, detect: 5s, restart: 10s", one_of({100000, 400000}));
        const bool spares = chance(40);
        if (spares) text_ += fmt::format(", repair: 2min, without_spare: {}", one_of({"wait", "shrink"}));
        text_ += chance(20) ? ", slow: {per_1000_node_days: 100000, notice: 1min}}" : "}";
        if (spares) text_ += fmt::format(", spares: {}", one_of({0, 1}));
        text_ += fmt::format(", checkpoint: {{rate: {}GB/s{}{}}}", one_of({1, 10}), one_of({"", ", async: true"}),
                             one_of({"", ", interval: 20s"}));
      }
      text_ += "}\n";
    }
    text_ += "plan:\n";
    some("tensor", {"1", "2", "4"}, 50);
    some("pipeline", {"1", "2", "4"}, 50);
    some("context", {"1", "2"}, 80);
    some("micro", {"1", "2", "3", "4"}, 70);
    some("zero", {"0", "1", "2", "3"}, 60);
    some("recompute", {"none", "selective", "full"}, 80);
    some("sequence", {"true", "false"}, 60);
    some("chunks", {"1", "2", "3"}, 60);
    some("schedules", {"1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zb-v-hand", "dualpipev", "dualpipe", "1f1b-v"},
         90);
    if (chance(15))
      text_ +=
          "  offload: [{}, {optimizer: host}, {optimizer: host, gradients: host}, {activations: host}, "
          "{optimizer: host, gradients: host, parameters: host}]\n";
    if (chance(15)) text_ += "  framework: [titan-2025, megatron-2025]\n";
    if (chance(20)) text_ += "  margin: 10%\n";
    if (chance(15))
      text_ += "  objective: gpus\n";
    else if (priced && chance(60))
      text_ += chance(25) ? "  objective: energy\n" : "  objective: cost\n";
    if (nodes > 1 && chance(20)) text_ += fmt::format("  nodes: [{}, {}]\n", nodes, nodes / 2);
    if (chance(50)) clusters(priced);
  }
  const std::string& text() const { return text_; }
  // Every list reversed.
  const std::vector<std::string>& reversed() const { return reversed_; }

 private:
  bool chance(int percent) { return random_.below(100) < std::uint64_t(percent); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_.below(all.size())];
  }
  // Two machines to choose from, with sizes, prices and frameworks of their own.
  void clusters(bool priced) {
    text_ += "  clusters:\n";
    for (const char* name : {"here", "there"}) {
      const int each = one_of({2, 4});
      text_ += fmt::format(
          "    - {{name: {}, gpu: {{use: {}, memory: {}MB}}, gpus_per_node: {}, topology: {}, node_topology: nvswitch, "
          "links: {{scale_up: {{bandwidth: {}GB/s, latency: 3us}}, scale_out: {{bandwidth: {}Gb/s, latency: 5us, "
          "per_node: {}}}}}, host: {{memory: 1TB, memory_bandwidth: 200GB/s, cores: 64, pcie: {{bandwidth: 25GB/s, "
          "latency: 5us}}}}, nodes: {}",
          name, one_of({"a100-80g-sxm", "h100-80g-sxm", "b200-sxm"}), one_of({2500, 4000, 80000}), each,
          one_of({"rail-optimized", "fat-tree"}), one_of({50, 300}), one_of({25, 100, 400}), each,
          one_of({"1", "2", "[1, 2]", "[2, 3]", "auto"}));
      if (priced && chance(80)) text_ += fmt::format(", gpu_hour: {}", one_of({"1.5", "2.5", "4"}));
      if (chance(40)) text_ += one_of({", framework: titan-2025", ", framework: [megatron-2025, fsdp-2024]"});
      text_ += "}\n";
    }
  }
  // A list of one to three values, or the key left to auto.
  void some(const char* key, std::vector<std::string> values, int percent) {
    if (!chance(percent)) return;
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random_.below(i)]);
    values.resize(std::min<std::size_t>(values.size(), 1 + random_.below(3)));
    text_ += fmt::format("  {}: [{}]\n", key, fmt::join(values, ", "));
    std::reverse(values.begin(), values.end());
    reversed_.push_back(fmt::format("plan.{}=[{}]", key, fmt::join(values, ", ")));
  }
  Random random_;
  std::string text_;
  std::vector<std::string> reversed_;
};

}  // namespace rehearsal::contract
