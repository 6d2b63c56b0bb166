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

#include "base/fields.hpp"
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
std::optional<Time> read_time(Diagnostics&, const Node&, const std::string& what);
std::optional<Bytes> read_bytes(Diagnostics&, const Node&, const std::string& what);
std::optional<Bandwidth> read_bandwidth(Diagnostics&, const Node&, const std::string& what);
std::optional<FlopRate> read_flop_rate(Diagnostics&, const Node&, const std::string& what);
std::optional<Duration> read_duration(Diagnostics&, const Node&, const std::string& what);
std::optional<Power> read_power(Diagnostics&, const Node&, const std::string& what);
std::optional<CarbonIntensity> read_carbon(Diagnostics&, const Node&, const std::string& what);
std::optional<Count> read_count(Diagnostics&, const Node&, const std::string& what);
std::optional<Version> read_version(Diagnostics&, const Node&, const std::string& what);
// The index of the name that a text is.
std::optional<std::size_t> read_choice(Diagnostics&, const Node&, const std::string& what,
                                       const std::vector<std::string>& built, const std::vector<std::string>& planned);
// Reads a value of the given form.
std::optional<fields::Value> read_value(Diagnostics&, const Node&, const std::string& what, const fields::Form&);

template <class E>
struct Choice {
  std::string_view name;
  E value;
};

// The sources of the numbers of a configuration.
struct Citations {
  std::map<std::string, std::string> sources;  // key -> source
  std::vector<std::string> assumed;            // keys whose value was not measured
};

class MapReader {
 public:
  // `node` may be nullptr: all keys are then missing, at `place`. `name` = "batch"; empty for the whole file.
  MapReader(Diagnostics& problems, const Node* node, std::string name, const Node& place);
  MapReader(Diagnostics& problems, const Node& node, std::string name)
      : MapReader(problems, &node, std::move(name), node) {}

  bool given(std::string_view key) const { return node_ && node_->find(key); }
  // The location of a key's value, or of the mapping itself if the key is missing.
  Location at(std::string_view key) const;

  // The value of a key; nullptr if missing. A key without a value is an error.
  const Node* find(std::string_view key);
  const Node* nullable(std::string_view key);                        // null means the same as a missing key
  const Node* require(std::string_view key, std::string_view what);  // reports a missing key

  // Without a fallback the key is required (and a wrong value reads as the lowest allowed one).
  std::int64_t integer(std::string_view key, IntegerRange range, std::optional<std::int64_t> fallback = {});
  std::optional<std::int64_t> optional_integer(std::string_view key, IntegerRange range);
  double number(std::string_view key, NumberRange range, std::optional<double> fallback = {});
  bool boolean(std::string_view key, std::optional<bool> fallback = {});
  std::string text(std::string_view key, std::optional<std::string> fallback = {});
  // Time and sizes above zero; latencies may be 0.
  Time time(std::string_view key, bool zero_allowed, std::optional<Time> fallback = {});
  Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {});
  Bandwidth bandwidth(std::string_view key, std::optional<Bandwidth> fallback = {});
  FlopRate flop_rate(std::string_view key, std::optional<FlopRate> fallback = {});

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

  // Reads those keys that are given; the other members stay as they are.
  void fill_given(const fields::Description& description, void* object);

  // From here on numbers may be written {value: X, source: "...", assumed: true}; `prefix` is prepended to their keys.
  void cite(Citations& citations, std::string prefix) { citations_ = &citations, prefix_ = std::move(prefix); }

  // Reports keys that were never asked for.
  void finish();

  const Node* node() const { return node_; }
  const Node& place() const { return place_; }
  Diagnostics& problems() { return problems_; }

 private:
  using Except = std::initializer_list<std::string_view>;
  std::string label(std::string_view key) const { return "'" + std::string(key) + "'"; }
  std::optional<std::size_t> pick(std::string_view key, const std::vector<std::string>& built,
                                  const std::vector<std::string>& planned, bool required);
  // A number, taken out of its {value, source} if it has one.
  const Node* number_of(std::string_view key, bool required, std::string_view what);
  const Node* uncited(std::string_view key, const Node* node);
  // The fields whose keys begin with `prefix`, and the mappings below them.
  void fill(const fields::Description& description, void* object, const std::string& prefix, Except except);
  void fill_group(const fields::Description& description, void* object, const std::string& key, Except except);
  void fill_field(const fields::Field& field, void* object, std::string_view key);
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
