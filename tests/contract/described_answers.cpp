// The JSON of a command is what its description says: no key more, none less, each of its type.
#include <nlohmann/json.hpp>
#include <set>

#include "../rehearse.hpp"
#include "report/answers.hpp"

namespace {

using nlohmann::json;

// What is wrong with `value` by `schema`; only the words that answers_schema() uses.
void differences(const json& value, const json& schema, const std::string& at, std::set<std::string>& wrong) {
  if (schema.contains("type")) {
    const auto& type = schema["type"];
    const std::string is = value.is_number() ? "number" : value.type_name();
    const bool allowed = type.is_string() ? type == is : std::count(type.begin(), type.end(), json(is)) > 0;
    if (!allowed) wrong.insert(at + " is " + is);
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

void check(const std::string& command, const json& schema) {
  const auto run = rehearse(command + " --format json --quiet");
  INFO(command << ": " << run.err);
  REQUIRE(run.status == 0);
  std::set<std::string> wrong;
  differences(json::parse(run.out), schema, "", wrong);
  for (const auto& what : wrong) FAIL_CHECK(what);
}

}  // namespace

TEST_CASE("answers are what their schema says") {
  const auto all = json::parse(rehearsal::report::answers_schema())["$defs"];
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

TEST_CASE("an answer that breaks its schema is found") {
  const auto all = json::parse(rehearsal::report::answers_schema())["$defs"];
  std::set<std::string> wrong;
  differences(json{{"iteration_s", "long"}, {"novel", 1}}, all["run"], "", wrong);
  CHECK(wrong.count("/iteration_s is string") == 1);
  CHECK(wrong.count(" has novel") == 1);
  CHECK(wrong.count(" lacks mfu") == 1);
}
