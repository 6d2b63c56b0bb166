// tools/man: the manual page has every command with everything in its --help.
#include <doctest/doctest.h>

#include <sstream>

#include "../rehearse.hpp"

namespace {

// A line as roff prints it.
std::string in_roff(const std::string& line) {
  std::string text;
  for (const char c : line) text += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

}  // namespace

TEST_CASE("the manual page holds the help of every command, line by line") {
  const auto made = shell("REHEARSE='" REHEARSE_BINARY "' '" PROJECT_ROOT "/tools/man'");
  REQUIRE(made.status == 0);
  CHECK(made.out.starts_with(".TH REHEARSE 1 "));
  const auto help = rehearse("--help").out;
  std::istringstream lines(help.substr(help.find("\nCommands:\n") + 11));
  std::size_t commands = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("  ");) {
    if (line[2] == ' ') continue;  // a summary continues
    const auto command = line.substr(2, line.find(' ', 2) - 2);
    CAPTURE(command);
    const auto begin = made.out.find(".SS \"rehearse " + command + "\"\n");
    REQUIRE(begin != std::string::npos);
    const auto section = made.out.substr(begin, made.out.find("\n.fi\n", begin) - begin);
    std::istringstream says(rehearse(command + " --help").out);
    for (std::string said; std::getline(says, said);) {
      CAPTURE(said);
      CHECK(contains(section + "\n", "\n" + in_roff(said) + "\n"));
    }
    commands++;
  }
  CHECK(commands == 16);
}
