// configs/names.yaml: models of the zoo are found by the repositories that they cite, and no name means two.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "interchange/names.hpp"
#include "scenario/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::hub_names_test {
namespace {

struct Yaml {
  scenario::Diagnostics problems;
  scenario::Documents documents{problems};
  const scenario::Node* read(const std::string& path) {
    const auto* root = documents.read_file(std::string(PROJECT_ROOT) + "/" + path);
    REQUIRE(root != nullptr);
    return root;
  }
};

std::string found(const std::string& name) {
  return interchange::model_named(name, scenario::disk()).value_or("nothing");
}

}  // namespace

TEST_CASE("every model of the zoo that cites a repository is found by its name, whole or short") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  Yaml yaml;
  // "config.json of Qwen/Qwen3-32B", "model card of ibm-granite/granite-..", "run.py of xai-org/grok-1".
  const std::regex cited("(?:config\\.json|card|run\\.py) of ([A-Za-z0-9_-]+/)([A-Za-z0-9_.-]+)");
  int all = 0;
  for (const auto& part : scenario::list("models")) {
    INFO(part.name);
    const auto* source = yaml.read("models/zoo/" + part.name + ".yaml")->find("source");
    REQUIRE(source != nullptr);
    std::smatch match;
    if (!std::regex_search(source->text, match, cited)) continue;
    CHECK(found(match[1].str() + match[2].str()) == part.name);
    CHECK(found(match[2].str()) == part.name);
    CHECK(found("/models/" + match[2].str() + "-FP8/") == part.name);
    ++all;
  }
  CHECK(all == 30);
}

TEST_CASE("names are those of models that there are, and each means one") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  Yaml yaml;
  std::set<std::string> zoo;
  for (const auto& part : scenario::list("models")) zoo.insert(part.name);
  std::map<std::string, std::string> means;  // letters and digits -> the model
  for (const auto& [ours, others] : yaml.read("configs/names.yaml")->find("models")->entries) {
    INFO(ours->text);
    CHECK(zoo.contains(ours->text));
    CHECK(found(ours->text) == ours->text);
    for (const auto* other : others->items) {
      INFO(other->text);
      // An earlier entry whose name this one begins with would take it.
      for (const char* ending : {"", "-Instruct", "-Instruct-2507", "-hf", "-NVFP4"})
        CHECK(found("owner/" + other->text + ending) == ours->text);
      std::string squeezed;
      for (const char c : other->text)
        if (std::isalnum(static_cast<unsigned char>(c))) squeezed += char(std::tolower(c));
      CHECK(means.emplace(squeezed, ours->text).first->second == ours->text);
    }
  }
}

TEST_CASE("a name that is like one of ours and another model is none of ours") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  for (const char* name :
       {"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "bigscience/bloom-560m", "Qwen/Qwen3-8B", "meta-llama/Llama-3.2-1B",
        "Qwen/Qwen3-VL-30B-A3B", "nvidia/Llama-3.1-Nemotron-70B", "moonshotai/Kimi-Linear-48B-A3B", ""})
    CHECK_MESSAGE(found(name) == "nothing", name);
}

}  // namespace rehearsal::hub_names_test
