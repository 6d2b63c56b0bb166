// Small random trainings on small machines, for properties of the simulator. Each is the text of a scenario that
// `rehearse run` accepts. A wider variety, for laws of whole answers: random_scenario.hpp.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "backend/backend.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/demands.hpp"
#include "engine/sim.hpp"

namespace rehearsal::contract {

class Draws {
 protected:
  explicit Draws(std::uint64_t seed) : random_(Random(seed).next()) {}  // independent streams
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  bool chance(int percent) { return below(100) < std::uint64_t(percent); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

  // An inline cluster: every topology between and inside nodes, any number of NICs that divides.
  std::string inside(int per_node) {
    if (chance(15)) {
      const int sockets = per_node % 2 == 0 && chance(50) ? 2 : 1;
      std::vector<int> switches{0};
      for (int s = sockets; s <= per_node; s += sockets)
        if (per_node % s == 0) switches.push_back(s);
      return fmt::format("{{name: pcie-host, sockets: {}, switches: {}}}", sockets, switches[below(switches.size())]);
    }
    return one_of({"nvswitch", "nvswitch", "nvswitch", "nvswitch", "full-mesh", "hybrid-cube-mesh"});
  }

  std::string between(int nics, int nodes) {
    const auto over = one_of({"1", "1", "2", "1.5"});
    switch (below(6)) {
      case 0:
        return fmt::format("{{name: fat-tree, levels: 3, radix: {}, oversubscription: {}}}",
                           2 * std::max(nics, one_of({2, 4, 8})), over);
      case 1:
        return "torus";
      case 2:
        return one_of({"one-switch", "dragonfly"});
      default:
        return fmt::format("{{name: {}, nodes_per_leaf: {}, oversubscription: {}}}",
                           one_of({"rail-optimized", "rail-optimized", "rail-only"}), below(std::uint64_t(nodes) + 1),
                           over);
    }
  }

  std::string cluster(int nodes, int per_node) {
    int nics = per_node;  // NICs divide the GPUs of a node, or are a multiple of them
    if (chance(60)) do
        nics = 1 + int(below(8));
      while (per_node % nics != 0 && nics % per_node != 0);
    const auto fabric = between(nics, nodes), node = inside(per_node);
    return fmt::format(
        "cluster:\n  gpu: {}\n  gpus_per_node: {}\n  nodes: {}\n  topology: {}\n  node_topology: {}\n"
        "  links: {{scale_up: {{bandwidth: {}GB/s, latency: {}us, p2p_bandwidth: {}GB/s}}, scale_out: {{bandwidth: "
        "{}Gb/s, latency: "
        "{}us, per_node: {}}}}}\n  message_overhead: {}\n",
        one_of({"a100-80g-sxm", "h100-80g-sxm"}), per_node, nodes, fabric, node, one_of({25, 50, 300}), one_of({1, 5}),
        one_of({5, 20, 80}), one_of({25, 100, 400}), one_of({2, 25}), nics, one_of({"0s", "20us", "0.25ms"}));
  }

 private:
  Random random_;
};

class RandomTraining : Draws {
 public:
  explicit RandomTraining(std::uint64_t seed) : Draws(seed) {
    const auto drawn = Random(~seed).below(12);
    both_ways_ = drawn < 3 ? int(drawn) : 0;
    degrees();
    text_ = "version: 1\n" + model() + cluster(gpus_ / per_node_, per_node_) + layout() + training();
    share_sequences();
  }
  const std::string& text() const { return text_; }

 private:
  // Some replicas share each sequence instead (context parallelism), if attention is fused.
  void share_sequences() {
    std::vector<int> degrees;
    for (const int c : {2, 4})
      if (data_ % c == 0 && text_.find("attention: flash") != std::string::npos) degrees.push_back(c);
    if (degrees.empty() || !chance(50)) return;
    const int context = degrees[below(degrees.size())];
    const auto replace = [&](const std::string& what, const std::string& by) {
      text_.replace(text_.find(what), what.size(), by);
    };
    replace(fmt::format("data: {},", data_), fmt::format("data: {}, context: {},", data_ / context, context));
    replace("training: {", fmt::format("training: {{context: {}, context_balance: {}, causal: {}, ",
                                       one_of({"ring", "ring", "all-gather", "all-to-all"}), chance(70), chance(80)));
  }

  void degrees() {
    do {
      tensor_ = one_of({1, 1, 2, 2, 4, 8}), pipeline_ = one_of({1, 2, 2, 3, 4, 4, 8});
      data_ = one_of({1, 2, 2, 3, 4, 8});
      gpus_ = tensor_ * pipeline_ * data_;
    } while (gpus_ > 32 || gpus_ < 2);
    experts_ = chance(25);
    std::vector<int> sizes;
    for (int g = 1; g <= 8; ++g)
      if (gpus_ % g == 0) sizes.push_back(g);
    per_node_ = sizes[below(sizes.size())];
    if (gpus_ / per_node_ > 8) per_node_ = sizes.back();
  }

  std::string model() {
    const int layers = std::clamp(pipeline_ * one_of({1, 2, 2, 4}), 2, 8);
    if (experts_)
      return fmt::format(
          "model: {{family: moe, layers: {}, hidden: {}, heads: 16, {}experts: 16, experts_per_token: {}, expert_ffn: "
          "{}, "
          "shared_experts: {}, dense_layers: {}, ffn: 1024, vocabulary: {}, sequence: {}}}\n",
          layers, one_of({256, 1024, 2048}),
          one_of(
              {"kv_heads: 8, ", "mla: {query_rank: 64, kv_rank: 64, rotary_dim: 16, head_dim: 32, value_dim: 16}, "}),
          one_of({1, 2, 4}), one_of({64, 256}), below(2), one_of({0, 1}), one_of({1024, 32000}),
          one_of({128, 512, 2048}));
    return fmt::format("model: {{family: {}, layers: {}, hidden: {}, heads: 16, vocabulary: {}, sequence: {}}}\n",
                       one_of({"gpt", "llama"}), layers, one_of({256, 1024, 2048, 4096}), one_of({1024, 32000}),
                       one_of({128, 512, 2048}));
  }

  std::string layout() {
    struct Schedule {
      const char* name;
      int chunks;
    };
    auto schedule = one_of<Schedule>({{"1f1b", 1},
                                      {"1f1b", 1},
                                      {"1f1b", 1},
                                      {"gpipe", 1},
                                      {"zb-h1", 1},
                                      {"eager-1f1b", 1},
                                      {"interleaved-1f1b", 2},
                                      {"looped-bfs", 2},
                                      {"1f1b-v", 2},
                                      {"hanayo", 2},
                                      {"zb-v-hand", 2},
                                      {"dualpipev", 2}});
    if (pipeline_ == 1) schedule = {"1f1b", 1};
    if (both_ways_ > 0 && pipeline_ % 2 == 0) schedule = {both_ways_ == 1 ? "dualpipe" : "chimera", 1};
    std::array<const char*, 5> axes{"tensor", "context", "expert", "data", "pipeline"};
    if (chance(60))
      for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[below(i)]);
    const int micro = one_of({1, 1, 2}), microbatches = (pipeline_ > 1 ? pipeline_ : 1) * one_of({1, 2, 3});
    std::string folded;
    if (experts_) {
      std::vector<int> degrees;
      for (int e = 1; e <= 16; e *= 2)
        if (tensor_ * data_ % e == 0) degrees.push_back(e);
      folded = fmt::format(", expert: {}", degrees[below(degrees.size())]);
      if (chance(40))
        folded += fmt::format("}}\nexperts: {{skew: {}, {}limit_nodes: 2", one_of({"uniform", "{zipf: 0.5}"}),
                              one_of({"", "capacity: 1.25, "}));
    }
    return fmt::format(
        "parallelism: {{tensor: {}, sequence: {}, pipeline: {}, data: {}, chunks: {}, zero: {}{}}}\nplacement: [{}]\n"
        "schedule: {}\nbatch: {{global: {}, micro: {}}}\n",
        tensor_, tensor_ > 1 && chance(50), pipeline_, data_, schedule.chunks, below(4), folded, fmt::join(axes, ", "),
        schedule.name, data_ * micro * microbatches, micro);
  }

  std::string training() {
    const auto framework =
        one_of({"megatron-2021", "megatron-2022", "megatron-2024", "titan-2024", "oneflow-2021", "deepspeed-2021"});
    const auto changes = one_of(
        {"", "", ", blocking_sends: true", ", blocking_sends: false", ", gradient_overlap: always",
         ", gradient_overlap: always, blocking_sends: false", ", sharded_sends: true", ", async_tensor: true",
         ", async_tensor: true, host_time_per_kernel: 0us", ", weight_gradient_overlap: true", ", gather_overlap: true",
         ", gather_overlap: true, gradient_overlap: always, bucket_parameters: 40000000"});
    const auto dispatcher =
        experts_ ? one_of({"", ", dispatcher: deepep", ", dispatcher: hybridep, cuda_graph: attention"}) : "";
    return fmt::format(
        "framework: {{use: {}{}{}}}\ntraining: {{precision: {}, recompute: {}, attention: {}, bucket: {}}}\n"
        "simulate: {{detail: {}}}\n",
        framework, changes, dispatcher, one_of({"bf16", "fp16"}), one_of({"none", "selective", "full"}),
        one_of({"flash", "unfused"}), one_of({"1MB", "25MB", "1GB"}), one_of({"stage", "layer", "operator"}));
  }

  bool experts_ = false;
  int both_ways_ = 0;  // dualpipe, chimera
  int tensor_ = 1, pipeline_ = 1, data_ = 1, gpus_ = 1, per_node_ = 1;
  std::string text_;
};

// A training with some keys set; nothing if they do not fit together.
inline std::optional<answer::LoweredJob> question(const std::string& text, const std::vector<std::string>& sets = {}) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  try {
    return answer::prepare(scenario::load_text(text, "random", sets), nullptr, false);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

inline timeline::Timeline simulate(const answer::LoweredJob& question, const char* engine) {
  backend::RunOptions run;
  run.durations = question.durations;
  run.held = question.held;
  run.engine = engine;
  run.footprints = question.footprints;
  if (question.resource_map) run.places = &question.resource_map->places;
  const auto simulator = engine::make_sim();
  return simulator->prepare(question.graph)->run(run);
}

// Phases of a work without anything beside a row of its kernels, as in all random trainings.
inline fluid::Row phases(const engine::Demands& demands, const engine::Actor& actor, WorkId work) {
  auto parts = demands.parts(actor, work);
  INVARIANT(parts.size() == 1 && parts.front().beside.empty(), "one row of phases");
  return std::move(parts.front().row);
}

// Visits everything that takes part and takes time, once: each task except receives; a collective by its first member.
template <class See>
void each_run(const engine::Prepared& graph, See see) {
  for (std::uint32_t r = 0; r < graph.ranks().size(); ++r) {
    const auto& rank = graph.ranks()[r];
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      const auto& step = rank.steps[i];
      if (step.kind == engine::Kind::receive) continue;
      const auto actor = engine::Actor::of(r, step, rank.ends);
      if (step.kind == engine::Kind::group && graph.graph().groups()[actor.id].members.front().rank.value != r)
        continue;
      see(actor, WorkId(step.work), rank.first_task + i);
    }
  }
}

}  // namespace rehearsal::contract
