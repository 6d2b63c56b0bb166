// Shared by the tests of this room: scenarios from texts, and errors as lines.
#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "scenario/check.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

// A separate folder that is removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearsal-scenario-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
    ::setenv("REHEARSAL_PROFILES", "/nowhere", 0);  // what was measured here is no part of a test
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// With a list of `--set`s: braces always mean a list, never the single text of scenario::load_text.
inline Scenario load_text(const std::string& text, std::initializer_list<std::string> sets = {}) {
  const Folder folder;
  return load(folder.write("x.yaml", text), sets);
}

// "line:column: message" of every error of a text; errors of --set keep the option as their place.
inline std::vector<std::string> errors_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const Folder folder;
  std::vector<std::string> lines;
  for (const auto& [where, message] : check(folder.write("x.yaml", text), sets).errors)
    lines.push_back(where.line ? fmt::format("{}:{}: {}", where.line, where.column, message)
                               : fmt::format("{}: {}", std::filesystem::path(where.file).filename().string(), message));
  return lines;
}

// A valid scenario, and variants of it that replace one piece of its text.
inline const std::string kGood =
    "version: 1\n"
    "model: gpt3-175b\n"
    "cluster: {use: dgx-a100-80g, nodes: 128}\n"
    "parallelism: {tensor: 8, pipeline: 8, data: 16}\n"
    "batch: {global: 1536, micro: 1}\n"
    "schedule: 1f1b\n";
inline const std::string kGoodAbstract =
    "version: 1\n"
    "parallelism: {pipeline: 4}\n"
    "batch: {microbatches: 8}\n"
    "costs: {forward: 5ms, backward: 5ms, weight: 5ms}\n";
inline std::string with(std::string text, const std::string& old, const std::string& now) {
  const auto at = text.find(old);
  REQUIRE_MESSAGE(at != std::string::npos, old);
  return text.replace(at, old.size(), now);
}

}  // namespace rehearsal::scenario
