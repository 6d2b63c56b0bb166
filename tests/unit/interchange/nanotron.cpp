// nanotron's own examples, and what its words become.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "hf_support.hpp"

namespace rehearsal::hf_test {
namespace {

std::string example_of_nanotron(const char* name) {
  std::ifstream in(fmt::format("{}/interchange/nanotron/{}", TEST_DATA, name));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// With each of these replaced, which are there once.
std::string changed(std::string text, std::initializer_list<std::pair<std::string, std::string>> changes) {
  for (const auto& [from, to] : changes) {
    const auto at = text.find(from);
    REQUIRE(at != text.npos);
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string value_of(const interchange::Imported& from, const char* key) {
  const auto* value = from.draft.find(key);
  return value ? value->dump() : "";
}

}  // namespace

TEST_CASE("nanotron's tiny llama: model, layout, batch and optimizer from one file") {
  const auto from = imported(std::string(TEST_DATA) + "/interchange/nanotron/config_tiny_llama.yaml");
  CHECK(from.formats == std::vector<std::string>{"nanotron"});
  CHECK(from.draft.unknown().empty());
  CHECK(dropped(from).empty());
  const auto scenario = *scenario::load_text(from.yaml, "imported.yaml").concrete;
  CHECK(scenario.model.family == models::Family::llama);
  CHECK(scenario.model.layers == 28);
  CHECK(scenario.model.kv_heads == 2);
  CHECK(scenario.model.tie_embeddings);
  CHECK(scenario.model.vocabulary == 128256);
  CHECK(scenario.model.sequence == 4096);
  CHECK(value_of(from, "batch.micro") == "3");
  CHECK(value_of(from, "batch.global") == "12");
  CHECK(scenario.training.precision == Precision::bf16);
  CHECK(scenario.training.gradient_precision == Precision::fp32);
  CHECK(value_of(from, "parallelism.tensor") == "2");
  CHECK(value_of(from, "parallelism.data") == "4");
  CHECK(value_of(from, "parallelism.sequence") == "true");  // REDUCE_SCATTER
  CHECK(value_of(from, "training.overlap.tensor") == "true");
  CHECK(value_of(from, "training.bucket") == "\"25MiB\"");
  CHECK(value_of(from, "cluster.nodes") == "1");
  CHECK(value_of(from, "schedule").empty());  // one stage
  // The line it stands in.
  CHECK(from.yaml.find("config_tiny_llama.yaml:90 tokens.sequence_length") != from.yaml.npos);
}

TEST_CASE("nanotron's experts, which its file gives twice, once as null") {
  const auto from = imported(std::string(TEST_DATA) + "/interchange/nanotron/config_qwen_with_moe.yaml");
  CHECK(from.draft.unknown().empty());
  CHECK(dropped(from) == std::vector<std::string>{"model.model_config._use_doc_masking: true"});
  const auto model = model_of(from);
  CHECK(model.experts == 8);
  CHECK(model.experts_per_token == 1);
  CHECK(model.expert_ffn == 768);  // no moe_intermediate_size
  CHECK(model.shared_experts == 1);
  CHECK(model.mixing.window == 20);
}

TEST_CASE("nanotron's pipelines, vocabulary, recomputation and narrow gradients") {
  const auto text = example_of_nanotron("config_tiny_llama.yaml");
  const auto from =
      imported_text(changed(text, {{"pp: 1", "pp: 4"},
                                   {"pp_engine: 1f1b", "pp_engine: afab\n  recompute_layer: true"},
                                   {"make_vocab_size_divisible_by: 1", "make_vocab_size_divisible_by: 100"},
                                   {"accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false"},
                                   {"name: adamW", "name: lion"}}));
  CHECK(value_of(from, "schedule") == "\"gpipe\"");
  CHECK(value_of(from, "training.recompute.mode") == "\"full\"");
  CHECK(value_of(from, "training.gradient_precision") == "\"bf16\"");
  CHECK(value_of(from, "training.master_copy") == "false");
  CHECK(value_of(from, "model.vocabulary") == "128400");  // 128256 to a multiple of 100 x tensor 2
  CHECK(dropped(from) == std::vector<std::string>{"optimizer.optimizer_factory.name: lion"});
  CHECK(
      refusal(changed(text, {{"tp_mode: REDUCE_SCATTER", "tp_mode: SCATTER"}})).find("ALL_REDUCE or REDUCE_SCATTER") !=
      std::string::npos);
  CHECK(refusal(changed(text, {{"dtype: bfloat16", "dtype: int8"}})).find("'model.dtype' is bfloat16, float16") !=
        std::string::npos);
}

}  // namespace rehearsal::hf_test
