// The strict reader: asks a mapping for its keys by type and reports everything that does not fit, with its place, what
// was found, what is allowed and the nearest spelling. Nothing is thrown; a value that is wrong reads as its default.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "scenario/recorder.hpp"

namespace rehearsal::scenario {

struct IntegerRange {
  std::int64_t low, high;
};
struct NumberRange {
  double low, high;
  bool above = false;  // `low` itself is not allowed
};
inline constexpr IntegerRange kDegree{1, 1'000'000};
inline constexpr IntegerRange kCount{1, 1'000'000'000};
inline constexpr NumberRange kPositive{0, 1e18, true};
inline constexpr NumberRange kFraction{0, 1, true};

// "a mapping", "the number 8", "the text 'abc'": for "found ...".
std::string describe(const Node& node);

// One value, checked; nothing = an error was reported. `what` = "'micro'".
std::optional<std::int64_t> read_integer(Diagnostics&, const Node&, const std::string& what, IntegerRange);
std::optional<double> read_number(Diagnostics&, const Node&, const std::string& what, NumberRange);
std::optional<bool> read_boolean(Diagnostics&, const Node&, const std::string& what);
std::optional<std::string> read_text(Diagnostics&, const Node&, const std::string& what);
std::optional<Time> read_time(Diagnostics&, const Node&, const std::string& what);
std::optional<Bytes> read_bytes(Diagnostics&, const Node&, const std::string& what);
std::optional<Bandwidth> read_bandwidth(Diagnostics&, const Node&, const std::string& what);
std::optional<FlopRate> read_flop_rate(Diagnostics&, const Node&, const std::string& what);

template <class E>
struct Choice {
  std::string_view name;
  E value;
};

// Where the numbers of a configuration come from.
struct Citations {
  std::map<std::string, std::string> sources;  // key -> source
  std::vector<std::string> assumed;            // keys that nobody measured
};

class MapReader {
 public:
  // `node` may be nullptr: then every key is missing, at `place`. `name` = "batch"; empty for the whole file.
  MapReader(Diagnostics& problems, const Node* node, std::string name, const Node& place);
  MapReader(Diagnostics& problems, const Node& node, std::string name)
      : MapReader(problems, &node, std::move(name), node) {}

  bool given(std::string_view key) const { return node_ && node_->find(key); }
  // Where a key's value stands, or the mapping itself when the key is missing.
  Location at(std::string_view key) const;

  // The value of a key; nullptr when missing. A key without a value is an error.
  const Node* find(std::string_view key);
  const Node* nullable(std::string_view key);                        // a key whose null means the same as its absence
  const Node* require(std::string_view key, std::string_view what);  // reports a missing key

  // Without a fallback the key is required (and a wrong value reads as the least that is allowed).
  std::int64_t integer(std::string_view key, IntegerRange range, std::optional<std::int64_t> fallback = {});
  std::optional<std::int64_t> optional_integer(std::string_view key, IntegerRange range);
  double number(std::string_view key, NumberRange range, std::optional<double> fallback = {});
  bool boolean(std::string_view key, std::optional<bool> fallback = {});
  std::optional<bool> optional_boolean(std::string_view key);
  std::string text(std::string_view key, std::optional<std::string> fallback = {});
  // Time and sizes above zero; latencies may be 0.
  Time time(std::string_view key, bool zero_allowed, std::optional<Time> fallback = {});
  Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {});
  Bandwidth bandwidth(std::string_view key, std::optional<Bandwidth> fallback = {});
  FlopRate flop_rate(std::string_view key, std::optional<FlopRate> fallback = {});

  // One of some names. `planned` names are known but not built yet, and refused by name.
  template <class E>
  E choice(std::string_view key, std::initializer_list<Choice<E>> built,
           std::initializer_list<std::string_view> planned, std::optional<E> fallback = {}) {
    std::vector<std::string> names;
    for (const auto& c : built) names.emplace_back(c.name);
    const auto picked = pick(key, names, planned, !fallback);
    if (object_ && fallback)
      for (const auto& c : built)
        if (c.value == *fallback) object_->field(key).defaults.insert(std::string(c.name));
    return picked ? (built.begin() + *picked)->value : fallback.value_or(built.begin()->value);
  }

  // A key of the file format whose feature is not built: anything but `as_if_absent` is refused, saying so.
  void unbuilt(std::string_view key, std::string_view as_if_absent, std::string_view feature);

  // From here on values may be written {value: X, source: "...", assumed: true}; `prefix` goes before their keys.
  void cite(Citations& citations, std::string prefix) {
    citations_ = &citations, prefix_ = std::move(prefix);
    if (object_) object_->cited = true;
  }

  // For the schema: which texts a key takes that is read as a text, and what it names ("schedule").
  void takes_names(std::string_view key, std::string_view what, const std::vector<std::string>& names);

  // Reports the keys that nobody asked for.
  void finish();

  const Node* node() const { return node_; }
  const Node& place() const { return place_; }
  Diagnostics& problems() { return problems_; }

 private:
  std::string label(std::string_view key) const { return "'" + std::string(key) + "'"; }
  std::optional<std::size_t> pick(std::string_view key, const std::vector<std::string>& built,
                                  std::initializer_list<std::string_view> planned, bool required);
  const Node* cited(std::string_view key, const Node* node);
  // Writes down how a key is read, where that is recorded.
  void note(std::string_view key, const Form& form, std::optional<std::string> fallback = {});

  Diagnostics& problems_;
  const Node* node_;
  std::string name_;
  const Node& place_;
  std::vector<std::string> asked_, required_;
  Object* object_ = nullptr;  // what is recorded of this mapping; usually nothing
  Citations* citations_ = nullptr;
  std::string prefix_;
  bool finished_ = false, mistyped_ = false;
};

// Notes for the schema that a value may be one of these texts, where no typed reading says so.
void note_names(Diagnostics& problems, const Node& node, Form::Kind kind, std::string_view what,
                const std::vector<std::string>& names);

// A list of `count` values or one value for all of them.
template <class T>
std::vector<T> read_list(Diagnostics& problems, const Node* node, const std::string& what, std::size_t count,
                         std::string_view per,
                         std::optional<T> (*read)(Diagnostics&, const Node&, const std::string&)) {
  if (!node) return {};
  std::vector<T> values;
  if (node->kind != Node::Kind::sequence) {
    if (const auto one = read(problems, *node, what)) values.assign(count, *one);
    return values;
  }
  if (node->items.size() != count)
    problems.error(node->where(), what + " lists " + std::to_string(node->items.size()) + " values, but there are " +
                                      std::to_string(count) + " " + std::string(per) +
                                      "; give one value for each, or one for all");
  for (const Node* item : node->items)
    if (const auto value = read(problems, *item, what)) values.push_back(*value);
  if (values.size() != count) values.clear();
  return values;
}

}  // namespace rehearsal::scenario
