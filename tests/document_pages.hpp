// What a page in Markdown shows of the program: commands, and what it prints beside them.
//
//   - In a fenced block a line that begins with a program of the tree ("$ " before it or not) is a command; the lines
//     below it, up to the next command, are what it answers.
//   - A block below <!-- output: COMMAND --> is what COMMAND answers.
//   - `rehearse ...` within a sentence is a command too.
// "..." alone on a line stands for lines that are left out.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "rehearse.hpp"

namespace rehearsal::documents {

inline const std::filesystem::path kTop = PROJECT_ROOT;

struct Command {
  std::string page, text;           // one line: continuations joined, comment taken off
  std::size_t from = 0, to = 0;     // lines of the page that show its answer
  std::vector<std::string> answer;  // those lines; none: the page shows none
  std::string where() const { return page + ": " + text; }
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Words as a shell splits them, without quotes.
inline std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  bool open = false;
  char quote = 0;
  for (const char c : command) {
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      if (!open) words.emplace_back(), open = true;
    } else if (!quote && c == ' ') {
      open = false;
    } else {
      if (!open) words.emplace_back(), open = true;
      words.back() += c;
    }
  }
  return words;
}

inline std::string without_comment(std::string text) {
  static const std::regex comment(" +#( .*)?$");
  text = std::regex_replace(text, comment, "");
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// "FILE", "KEY=V1,V2", "N", "...": placeholders that a reader replaces.
inline bool has_placeholder(const std::string& command) {
  static const std::regex placeholder(R"((^|[ =\[,:|])([A-Z][A-Z0-9]*)($|[ =\],.:|%])|\.\.\.|<|\|)");
  return std::regex_search(command, placeholder);
}

inline bool is_command(const std::string& line) {
  static const std::regex programs(
      R"(^(\$ )?(tools/[a-z-]+|build/\S+|rehearse|cmake|mpirun|[A-Z_]+= ?build/\S+)( |$))");
  return std::regex_search(line, programs);
}

inline std::string command_text(std::string line) {
  if (line.starts_with("$ ")) line.erase(0, 2);
  if (line.starts_with("tools/rehearse")) line.erase(0, 6);
  return without_comment(line);
}

inline std::vector<Command> commands_of(const std::string& page, const std::string& text) {
  std::vector<Command> all;
  const auto lines = lines_of(text);
  std::string prose, told;  // `told`: whose output the next block is
  bool code = false, foreign = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    static const std::regex output("<!-- output: (.*) -->");
    std::smatch match;
    const auto& line = lines[i];
    if (line.starts_with("```")) {
      code = !code, foreign = code && line != "```" && line != "```console";
      if (code && !told.empty()) {
        Command shown{page, told, i + 1, i + 1, {}};
        while (shown.to < lines.size() && lines[shown.to] != "```") shown.answer.push_back(lines[shown.to++]);
        all.push_back(shown);
        told.clear(), code = false, i = shown.to;
      }
    } else if (!code && std::regex_match(line, match, output)) {
      told = command_text(match[1]);
    } else if (!code && !(line.starts_with("    ") && is_command(line.substr(4)))) {
      prose += line + "\n";
    } else if (!foreign && is_command(code ? line : line.substr(4))) {
      auto command = command_text(code ? line : line.substr(4));
      while (command.ends_with('\\') && i + 1 < lines.size()) {
        command.pop_back();
        ++i;
        command += command_text(lines[i].substr(lines[i].find_first_not_of(' ')));
      }
      all.push_back({page, command, i + 1, i + 1, {}});
    } else if (!foreign && code && !all.empty() && all.back().to == i) {
      all.back().answer.push_back(line), all.back().to = i + 1;
    }
  }
  static const std::regex spaces("\\s+"), quoted("`((?:tools/)?rehearse [^`]*)`"), bar(R"(\\\|)");
  prose = std::regex_replace(prose, spaces, " ");
  for (std::sregex_iterator it(prose.begin(), prose.end(), quoted), end; it != end; ++it)
    all.push_back({page, command_text(std::regex_replace((*it)[1].str(), bar, "|")), 0, 0, {}});
  return all;
}

// The lines of `answer` that correspond to `told`: pieces between "..." in order, the first at the beginning and the
// last at the end unless "..." is there. For a piece that is not found: the most similar lines. Empty: nothing is
// similar.
inline std::vector<std::string> todays(const std::vector<std::string>& told, const std::vector<std::string>& answer) {
  const auto alike = [](const std::string& a, const std::string& b) {
    return std::size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  };
  const auto most_alike = [&](const std::string& line, std::size_t from) {
    std::size_t best = from;
    for (std::size_t i = from; i < answer.size(); ++i)
      if (alike(answer[i], line) > alike(answer[best], line)) best = i;
    return best;
  };
  std::vector<std::string> now;
  std::size_t at = 0;
  for (std::size_t i = 0; i < told.size();) {
    if (told[i] == "...") {
      now.push_back(told[i++]);
      continue;
    }
    const auto end = std::size_t(std::find(told.begin() + std::ptrdiff_t(i), told.end(), "...") - told.begin());
    const std::size_t from = i == 0 ? 0 : most_alike(told[i], at);
    std::size_t to = end == told.size() ? answer.size() : most_alike(told[end - 1], from) + 1;
    // A line that goes on below, further in, is shown whole.
    const auto margin = [&](std::size_t line) { return answer[line].find_first_not_of(' '); };
    for (const auto last = to - 1;
         to < answer.size() && margin(to) != std::string::npos && margin(to) > margin(last) + 4;)
      ++to;
    for (at = from; at < to && at < answer.size(); ++at) now.push_back(answer[at]);
    i = end;
  }
  return now;
}

inline bool blessing() {
  const char* wish = std::getenv("REHEARSAL_BLESS");
  return wish && std::string(wish) == "1";
}

inline std::vector<std::string> without_spaces_behind(std::vector<std::string> lines) {
  for (auto& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Checks that the page shows the command's answer; REHEARSAL_BLESS=1 writes it into the page.
inline void compare_or_bless(const Command& command, const std::string& output, const std::string& test) {
  CAPTURE(command.where());
  const auto told = without_spaces_behind(command.answer);
  const auto now = without_spaces_behind(todays(told, without_spaces_behind(lines_of(output))));
  const auto joined = [](const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
  };
  if (blessing() && now != told) {
    auto lines = lines_of(read(kTop / command.page));
    const auto at = lines.begin() + std::ptrdiff_t(command.from);
    lines.insert(lines.erase(at, at + std::ptrdiff_t(command.to - command.from)), now.begin(), now.end());
    std::ofstream(kTop / command.page, std::ios::binary) << joined(lines);
    return;
  }
  INFO("if this was meant: REHEARSAL_BLESS=1 tools/test -R " << test);
  CHECK(joined(told) == joined(now));
}

}  // namespace rehearsal::documents
