// Megatron-LM's own functional tests as scenarios: what each becomes, key by key, what is dropped, and why some are
// none. tests/interchange/megatron-tests/expected.txt holds it, read against the arguments by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "interchange/import.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::megatron_tests_test {

using namespace interchange;
namespace {

const std::string kFolder = std::string(TEST_DATA) + "/interchange/megatron-tests/";

struct Expected {
  std::string file;
  std::optional<std::int64_t> world;
  std::vector<std::string> lines;
};

// "# FILE [WORLD]", then lines of that file.
std::vector<Expected> expected() {
  std::ifstream in(kFolder + "expected.txt");
  std::vector<Expected> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    if (!line.starts_with("# ")) {
      all.back().lines.push_back(line);
      continue;
    }
    std::istringstream words(line.substr(2));
    Expected one;
    words >> one.file;
    if (std::int64_t world = 0; words >> world) one.world = world;
    all.push_back(one);
  }
  return all;
}

// "key value" of each key, "- word" of what is dropped, "? word" of what is not understood, "! message" of an error.
std::vector<std::string> lines_of(const Expected& test) {
  std::vector<std::string> lines;
  try {
    const auto imported = import({.files = {kFolder + test.file}, .world = test.world}, scenario::disk());
    for (const auto& [key, given] : imported.draft.keys())
      if (key != "version" && key != "name") lines.push_back(key + " " + given.value.dump());
    for (const auto& left : imported.draft.unworded()) lines.push_back("- " + left.what);
    for (const auto& left : imported.draft.unknown()) lines.push_back("? " + left.what);
  } catch (const UserError& e) {
    for (const auto& [where, message] : e.diagnostics()) {
      auto text = message;
      for (auto at = text.find(kFolder); at != text.npos; at = text.find(kFolder)) text.erase(at, kFolder.size());
      lines.push_back(fmt::format("! {}:{}", where.line, text));
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("functional tests of Megatron-LM become scenarios, and say what they drop") {
  const auto all = expected();
  CHECK(all.size() >= 25);
  for (const auto& test : all) {
    CAPTURE(test.file);
    const auto lines = lines_of(test);
    std::string here, there;
    for (const auto& line : lines) here += line + "\n";
    for (const auto& line : test.lines) there += line + "\n";
    CHECK(here == there);
  }
}

}  // namespace rehearsal::megatron_tests_test
