// The pages that explain the house speak of what is there: every path and every `room::name` exists, the tour's table
// of rooms is that of CMakeLists.txt. What pages show of the program: document_commands.cpp, document_claims.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "../rehearse.hpp"

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = PROJECT_ROOT;
const char* const kPages[] = {"README.md", "CONTRIBUTING.md", "sim/README.md", "models/README.md",
                              "scenarios/README.md"};

// Without blocks of code in C++, which may show files that are yet to be written.
std::string prose(const std::string& page) {
  std::string text;
  std::istringstream in(page);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) inside = line == "```cpp";
    if (!inside) text += line + "\n";
  }
  return text;
}

template <class Visit>
void for_each_match(const std::string& text, const std::string& pattern, Visit&& visit) {
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) visit(*it);
}

// room -> where it is and what it sees, one space between names
using Rooms = std::map<std::string, std::string>;

bool mentions(const fs::path& folder, const std::string& word) {
  const std::regex regex("\\b" + word + "\\b");
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (file.path().extension() == ".hpp" && std::regex_search(read(file.path()), regex)) return true;
  return false;
}

}  // namespace

TEST_CASE("every path that a page names exists") {
  std::size_t paths = 0;
  for (const char* page : kPages) {
    CAPTURE(page);
    for_each_match(prose(read(kRoot / page)),
                   "[`( ]((?:sim|models|hw|configs|scenarios|tests|tools)/[A-Za-z0-9_./*<>-]*)",
                   [&](const auto& match) {
                     std::string path = match[1];
                     while (path.ends_with('.')) path.pop_back();
                     // Of `sim/cli/cmd_*.cpp` and `scenarios/<name>.yaml` the folder.
                     if (const auto wild = path.find_first_of("*<"); wild != std::string::npos)
                       path = path.substr(0, path.rfind('/', wild));
                     CAPTURE(path);
                     CHECK(fs::exists(kRoot / path));
                     ++paths;
                   });
  }
  CHECK(paths > 60);
}

TEST_CASE("every room::name of the tour is in a header of that room") {
  std::size_t names = 0;
  for_each_match(read(kRoot / "sim/README.md"), "`([a-z]+)::([A-Za-z_]+)(?:::([A-Za-z_]+))?", [&](const auto& match) {
    CAPTURE(match.str());
    const fs::path room = kRoot / "sim" / match[1].str();
    CHECK(mentions(room, match[2]));
    if (match[3].matched) CHECK(mentions(room, match[3]));
    ++names;
  });
  CHECK(names >= 5);
}

TEST_CASE("the tour's table of rooms is that of CMakeLists.txt") {
  Rooms built, told;
  for_each_match(read(kRoot / "CMakeLists.txt"), R"(\n *(?:room|module)\((\S+)\s*(?:USES ([a-z ]*[a-z]))?)",
                 [&](const auto& match) { built[match[1]] = match[2]; });
  for_each_match(read(kRoot / "sim/README.md"), R"(\n\| `([a-z/]+)` \| ([a-z ]*)\|)", [&](const auto& match) {
    std::string sees = match[2];
    if (sees.ends_with(' ')) sees.pop_back();
    told[match[1]] = sees;
  });
  CHECK(built.size() >= 15);
  CHECK(told == built);
}
