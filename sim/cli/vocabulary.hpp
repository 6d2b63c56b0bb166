// All words of a command line: commands, their options and what these take, names that can be listed, keys of scenarios
// with their values. Drawn from the tables that `--help`, `list` and the schema print.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"

namespace rehearsal::cli {

struct Vocabulary {
  // What a word may be: one of a few, the name of a file, of a folder, KEY=VALUE, or something else.
  enum class Takes : std::uint8_t { nothing, choice, file, folder, setting, other };
  struct Word {
    std::string name, help;
    Takes takes = Takes::nothing;
    std::vector<std::string> choices;
  };
  struct Spoken {
    std::string name, summary;
    Takes operand = Takes::other;
    std::vector<std::string> operands;  // where they are few
    std::vector<Word> options;          // with their dashes
  };
  std::vector<Spoken> commands;
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // of `list`, with their names
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;   // dotted, with the values where they are few
};
Vocabulary vocabulary();

// The scripts. `zsh` runs that of bash, which it can.
std::string bash_completion(const Vocabulary& words);
std::string zsh_completion(const Vocabulary& words);
std::string fish_completion(const Vocabulary& words);

}  // namespace rehearsal::cli
