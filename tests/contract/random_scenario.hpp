// Random trainings of every kind, for laws of whole answers (laws.hpp): dense models and mixtures of experts with odd
// numbers of tokens, heads and experts, latent attention, shipped and inline machines, every axis of parallelism,
// schedules, recomputation, offload, precisions, optimizers and frameworks. Small: a prediction takes a few
// milliseconds. Two in three are legal; a refused text is drawn again.
#pragma once
#include "random_kinds.hpp"

namespace rehearsal::contract {

class RandomScenario : Draws {
 public:
  explicit RandomScenario(std::uint64_t seed) : Draws(seed), seed_(~seed) {
    degrees(), depth();
    const auto parts = {model(), machine(), layout(), training(), framework(), detail()};
    text_ = "version: 1\n" + fmt::format("{}", fmt::join(parts, ""));
  }
  const std::string& text() const { return text_; }

 private:
  void degrees() {
    do {
      tensor_ = one_of({1, 1, 1, 2, 2, 3, 4, 8}), pipeline_ = one_of({1, 1, 1, 2, 2, 3, 4});
      context_ = one_of({1, 1, 1, 1, 1, 2, 4}), data_ = one_of({1, 2, 2, 3, 4, 5, 8});
    } while (gpus() > 32);
    experts_ = chance(45), latent_ = experts_ && chance(30);
    sequence_parallel_ = tensor_ > 1 && chance(50);
  }
  int gpus() const { return tensor_ * pipeline_ * context_ * data_; }

  // Schedule, micro-batches and layers, which must fit each other.
  void depth() {
    microbatches_ = pipeline_ * one_of({1, 2, 3});
    if (pipeline_ > 1) {
      schedule_ = one_of({"1f1b", "1f1b", "1f1b", "gpipe", "zb-h1", "eager-1f1b", "interleaved-1f1b", "looped-bfs",
                          "1f1b-v", "zb-v-hand", "dualpipev", "dualpipe", "zb-h2", "hanayo", "seq1f1b", "chimera"});
      for (const char* two : {"interleaved-1f1b", "looped-bfs", "1f1b-v", "zb-v-hand", "dualpipev", "hanayo"})
        if (schedule_ == two) chunks_ = 2;
      if (schedule_.starts_with("dualpipe")) microbatches_ = 2 * pipeline_ * one_of({1, 2});
      if (schedule_ == "chimera") microbatches_ = pipeline_ * one_of({1, 2});
      if (chance(25) && chunks_ == 1 && schedule_ == "1f1b") microbatches_ = 1 + int(below(7));
    } else {
      microbatches_ = one_of({1, 1, 2, 3, 5});
    }
    layers_ = std::max(2, pipeline_ * chunks_ * one_of({1, 1, 2, 3}));
  }

  std::string model() {
    const int group = one_of({1, 1, 2, 4}), kv = tensor_ * one_of({1, 2, 3, 4}), heads = kv * group;
    const int head_dim = one_of({64, 64, 128, 128, 80, 96, 108});
    const int hidden = chance(60) ? heads * head_dim : one_of({512, 1024, 2048, 4096, 5120});
    const int ffn = tensor_ * 64 * one_of({8, 16, 32, 43}), vocabulary = tensor_ * one_of({128, 1000, 4000, 16032});
    const int pieces = 2 * context_ * (sequence_parallel_ ? tensor_ : 1);
    tokens_ = one_of({128, 500, 512, 1000, 1024, 2000, 2048, 4096});
    if (pieces == 2) {
      if (chance(25)) tokens_ += chance(50) ? 1 : -1;
    } else {
      tokens_ = (tokens_ + pieces - 1) / pieces * pieces;
    }
    kinds_.emplace(seed_, RandomKinds::Of{tensor_, layers_, data_, tokens_, latent_});
    std::string text = fmt::format(
        "model: {{family: {}, layers: {}, hidden: {}, heads: {}, ffn: {}, vocabulary: {}, sequence: {}",
        experts_ ? "moe" : one_of({"gpt", "llama", "llama"}), kinds_->layers, hidden, heads, ffn, vocabulary, tokens_);
    if (!latent_) text += fmt::format(", kv_heads: {}, head_dim: {}", kv, head_dim);
    if (chance(30)) text += chance(50) ? ", tie_embeddings: true" : ", tie_embeddings: false";
    if (experts_) text += experts();
    text += kinds_->model;
    return text + "}\n";
  }

  std::string experts() {
    number_ = one_of({4, 8, 12, 15, 16, 24, 30, 32, 60, 64});
    per_token_ = one_of({1, 2, 2, 3, 4});
    std::string text = fmt::format(", experts: {}, experts_per_token: {}, expert_ffn: {}", number_, per_token_,
                                   tensor_ * 64 * one_of({2, 4, 8, 11}));
    if (chance(30)) text += fmt::format(", shared_experts: {}", one_of({1, 2}));
    if (chance(25) && pipeline_ == 1) text += ", dense_layers: 1";
    if (chance(10)) text += ", mtp_layers: 1";
    if (latent_) {
      const int head = one_of({64, 128}), value = one_of({64, 128});
      text += fmt::format(", mla: {{{}kv_rank: {}, rotary_dim: 64, head_dim: {}, value_dim: {}}}",
                          chance(50) ? "query_rank: 256, " : "", one_of({128, 512}), head, value);
    }
    return text;
  }

  std::string machine() {
    if (chance(60)) {
      cluster_ = one_of({"dgx-a100-80g", "dgx-h100", "dgx-h100", "h200-sxm", "b200-sxm", "gb200-nvl72", "l40s-pcie",
                         "h800-roce", "h100-roce400", "dgx-v100-16g", "p3-8xlarge", "a100-40g-roce"});
      return fmt::format("cluster: {}\n", cluster_);
    }
    std::vector<int> sizes;
    for (int g = 1; g <= 8; ++g)
      if (gpus() % g == 0) sizes.push_back(g);
    const int per_node = gpus() / sizes.back() > 8 ? sizes.back() : sizes[below(sizes.size())];
    return cluster(gpus() / per_node, per_node);
  }
  bool is(std::string_view part) const { return cluster_.find(part) != std::string::npos; }
  bool volta() const { return is("v100") || is("p3-"); }

  std::string layout() {
    micro_ = one_of({1, 1, 1, 2, 3});
    zero_ = one_of({0, 0, 1, 1, 2, 3});
    std::string text = fmt::format(
        "parallelism: {{tensor: {}, sequence: {}, context: {}, pipeline: {}, data: {}, chunks: {}, zero: {}", tensor_,
        sequence_parallel_, context_, pipeline_, data_, chunks_, zero_);
    if (cuts_again(0)) text += fmt::format(", secondary_shard: {}", 2 * context_);
    if (experts_) {
      const int folded = tensor_ * context_ * data_;
      std::vector<int> degrees;
      for (int e = 1; e <= folded; ++e)
        if (folded % e == 0 && number_ % e == 0) degrees.push_back(e);
      const int degree = degrees[below(degrees.size())];
      text += fmt::format(", expert: {}", degree);
      if (folded / degree % tensor_ == 0 && chance(60)) text += fmt::format(", expert_tensor: {}", tensor_);
    }
    text += fmt::format("{}}}\nbatch: {{global: {}, micro: {}{}}}\n", kinds_->parallelism,
                        data_ * micro_ * microbatches_, micro_, kinds_->batch);
    if (pipeline_ > 1) text += fmt::format("schedule: {}\n", schedule_);
    if (experts_ && chance(50)) text += routing();
    if (chance(15)) {
      std::array<const char*, 5> axes{"tensor", "context", "expert", "data", "pipeline"};
      for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[below(i)]);
      text += fmt::format("placement: [{}]\n", fmt::join(axes, ", "));
    }
    if (chance(10)) text += "partition: balanced\n";
    if (chance(20) && data_ == gpus()) text += "data_parallel: {kind: parameter-server, servers: 2}\n";
    return text;
  }

  std::string routing() {
    std::vector<std::string> keys;
    if (chance(60)) keys.push_back(fmt::format("skew: {}", one_of({"{zipf: 0.3}", "{zipf: 0.8}", "{zipf: 1.2}"})));
    if (chance(25)) keys.push_back(fmt::format("capacity: {}", one_of({"1", "1.25", "2"})));
    if (chance(20)) keys.push_back("dispatch: two-hop");
    if (chance(15)) keys.push_back("limit_nodes: 2");
    return keys.empty() ? "" : fmt::format("experts: {{{}}}\n", fmt::join(keys, ", "));
  }

  std::string training() {
    std::vector<std::string> keys;
    const auto key = [&](int percent, const char* name, const char* value) {
      if (chance(percent)) keys.push_back(fmt::format("{}: {}", name, value));
    };
    const bool fp8 = is("h100") || is("h200") || is("b200") || is("h800") || is("l40s");
    if (volta())
      keys.push_back("precision: fp16, attention: unfused");
    else if (chance(35))
      keys.push_back(fmt::format("precision: {}", one_of({fp8 ? "fp8" : "bf16", "fp16", "fp32"})));
    if (!volta() && context_ == 1) key(12, "attention", "unfused");
    key(55, "recompute", one_of({"selective", "full", "full", "{mode: full, every: 2}", "{mode: full, layers: 1}"}));
    if (context_ > 1) {
      key(60, "context", one_of({"ring", "all-gather", "all-to-all"}));
      key(20, "context_balance", "false");
    }
    key(8, "causal", "false");
    key(12, "optimizer", one_of({"sgd", "sgd", "lomo"}));
    key(5, "fsdp", "{reshard_after_forward: false}");
    key(8, "kernels", "unfused");
    key(10, "gradient_precision", one_of({"fp32", "bf16"}));
    key(8, "moments", one_of({"bf16", "int8"}));
    key(10, "overlap", one_of({"{gradients: true}", "{gradients: false}", "{pipeline: true}", "{pipeline: false}"}));
    key(8, "allocator", one_of({"exact", "expandable"}));
    key(12, "offload",
        one_of({"{optimizer: host}", "{optimizer: host, gradients: host}", "{activations: host}", "{optimizer: nvme}",
                "{optimizer: host, optimizer_fraction: 0.5}"}));
    if (tensor_ > 1) key(5, "partition_activations", "device");
    if (!experts_) key(6, "lora", one_of({"8", "16", "64"}));
    key(10, "bucket", one_of({"1MB", "200MB"}));
    if (experts_ && !latent_) key(6, "lora", one_of({"8", "{rank: 16, experts: true}"}));
    if (zero_ == 3 && (layers_ + tokens_) % 3 == 0) keys.emplace_back("quantised_gathers: int8");
    if (zero_ == 3 && (layers_ + micro_) % 4 == 0) keys.emplace_back("quantised_reductions: int4");
    if (cuts_again(1) && tensor_ == 1 && keys_without(keys, "fsdp"))
      keys.push_back(fmt::format("fsdp: {{reshard_after_forward: {}}}", 2 * context_));
    if (!keys.empty() && std::any_of(keys.begin(), keys.end(), [](auto& k) { return k.starts_with("lora"); }))
      key(50, "frozen_precision", one_of({"nf4", "nf4-double", "gptq", "int8", "fp8"}));
    if (!kinds_->training.empty()) keys.push_back(kinds_->training);
    return keys.empty() ? "" : fmt::format("training: {{{}}}\n", fmt::join(keys, ", "));
  }

  std::string framework() {
    if (chance(35)) return "";
    const auto* name =
        one_of({"megatron-2021", "megatron-2022", "megatron-2024", "megatron-2025", "megatron-2026", "titan-2024",
                "titan-2025", "fsdp-2024", "deepspeed-2023", "mlperf-2025", "oneflow-2021", "hf-2024", "unknown"});
    if (kinds_->loss.empty()) return fmt::format("framework: {}\n", name);
    return fmt::format("framework: {{use: {}, loss: {}}}\n", name, kinds_->loss);
  }

  std::string detail() {
    if (chance(70)) return "";
    return fmt::format("simulate: {{detail: {}}}\n", one_of({"stage", "layer", "operator"}));
  }

  static bool keys_without(const std::vector<std::string>& keys, std::string_view name) {
    return std::none_of(keys.begin(), keys.end(), [&](const auto& key) { return key.starts_with(name); });
  }

  // Fewer GPUs gather again. Nothing is drawn, so that all else of a scenario stays.
  bool cuts_again(int kind) const {
    return zero_ == 3 && data_ % 2 == 0 && data_ > 2 && (layers_ + microbatches_) % 3 == kind;
  }

  std::uint64_t seed_;
  std::optional<RandomKinds> kinds_;
  bool experts_ = false, latent_ = false, sequence_parallel_ = false;
  int tensor_ = 1, pipeline_ = 1, context_ = 1, data_ = 1, chunks_ = 1;
  int zero_ = 0, microbatches_ = 1, micro_ = 1, layers_ = 2, tokens_ = 0, number_ = 0, per_token_ = 0;
  std::string schedule_ = "1f1b", cluster_, text_;
};

}  // namespace rehearsal::contract
