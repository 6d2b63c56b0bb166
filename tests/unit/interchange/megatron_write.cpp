// Scenarios as arguments of Megatron-LM, and back: what the arguments have words for is the same scenario again.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>

#include "base/error.hpp"
#include "interchange/import.hpp"
#include "interchange/megatron/write.hpp"
#include "plan/partition.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::megatron_write_test {

using namespace interchange;
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct Back {
  std::string arguments;
  Lacks lacks;
  scenario::Scenario scenario;
};

Back there_and_back(const scenario::Scenario& s, const std::string& cluster) {
  Back back;
  back.arguments = write_megatron(s, back.lacks);
  Asked asked{.arguments = words_of(back.arguments), .world = s.parallelism.gpus(), .cluster = cluster};
  back.scenario = scenario::load_text(import(asked, scenario::disk()).yaml, "again.yaml");
  return back;
}

std::vector<std::int64_t> layers_of_stages(const scenario::Scenario& s) {
  std::vector<std::string> warnings;
  std::vector<std::int64_t> layers;
  for (const auto& stage :
       plan::deal_stages(s.concrete->model, s.parallelism.stages(), s.concrete->partition, warnings))
    layers.push_back(100 * stage.layers + stage.predictions);
  return layers;
}

std::string layers_of(const scenario::Scenario& s) {
  std::string all;
  const auto table = models::layer_table(s.concrete->model);
  for (const auto row : table.of_layer) all += models::label(table.rows[row].spec) + "; ";
  for (const auto& [spec, count] : table.rows) {
    const auto& m = spec.mixer;
    const auto& f = spec.ffn;
    all += fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", count, m.heads, m.kv_heads, m.head_dim, m.value_dim(),
                       m.gate, m.qk_norm, f.width, f.expert_width, f.shared_width, f.experts);
  }
  return all;
}

// Keys whose values differ, without those of the machine, of the framework, and names. A partition is what it deals: a
// uniform one that does not divide is written as a layout.
std::vector<std::string> differences(const scenario::Scenario& a, const scenario::Scenario& b) {
  std::vector<std::string> keys;
  const bool same_layers = layers_of(a) == layers_of(b);
  const bool same_stages = layers_of_stages(a) == layers_of_stages(b);
  for (const auto& field : scenario::scenario_fields().fields) {
    if (!field.acts || field.key.starts_with("cluster.") || field.key.starts_with("framework.") ||
        field.key.starts_with("job."))
      continue;
    // `batch.sequence` is what is trained; no prediction depends on a rate of learning.
    if (field.key == "model.name" || field.key == "model.sequence" || field.key == "training.learning_rate" ||
        field.key == "training.weight_decay")
      continue;
    if (field.key == "training.context" && a.parallelism.context == 1) continue;
    // How many experts share what all of them together are wide.
    if (field.key == "model.shared_experts" && a.concrete->model.shared_ffn == b.concrete->model.shared_ffn) continue;
    if (same_layers && (field.key.starts_with("model.mixer.") || field.key.starts_with("model.shared_"))) continue;
    if (field.key.starts_with("partition") && same_stages) continue;
    const auto one = field.get(&a), other = field.get(&b);
    if (!(one == other))
      keys.push_back(fmt::format("{} {} {}", field.key, fields::written(one), fields::written(other)));
  }
  return keys;
}

// Those of them that no lack names.
std::string unnamed(const std::vector<std::string>& differences, const Lacks& lacks) {
  std::vector<std::string> left;
  for (const auto& difference : differences) {
    const auto key = difference.substr(0, difference.find(' '));
    if (std::none_of(lacks.begin(), lacks.end(), [&key](const auto& lack) {
          const auto named = lack.substr(0, lack.find_first_of(" :"));
          if (named == "model.layers" && key == "model.listed_layers") return true;
          return key.starts_with(named) || named.starts_with(key);
        }))
      left.push_back(difference);
  }
  return fmt::format("{}", fmt::join(left, "; "));
}

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::string of(std::initializer_list<const char*> all) { return *(all.begin() + random_() % all.size()); }
  bool one_in(std::uint32_t n) { return random_() % n == 0; }

  std::string scenario() {
    const auto model = of(
        {"family: gpt, layers: 24, hidden: 1024, heads: 16",
         "family: gpt, layers: 16, hidden: 2048, heads: 16, tie_embeddings: false, vocabulary: 50304, sequence: 1024",
         "family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocabulary: 128256",
         "family: llama, layers: 24, hidden: 2048, heads: 16, head_dim: 256, ffn_kind: squared-relu, ffn: 8192",
         "family: llama, layers: 32, hidden: 4096, heads: 32, ffn: 11008, mixer: {qk_norm: true}, tie_embeddings: true",
         "family: llama, layers: 16, hidden: 2048, heads: 32, kv_heads: 8, ffn: 8192, mixer: {window: 1024, sinks: "
         "true}",
         "family: moe, layers: 16, hidden: 2048, heads: 32, kv_heads: 4, experts: 64, experts_per_token: 8, "
         "expert_ffn: 1024",
         "family: moe, layers: 16, hidden: 2048, heads: 16, experts: 16, experts_per_token: 2, expert_ffn: 1408, "
         "shared_experts: 2, dense_layers: 1, ffn: 10944",
         "family: moe, layers: 12, hidden: 2048, heads: 16, experts: 32, experts_per_token: 4, expert_ffn: 1408, "
         "mla: {query_rank: 512, kv_rank: 512, rotary_dim: 64, head_dim: 128, value_dim: 128}, mtp_layers: 1",
         "family: moe, hidden: 2048, heads: 16, kv_heads: 2, experts: 32, experts_per_token: 4, expert_ffn: 512, "
         "layers: [{repeat: 4, layers: [{repeat: 3, mixer: {kind: linear, heads: 32, kv_heads: 16, head_dim: 128, "
         "value_dim: 128}}, {mixer: {gate: false}}]}]",
         "family: moe, hidden: 2048, heads: 32, head_dim: 64, experts: 32, experts_per_token: 4, expert_ffn: 2048, "
         "layers: [{repeat: 8, layers: [{mixer: {window: 128}}, {}]}]",
         "family: hybrid, hidden: 1024, heads: 16, kv_heads: 8, ffn_kind: gelu, pattern: 'M-M-M*-M-M-M-M*-'"});
    const auto tensor = of({"1", "2", "4"}), pipeline = of({"1", "2", "4"}), context = of({"1", "1", "2"});
    const bool moe = model.find("moe") != model.npos;
    auto layout = fmt::format("tensor: {}, pipeline: {}, context: {}, zero: {}", tensor, pipeline, context,
                              of({"0", "1", "1", "2", "3"}));
    if (tensor != "1" && (moe || one_in(2))) layout += ", sequence: true";
    if (pipeline != "1" && one_in(2)) layout += ", chunks: " + of({"2", "4"});
    const bool chunks = layout.find("chunks") != layout.npos;
    if (moe) layout += fmt::format(", expert: {}, expert_tensor: {}", of({"1", "2", "4"}), of({"1", "2"}));
    if (!moe && layout.find("zero: 1") != layout.npos && one_in(3)) layout += ", shard: 2";
    auto training = fmt::format("precision: {}", of({"bf16", "bf16", "fp8", "fp32", "fp16"}));
    if (one_in(3))
      training += ", recompute: " + of({"selective", "full", "{mode: full, layers: 2}", "{modules: [core_attn, mlp]}",
                                        "{modules: [layernorm]}"});
    if (one_in(4)) training += ", optimizer: " + of({"sgd", "muon"});
    if (one_in(4) && training.find("bf16") != training.npos) training += ", gradient_precision: bf16";
    if (one_in(6)) training += ", moments: bf16";
    if (one_in(6)) training += ", attention: unfused";
    if (one_in(6)) training += ", offload: {optimizer: host, optimizer_fraction: 0.5}";
    if (one_in(6)) training += ", offload: {activations: {layers: 2}}";
    if (context != "1") training += ", context: " + of({"ring", "all-gather", "all-to-all"});
    auto framework = std::string("use: megatron-lm-2025");
    for (const char* knob : {"dropout: false", "loss: fused", "gradient_overlap: always", "fused_accumulation: false",
                             "attention_kernel: flash-2"})
      if (one_in(2) &&
          (std::string_view(knob) != "attention_kernel: flash-2" || training.find("unfused") == training.npos))
        framework += std::string(", ") + knob;
    if (moe && one_in(2)) framework += ", dispatcher: " + of({"deepep", "hybridep"});
    auto text = fmt::format(
        "version: 1\nmodel: {{{}}}\ncluster: {{use: dgx-h100, nodes: {}}}\nparallelism: {{{}}}\nbatch: {{global: 512, "
        "micro: {}}}\ntraining: {{{}}}\nframework: {{{}}}\n",
        model, of({"2", "4", "8"}), layout, of({"1", "2"}), training, framework);
    if (chunks) text += one_in(4) ? "schedule: {name: interleaved-1f1b, group: 8}\n" : "schedule: interleaved-1f1b\n";
    if (one_in(8)) text += "placement: [tensor, context, expert, pipeline, data]\n";
    if (moe && one_in(4)) text += "experts: {capacity: 1.5}\n";
    return text;
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("random layouts have the same digest after a journey through arguments") {
  int done = 0, equal = 0;
  for (std::uint32_t seed = 1; seed <= 1500 && done < 400; ++seed) {
    const auto text = Draw(seed).scenario();
    std::optional<scenario::Scenario> s;
    try {
      s = scenario::load_text(text, "random.yaml");
    } catch (const UserError&) {
      continue;  // what no scenario may be
    }
    if (s->parallelism.shard == s->parallelism.data) continue;  // all of them: as without
    CAPTURE(text);
    Back back;
    try {
      back = there_and_back(*s, "dgx-h100");
    } catch (const UserError& e) {
      Lacks lacks;
      FAIL_CHECK(fmt::format("{}\n{}", e.what(), write_megatron(*s, lacks)));
      continue;
    }
    ++done;
    CAPTURE(back.arguments);
    if (!back.lacks.empty()) continue;
    CHECK(unnamed(differences(*s, back.scenario), {}) == "");
    if (s->concrete->partition.layout != back.scenario.concrete->partition.layout) continue;
    ++equal;
    CHECK(s->digest == back.scenario.digest);
  }
  CHECK(done == 400);
  CHECK(equal > 300);
}

TEST_CASE("shipped scenarios keep model, layout, batch and training, or say what they lack") {
  namespace fs = std::filesystem;
  int done = 0;
  std::vector<fs::path> files;
  for (const char* folder : {"/scenarios", "/scenarios/runs"})
    for (const auto& entry : fs::directory_iterator(std::string(PROJECT_ROOT) + folder))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::optional<scenario::Scenario> s;
    try {
      s = scenario::load(file.string());
    } catch (const UserError&) {
      continue;  // no single scenario
    }
    CAPTURE(file.string());
    if (!s->concrete) continue;  // of no model
    Lacks lacks;
    const auto family = s->concrete->model.family;
    if (family == models::Family::mlp || family == models::Family::u_transformer) {
      CHECK_THROWS_WITH_AS(write_megatron(*s, lacks), doctest::Contains("trains transformers"), UserError);
      continue;
    }
    write_megatron(*s, lacks);
    ++done;
    Back back;
    try {
      back = there_and_back(*s, s->concrete->cluster.name);
    } catch (const UserError& e) {
      CHECK(!lacks.empty());  // a model without layers that Megatron-LM has
      continue;
    }
    CAPTURE(back.arguments);
    CAPTURE(lacks);
    CHECK(unnamed(differences(*s, back.scenario), lacks) == "");
  }
  CHECK(done >= 15);
}

TEST_CASE("every model of the zoo comes back as it was, or says what it lacks") {
  int whole = 0;
  for (const auto& model : scenario::list("models")) {
    CAPTURE(model.name);
    const auto s = scenario::load_text(
        fmt::format("version: 1\nmodel: {}\ncluster: {{use: dgx-h100, nodes: 1}}\nparallelism: {{tensor: 1}}\n"
                    "batch: {{global: 8, micro: 1}}\nframework: megatron-lm-2025\n",
                    model.name),
        "zoo.yaml");
    Back back;
    try {
      back = there_and_back(s, "dgx-h100");
    } catch (const UserError& e) {
      FAIL_CHECK(std::string(e.what()));
      continue;
    }
    CAPTURE(back.arguments);
    CAPTURE(back.lacks);
    CHECK(unnamed(differences(s, back.scenario), back.lacks) == "");
    if (back.lacks.empty()) ++whole;
  }
  CHECK(whole >= 50);
}

TEST_CASE("arguments of Llama 3 8B are those that a person would give") {
  const auto s = scenario::load_text(
      "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 2}\n"
      "parallelism: {tensor: 2, sequence: true, pipeline: 2, chunks: 2, zero: 1}\nschedule: interleaved-1f1b\n"
      "batch: {global: 128, micro: 1}\n"
      "training: {precision: bf16, recompute: {mode: full, layers: 2}}\n"
      "framework: {use: megatron-lm-2025, dropout: false, loss: fused, gradient_overlap: always}\n",
      "llama.yaml");
  Lacks lacks;
  const auto arguments = write_megatron(s, lacks);
  CHECK(lacks.empty());
  for (const char* line : {"--num-layers 32",
                           "--hidden-size 4096",
                           "--ffn-hidden-size 14336",
                           "--num-attention-heads 32",
                           "--group-query-attention",
                           "--num-query-groups 8",
                           "--swiglu",
                           "--normalization RMSNorm",
                           "--disable-bias-linear",
                           "--untie-embeddings-and-output-weights",
                           "--vocab-size 128255",
                           "--make-vocab-size-divisible-by 64128",
                           "--tensor-model-parallel-size 2",
                           "--sequence-parallel",
                           "--pipeline-model-parallel-size 2",
                           "--num-virtual-stages-per-pipeline-rank 2",
                           "--use-distributed-optimizer",
                           "--micro-batch-size 1",
                           "--global-batch-size 128",
                           "--bf16",
                           "--recompute-granularity full",
                           "--recompute-method block",
                           "--recompute-num-layers 2",
                           "--hidden-dropout 0",
                           "--overlap-grad-reduce",
                           "--cross-entropy-loss-fusion",
                           "--seq-length 8192"}) {
    CAPTURE(line);
    CHECK(("\n" + arguments).find(fmt::format("\n{}\n", line)) != std::string::npos);
  }
  for (const char* absent : {"--num-experts", "--overlap-param-gather", "--no-gradient-accumulation-fusion",
                             "--context-parallel-size", "--use-tp-pp-dp-mapping"})
    CHECK(arguments.find(absent) == std::string::npos);
}

TEST_CASE("what Megatron-LM has no argument for is named") {
  const auto s = scenario::load_text(
      "version: 1\nmodel: {family: llama, layers: 16, hidden: 2048, heads: 16, ffn: 8192}\n"
      "cluster: {use: dgx-h100, nodes: 1}\nparallelism: {pipeline: 4}\nschedule: zb-h1\n"
      "batch: {global: 64, micro: 1}\n"
      "training: {precision: bf16, lora: {rank: 8}, allocator: expandable}\nframework: megatron-lm-2025\n",
      "lacks.yaml");
  Lacks lacks;
  write_megatron(s, lacks);
  CHECK(lacks == Lacks{"schedule zb-h1: Megatron-LM has 1f1b and interleaved-1f1b, and runs 1f1b with these arguments",
                       "training.allocator: a variable, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                       "training.lora.rank 8"});
}

}  // namespace rehearsal::megatron_write_test
