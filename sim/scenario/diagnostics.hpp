// Everything that is wrong with a scenario and the files it names, gathered before anything is thrown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace rehearsal::scenario {

// A text in which control characters are escaped, so that a file cannot write to the terminal through a message.
std::string printable(std::string_view text);
// What a user wrote, for a message: 'text', printable and cut off where it is long.
std::string in_quotes(std::string_view text);

class Diagnostics {
 public:
  void error(Location where, std::string_view message) { errors_.push_back({std::move(where), printable(message)}); }
  void warn(Location where, std::string_view message) { warnings_.push_back({std::move(where), printable(message)}); }

  std::size_t count() const { return errors_.size(); }
  // Nobody reads a hundred errors: beyond this many, only their number is told.
  bool crowded() const { return errors_.size() >= 50; }

  // Errors in order of file (as first met), line and column; at most fifty, and a last one that counts the rest.
  std::vector<Diagnostic> errors() const;
  std::vector<Diagnostic> warnings() const { return warnings_; }
  void throw_if_any() const {
    if (!errors_.empty()) throw UserError(errors());
  }

 private:
  std::vector<Diagnostic> errors_, warnings_;
};

}  // namespace rehearsal::scenario
