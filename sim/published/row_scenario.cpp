#include "published/row_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/json.hpp"

namespace rehearsal::published {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}
bool says(const std::string& text, const char* part) { return lower(text).find(part) != std::string::npos; }
bool begins(const std::string& text, const char* with) { return lower(text).starts_with(with); }
bool any_begins(const std::string& text, std::initializer_list<const char*> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const char* s) { return begins(text, s); });
}

// Configurations whose iteration the program cannot state, or whose table does not say what was run.
std::string why_not_judged(const Run& r) {
  if (!r.layers || !r.hidden || !r.sequence || !r.gpus || !r.global_batch) return "dimensions are not printed";
  if (!r.iteration_s && !r.out_of_memory()) return "no iteration time is printed";
  if (!r.micro_batch) return "the micro-batch is not printed";
  if (r.experts.value_or(0) > 1 && !r.experts_per_token) return "how many experts a token sees is not printed";
  if (begins(r.table, "titan") && r.pipeline.value_or(1) > 1) return "the schedule of its pipeline is not printed";
  if (begins(r.table, "jz_104b")) return "the source doubts its FFN size";
  return {};
}

// The cluster file, and the GPU where the file's is another.
struct ClusterName {
  std::string use, gpu;
  std::int64_t width = 8;
};
ClusterName cluster_of(const Run& r) {
  const bool roce = says(r.interconnect, "roce");
  if (!r.cluster.empty()) return {r.cluster, "", r.gpus_per_node.value_or(8)};
  if (says(r.gpu, "v100")) {
    if (says(r.gpu, "sxm3") || says(r.gpu, "dgx-2")) return {"dgx2-v100-32g", "", 16};
    const bool small = r.gpu_memory_gb.value_or(32) == 16;
    if (r.gpus_per_node == 4) return {"v100-32g-opa", small ? "v100-16g-sxm2" : "", 4};
    return {"v100-16g-ib100", small ? "" : "v100-32g-sxm2", 8};
  }
  if (says(r.gpu, "a100")) {
    if (says(r.gpu, "40gb")) return {roce ? "a100-40g-roce" : "dgx-a100-40g", "", 8};
    if (says(r.gpu, "not printed") || begins(r.table, "vtrain")) return {"a100-80g-ib800", "", 8};
    if (says(r.interconnect, "omni-path") || says(r.interconnect, "opa")) return {"a100-80g-opa", "", 8};
    return {roce ? "a100-80g-roce" : "dgx-a100-80g", "", 8};
  }
  if (says(r.gpu, "h100")) {
    if (says(r.gpu, "96gb") || says(r.gpu, "500w") || says(r.gpu, "500 w")) return {"h100-96g-500w", "", 8};
    return {roce ? "h100-roce400" : "dgx-h100", "", 8};
  }
  if (says(r.gpu, "h800")) return {"h800-roce", "", 8};
  if (says(r.gpu, "h200")) return {"h200-sxm", "", 8};
  if (says(r.gpu, "gb200")) return {"gb200-nvl72", "", 72};
  if (says(r.gpu, "b200")) return {"b200-sxm", "", 8};
  return {};
}

std::string cluster_yaml(const Run& r) {
  if (r.cluster.starts_with('{')) return r.cluster;
  auto [use, gpu, width] = cluster_of(r);
  const auto gpus = *r.gpus;
  const std::string size =
      gpus < width ? fmt::format("gpus: {}", gpus) : fmt::format("nodes: {}", (gpus + width - 1) / width);
  return fmt::format("{{use: {}, {}{}}}", use, gpu.empty() ? "" : fmt::format("gpu: {}, ", gpu), size);
}

std::string model_yaml(const Run& r) {
  const bool llama = says(r.model, "llama") || says(r.model, "nemotron") || says(r.model, "qwen") ||
                     says(r.model, "deepseek") || says(r.model, "mixtral");
  const auto h = *r.hidden;
  const bool moe = r.experts.value_or(0) > 1;
  // DLPerf prints no heads; a head of 96 is what its rows on one GPU agree with.
  const auto heads = r.heads.value_or(h / (begins(r.table, "dlperf") ? 96 : 128));
  // Latent attention makes keys for all heads.
  const bool latent = says(r.knobs, "model.mla");
  const auto kv = latent ? std::string() : fmt::format("kv_heads: {}, ", r.kv_heads.value_or(heads));
  if (moe) {
    const auto dense = says(r.knobs, "dense_layers") ? fmt::format("ffn: {}, ", r.ffn.value_or(4 * h)) : "";
    return fmt::format(
        "{{family: moe, layers: {}, hidden: {}, heads: {}, {}{}experts: {}, experts_per_token: {}, expert_ffn: {}, "
        "vocabulary: {}, sequence: {}}}",
        *r.layers, h, heads, kv, dense, *r.experts, *r.experts_per_token, r.expert_ffn.value_or(r.ffn.value_or(4 * h)),
        r.vocabulary.value_or(51200), *r.sequence);
  }
  return fmt::format(
      "{{family: {}{}, layers: {}, hidden: {}, heads: {}, kv_heads: {}, ffn: {}, vocabulary: {}, sequence: {}}}",
      llama ? "llama" : "gpt", llama && says(r.model, "nemotron") ? ", ffn_kind: gelu" : "", *r.layers, h, heads,
      r.kv_heads.value_or(heads), r.ffn.value_or(4 * h), r.vocabulary.value_or(51200), *r.sequence);
}

std::string schedule_of(const Run& r) {
  for (const char* name : {"zb-1p", "zb-2p", "zb-v"})
    if (says(r.schedule, name)) return name;
  return r.chunks.value_or(1) > 1 || says(r.schedule, "1f1b-i") ? "interleaved-1f1b" : "1f1b";
}

bool flash(const Run& r) {
  return !any_begins(r.table, {"megatron20", "megatron21", "mtnlg", "megatron_readme", "vtrain", "zerobubble", "dlperf",
                               "jz_", "opt"});
}

std::string precision_of(const Run& r) {
  if (says(r.precision, "fp8") || says(r.precision, "float8")) return "fp8";
  return says(r.precision, "bf16") ? "bf16" : "fp16";
}

std::string recompute_of(const Run& r) {
  if (says(r.recompute, "selective")) return "selective";
  return begins(r.recompute, "full") ? "full" : "none";
}

// The generation of a framework that a row belongs to, and what the row says beyond it.
struct SoftwareName {
  std::string use;  // empty where nothing says
  std::vector<std::string> knobs;
};
SoftwareName software_of(const Run& r) {
  if (!r.software.empty()) return {r.software, {}};
  if (says(r.framework, "oneflow")) return {"oneflow-2021", {}};
  // The scripts of DLPerf and of the paper's figures leave --DDP-impl at its default, "local", which reduces gradients
  // after the backward; those of Table 1 choose torch's for models without a pipeline, as the profile says.
  const std::string local_ddp = "gradient_overlap: never";
  if (begins(r.table, "dlperf")) return {"megatron-2021", {local_ddp}};
  if (says(r.framework, "deepspeed") || any_begins(r.table, {"mtnlg", "vtrain", "jz_"})) return {"deepspeed-2021", {}};
  if (begins(r.table, "zerobubble")) return {"megatron-2022", {}};
  if (begins(r.table, "mosaic")) return {"fsdp-2023", {}};
  if (begins(r.table, "titan")) {
    SoftwareName titan{"titan-2024", {}};
    if (says(r.precision, "eager")) titan.knobs.push_back("compiled: false");
    if (says(r.precision, "async")) titan.knobs.push_back("async_tensor: true");
    if (says(r.precision, "rowwise")) titan.knobs.push_back("fp8_scaling: rowwise");
    return titan;
  }
  if (begins(r.table, "mbridge") || says(r.framework, "megatron-bridge") || says(r.framework, "megatron-core") ||
      says(r.framework, "nemo"))
    return {"megatron-2024", {}};
  if (!begins(r.table, "megatron")) return {};
  SoftwareName megatron{"megatron-2021", {}};
  if (begins(r.table, "megatron21_fig15")) megatron.knobs.push_back(local_ddp);
  // Figure 18 of Megatron-LM 2021 compares sends with and without scatter and gather.
  if (says(r.schedule, "no scatter")) megatron.knobs.push_back("sharded_sends: false");
  return megatron;
}

std::string software_yaml(const SoftwareName& software, SoftwareDetail detail) {
  if (detail == SoftwareDetail::profile || software.knobs.empty()) return software.use;
  return fmt::format("{{use: {}, {}}}", software.use, fmt::join(software.knobs, ", "));
}

}  // namespace

RowScenario scenario_of(const Run& r, SoftwareDetail detail) {
  if (auto reason = why_not_judged(r); !reason.empty()) return {"", reason, {}};
  if (cluster_of(r).use.empty()) return {"", fmt::format("no cluster file describes '{}'", r.gpu), {}};
  const auto degree = [](const std::optional<std::int64_t>& value) { return value.value_or(1); };
  const bool early_stop = detail == SoftwareDetail::knobs && begins(r.precision, "amp");
  const auto recompute = recompute_of(r);
  std::string yaml =
      fmt::format("# {} ({}:{}), {}, {}\nversion: 1\nname: {}\n", r.id, r.file, r.line,
                  r.model.empty() ? "a GPT" : r.model, r.framework.empty() ? "vTrain" : r.framework, r.id);
  yaml += "model: " + model_yaml(r) + "\n";
  yaml += "cluster: " + cluster_yaml(r) + "\n";
  // The recipes behind published runs of Megatron-Core set sequence parallelism wherever they set tensor parallelism;
  // their tables do not print it.
  const bool recipe =
      detail == SoftwareDetail::knobs && r.sequence_parallel.empty() && software_of(r).use == "megatron-2024";
  const bool sequence = (recipe || begins(r.sequence_parallel, "yes")) && degree(r.tensor) > 1;
  yaml += fmt::format("parallelism: {{tensor: {}, sequence: {}, pipeline: {}, chunks: {}, zero: {}}}\n",
                      degree(r.tensor), sequence, degree(r.pipeline), degree(r.chunks), r.zero.value_or(0));
  if (degree(r.context) > 1) yaml.insert(yaml.size() - 2, fmt::format(", context: {}", *r.context));
  if (degree(r.expert) > 1) yaml.insert(yaml.size() - 2, fmt::format(", expert: {}", *r.expert));
  yaml += fmt::format("batch: {{global: {}, micro: {}}}\n", *r.global_batch, *r.micro_batch);
  yaml += "schedule: " + schedule_of(r) + "\n";
  yaml += fmt::format("training: {{precision: {}, recompute: {}, attention: {}}}\n",
                      r.precision.empty() && r.table == "vtrain_single" ? "fp16" : precision_of(r),
                      early_stop && recompute == "full" ? "{mode: full, early_stop: true}" : recompute,
                      flash(r) ? "flash" : "unfused");
  if (const auto software = software_of(r); detail != SoftwareDetail::none && !software.use.empty())
    yaml += "software: " + software_yaml(software, detail) + "\n";
  // Zero Bubble deals one layer fewer to the first and the last stage; the uniform partition does so where the layers
  // do not divide, as in all of its runs.
  RowScenario scenario{yaml, "", {}};
  if (r.knobs.empty() || detail == SoftwareDetail::none) return scenario;
  const auto knobs = Json::parse(r.knobs);
  if (!knobs.is_object()) return {"", "its knobs are no JSON object", {}};
  for (const auto& [key, value] : knobs.members()) scenario.sets.push_back(key + "=" + value.dump());
  return scenario;
}

}  // namespace rehearsal::published
