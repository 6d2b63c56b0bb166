// Same input, same bytes: SHA-256 of what the program answers, pinned in determinism.txt. One table for every build, so
// unoptimised, optimised and sanitized programs are held equal to the last digit. When answers were meant to change:
//   REHEARSAL_BLESS=1 tools/test -R golden_determinism
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../program.hpp"
#include "base/sha256.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path kTable = TEST_DATA "/golden/determinism.txt";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Standard output of a successful run, started in `folder`: answers name files as they were given.
std::string rehearse(const std::string& arguments, const fs::path& folder = PROJECT_ROOT) {
  CAPTURE(arguments);
  const std::string command =
      "cd '" + folder.string() +
      "' && unset COLUMNS NO_COLOR REHEARSAL_HOME; REHEARSAL_PROFILES=/nowhere exec '" REHEARSE_BINARY "' " + arguments;
  const Output run = shell(command);
  REQUIRE(run.status == 0);
  REQUIRE_FALSE(run.out.empty());
  return run.out;
}

// The version is all that may differ between programs that give the same answer; it stands at the top of an output.
std::string digest(std::string text) {
  static const std::string version = [] {
    const auto line = rehearse("--version");  // "rehearse 1.2.3"
    return "\"" + line.substr(9, line.find_first_of(" \n", 9) - 9) + "\"";
  }();
  const auto at = std::string_view(text).substr(0, 4096).find(version);
  if (at != std::string::npos) text.replace(at, version.size(), "\"\"");
  return rehearsal::sha256(text);
}

using Table = std::map<std::string, std::string>;  // question -> SHA-256

// One run, three answers.
void run(Table& table, const std::string& question) {
  const Scratch scratch;
  const auto timeline = scratch.folder / "timeline.json", trace = scratch.folder / "trace.json";
  const auto json =
      rehearse(question + " --format json --timeline '" + timeline.string() + "' --trace '" + trace.string() + "'");
  CHECK(json.find(PROJECT_ROOT) == std::string::npos);  // where the house stands is not part of an answer
  table[question + " --format json"] = digest(json);
  table[question + " --timeline"] = digest(read(timeline));
  table[question + " --trace"] = digest(read(trace));
}

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(PROJECT_ROOT "/scenarios"))
    if (entry.path().extension() == ".yaml") files.push_back(fs::relative(entry.path(), PROJECT_ROOT).string());
  std::sort(files.begin(), files.end());
  return files;
}

Table current() {
  Table table;
  for (const auto& file : scenario_files())
    if (file.find("/balance/") != std::string::npos)
      for (const char* method : {"best", "eplb"}) {
        const auto question = fmt::format("balance {} --set method={} --format json", file, method);
        table[question] = digest(rehearse(question));
      }
    else if (file.find("/reshard/") == std::string::npos)
      run(table, "run " + file);
    else
      for (const char* planner : {"best", "greedy"}) {
        const auto question = fmt::format("reshard {} --set planner={} --format json", file, planner);
        table[question] = digest(rehearse(question));
      }
  // Every operator is priced and simulated: some hundred thousand tasks, 55 MB of trace.
  for (const char* file : {"scenarios/gpt3-175b-1024xa100.yaml", "scenarios/llama3-8b-dgx-h100.yaml"})
    run(table, std::string("run ") + file + " --set simulate.detail=operator");
  for (const char* question : {
           "schedule 1f1b --pipeline 8 --microbatches 24 --forward 18.522ms --backward 18.086ms --weight 9.337ms "
           "--transfer 0.601ms",
           "schedule interleaved-1f1b --pipeline 4 --chunks 3 --microbatches 16 --forward 5ms --backward 6ms --weight "
           "4ms --transfer 100us",
           "schedule zb-h1 --pipeline 6 --microbatches 17 --forward 7ms --backward 5ms --weight 3ms --transfer 333us",
       })
    for (const char* format : {" --format json", " --format csv", " --format text"})
      table[std::string(question) + format] = digest(rehearse(std::string(question) + format));
  return table;
}

Table read_table() {
  Table table;
  std::ifstream in(kTable);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') table[line.substr(66)] = line.substr(0, 64);
  return table;
}

void bless(const Table& table) {
  std::string text =
      "# SHA-256 of what `rehearse` answers (the version left out); the same in every build. After a change that was\n"
      "# meant: REHEARSAL_BLESS=1 tools/test -R golden_determinism\n";
  for (const auto& [question, sha] : table) text += sha + "  " + question + "\n";
  write(kTable, text);
}

// One question in three spellings: as people write it, with its keys in another order and defaults written out, as
// JSON.
const char* const kPlain = R"(# a comment
version: 1
name: spelling
model: gpt3-175b
cluster: {use: dgx-a100-80g, nodes: 8}
parallelism: {tensor: 8, sequence: true, pipeline: 4}
batch: {global: 64, micro: 1}
schedule: 1f1b
training: {precision: bf16, recompute: selective, attention: flash}
software: megatron-2021
)";
const char* const kShuffled = R"(software: megatron-2021
training:
  attention: flash
  optimizer: adamw
  recompute: selective
  precision: bf16
schedule: {name: 1f1b}
batch: {micro: 1, global: 64}
parallelism:
  pipeline: 4
  data: 2
  chunks: 1
  sequence: true
  tensor: 8
cluster:
  nodes: 8
  use: dgx-a100-80g
model: gpt3-175b
name: "spelling"
version: 1
)";
const char* const kJson = R"({"name": "spelling", "version": 1, "batch": {"global": 64, "micro": 1},
 "model": "gpt3-175b", "cluster": {"nodes": 8, "use": "dgx-a100-80g"},
 "parallelism": {"pipeline": 4, "tensor": 8, "sequence": true, "data": 2}, "software": "megatron-2021",
 "training": {"attention": "flash", "precision": "bf16", "recompute": "selective"}, "schedule": "1f1b"})";

}  // namespace

TEST_CASE("answers are those of the table, in every build") {
  const Table now = current();
  if (const char* wish = std::getenv("REHEARSAL_BLESS"); wish && std::string(wish) == "1") bless(now);
  const Table table = read_table();
  INFO("if this was meant: REHEARSAL_BLESS=1 tools/test -R golden_determinism");
  for (const auto& [question, sha] : now) {
    CAPTURE(question);
    const auto known = table.find(question);
    CHECK_MESSAGE(known != table.end(), "not in the table");
    if (known != table.end()) CHECK(sha == known->second);
  }
  for (const auto& [question, sha] : table) {
    CAPTURE(question);
    CHECK_MESSAGE(now.count(question) == 1, "in the table, but not asked any more");
  }
}

TEST_CASE("two runs give the same bytes") {
  Table first, second;
  for (Table* table : {&first, &second}) {
    run(*table, "run scenarios/llama3-8b-dgx-h100.yaml --set simulate.detail=operator");
    run(*table, "run scenarios/teaching-zb-h1-8-stages.yaml");
  }
  CHECK(first == second);
}

TEST_CASE("a scenario's spelling changes neither its digest nor a byte of the answer") {
  const Scratch scratch;
  const auto answer = [&](const char* text, const std::string& more = "") {
    write(scratch.folder / "question.yaml", text);
    return rehearse("run question.yaml --format json" + more, scratch.folder);
  };
  const auto plain = answer(kPlain);
  CHECK(answer(kShuffled) == plain);
  CHECK(answer(kJson) == plain);
  // Another question has another digest.
  const auto sha = [](const std::string& json) { return nlohmann::json::parse(json)["scenario"]["digest"]; };
  CHECK(sha(answer(kPlain, " --set batch.micro=2")) != sha(plain));
}
