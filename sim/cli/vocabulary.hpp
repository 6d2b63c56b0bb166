// All words of a command line: commands, their options with values, names that can be listed, keys of scenarios with
// their values. Generated from the tables behind `--help`, `list` and the schema.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"

namespace rehearsal::cli {

struct Vocabulary {
  // The type of a word: one of several, a file name, a folder, KEY=VALUE, or anything else.
  enum class Takes : std::uint8_t { nothing, choice, file, folder, setting, other };
  struct Word {
    std::string name, help;
    Takes takes = Takes::nothing;
    std::vector<std::string> choices;
  };
  struct Spoken {
    std::string name, summary;
    Takes operand = Takes::other;
    std::vector<std::string> operands;  // if there are few
    std::vector<Word> options;          // with their dashes
  };
  std::vector<Spoken> commands;
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // of `list`, with the names of their items
  std::map<std::string, std::set<std::string>> keys;                    // dotted, with their values if these are few
};
Vocabulary vocabulary(Session& session);

// The completion scripts. `zsh` uses that of bash, which it can run.
std::string bash_completion(const Vocabulary& words);
std::string zsh_completion(const Vocabulary& words);
std::string fish_completion(const Vocabulary& words);

}  // namespace rehearsal::cli
