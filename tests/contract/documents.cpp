// The pages that explain the house speak of what is there: every path, link and `room::name` exists, the tour's table
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

// Every page of the tree, from its top.
std::vector<fs::path> pages() {
  std::vector<fs::path> all;
  for (const char* folder : {"docs", "models", "scenarios", "sim", "tests", "web"})
    for (auto at = fs::recursive_directory_iterator(kRoot / folder); at != fs::recursive_directory_iterator(); ++at) {
      if (at->path().filename() == "node_modules") at.disable_recursion_pending();
      if (at->path().extension() == ".md") all.push_back(at->path().lexically_relative(kRoot));
    }
  for (const char* page : {"README.md", "CONTRIBUTING.md"}) all.emplace_back(page);
  return all;
}

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
  for (const auto& page : pages()) {
    CAPTURE(page.string());
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
  CHECK(paths > 500);
}

// "#" and the words of each heading, as GitHub makes them: small, without punctuation, joined by dashes.
std::string anchors(const std::string& page) {
  std::string all = "\n";
  for_each_match("\n" + prose(page), "\n#+ ([^\n]*)", [&](const auto& heading) {
    static const std::regex target(R"(\]\([^)]*\))"), dropped("[^a-z0-9 _-]");
    std::string words = std::regex_replace(heading[1].str(), target, "");
    std::transform(words.begin(), words.end(), words.begin(), [](unsigned char c) { return std::tolower(c); });
    words = std::regex_replace(words, dropped, "");
    std::replace(words.begin(), words.end(), ' ', '-');
    all += "#" + words + "\n";
  });
  return all;
}

TEST_CASE("every link of a page leads to a file, and to a heading that is there") {
  std::size_t links = 0;
  for (const auto& page : pages()) {
    CAPTURE(page.string());
    for_each_match(prose(read(kRoot / page)), R"(\]\(([^)#\s]*)(#[^)\s]*)?\))", [&](const auto& match) {
      const std::string path = match[1], heading = match[2];
      if (path.find("://") != std::string::npos) return;
      const fs::path file = path.empty() ? kRoot / page : (kRoot / page).parent_path() / path;
      CAPTURE(match.str());
      CHECK(fs::exists(file));
      if (!heading.empty() && file.extension() == ".md") CHECK(contains(anchors(read(file)), "\n" + heading + "\n"));
      ++links;
    });
  }
  CHECK(links > 150);
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
