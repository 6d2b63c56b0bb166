// configs/constants.yaml is complete and true: it lists every number in the code that affects prices, values equal
// those of the files, each has an effect, each family used in a fit can be predicted without it or says it cannot, and
// what runs of one cause gave says so.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "published/constants.hpp"
#include "published/row_scenario.hpp"
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

// The causes of the rows of a family.
struct CausesOfRows {
  std::size_t rows = 0;
  std::map<std::string, std::size_t> with;
  struct Share {
    bool any, every;
  };
  Share count(const std::string& cause) const {
    const auto found = with.find(cause);
    return {found != with.end(), found != with.end() && found->second == rows};
  }
};

// Of every table of runs that is shipped.
std::map<std::string, CausesOfRows> families_of_tables() {
  const auto mapping = published::read_mapping();
  std::map<std::string, CausesOfRows> families;
  for (const auto& file : std::filesystem::directory_iterator(TEST_DATA "/fidelity")) {
    if (file.path().extension() != ".csv" || !published::is_table_of_runs(file.path())) continue;
    for (const auto& run : published::read_runs(file.path())) {
      if (!run.iteration_s && !run.tflops && !run.mfu) continue;  // no constant of time is of a row without one
      const auto row = published::scenario_of(run, mapping, published::FrameworkDetail::knobs);
      if (!row.not_judged.empty() || !row.not_timed.empty()) continue;
      try {
        const auto scenario = scenario::load_text(row.yaml, "x", row.sets);
        const auto kind = scenario::run_class(scenario);
        auto& family = families[published::family_of(run.table, kind.gpu, kind.framework)];
        family.rows++;
        for (const auto& cause : published::causes_of(scenario, kind, row.fine_tuning)) family.with[cause]++;
      } catch (const UserError&) {
        continue;  // not judged
      }
    }
  }
  return families;
}

// The publishers of tables that list something other than training runs: what offloading takes, for example.
std::set<std::string> tables_without_runs() {
  std::set<std::string> publishers;
  std::istringstream text(text_of(TEST_DATA "/fidelity/offload.csv"));
  for (std::string line; std::getline(text, line);) {
    const auto family = published::family_of(line.substr(0, line.find('-')), "", "");
    publishers.insert(family.substr(0, family.find('@')));
  }
  return publishers;
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
    for (const auto& [family, routes] : c.without)
      for (const auto& route : routes) {
        CAPTURE(family);
        if (route.value.empty() || route.value == c.value) continue;
        CHECK(!route.source.empty());
        CHECK(digest_of(c, {c.key + "=" + route.value}) != plain);
      }
  }
}

TEST_CASE("what only runs of one cause gave says so, and its substitutes do") {
  const auto families = families_of_tables();
  CHECK(families.size() > 50);
  // All causes that every row of every one of these families has, and those that some row of each has.
  const auto check = [&](const std::vector<std::string>& saw, const std::vector<std::string>& causes) {
    std::set<std::string> all(std::begin(published::kCauses), std::end(published::kCauses)), some = all;
    for (const auto& family : saw) {
      CAPTURE(family);
      const auto known = families.find(family);
      if (known == families.end()) {  // its table is none of training runs
        CHECK(tables_without_runs().count(family.substr(0, family.find('@'))));
        return;
      }
      std::erase_if(all, [&](const auto& cause) { return !known->second.count(cause).every; });
      std::erase_if(some, [&](const auto& cause) { return !known->second.count(cause).any; });
    }
    for (const auto& cause : all) {
      CAPTURE(cause);
      CHECK(std::count(causes.begin(), causes.end(), cause) == 1);
    }
    for (const auto& cause : causes) {
      CAPTURE(cause);
      CHECK(some.count(cause));
    }
  };
  for (const auto& c : published::read_constants()) {
    CAPTURE(c.where);
    CAPTURE(c.key);
    check(c.saw, c.causes);
    for (const auto& [family, routes] : c.without)
      for (const auto& route : routes)
        if (!route.saw.empty()) check(route.saw, route.causes);
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
  for (const char* known : {"flat_gradient_bytes", "host_backward_factor"}) keys.insert(known);
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
