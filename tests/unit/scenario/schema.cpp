// The schema against the shipped files, against the loaders' error messages, and against the reference for readers.
#include "scenario/schema.hpp"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "helpers.hpp"
#include "scenario/document.hpp"

using nlohmann::json;

namespace rehearsal::scenario {
namespace {

namespace fs = std::filesystem;

// A tree as the core schema of YAML 1.2 types it, which is what editors see.
json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return nullptr;
    case Node::Kind::map: {
      auto map = json::object();
      for (const auto& e : node.entries) map[e.key->text] = to_json(*e.value);
      return map;
    }
    case Node::Kind::sequence: {
      auto list = json::array();
      for (const Node* item : node.items) list.push_back(to_json(*item));
      return list;
    }
    case Node::Kind::scalar:
      break;
  }
  const auto plain = json::parse(node.text, nullptr, false);
  return !node.quoted && (plain.is_number() || plain.is_boolean()) ? plain : json(node.text);
}

json read_yaml(const std::string& path) {
  Diagnostics problems;
  Documents documents(problems);
  const Node* root = documents.read_file(path);
  REQUIRE(root);
  return to_json(*root);
}

bool is(const std::string& type, const json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  REQUIRE(type == "integer");
  return value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
}

// Errors of a value, or "": implements the keywords that the schema uses, as defined by JSON Schema 2020-12.
std::string complaint(const json& schema, const json& value, const std::string& at = "$") {
  static const std::set<std::string> known = {"$schema",
                                              "title",
                                              "description",
                                              "default",
                                              "type",
                                              "enum",
                                              "const",
                                              "minimum",
                                              "exclusiveMinimum",
                                              "maximum",
                                              "pattern",
                                              "items",
                                              "uniqueItems",
                                              "minItems",
                                              "maxItems",
                                              "properties",
                                              "minProperties",
                                              "required",
                                              "anyOf",
                                              "additionalProperties"};
  REQUIRE(schema.is_object());
  for (const auto& [keyword, ignored] : schema.items()) REQUIRE_MESSAGE(known.count(keyword) == 1, keyword);
  if (schema.contains("type") && !is(schema["type"], value)) return at + ": no " + schema["type"].get<std::string>();
  if (schema.contains("const") && schema["const"] != value) return at + ": not the constant";
  if (schema.contains("enum") && std::count(schema["enum"].begin(), schema["enum"].end(), value) == 0)
    return at + ": none of the choices";
  if (value.is_number()) {
    const auto x = value.get<double>();
    if (schema.contains("minimum") && x < schema["minimum"]) return at + ": too small";
    if (schema.contains("exclusiveMinimum") && x <= schema["exclusiveMinimum"]) return at + ": too small";
    if (schema.contains("maximum") && x > schema["maximum"]) return at + ": too large";
  }
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>())))
    return at + ": not the pattern";
  if (schema.contains("anyOf")) {
    std::string all;
    const bool any = std::any_of(schema["anyOf"].begin(), schema["anyOf"].end(), [&](const json& one) {
      const auto wrong = complaint(one, value, at);
      all += (all.empty() ? "" : " | ") + wrong;
      return wrong.empty();
    });
    if (!any) return all;
  }
  if (value.is_array() && schema.contains("items"))
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto wrong = complaint(schema["items"], value[i], at + "[" + std::to_string(i) + "]"); !wrong.empty())
        return wrong;
  if (value.is_array()) {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) return at + ": too few items";
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return at + ": too many items";
    const bool once = schema.contains("uniqueItems") && schema["uniqueItems"];
    for (std::size_t i = 0; once && i < value.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (value[i] == value[j]) return at + ": one item twice";
  }
  if (!value.is_object()) return "";
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return at + ": too few keys";
  if (schema.contains("required"))
    for (const std::string key : schema["required"])
      if (!value.contains(key)) return at + ": no key " + key;
  const bool closed = schema.contains("additionalProperties") && schema["additionalProperties"] == false;
  const json none = json::object();
  const json& properties = schema.contains("properties") ? schema["properties"] : none;
  for (const auto& [key, inner] : value.items()) {
    if (properties.contains(key)) {
      if (auto wrong = complaint(properties[key], inner, at + "." + key); !wrong.empty()) return wrong;
    } else if (closed) {
      return at + ": unknown key " + key;
    }
  }
  return "";
}

json the_schema() {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 0);
  return json::parse(json_schema());
}

std::vector<fs::path> yaml_below(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(PROJECT_ROOT) / folder))
    if (file.path().extension() == ".yaml" && file.path().parent_path().filename() != "reshard" &&
        file.path().parent_path().filename() != "balance" && file.path().parent_path().filename() != "jobs")
      files.push_back(file.path());
  return files;
}

const std::string kWhole =
    "version: 1\n"
    "model: gpt3-175b\n"
    "cluster: {use: dgx-a100-80g, nodes: 128}\n"
    "parallelism: {tensor: 8, pipeline: 8, data: 16}\n"
    "batch: {global: 1536, micro: 1}\n"
    "schedule: 1f1b\n";

}  // namespace

TEST_CASE("every shipped scenario conforms to the schema, and none with a key more or a value of another kind") {
  const auto schema = the_schema();
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  const auto files = yaml_below("scenarios");
  CHECK(files.size() >= 15);
  for (const auto& file : files) {
    INFO(file.string());
    auto scenario = read_yaml(file.string());
    CHECK(complaint(schema, scenario) == "");
    for (auto& [key, value] : scenario.items()) {
      auto wrong = scenario;
      wrong[key] = json::array({json::object()});
      if (key != "name") CHECK_MESSAGE(complaint(schema, wrong) != "", key);
      if (!value.is_object()) continue;
      wrong = scenario;
      wrong[key]["no_such_key"] = 1;
      CHECK_MESSAGE(complaint(schema, wrong) != "", key);
    }
    scenario["no_such_key"] = 1;
    CHECK(complaint(schema, scenario) == "$: unknown key no_such_key");
  }
}

TEST_CASE("every shipped part conforms to the schema where a scenario may hold it inline") {
  const auto schema = the_schema();
  const Folder folder;
  const auto whole = read_yaml(folder.write("x.yaml", kWhole));
  const std::pair<const char*, const char*> parts[] = {{"models/zoo", "/model"},
                                                       {"configs/clusters", "/cluster"},
                                                       {"configs/gpus", "/cluster/gpu"},
                                                       {"configs/collectives", "/cluster/collectives"},
                                                       {"configs/frameworks", "/framework"}};
  for (const auto& [place, key] : parts)
    for (const auto& file : yaml_below(place)) {
      INFO(file.string());
      auto scenario = whole;
      const json::json_pointer at(key);
      scenario[at] = read_yaml(file.string());
      CHECK(complaint(schema, scenario) == "");
      scenario[at]["no_such_key"] = 1;
      CHECK(complaint(schema, scenario) != "");
    }
}

TEST_CASE("the schema says what the reader says") {
  const auto schema = the_schema();
  const Folder folder;
  // A line of the scenario, another for it, and whether that is right; the reader is asked too.
  const struct {
    std::string old, now;
    bool right;
  } cases[] = {{"micro: 1", "micro: 2", true},
               {"micro: 1", "micro: 0", false},
               {"micro: 1", "micro: 1.5", false},
               {"micro: 1", "micro: one", false},
               {"micro: 1", "micor: 1", false},
               {"schedule: 1f1b", "schedule: 1f1", false},
               {"schedule: 1f1b", "schedule: {name: 1f1b, memory_limit: 60GB}", true},
               {"schedule: 1f1b", "schedule: {name: 1f1b, memory_limit: null}", true},
               {"schedule: 1f1b", "training: {recompute: full}", true},
               {"schedule: 1f1b", "training: {recompute: {mode: full, early_stop: true}}", true},
               {"schedule: 1f1b", "training: {recompute: often}", false},
               {"schedule: 1f1b", "training: {causal: 1}", false},
               {"schedule: 1f1b", "partition: uniform", true},
               {"schedule: 1f1b", "partition: even", false},
               {"schedule: 1f1b", "partition: [12, 12, 12, 12, 12, 12, 12, 12]", true},
               {"schedule: 1f1b", "simulate: {symmetry: maybe}", false},
               {"nodes: 128", "nodes: 128, links: {scale_out: {bandwidth: 100Gb/s}}", true},
               {"nodes: 128", "nodes: 128, links: {scale_out: {bandwidth: {value: 100Gb/s, source: x}}}", true},
               {"nodes: 128", "nodes: 128, links: {scale_out: {bandwidth: {valu: 100Gb/s, source: x}}}", false},
               {"nodes: 128", "nodes: 128, links: {scale_out: {bandwidth: 100}}", false},
               {"nodes: 128", "nodes: 128, gpu: {peak: {bf16: 900TFLOP/s}}", true},
               {"nodes: 128", "nodes: 128, gpu: {peak: {bf16: {value: 900TFLOP/s, source: x}}}", true},
               {"nodes: 128", "nodes: 128, gpu: {peak: {value: {bf16: 900TFLOP/s}, source: x}}", true},
               {"nodes: 128", "nodes: 128, gpu: {peak: {b16: 900TFLOP/s}}", false},
               {"nodes: 128", "nodes: 128, links: {scale_up: {interconnect: nvlink-4}}", true},
               {"nodes: 128", "nodes: 128, links: {scale_up: {interconnect: nvlink-9}}", false},
               {"nodes: 128", "nodes: 128, collectives: null, links: {scale_up: {interconnect: {kind: xgmi}}}", true},
               {"nodes: 128", "nodes: 128, links: {scale_up: {interconnect: {kind: tape}}}", false},
               {"use: dgx-a100-80g", "use: dgx-a101", false},
               {"use: dgx-a100-80g, nodes", "nodes", false}};
  for (const auto& [old, now, right] : cases) {
    INFO(now);
    const auto text = with(kWhole, old, now);
    const auto path = folder.write("x.yaml", text);
    CHECK(check(path).ok() == right);
    CHECK(complaint(schema, read_yaml(path)).empty() == right);
  }
}

TEST_CASE("no key that a loader reads by itself is missing in the schema") {
  the_schema();
  std::set<std::string> known;
  for (const auto& row : keys()) known.insert(row.path.substr(row.path.rfind('.') + 1));
  known.insert("value");  // of {value, source, assumed}
  // Built in the source as reader.kind("key", ...); all others come from descriptions. Parts of `profile` are files of
  // their own.
  const std::regex call(
      R"re((?:integer|number|boolean|text|time|bytes|bandwidth|flop_rate|choice(?:<[^>]*>)?|find|nullable|require)\(\s*"([a-z_]+)")re");
  std::size_t count = 0;
  for (const char* room : {"load", "load_abstract", "load_cluster", "load_curves", "load_gpu", "load_model",
                           "load_parallelism", "load_schedule", "load_framework", "load_training"}) {
    std::ifstream in(fs::path(PROJECT_ROOT) / "sim/scenario" / (std::string(room) + ".cpp"));
    REQUIRE(in.good());
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator it(source.begin(), source.end(), call), end; it != end; ++it, ++count)
      CHECK_MESSAGE(known.count((*it)[1]) == 1, (*it)[1].str() << " in " << room << ".cpp: add it to format.cpp");
  }
  CHECK(count > 30);
}

TEST_CASE("the list of keys in docs/reference.md is what the loaders ask for") {
  the_schema();
  const auto path = fs::path(PROJECT_ROOT) / "docs/reference.md";
  std::ifstream in(path);
  std::string page{std::istreambuf_iterator<char>(in), {}};
  const std::string begin = "<!-- keys: begin -->\n", end = "<!-- keys: end -->";
  const auto from = page.find(begin), to = page.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const auto written = page.substr(from + begin.size(), to - from - begin.size());
  const auto now = key_table();
  if (const char* wish = std::getenv("REHEARSAL_BLESS"); wish && std::string(wish) == "1") {
    std::ofstream(path) << page.replace(from + begin.size(), to - from - begin.size(), now);
    return;
  }
  INFO("keys changed? REHEARSAL_BLESS=1 tools/test -R unit_scenario writes the list");
  CHECK(written == now);
}

}  // namespace rehearsal::scenario
