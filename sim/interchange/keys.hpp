// A mapping of another tool's file that is read key by key: what nobody takes is named as not understood, with the
// nearest key that is known. A wrong value is an error with its place.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/draft.hpp"
#include "interchange/source.hpp"

namespace rehearsal::interchange {

// A value with its place and the word that it stands behind.
template <class T>
struct Said {
  T value{};
  const scenario::Node* at = nullptr;
  std::string word = {};
};

class Keys {
 public:
  using Names = std::initializer_list<std::string_view>;
  // How the file spells a key, for messages: "--num-layers" of num_layers.
  using Spelling = std::function<std::string(std::string_view)>;

  // `map` may be null: nothing is there. `path`: what stands before the keys in messages, "zero_optimization."; or
  // `spelled`, where the file has other words for keys.
  Keys(ScenarioDraft& draft, const scenario::Node* map, std::string path = "", Spelling spelled = {});

  // The first of these keys that is there and not null; all of them count as known. A dotted name leads through maps
  // below, whose other keys nobody need take.
  std::optional<Said<const scenario::Node*>> node(Names names);
  std::optional<Said<std::int64_t>> integer(Names names);  // also 5e8, "5e8" and 4096.0
  std::optional<Said<double>> number(Names names);
  std::optional<Said<bool>> boolean(Names names);  // also yes, on, 1, "true"
  std::optional<Said<std::string>> text(Names names);
  std::optional<Said<std::vector<const scenario::Node*>>> list(Names names);  // one value is a list of it

  // As above, straight into a key or a fact of the draft; whether it was there.
  bool say_integer(const std::string& key, Names names);
  bool say_boolean(const std::string& key, Names names);
  bool say(Fact fact, Names names);

  // The mapping below a key, whose keys are taken one by one; one of nothing if it is not there.
  Keys below(std::string_view key);

  bool has(std::string_view key) const;  // there and not null; does not take it
  // Known, and without effect on time and memory. A name that ends in * stands for all that begin so.
  void ignore(Names names);
  // Known, without a word in a scenario: named where it is there and is not one of `harmless` (texts).
  void no_word(std::string_view key, Names harmless = {}, const std::string& why = "");

  enum class Listed : std::uint8_t { what_is_set, everything };

  // Names what was not taken and is not null. Called once, at the end. A file that lists everything, with what it is by
  // default, has much that is off: none, false, zero or empty. That is not named.
  void finish(Listed listed = Listed::what_is_set);

  ScenarioDraft& draft() { return draft_; }
  const scenario::Node* map() const { return map_; }
  const std::string& path() const { return path_; }

 private:
  template <class T, class Read>
  std::optional<Said<T>> read(Names names, const char* what, const Read& read);

  ScenarioDraft& draft_;
  std::string word(std::string_view name) const { return spelled_ ? spelled_(name) : path_ + std::string(name); }

  const scenario::Node* map_;
  std::string path_;
  Spelling spelled_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> ignored_;  // prefixes
};

// A scalar as a value: numbers and yes or no where they are not quoted.
Json json_of(const scenario::Node& node);
std::optional<std::int64_t> integer_of(std::string_view text);
std::optional<double> number_of(std::string_view text);
std::optional<bool> boolean_of(std::string_view text);
std::string small_letters(std::string_view text);
// None of JSON, YAML and Python.
bool is_none(const scenario::Node& node);

[[noreturn]] void wrong(const scenario::Node& at, const std::string& message);
// The mapping that a file is; UserError where somebody says by --as that it is one, and it is not.
const scenario::Node& mapping_of(const Source& source);

}  // namespace rehearsal::interchange
