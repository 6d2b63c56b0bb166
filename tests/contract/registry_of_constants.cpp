// configs/constants.yaml is complete and true: it lists every number in the code that affects prices, values equal
// those of the files, each has an effect, and each family used in a fit can be predicted without it or says it cannot.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "published/constants.hpp"
#include "scenario/document.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// "constexpr double kA = 1, kB = 2;": both names, from all code that affects prices.
std::set<std::string> names_in_code() {
  static const std::regex declaration(R"(constexpr (?:double|Bytes|Time|FlopRate|Bandwidth) ([^;]*);)");
  static const std::regex name(R"(\b(k[A-Z]\w*)\s*[={(])");
  std::set<std::string> names;
  for (const char* room : {"models", "sim/cost", "sim/collective", "sim/lower", "sim/answer", "sim/cluster",
                           "sim/graph", "sim/engine", "sim/plan"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(PROJECT_ROOT "/" + std::string(room))) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      const auto text = text_of(entry.path());
      for (std::sregex_iterator d(text.begin(), text.end(), declaration), end; d != end; ++d) {
        const auto all = (*d)[1].str();
        for (std::sregex_iterator n(all.begin(), all.end(), name), last; n != last; ++n) names.insert((*n)[1]);
      }
    }
  return names;
}

std::set<std::string> names_in_registry() {
  scenario::Diagnostics problems;
  scenario::Documents documents(problems);
  const auto* root = documents.read_file(PROJECT_ROOT "/configs/constants.yaml");
  REQUIRE(root);
  std::set<std::string> names;
  for (const auto& [kind, list] : root->find("code")->entries)
    for (const auto* item : list->items)
      CHECK_MESSAGE(names.insert(item->text).second, item->text << " stands there twice");
  return names;
}

// The cluster that belongs to a GPU; without a GPU the first one.
std::string cluster_with(const std::string& gpu) {
  for (const auto& cluster : scenario::list("clusters"))
    if (cluster.name != "this-machine" &&
        (gpu.empty() ||
         text_of(PROJECT_ROOT "/configs/clusters/" + cluster.name + ".yaml").find("\ngpu: " + gpu + "\n") !=
             std::string::npos))
      return cluster.name;
  return "";
}

std::string digest_of(const published::Constant& c, const std::vector<std::string>& sets) {
  const auto cluster = cluster_with(c.gpu);
  const auto where = cluster.empty() ? "dgx-h100, gpu: " + c.gpu : cluster;
  const bool volta = c.gpu.starts_with("v100");
  return scenario::load_text(
             fmt::format("{{version: 1, name: x, model: {{family: gpt, layers: 2, hidden: 1024, heads: 8, vocabulary: "
                         "1024, sequence: 512}}, cluster: {{use: {}, gpus: 1}}, batch: {{global: 1, micro: 1}}, "
                         "schedule: 1f1b, training: {{precision: {}, attention: unfused}}, framework: {}}}",
                         where, volta ? "fp16" : "bf16", c.framework.empty() ? "megatron-2021" : c.framework),
             "x", sets)
      .digest;
}

}  // namespace

TEST_CASE("every number of the code that prices stands in the registry, and nothing else does") {
  const auto code = names_in_code(), registry = names_in_registry();
  CHECK(code.size() > 50);
  for (const auto& name : code) CHECK_MESSAGE(registry.count(name), name << " is in the code and not in the registry");
  for (const auto& name : registry) CHECK_MESSAGE(code.count(name), name << " is in the registry and not in the code");
}

TEST_CASE("values are those of the files, and act; so does every other route") {
  const auto all = published::read_constants();
  CHECK(all.size() > 15);
  for (const auto& c : all) {
    CAPTURE(c.key);
    CAPTURE(c.gpu);
    CAPTURE(c.framework);
    const auto plain = digest_of(c, {});
    CHECK(digest_of(c, {c.key + "=" + c.value}) == plain);
    for (const auto& [family, route] : c.without) {
      CAPTURE(family);
      if (route.value.empty() || route.value == c.value) continue;
      CHECK(!route.source.empty());
      CHECK(digest_of(c, {c.key + "=" + route.value}) != plain);
    }
  }
}

TEST_CASE("what configurations call fitted to runs stands in the registry") {
  // Constants of single kernels and collectives, which were fitted to these sources alone.
  static const std::regex single(
      "every other|shapes|kernels of|GEMM|GEMMs|sweeps|cudnn_attention_rate|gemm_efficiency|fitted with it|large GEMMs|"
      "was fitted|step of NCCL|2 or more nodes");
  std::set<std::string> keys;
  for (const auto& c : published::read_constants()) keys.insert(c.key.substr(c.key.rfind('.') + 1));
  // Constants that only affect memory, or shares of an entry.
  for (const char* known : {"flat_gradient_bytes", "host_optimizer_bytes", "host_backward_factor"}) keys.insert(known);
  static const std::regex entry(R"(^([a-z0-9_]+):)");
  for (const char* folder : {"gpus", "frameworks", "clusters"})
    for (const auto& file : std::filesystem::directory_iterator(PROJECT_ROOT "/configs/" + std::string(folder))) {
      std::istringstream text(text_of(file.path()));
      std::string line, key;
      while (std::getline(text, line)) {
        std::smatch found;
        const auto first = line.find_first_not_of(' ');
        const std::string inner = first == std::string::npos ? "" : line.substr(first);
        if (std::regex_search(inner, found, entry) && found[1] != "value" && found[1] != "source" &&
            found[1] != "assumed")
          key = found[1];
        if (line.find("itted") == std::string::npos || line.starts_with('#') || key == "summary") continue;
        if (std::regex_search(line, single)) continue;
        CHECK_MESSAGE(keys.count(key), file.path().filename().string() << ": " << key << ": " << inner.substr(0, 120));
      }
    }
}
