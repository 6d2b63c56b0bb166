// The JSON of a command is what its description says: no key more, none less, each of its type.
#include <nlohmann/json.hpp>
#include <set>

#include "../rehearse.hpp"

namespace {

using nlohmann::json;

// What is wrong with `value` by `schema`; only the words that `check --schema answers` uses.
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

json schemas() {
  static const auto kAll = json::parse(rehearse("check --schema answers").out)["$defs"];
  return kAll;
}

void check(const std::string& command, const json& schema, int status = 0) {
  const auto run = rehearse(command + " --format json --quiet");
  INFO(command << ": " << run.err);
  REQUIRE(run.status == status);
  std::set<std::string> wrong;
  differences(json::parse(run.out), schema, "", wrong);
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
  check("validate --backend loopback --compute timed --iterations 1 " + teaching, all["validate"]);
  const std::string against = "validate --against '" PROJECT_ROOT "/tests/fidelity/training_runs.csv' --where ";
  check(against + "table=megatron21_t1", all["validate --against"]);
  check(against + "table=megatron21_jan", all["validate --against"]);  // has rows that are not judged
  check(against + "table=megatron21_t1 --where 'n_gpus=>1000' --budget", all["validate --against --budget"]);
}

TEST_CASE("an answer that breaks its schema is found") {
  const auto all = schemas();
  std::set<std::string> wrong;
  differences(json{{"iteration_s", "long"}, {"novel", 1}}, all["run"], "", wrong);
  CHECK(wrong.count("/iteration_s is string") == 1);
  CHECK(wrong.count(" has novel") == 1);
  CHECK(wrong.count(" lacks mfu") == 1);
}
