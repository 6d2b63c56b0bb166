// Names that the glossary has replaced do not come back, and every name in it exists.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = PROJECT_ROOT;

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::string> quoted_words(const std::string& cell) {
  static const std::regex word("`([A-Za-z_0-9]+)`");
  std::vector<std::string> words;
  for (std::sregex_iterator i(cell.begin(), cell.end(), word), end; i != end; ++i) words.push_back((*i)[1]);
  return words;
}

struct Row {
  std::vector<std::string> names, before;
};
std::vector<Row> rows() {
  std::vector<Row> all;
  std::istringstream lines(text_of(kRoot / "sim/glossary.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
    REQUIRE(cells.size() >= 4);
    all.push_back({quoted_words(cells[0]), quoted_words(cells[3])});
  }
  return all;
}

// Code with its comments, but without string literals.
std::string without_texts(const std::string& code) {
  static const std::regex quoted("\"(?:\\\\.|[^\"\\\\\\n])*\"");
  return std::regex_replace(code, quoted, "\"\"");
}

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  for (auto at = text.begin(); at != text.end();) {
    const auto in = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    at = std::find_if(at, text.end(), in);
    const auto end = std::find_if_not(at, text.end(), in);
    words.emplace(at, end);
    at = end;
  }
  return words;
}

}  // namespace

TEST_CASE("every name of the glossary is in the code, and what it replaced is not") {
  const auto table = rows();
  REQUIRE(table.size() > 30);
  // Only types: as words of a sentence the old names are good English. Rooms with another meaning of a name keep it.
  const std::set<std::string> elsewhere{"Question", "Answer", "Held",       "Claims", "Role",
                                        "Room",     "Places", "Prediction", "Seat",   "Traffic"};
  std::set<std::string> old_names, names;
  for (const Row& row : table) {
    for (const auto& name : row.before)
      if (std::isupper(static_cast<unsigned char>(name[0])) && !elsewhere.contains(name)) old_names.insert(name);
    names.insert(row.names.begin(), row.names.end());
  }
  const std::regex declares("(?:struct|class|enum class|using) ([A-Z][A-Za-z0-9]*)");
  std::set<std::string> seen;
  for (const char* part : {"sim", "models", "hw"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / part)) {
      const auto extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp") continue;
      const std::string code = without_texts(text_of(entry.path()));
      seen.merge(words_of(code));
      if (extension != ".hpp") continue;  // public headers: a .cpp file may name its own types freely
      for (std::sregex_iterator i(code.begin(), code.end(), declares), end; i != end; ++i)
        CHECK_MESSAGE(!old_names.contains((*i)[1]), entry.path().string(), " declares ", std::string((*i)[1]));
    }
  for (const auto& name : names) CHECK_MESSAGE((seen.contains(name) || name == "framework"), name);
}

TEST_CASE("no name that was replaced is left in pages, in help, or in what reports say") {
  std::set<std::string> old_names;
  for (const Row& row : rows())
    for (const auto& name : row.before)
      if (name.find('_') != std::string::npos ||
          (std::isupper(static_cast<unsigned char>(name[0])) && std::count_if(name.begin(), name.end(), ::isupper) > 1))
        old_names.insert(name);
  REQUIRE(old_names.size() > 5);
  const auto clean = [&](const fs::path& file, const std::string& text) {
    for (const auto& word : words_of(text)) CHECK_MESSAGE(!old_names.contains(word), file.string(), " says ", word);
  };
  for (const char* page : {"README.md", "CONTRIBUTING.md", "scenarios/README.md"})
    clean(kRoot / page, text_of(kRoot / page));
  for (const auto& entry : fs::directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") clean(entry.path(), text_of(entry.path()));
  const std::regex quoted("\"(?:\\\\.|[^\"\\\\\\n])*\"");
  for (const char* part : {"sim", "models", "hw"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / part)) {
      if (entry.path().extension() != ".cpp" || entry.path().filename() == "renamed.cpp") continue;
      const std::string code = text_of(entry.path());
      std::string texts;
      for (std::sregex_iterator i(code.begin(), code.end(), quoted), end; i != end; ++i) texts += i->str() + "\n";
      clean(entry.path(), texts);
    }
}

TEST_CASE("keys of scenarios are written with the names of today in every file that is shipped") {
  const std::regex old_key("(^|[{ ,\\n])(software|nvlink): |links: *\\{[^}]*\\bnic:");
  for (const char* folder : {"scenarios", "configs/clusters", "configs/gpus", "docs"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "reshard") continue;
      std::string text = text_of(entry.path());
      text = std::regex_replace(text, std::regex("#[^\\n]*"), "");
      text = std::regex_replace(text, std::regex("(measured_on|faults): *[\\[{][^\\n]*"), "");
      CHECK_MESSAGE(!std::regex_search(text, old_key), entry.path().string());
    }
}
