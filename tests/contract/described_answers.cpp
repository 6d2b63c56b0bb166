// The JSON of a command is what its description says: no key more, none less, each of its type.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../rehearse.hpp"

namespace {

using nlohmann::json;

json schemas() {
  static const auto kAll = json::parse(rehearse("check --schema answers").out)["$defs"];
  return kAll;
}

// What is wrong with `value` by `schema`; only the words that these schemas use.
void differences(const json& value, const json& schema, const std::string& at, std::set<std::string>& wrong) {
  if (schema.contains("anyOf")) {
    std::set<std::string> none;
    for (const auto& one : schema["anyOf"]) {
      std::set<std::string> these;
      differences(value, one, at, these);
      if (these.empty()) return;
      if (none.empty() || these.size() < none.size()) none = these;
    }
    wrong.merge(none);
  }
  if (schema.contains("type")) {
    const auto& type = schema["type"];
    const std::string is = value.is_number() ? "number" : value.type_name();
    const auto allows = [&](const std::string& word) {
      return type.is_string() ? type == word : std::count(type.begin(), type.end(), json(word)) > 0;
    };
    if (!allows(is) && !(value.is_number_integer() && allows("integer"))) wrong.insert(at + " is " + is);
  }
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, below] : value.items())
      if (!schema["properties"].contains(key))
        wrong.insert(at + " has " + key);
      else
        differences(below, schema["properties"][key], at + "/" + key, wrong);
    for (const auto& key : schema["required"])
      if (!value.contains(key.get<std::string>())) wrong.insert(at + " lacks " + key.get<std::string>());
  }
  if (value.is_object() && schema.contains("additionalProperties"))
    for (const auto& [key, below] : value.items()) differences(below, schema["additionalProperties"], at + "/*", wrong);
  if (value.is_array() && schema.contains("items"))
    for (const auto& below : value) differences(below, schema["items"], at + "/*", wrong);
}

void check(const std::string& command, const json& schema, int status = 0, const std::string& as = " --format json") {
  REQUIRE(schema.is_object());
  const auto run = rehearse(command + as + " --quiet");
  INFO(command << ": " << run.err);
  REQUIRE(run.status == status);
  std::set<std::string> wrong;
  std::istringstream lines(as.empty() ? run.out : json::parse(run.out).dump());
  for (std::string line; std::getline(lines, line);) differences(json::parse(line), schema, "", wrong);
  for (const auto& what : wrong) FAIL_CHECK(what);
}

}  // namespace

TEST_CASE("answers are what their schema says") {
  const auto all = schemas();
  const std::string scenarios = PROJECT_ROOT "/scenarios/";
  for (const char* name : {"teaching-1f1b-8-stages", "gpt3-175b-1024xa100", "gpt-10b-offload-1xv100",
                           "gpt3-175b-slow-gpu", "parameter-servers-64xa100", "u-transformer-resharding-p3-8xlarge",
                           "llama3-8b-dgx-h100", "runs/llama3-405b-16384xh100"})
    check("run " + scenarios + name + ".yaml", all["run"]);
  check("explain " + scenarios + "teaching-1f1b-8-stages.yaml", all["explain"]);
  check("explain --all " + scenarios + "gpt-10b-offload-1xv100.yaml", all["explain"]);
  check("measure --backend loopback --verify " + scenarios + "measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
        all["measure"]);
  check("measure --backend loopback --iterations 2 " + scenarios + "measure/gpt-tiny-offload-this-machine.yaml",
        all["measure"]);
}

// Rows that are wrong or not judged, limits that nothing keeps to, and stores are answers, too.
TEST_CASE("answers of many scenarios are what their schema says") {
  const auto all = schemas();
  const std::string scenarios = PROJECT_ROOT "/scenarios/", llama = scenarios + "llama3-8b-dgx-h100.yaml",
                    teaching = scenarios + "teaching-1f1b-8-stages.yaml";
  check("compare " + teaching + " --vary schedule=gpipe,1f1b,nonsense", all["compare"]);
  check("compare " + llama + " --vary batch.micro=1,2 --set 'job={tokens: 1T}'", all["compare"]);
  const Scratch scratch;
  const auto store = (scratch.folder / "s.sqlite").string();
  check("sweep " + teaching + " --vary schedule=gpipe,nonsense --store '" + store + "'", all["sweep"]);
  check("compare '" + store + "'", all["compare"]);
  const std::string plan = "plan " + llama + " --set 'plan={zero: 1, schedules: [1f1b], tensor: [1, 2]}'";
  const std::string job = " --set 'job={tokens: 1T, gpu_hour: 2.5, currency: USD}'";
  check(plan, all["plan"]);
  check(plan + job, all["plan"]);
  check(plan + job + " --set plan.deadline=1d", all["plan"], 1);
  check(plan + " --set cluster.gpu.memory=1GB", all["plan"], 1);
  const std::string clusters =
      " --set 'plan.clusters=[{use: dgx-h100, nodes: 1, gpu_hour: 2.1}, {use: b200-sxm, nodes: [1, 2], gpu_hour: 4}]'";
  check(plan + job + clusters + " --set plan.objective=cost", all["plan"]);
  check(plan + job + clusters + " --set plan.deadline=40d", all["plan"]);
  check("validate --backend loopback --compute timed --iterations 1 " + teaching, all["validate"]);
  const std::string traces = PROJECT_ROOT "/tests/traces/two_stages";
  check("validate " + traces + ".yaml --trace " + traces + "_rank_0.json " + traces + "_rank_1.json",
        all["validate --trace"]);
  const std::string against = "validate --against '" PROJECT_ROOT "/tests/fidelity/training_runs.csv' --where ";
  check(against + "table=megatron21_t1", all["validate --against"]);
  check(against + "table=megatron21_jan", all["validate --against"]);  // has rows that are not judged
  check(against + "table=megatron21_t1 --where 'n_gpus=>1000' --budget", all["validate --against --budget"]);
}

TEST_CASE("questions besides scenarios are answered as their schema says") {
  const auto all = schemas();
  const std::string scenarios = PROJECT_ROOT "/scenarios/",
                    given = " --pipeline 4 --microbatches 6 --forward 1ms --backward 2ms";
  for (const char* name : {"1f1b", "zb-h1", "pipedream", "pipedream-2bw"}) {
    check("schedule " + std::string(name) + given, all["schedule"]);
    check("schedule " + std::string(name) + given + " --order", all["schedule"]);
  }
  check("schedule --batch " + scenarios + "gallery/zero-bubble-table-5-1.5b.jsonl", all["schedule --batch"], 0, "");
  const auto lines = std::filesystem::temp_directory_path() / "described_batch.jsonl";
  std::ofstream(lines)
      << R"({"id": 1, "schedule": "1f1b", "pipeline": 2, "microbatches": 2, "forward": 1, "backward": 2})"
      << "\n{\"id\": 2, \"schedule\": \"none\"}\n";
  check("schedule --batch " + lines.string(), all["schedule --batch"], 0, "");
  std::filesystem::remove(lines);
  for (const char* name : {"reshard/case1", "reshard/case9", "gallery/reshard/search-that-ends-wrong"})
    check("reshard " + scenarios + name + ".yaml", all["reshard"]);
  check("reshard --compare " + scenarios + "reshard/case1.yaml", all["reshard --compare"]);
  for (const char* name : {"balance/eplb-readme", "gallery/balance/drifting-trace"})
    check("balance " + scenarios + name + ".yaml", all["balance"]);
  for (const char* asked : {"all-reduce --ranks 16", "tree-all-reduce --ranks 8", "broadcast --ranks 320"})
    check("collective " + std::string(asked), all["collective"]);
  for (const char* asked : {"dispatch --ranks 32 --dispatcher deepep", "combine --ranks 8"})
    check("collective " + std::string(asked), all["collective dispatch"]);
  for (const char* name : {"llama3-70b-64xh100", "deepseek-v3-2048xh800"})
    check("groups " + scenarios + name + ".yaml", all["groups"]);
  check("run " + scenarios + "jobs/two-across-leaves.yaml", all["run of several jobs"]);
  const std::string failing =
      ", failures: {per_1000_node_days: 3.8}, deadline: 30d, gpu_hour: 2, currency: USD, budget: 1M}'";
  for (const std::string& job : {std::string("'job={steps: 1000}'"), "'job={tokens: 300B" + failing})
    check("run " + scenarios + "gpt3-175b-1024xa100.yaml --set " + job, all["run"]);
}

TEST_CASE("lists, and what is wrong with files, are what their schema says") {
  const auto all = schemas();
  for (const char* kind : {"schedules", "models", "backends", "gpus"})
    check("list " + std::string(kind), all["list KIND"]);
  for (const char* name : {"mixtral-8x7b", "llama3-8b"})
    check("list models " + std::string(name), all["list models NAME"]);
  for (const char* name : {"gpus h100-80g-sxm", "clusters dgx-h100"})
    check("list " + std::string(name), all["list KIND NAME"]);
  for (const char* name : {"schedules zb-h1", "collectives ring-all-reduce", "backends sim"})
    check("list " + std::string(name), all["list KIND NAME of a plug-in"]);
  check("check " PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml", all["check"]);
}

TEST_CASE("a schema that is not there is refused with those that are") {
  const auto wrong = rehearse("check --schema nonsense");
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("--schema answers") != std::string::npos);
  CHECK(wrong.err.find("'nonsense'") != std::string::npos);
}

TEST_CASE("an answer that breaks its schema is found") {
  const auto all = schemas();
  std::set<std::string> wrong;
  differences(json{{"iteration_s", "long"}, {"novel", 1}}, all["run"], "", wrong);
  CHECK(wrong.count("/iteration_s is string") == 1);
  CHECK(wrong.count(" has novel") == 1);
  CHECK(wrong.count(" lacks mfu") == 1);
}
