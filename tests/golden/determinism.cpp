// Same input, same answer: the numbers of every answer are in answers.txt, so that a diff shows what changed and by how
// much; determinism.txt has the SHA-256 of longer output (timelines, traces, orders). One table for all builds, so
// unoptimised, optimised and sanitized programs must agree to the last digit. After an intended change of answers:
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

using Json = nlohmann::ordered_json;

const fs::path kNumbers = TEST_DATA "/golden/answers.txt", kHashes = TEST_DATA "/golden/determinism.txt";

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

// Programs that give the same answer may differ only in the version, at the top of an output.
std::string digest(std::string text) {
  static const std::string version = [] {
    const auto line = rehearse("--version");  // "rehearse 1.2.3"
    return "\"" + line.substr(9, line.find_first_of(" \n", 9) - 9) + "\"";
  }();
  const auto at = std::string_view(text).substr(0, 4096).find(version);
  if (at != std::string::npos) text.replace(at, version.size(), "\"\"");
  return rehearsal::sha256(text);
}

// question -> the pinned part of its answer: lines of numbers, or a SHA-256.
using Table = std::map<std::string, std::string>;
struct Tables {
  Table numbers, hashes;
};

// "name  value" with all digits, as in JSON. For a list: its length, and the sum of its numbers.
void line(std::string& text, const std::string& name, const Json& value) {
  std::string shown;
  if (value.is_array() && !value.empty() && value[0].is_array()) return;  // a whole placement: only its hash is pinned
  if (value.is_object()) {
    for (const auto& [key, part] : value.items())
      if (part != 0 && !part.is_null()) shown += fmt::format("{}{} {}", shown.empty() ? "" : ", ", key, part.dump());
  } else if (value.is_array() && value.empty()) {
    shown = "none";
  } else if (value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_number(); })) {
    double sum = 0;
    for (const auto& number : value) sum += number.get<double>();
    shown = fmt::format("{} of them, sum {}", value.size(), Json(sum).dump());
  } else if (value.is_array()) {
    shown = fmt::format("{} of them", value.size());
  } else {
    shown = value.dump();
  }
  text += fmt::format("  {:<30} {}\n", name, shown);
}

// The number of `key` in each entry of a list, for line().
Json each(const Json& list, const char* key, const char* part = nullptr) {
  Json values = Json::array();
  for (const auto& entry : list)
    if (const auto& value = part ? entry[key][part] : entry[key]; !value.is_null()) values.push_back(value);
  return values;
}

// The most important numbers, and sums of long lists. Texts (assumptions, warnings) are only counted.
std::string numbers(const Json& answer) {
  std::string text;
  for (const auto& [key, value] : answer.items()) {
    if (key == "ranks") {
      const auto worst = std::max_element(value.begin(), value.end(), [](const Json& a, const Json& b) {
        const auto size = [](const Json& rank) { return rank["peak_memory_bytes"]["allocated"].get<double>(); };
        return size(a) < size(b);
      });
      line(text, "memory of worst rank", (*worst)["memory_bytes"]);
      line(text, "busy_s of ranks", each(value, "busy_s"));
      for (const char* size : {"allocated", "reserved"})
        line(text, fmt::format("{} of ranks", size), each(value, "peak_memory_bytes", size));
    } else if (key == "traffic") {
      line(text, "bytes sent per GPU", value["per_gpu_bytes"]);
      line(text, "bytes over links", each(value["links"], "bytes"));
    } else if (key == "scenario") {
      line(text, "digest", value["digest"].get<std::string>().substr(0, 16));
    } else if (key == "steps") {
      for (const char* what : {"moved_replicas", "max_over_mean", "static_max_over_mean"})
        line(text, fmt::format("{} of steps", what), each(value, what));
    } else if (key != "rehearsal" && key != "name" && !value.is_null()) {
      line(text, key, value);
    }
  }
  return text;
}

// A placement or a plan in numbers, and all of it as a hash.
void plan(Tables& tables, const std::string& question) {
  const auto json = rehearse(question + " --format json");
  tables.numbers[question] = numbers(Json::parse(json));
  tables.hashes[question + " --format json"] = digest(json);
}

// One run, three answers.
void run(Tables& tables, const std::string& question) {
  const Scratch scratch;
  const auto timeline = scratch.folder / "timeline.json", trace = scratch.folder / "trace.json";
  const auto json =
      rehearse(question + " --format json --timeline '" + timeline.string() + "' --trace '" + trace.string() + "'");
  CHECK(json.find(PROJECT_ROOT) == std::string::npos);  // answers must not contain the path of the checkout
  tables.numbers[question] = numbers(Json::parse(json));
  tables.hashes[question + " --timeline"] = digest(read(timeline));
  tables.hashes[question + " --trace"] = digest(read(trace));
}

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(PROJECT_ROOT "/scenarios"))
    if (entry.path().extension() == ".yaml") files.push_back(fs::relative(entry.path(), PROJECT_ROOT).string());
  std::sort(files.begin(), files.end());
  return files;
}

Tables current() {
  Tables tables;
  for (const auto& file : scenario_files())
    if (file.find("/balance/") != std::string::npos)
      for (const char* method : {"best", "eplb"}) plan(tables, fmt::format("balance {} --set method={}", file, method));
    else if (file.find("/jobs/") != std::string::npos)
      continue;  // several timelines: none is written
    else if (file.find("/reshard/") == std::string::npos)
      run(tables, "run " + file);
    else
      for (const char* planner : {"best", "greedy"})
        plan(tables, fmt::format("reshard {} --set planner={}", file, planner));
  // Every operator is priced and simulated: some hundred thousand tasks, 55 MB of trace.
  for (const char* file : {"scenarios/gpt3-175b-1024xa100.yaml", "scenarios/llama3-8b-dgx-h100.yaml"})
    run(tables, std::string("run ") + file + " --set simulate.detail=operator");
  for (const std::string question : {
           "schedule 1f1b --pipeline 8 --microbatches 24 --forward 18.522ms --backward 18.086ms --weight 9.337ms "
           "--transfer 0.601ms",
           "schedule interleaved-1f1b --pipeline 4 --chunks 3 --microbatches 16 --forward 5ms --backward 6ms --weight "
           "4ms --transfer 100us",
           "schedule zb-h1 --pipeline 6 --microbatches 17 --forward 7ms --backward 5ms --weight 3ms --transfer 333us",
       }) {
    tables.numbers[question] = numbers(Json::parse(rehearse(question + " --format json")));
    for (const char* format : {" --format csv", " --format text"})
      tables.hashes[question + format] = digest(rehearse(question + format));
  }
  return tables;
}

// A question starts at the beginning of a line; the pinned answer follows in indented lines.
Table read_table(const fs::path& path) {
  Table table;
  std::string* answer = nullptr;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    if (text.empty() || text[0] == '#') continue;
    if (text[0] != ' ')
      answer = &table[text];
    else if (answer)
      *answer += text + "\n";
  }
  return table;
}

// A hash is one indented line, like any other answer.
Table indented(const Table& hashes) {
  Table lines;
  for (const auto& [question, sha] : hashes) lines[question] = "  " + sha + "\n";
  return lines;
}

void bless(const fs::path& path, const std::string& what, const Table& table) {
  std::string text = "# " + what +
                     "\n# The same in every build. After a change that was meant: REHEARSAL_BLESS=1 tools/test -R "
                     "golden_determinism\n";
  for (const auto& [question, answer] : table) text += question + "\n" + answer;
  write(path, text);
}

void compare(const Table& now, const Table& table) {
  INFO("if this was meant: REHEARSAL_BLESS=1 tools/test -R golden_determinism");
  for (const auto& [question, answer] : now) {
    CAPTURE(question);
    const auto known = table.find(question);
    CHECK_MESSAGE(known != table.end(), "not in the table");
    if (known != table.end()) CHECK(answer == known->second);
  }
  for (const auto& [question, answer] : table) {
    CAPTURE(question);
    CHECK_MESSAGE(now.count(question) == 1, "in the table, but not asked any more");
  }
}

// One question in three forms: as people write it; with reordered keys and explicit defaults; as JSON.
const char* const kPlain = R"(# a comment
version: 1
name: spelling
model: gpt3-175b
cluster: {use: dgx-a100-80g, nodes: 8}
parallelism: {tensor: 8, sequence: true, pipeline: 4}
batch: {global: 64, micro: 1}
schedule: 1f1b
training: {precision: bf16, recompute: selective, attention: flash}
framework: megatron-2021
)";
const char* const kShuffled = R"(framework: megatron-2021
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
 "parallelism": {"pipeline": 4, "tensor": 8, "sequence": true, "data": 2}, "framework": "megatron-2021",
 "training": {"attention": "flash", "precision": "bf16", "recompute": "selective"}, "schedule": "1f1b"})";

}  // namespace

TEST_CASE("answers are those of the tables, in every build") {
  const auto now = current();
  const auto hashes = indented(now.hashes);
  if (const char* wish = std::getenv("REHEARSAL_BLESS"); wish && std::string(wish) == "1") {
    bless(kNumbers, "The numbers of what `rehearse` answers, with all their digits.", now.numbers);
    bless(kHashes, "SHA-256 of what `rehearse` writes that is too long to read (the version left out).", hashes);
  }
  compare(now.numbers, read_table(kNumbers));
  compare(hashes, read_table(kHashes));
}

TEST_CASE("two runs give the same bytes") {
  std::vector<Table> runs(2);
  for (Table& bytes : runs)
    for (const std::string question : {"run scenarios/llama3-8b-dgx-h100.yaml --set simulate.detail=operator",
                                       "run scenarios/teaching-zb-h1-8-stages.yaml"}) {
      const Scratch scratch;
      const auto trace = scratch.folder / "trace.json";
      bytes[question] = digest(rehearse(question + " --format json --trace '" + trace.string() + "'"));
      bytes[question + " --trace"] = digest(read(trace));
    }
  CHECK(runs[0] == runs[1]);
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
  // A different question has a different digest.
  const auto sha = [](const std::string& json) { return nlohmann::json::parse(json)["scenario"]["digest"]; };
  CHECK(sha(answer(kPlain, " --set batch.micro=2")) != sha(plain));
}
