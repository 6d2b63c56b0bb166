// Wrong input through the command line: `check` and `run` report every error, exit with status 2 and write nothing.
// Small errors are in tests/golden/bad_input/, with every expected complaint in expected.txt; large input and binary
// input are generated here.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../program.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path kCases = fs::path(TEST_DATA) / "golden" / "bad_input";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Inputs : Scratch {
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
};

struct Run {
  int status = -1;
  std::string out, err;
};

// Runs the program in an empty folder; a program that hangs is killed and reported as status 137.
Run rehearse(const std::string& arguments) {
  const Inputs scratch;
  const auto work = scratch.folder / "work";
  fs::create_directory(work);
  const std::string command = fmt::format("cd '{}' && REHEARSAL_HOME='{}' timeout -s KILL 20 '{}' {} >../out 2>../err",
                                          work.string(), PROJECT_ROOT, REHEARSE_BINARY, arguments);
  const int status = std::system(command.c_str());
  CHECK_MESSAGE(fs::is_empty(work), "something was written");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(scratch.folder / "out"),
          read(scratch.folder / "err")};
}

std::size_t count(const std::string& text, const std::string& piece) {
  std::size_t n = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) n++;
  return n;
}

// Both commands must complain with exactly these "PATH:LINE:COLUMN: error: MESSAGE..." lines.
void check_refused(const fs::path& path, const std::vector<std::string>& complaints) {
  for (const std::string command : {"check", "run --output result.json --format json"}) {
    const auto run = rehearse(fmt::format("{} '{}'", command, path.string()));
    INFO(command);
    INFO(path.string());
    INFO(run.err);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK(count(run.err, ": error: ") == complaints.size());
    for (const auto& c : complaints) CHECK_MESSAGE(run.err.find(c) != std::string::npos, c);
  }
}

std::string repeat(const std::string& piece, int times) {
  std::string text;
  while (times-- > 0) text += piece;
  return text;
}

}  // namespace

TEST_CASE("every slip of the table, with every complaint") {
  std::map<std::string, std::vector<std::string>> expected;
  std::ifstream table(kCases / "expected.txt");
  for (std::string line; std::getline(table, line);) {
    // FILE:LINE:COLUMN: MESSAGE
    const auto file = line.substr(0, line.find(':'));
    const auto place = line.substr(0, line.find(": "));
    expected[file].push_back(fmt::format("{}/{}: error: {}", kCases.string(), place, line.substr(line.find(": ") + 2)));
  }
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (entry.path().extension() != ".yaml") continue;
    files++;
    const auto name = entry.path().filename().string();
    REQUIRE_MESSAGE(expected.count(name) == 1, name);
    check_refused(entry.path(), expected[name]);
  }
  CHECK(files == expected.size());
  CHECK(files >= 20);
}

TEST_CASE("files that are no text, too large, too deep, or not there") {
  const Inputs scratch;
  const struct {
    fs::path path;
    std::string complaint;  // after the path
  } cases[] = {
      {scratch.folder / "missing.yaml", ": error: cannot be opened: No such file or directory"},
      {scratch.folder, ": error: is a directory, not a file"},
      {scratch.write("binary.yaml",
                     "\x7f"
                     "ELF\x02\x01\x01" +
                         std::string(4096, '\0')),
       ":1:8: error: not a text file: byte 0x00"},
      {scratch.write("latin1.yaml", "name: caf\xe9\n"), ":1:10: error: not a text file: byte 0xe9"},
      {scratch.write("large.yaml", std::string(5 << 20, '#')), ": error: is larger than 4 MiB"},
      {scratch.write("long.yaml", "x: [" + repeat("1,", 1'000'000) + "1]\n"),
       "error: the file has more than 100000 values"},
      {scratch.write("deep.yaml", repeat("[", 20'000)), "error: nested more than 64 levels deep"},
      {scratch.write("deep_maps.yaml", repeat("{a: ", 20'000)), "error: nested more than 64 levels deep"},
      {scratch.write("deep_blocks.yaml", repeat("- ", 20'000)), "error: nested more than 64 levels deep"},
      {scratch.write("deep_json.json", repeat("{\"a\":", 20'000) + "1" + repeat("}", 20'000)),
       "error: nested more than 64 levels deep"},
      {scratch.write("scalar.yaml", "a: " + std::string(4'000'000, 'x') + "\n"), ":1:1: error: unknown key 'a'"},
      {scratch.write("keys.yaml", std::string(4'000'000, 'k') + ": 1\n"), "error: "},
  };
  for (const auto& [path, complaint] : cases) {
    for (const std::string command : {"check", "run"}) {
      const auto run = rehearse(fmt::format("{} '{}'", command, path.string()));
      INFO(command);
      INFO(path.string());
      INFO(run.err.substr(0, 2000));
      CHECK(run.status == 2);
      CHECK(run.out.empty());
      CHECK(run.err.find(path.string() + (complaint.starts_with(":") ? complaint : "")) != std::string::npos);
      CHECK(run.err.find(complaint) != std::string::npos);
      CHECK(run.err.size() < 20'000);  // the user's input is never echoed as a whole
    }
  }
}

TEST_CASE("all files are checked; one wrong file makes the status") {
  const std::string good = PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml", bad = (kCases / "names.yaml").string();
  const auto text = rehearse(fmt::format("check '{}' '{}' '{}'", bad, good, (kCases / "heads.yaml").string()));
  CHECK(text.status == 2);
  CHECK(text.out == good + ": ok\n");
  CHECK(count(text.err, ": error: ") == 4);

  const auto run = rehearse(fmt::format("check --format json '{}' '{}'", bad, good));
  CHECK(run.status == 2);
  const auto json = nlohmann::json::parse(run.out);
  REQUIRE(json.size() == 2);
  CHECK(json[0]["file"] == bad);
  CHECK(json[0]["ok"] == false);
  REQUIRE(json[0]["errors"].size() == 3);
  CHECK(json[0]["errors"][0]["line"] == 2);
  CHECK(json[0]["errors"][0]["column"] == 8);
  CHECK(json[0]["errors"][0]["message"] == "unknown model 'gpt3-157b'; did you mean 'gpt3-175b'?");
  CHECK(json[1]["ok"] == true);
  CHECK(json[1]["errors"].empty());

  CHECK(rehearse(fmt::format("check '{}'", good)).status == 0);
  CHECK(rehearse("check").status == 2);
}

TEST_CASE("--set: errors name the option") {
  const std::string good = PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml";
  for (const std::string command : {"check", "run"}) {
    const auto run = rehearse(fmt::format("{} '{}' --set batch.micro=x --set btach.global=3", command, good));
    INFO(run.err);
    CHECK(run.status == 2);
    CHECK(run.err.find("--set batch.micro=x: error: 'micro' must be a whole number") != std::string::npos);
    CHECK(run.err.find("--set btach.global=3: error: unknown key 'btach'; did you mean 'batch'?") != std::string::npos);
  }
}

TEST_CASE("an output that cannot be written is refused before any work, and leaves no trace") {
  const std::string good = PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml";
  const Inputs scratch;
  fs::create_directory(scratch.folder / "sealed");
  fs::permissions(scratch.folder / "sealed", fs::perms::owner_read | fs::perms::owner_exec);
  std::vector<std::string> outputs = {"/nowhere/result.json", scratch.folder.string(), "/proc/result.json"};
  if (::geteuid() != 0)
    outputs.push_back((scratch.folder / "sealed" / "result.json").string());  // root may write there anyway
  for (const auto& output : outputs)
    for (const std::string command : {"check", "run"}) {
      const auto run = rehearse(fmt::format("{} '{}' --output '{}'", command, good, output));
      INFO(output);
      INFO(run.err);
      CHECK(run.status == 2);
      CHECK(run.out.empty());
      CHECK(run.err.find(output) != std::string::npos);
    }
}
