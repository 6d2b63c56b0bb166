#include "published/row_scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/json.hpp"
#include "published/recipe.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/renamed.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::published {
namespace {

bool says(const std::string& text, const char* part) { return lower(text).find(part) != std::string::npos; }
bool begins(const std::string& text, const char* with) { return lower(text).starts_with(with); }

// Whether a rule says that its model is one of the zoo.
bool names_model(const Mapped& mapped) {
  return std::any_of(mapped.set.begin(), mapped.set.end(), [](const auto& each) { return each.first == "model.use"; });
}

// Why the program cannot predict a configuration.
std::string why_not_judged(const Run& r, bool model_named) {
  if (!r.unread.empty()) return r.unread;
  if (!model_named && (!r.layers || !r.hidden)) return "dimensions are not printed";
  if (!r.sequence || !r.gpus) return "dimensions are not printed";
  if (!r.global_batch) return "the batch is not printed";
  if (!r.iteration_s && !r.tflops && !r.mfu && !r.peak_memory && !r.out_of_memory())
    return "neither time nor memory is printed";
  if (!r.micro_batch) return "the micro-batch is not printed";
  if (r.experts.value_or(0) > 1 && !r.experts_per_token) return "how many experts a token sees is not printed";
  return {};
}

// KEY=VALUE, where a later one wins.
struct Settings {
  std::vector<std::string> all;
  std::ptrdiff_t named = 0;  // of these, the first say what the scenario is called

  void put(const std::string& key, const std::string& value) { all.push_back(key + "=" + value); }
  void put(const std::string& key, std::int64_t value) { put(key, std::to_string(value)); }
};

// Latent attention has keys for all heads; the dense layers before the experts are as wide as the table says.
void put_model(Settings& s, const Run& r, const Mapped& mapped) {
  if (names_model(mapped)) return s.put("model.sequence", *r.sequence);  // the rule sets model.use
  const auto h = *r.hidden;
  const auto set = [&](const char* key) {
    const auto same = [&](const auto& each) { return scenario::path_of_today(each.first) == key; };
    return std::any_of(mapped.set.begin(), mapped.set.end(), same) || r.knobs.find(key) != std::string::npos;
  };
  const bool moe = r.experts.value_or(0) > 1;
  const auto heads = r.heads.value_or(h / mapped.head_dim);
  s.put("model.family", moe ? "moe" : "gpt");
  s.put("model.layers", *r.layers), s.put("model.hidden", h);
  s.put("model.heads", heads);
  if (!set("model.mla")) s.put("model.kv_heads", r.kv_heads.value_or(heads));
  if (moe) {
    s.put("model.experts", *r.experts), s.put("model.experts_per_token", *r.experts_per_token);
    s.put("model.expert_ffn", r.expert_ffn.value_or(r.ffn.value_or(4 * h)));
  }
  if (!moe || set("model.dense_layers")) s.put("model.ffn", r.ffn.value_or(4 * h));
  s.put("model.vocabulary", r.vocabulary.value_or(51200)), s.put("model.sequence", *r.sequence);
}

void put_cluster(Settings& s, const Run& r, const Mapped& mapped) {
  if (mapped.cluster.starts_with('{')) return s.put("cluster", mapped.cluster);
  s.put("cluster.use", mapped.cluster);
  if (!mapped.gpu.empty()) s.put("cluster.gpu", mapped.gpu);
  const auto gpus = *r.gpus, width = std::max<std::int64_t>(1, mapped.gpus_per_node);
  // Part of a node, or as large a part of each: 64 of the 72 GPUs of four racks.
  if (gpus % width != 0)
    s.put("cluster.gpus", gpus);
  else
    s.put("cluster.nodes", gpus / width);
}

void put_parallelism(Settings& s, const Run& r) {
  const auto degree = [](const std::optional<std::int64_t>& value) { return value.value_or(1); };
  s.put("parallelism.tensor", degree(r.tensor));
  s.put("parallelism.sequence", begins(r.sequence_parallel, "yes") && degree(r.tensor) > 1 ? "true" : "false");
  s.put("parallelism.pipeline", degree(r.pipeline)), s.put("parallelism.chunks", degree(r.chunks));
  s.put("parallelism.zero", r.zero.value_or(0));
  if (!r.stage_layers.empty()) s.put("partition", fmt::format("[{}]", fmt::join(r.stage_layers, ", ")));
  if (degree(r.context) > 1) s.put("parallelism.context", *r.context);
  if (degree(r.expert) > 1) s.put("parallelism.expert", *r.expert);
}

std::string schedule_of(const Run& r) {
  for (const char* name : {"zb-1p", "zb-2p", "zb-v"})
    if (says(r.schedule, name)) return name;
  return r.chunks.value_or(1) > 1 || says(r.schedule, "1f1b-i") ? "interleaved-1f1b" : "1f1b";
}

// Empty: not printed, or none of these. Then rules decide, otherwise the scenario's default.
std::string precision_of(const Run& r) {
  if (says(r.precision, "float8")) return "fp8";
  for (const char* name : {"fp4", "fp8", "bf16", "fp16", "fp32"})
    if (says(r.precision, name)) return name;
  return "";
}

// The name behind a key of a mapping, YAML's or JSON's; the whole text where it is none.
std::string name_behind(const std::string& text, const std::string& key) {
  if (!text.starts_with('{')) return key == "use" ? text : "";
  const auto at = text.find(key);
  const auto begin = at == std::string::npos ? at : text.find_first_not_of("\": ", at + key.size());
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_first_of("\",} ", begin) - begin);
}

// The GPU of the cluster that a row names, if its own column names another: one whose number is in no part of the name
// of the cluster's. Columns without a number ("not printed") name none.
std::string other_gpu(const Run& r, const std::string& cluster) {
  const auto numbered = [](const std::string& text) {
    return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  if (!numbered(r.gpu)) return {};
  auto gpu = name_behind(cluster, "gpu:");
  if (gpu.empty()) gpu = name_behind(cluster, "gpu\":");
  if (gpu.starts_with('{')) return {};
  try {
    if (gpu.empty()) gpu = scenario::load_named_cluster(name_behind(cluster, "use")).spec.gpu.name;
  } catch (const UserError&) {
    return {};  // its scenario says why
  }
  std::string part;
  bool named = !numbered(gpu);
  for (const char c : gpu + "-") {
    if (c != '-') {
      part += c;
      continue;
    }
    const bool size = part.ends_with('g') || part.ends_with('w');  // "80g" of memory, "500w"
    named |=
        numbered(part) && !(size && std::isdigit(static_cast<unsigned char>(part[0]))) && says(r.gpu, part.c_str());
    part.clear();
  }
  return named ? "" : gpu;
}

// Whether rules or the row's knobs set a key, by its name of today or an older one.
bool says_of(const Run& r, const Mapped& mapped, const std::string& key) {
  const auto same = [&](const auto& each) { return scenario::path_of_today(each.first) == key; };
  if (std::any_of(mapped.set.begin(), mapped.set.end(), same)) return true;
  if (std::any_of(mapped.over.begin(), mapped.over.end(), same)) return true;
  const auto knobs = Json::read(r.knobs);
  return knobs && knobs->is_object() &&
         std::any_of(knobs->members().begin(), knobs->members().end(),
                     [&](const auto& each) { return scenario::path_of_today(each.key) == key; });
}

// Filters framework settings by the requested detail.
bool wanted(const std::string& key, FrameworkDetail detail) {
  return detail == FrameworkDetail::knobs || !key.starts_with("framework.");
}

RowScenario described(const Run& r, const Mapping& mapping, FrameworkDetail detail) {
  auto mapped = mapping.of(r);
  if (auto reason = why_not_judged(r, names_model(mapped)); !reason.empty()) return {"", reason, {}, ""};
  if (!mapped.not_judged.empty()) return {"", mapped.not_judged, {}, ""};
  if (const auto other = r.cluster.empty() ? "" : other_gpu(r, r.cluster); !other.empty()) {
    auto by_gpu = r;
    by_gpu.cluster.clear();
    mapped = mapping.of(by_gpu);
    if (mapped.cluster.empty())
      return {"", fmt::format("its GPU is '{}', but that of its cluster {} is {}", r.gpu, r.cluster, other), {}, ""};
  }
  if (mapped.cluster.empty()) return {"", fmt::format("no cluster file describes '{}'", r.gpu), {}, ""};

  const auto recipe = recipe_of(r, names_model(mapped) || r.experts.value_or(0) > 1);
  if (!recipe.unread.empty()) return {"", recipe.unread, {}, ""};

  Settings s;
  s.put("version", 1), s.put("name", r.id), s.named = 2;
  put_model(s, r, mapped);
  put_cluster(s, r, mapped);
  put_parallelism(s, r);
  s.put("batch.global", *r.global_batch), s.put("batch.micro", *r.micro_batch);
  s.put("schedule", schedule_of(r));
  if (const auto precision = precision_of(r); !precision.empty()) s.put("training.precision", precision);
  s.put("training.recompute", recipe.recompute);
  s.put("training.attention", "flash");
  if (detail != FrameworkDetail::none && !mapped.framework.empty()) s.put("framework.use", mapped.framework);
  for (const auto& [key, value] : mapped.set)
    if (const auto today = scenario::path_of_today(key); wanted(today, detail)) s.put(today, value);
  for (const auto& [key, value] : recipe.settings)
    if (wanted(key, detail)) s.put(key, value);
  // Zero Bubble gives the first and the last stage one layer fewer; so does the uniform partition if the layers do not
  // divide evenly, as in all of its runs.
  RowScenario scenario{fmt::format("# {} ({}:{}), {}, {}\n", r.id, r.file, r.line, r.model.empty() ? "a GPT" : r.model,
                                   r.framework.empty() ? "a framework that is not named" : r.framework) +
                           scenario::text_of(s.all, r.file),
                       "",
                       {},
                       mapped.not_timed,
                       mapped.peak_rank,
                       mapped.fine_tuning,
                       {},
                       fmt::format("{}", fmt::join(s.all.begin() + s.named, s.all.end(), "\n"))};
  if (!r.knobs.empty()) {
    const auto knobs = Json::read(r.knobs);
    if (!knobs || !knobs->is_object()) return {"", "its knobs are no JSON object", {}, ""};
    for (const auto& [key, value] : knobs->members())
      if (wanted(key, detail)) scenario.sets.push_back(key + "=" + value.dump());
  }
  for (const auto& [key, value] : mapped.over)
    if (wanted(key, detail) && !(recipe.lists_modules && key == "training.recompute"))
      scenario.sets.push_back(key + "=" + value);
  for (const auto& key : recipe.untold)
    if (wanted(key, detail) && !says_of(r, mapped, key)) scenario.untold.push_back(key);
  return scenario;
}

}  // namespace

RowScenario scenario_of(const Run& run, const Mapping& mapping, FrameworkDetail detail) {
  try {
    return described(run, mapping, detail);
  } catch (const UserError& error) {  // a cell that is no YAML; other rows are judged
    return {"", error.diagnostics().front().message, {}, ""};
  }
}

}  // namespace rehearsal::published
