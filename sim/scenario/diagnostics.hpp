// Collects all errors of a scenario and of the files it names before anything is thrown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace rehearsal::scenario {

// A user's text for a message: 'text', printable, cut off when it is long.
std::string in_quotes(std::string_view text);

class Diagnostics {
 public:
  void error(Location where, std::string_view message) { errors_.push_back({std::move(where), printable(message)}); }
  // Of values that could be read: a rule between them is broken.
  void refuse(Location where, std::string_view why) { error(std::move(where), why), ++refused_; }
  void warn(Location where, std::string_view message) { warnings_.push_back({std::move(where), printable(message)}); }

  std::size_t count() const { return errors_.size(); }
  std::size_t unread() const { return count() - refused_; }
  // A hundred errors are not read: beyond this many, only their number is reported.
  bool crowded() const { return errors_.size() >= 50; }

  // Errors sorted by file (by first appearance), line and column; at most fifty, then one that counts the rest.
  std::vector<Diagnostic> errors() const;
  std::vector<Diagnostic> warnings() const { return warnings_; }
  void throw_if_any() const {
    if (!errors_.empty()) throw UserError(errors());
  }

 private:
  std::vector<Diagnostic> errors_, warnings_;
  std::size_t refused_ = 0;
};

}  // namespace rehearsal::scenario
