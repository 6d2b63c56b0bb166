// A file of another tool, as it was given: its text and, where it is JSON, YAML or TOML, the tree of it, in which every
// value knows its line.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenario/document.hpp"

namespace rehearsal::interchange {

struct Source {
  enum class Kind : std::uint8_t { json, yaml, toml, text, arguments, bytes };

  std::string name;  // as given; "arguments" for those of a command line
  std::string text;  // all of it
  Kind kind = Kind::text;
  // Of json, yaml and toml; JSON that lists what ran, one by one, is a text.
  const scenario::Node* tree = nullptr;
  std::vector<std::string> words = {};  // of arguments

  // The value at a dotted path of the tree; null if there is none.
  const scenario::Node* find(std::string_view path) const;
  // Whether the tree is a mapping that has all these dotted paths.
  bool has(std::initializer_list<std::string_view> paths) const;
  // Whether one of the first lines of the text contains this.
  bool begins_with_line(std::string_view containing, int lines = 200) const;
};

// A text as UTF-8 without a mark of its order of bytes: what such a mark says is UTF-16, as Windows writes logs, is
// converted.
std::string as_utf8(std::string text);
// A text from its first word on; empty if it has none.
std::string_view from_first_word(std::string_view text);
// The JSON object that a text begins with; empty if it does not end.
std::string_view first_object(std::string_view text);

// Reads sources and owns their trees.
class Sources {
 public:
  static constexpr std::size_t kLargest = std::size_t{64} << 20;

  explicit Sources(const scenario::Files& files) : files_(files) {}

  const scenario::Files& files() const { return files_; }
  // Throws UserError: unreadable, empty, or called or written as JSON, YAML or TOML and none.
  const Source& read(const std::string& path);
  // What somebody gave behind `--`.
  const Source& arguments(std::vector<std::string> words);
  // A text that is read as a file of this name.
  const Source& text(std::string name, std::string text);

  // Nodes of what is no YAML, with the life of these sources.
  scenario::Node* make(scenario::Node::Kind kind, const std::string& origin, int line, int column = 1);
  scenario::Node* scalar(std::string text, bool quoted, const std::string& origin, int line, int column = 1);

 private:
  struct Parsed {
    explicit Parsed(const scenario::Files& files) : documents(problems, files, scenario::Documents::Words::foreign) {}
    scenario::Diagnostics problems;
    scenario::Documents documents;
  };
  void read_toml(Source& source);
  // A text of any other kind may begin like YAML or JSON, as logs do: only a name, or a brace, makes it an error that
  // it is none.
  void read_yaml(Source& source, bool json);

  const scenario::Files& files_;
  std::deque<Parsed> parsed_;
  std::deque<Source> sources_;
  std::deque<scenario::Node> nodes_;
};

}  // namespace rehearsal::interchange
