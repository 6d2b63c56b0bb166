// The strict reader: asks a mapping for its keys by type and reports everything that does not fit, with its location,
// what was found, what is allowed and the nearest spelling. It never throws; a wrong value reads as its default.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described.hpp"
#include "base/units.hpp"
#include "scenario/document.hpp"

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

// Quantities, and versions: how they are called, an example, and their reader, which throws UserError.
struct Measure {
  fields::Form::Kind kind;
  const char *word, *example;
  fields::Value (*parse)(std::string_view);
};
const Measure* measure_of(fields::Form::Kind kind);  // nullptr: of other values
std::optional<fields::Value> read_measure(Diagnostics&, const Node&, const std::string& what, const Measure&);
template <class Q, fields::Form::Kind kKind>
std::optional<Q> read_as(Diagnostics& problems, const Node& node, const std::string& what) {
  const auto value = read_measure(problems, node, what, *measure_of(kKind));
  return value ? std::optional(std::get<Q>(*value)) : std::nullopt;
}
inline constexpr auto read_time = read_as<Time, fields::Form::Kind::time>;
inline constexpr auto read_bytes = read_as<Bytes, fields::Form::Kind::bytes>;
inline constexpr auto read_version = read_as<Version, fields::Form::Kind::version>;

// The index of the name that a text is.
std::optional<std::size_t> read_choice(Diagnostics&, const Node&, const std::string& what,
                                       const std::vector<std::string>& built, const std::vector<std::string>& planned);
// Reads a value of the given form.
std::optional<fields::Value> read_value(Diagnostics&, const Node&, const std::string& what, const fields::Form&);
// The entries of a list, or an error; nullptr after an error.
const std::vector<const Node*>* read_items(Diagnostics&, const Node&, const std::string& what, const fields::Form&);
// Reads an entry by its description; false: an error was reported.
bool read_entry(Diagnostics&, const Node&, const std::string& key, const fields::Form&, void* entry);

template <class T>
struct EntryRead {
  T value;
  const Node* node;
};
// All sound entries of a list; each begins as `begins`.
template <class T>
std::vector<EntryRead<T>> read_entries(Diagnostics& problems, const Node& list, const std::string& key,
                                       const fields::Form& form, const T& begins = {}) {
  std::vector<EntryRead<T>> all;
  if (const auto* items = read_items(problems, list, "'" + key + "'", form))
    for (const Node* item : *items) {
      EntryRead<T> entry{begins, item};
      if (read_entry(problems, *item, key, form, &entry.value)) all.push_back(std::move(entry));
    }
  return all;
}

template <class E>
struct Choice {
  std::string_view name;
  E value;
};

// The sources of the numbers of a configuration.
struct Citations {
  std::map<std::string, std::string> sources;  // key -> source
  std::vector<std::string> assumed;            // keys whose value was not measured
  std::vector<std::string> fitted;             // keys whose value was fitted to real runs of the machine
};

class MapReader : public fields::Keys {
 public:
  // `node` may be nullptr: all keys are then missing, at `place`. `name` = "batch"; empty for the whole file.
  MapReader(Diagnostics& problems, const Node* node, std::string name, const Node& place);
  MapReader(Diagnostics& problems, const Node& node, std::string name)
      : MapReader(problems, &node, std::move(name), node) {}

  // `key`: of this mapping, or dotted of those below.
  bool given(std::string_view key) const override { return said(key) != nullptr; }
  void refuse(std::string_view key, const std::string& why) override { problems_.refuse(at(key), why); }
  // The location of a key's value, or of the mapping itself if the key is missing.
  Location at(std::string_view key) const;

  // The value of a key; nullptr if missing. A key without a value is an error.
  const Node* find(std::string_view key);
  const Node* nullable(std::string_view key);                        // null means the same as a missing key
  const Node* require(std::string_view key, std::string_view what);  // reports a missing key

  // Without a fallback the key is required, and a wrong value reads as the last argument.
  template <class T>
  T get(std::string_view key, const fields::Form& form, const std::optional<T>& fallback, T wrong) {
    const auto read = value(key, form, !fallback);
    return read ? std::get<T>(*read) : fallback.value_or(std::move(wrong));
  }
  std::int64_t integer(std::string_view key, IntegerRange range, std::optional<std::int64_t> fallback = {}) {
    return get(key, {fields::Form::Kind::integer, double(range.low), double(range.high)}, fallback, range.low);
  }
  double number(std::string_view key, NumberRange range, std::optional<double> fallback = {}) {
    return get(key, {fields::Form::Kind::number, range.low, range.high, range.above}, fallback, range.high);
  }
  bool boolean(std::string_view key, std::optional<bool> fallback = {}) {
    return get(key, fields::boolean(), fallback, false);
  }
  std::string text(std::string_view key, std::optional<std::string> fallback = {}) {
    return get(key, fields::text(), fallback, std::string());
  }
  Time time(std::string_view key, bool zero_allowed, std::optional<Time> fallback = {}) {
    return get(key, {fields::Form::Kind::time, 0, 0, !zero_allowed}, fallback, Time{1});
  }
  Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {}) {
    return get(key, fields::size(), fallback, Bytes{1});
  }
  Bandwidth bandwidth(std::string_view key, std::optional<Bandwidth> fallback = {}) {
    return get(key, fields::bandwidth(), fallback, Bandwidth{1});
  }
  FlopRate flop_rate(std::string_view key, std::optional<FlopRate> fallback = {}) {
    return get(key, fields::flop_rate_or_none(), fallback, FlopRate{1});
  }

  // One of several names. `planned` names are not built yet and get an error that says so.
  template <class E>
  E choice(std::string_view key, std::initializer_list<Choice<E>> built,
           std::initializer_list<std::string_view> planned, std::optional<E> fallback = {}) {
    std::vector<std::string> names;
    for (const auto& c : built) names.emplace_back(c.name);
    const auto picked = pick(key, names, {planned.begin(), planned.end()}, !fallback);
    return picked ? (built.begin() + *picked)->value : fallback.value_or(built.begin()->value);
  }

  // Reads the fields of a description (base/fields.hpp) into its struct, member by member, nested mappings included;
  // missing keys take their defaults. `except`: keys and mappings that the caller reads.
  void fill(const fields::Description& description, void* object, std::initializer_list<std::string_view> except = {});
  // A mapping below this one that the description has under this key, with its rules; false if it is not given.
  bool section(const char* key, const fields::Description& description, void* object) {
    return fill_group(description, object, key, {});
  }

  // Reads those keys that are given; the other members stay as they are.
  void fill_given(const fields::Description& description, void* object);

  // From here on numbers may be written {value: X, source: "...", assumed: true or fitted: true}; `prefix` is prepended
  // to their keys.
  void cite(Citations& citations, std::string prefix) { citations_ = &citations, prefix_ = std::move(prefix); }

  // Reports keys that were never asked for.
  void finish();

  const Node* node() const { return node_; }
  const Node& place() const { return place_; }
  Diagnostics& problems() { return problems_; }

 private:
  using Except = std::initializer_list<std::string_view>;
  const Node* said(std::string_view key) const;
  std::string label(std::string_view key) const { return "'" + std::string(key) + "'"; }
  std::optional<fields::Value> value(std::string_view key, const fields::Form& form, bool required);
  std::optional<std::size_t> pick(std::string_view key, const std::vector<std::string>& built,
                                  const std::vector<std::string>& planned, bool required);
  // A number, taken out of its {value, source} if it has one.
  const Node* number_of(std::string_view key, bool required, std::string_view what);
  const Node* uncited(std::string_view key, const Node* node);
  // The fields whose keys begin with `prefix`, and the mappings below them.
  void fill(const fields::Description& description, void* object, const std::string& prefix, Except except);
  bool fill_group(const fields::Description& description, void* object, const std::string& key, Except except);
  void fill_field(const fields::Field& field, void* object, std::string_view key);
  void check(const fields::Description& description, const void* object, std::string_view mapping);
  const Node* demand(std::string_view key, std::string_view what, const Node* value, std::size_t before);

  Diagnostics& problems_;
  const Node* node_;
  std::string name_;
  const Node& place_;
  std::vector<std::string> asked_;
  Citations* citations_ = nullptr;
  std::string prefix_;
  bool finished_ = false, mistyped_ = false;
};

// A list of `count` values, or a single value for all.
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
