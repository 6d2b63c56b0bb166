// A description of a struct as data: its keys, the values that they take, defaults, and rules between keys. Reader,
// digest, JSON Schema, lists and the table of keys walk it; base/fields.hpp makes it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "base/version.hpp"

namespace rehearsal::fields {

// The value of a field. monostate = absent, for optional members; a choice is its name.
struct Value : std::variant<std::monostate, bool, std::int64_t, double, Time, Bytes, Bandwidth, FlopRate, Duration,
                            Power, CarbonIntensity, Count, Version, std::string, std::vector<Value>> {
  using variant::variant;
  bool absent() const { return index() == 0; }
};

// Exactly, in the smallest unit, as the reader would take it: "2000000ps", "3e+11B/s", "[7, 8]"; absent: "null".
std::string written(const Value& value);
// For people: "2.000 us", "300 GB/s".
std::string shown(const Value& value);

struct Description;

// The values that a key takes.
struct Form {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    number,
    share,  // of one: 0.02, or 2%
    time,
    bytes,
    bandwidth,
    flop_rate,
    duration,
    power,
    carbon,
    count,
    version,
    choice,
    name,
    text,
    entry,  // has a description itself, `of`
    table   // only its own loader knows; as text it is complete
  };
  Kind kind = Kind::text;
  double low = 0, high = 0;            // of an integer, a number or a share, inclusive
  bool above = false;                  // `low` itself is not allowed; of a quantity: 0 is not
  std::vector<std::string> names{};    // the values of a choice
  std::vector<std::string> planned{};  // choices that are known but not built
  std::string what{};                  // what a name names, a table holds, or a list must not be empty of
  bool list = false;
  bool each_once = false;  // a list that names every choice once: an order
  bool set = false;        // a list without repetition, whose order does not count
  bool or_one = false;     // a list, or its only value
  // Of an entry: it is a mapping or, as a row, a list of its values in the order of the description.
  const Description* of = nullptr;
  const void* blank = nullptr;
  bool row = false;

  bool quantity() const { return kind >= Kind::time && kind <= Kind::count; }
  bool measurable() const { return quantity() || (kind >= Kind::integer && kind <= Kind::share); }
};

Form boolean();
Form whole(double low, double high);
Form number(double low, double high);
Form number_above(double low, double high);
Form fraction();
Form share(), share_or_none();
Form positive();
Form time();  // 0 allowed, as of latencies
Form size();
Form bandwidth();
Form bandwidth_or_none();
Form flop_rate();
Form flop_rate_or_none();
Form duration(), duration_or_none();
Form power();  // 0 allowed
Form carbon();
Form count();
Form version();
Form text();
Form name_of(std::string what);
Form table(std::string what);
Form list_of(Form form, std::string what = "");

struct Field {
  std::string key;  // below its struct, dotted where mappings nest: "links.scale_up.latency"
  Form form;
  std::string help;
  std::vector<Form> others{};  // other forms, which only its own loader reads
  std::string word{};          // another form, which means
  Value word_means{};
  bool null = false;  // null means the same as absence
  bool required = false;
  bool key_of_files = true;  // false: set by the program, only the digest holds it
  bool assumed = false;      // taking its default is an assumption
  bool acts = true;          // false: a label or advice; no digest holds it
  std::function<Value(const void*)> get{};
  std::function<void(void*, const Value&)> set{};
  std::function<void*(void*)> append{};           // of a list of entries: one more
  std::function<Value(const void*)> otherwise{};  // the default, from members before it; null: required
  Value when_absent{};           // what absence of an optional value means; monostate: something of its own
  std::string otherwise_said{};  // in words, if it depends on other members: "4 x hidden"
};

// A measurable value times `factor` (or one more or less, if that rounds to the same), kept within the range; nothing
// if it cannot move that way or is not measurable.
std::optional<Value> scaled(const Form& form, const Value& value, double factor);
// Other values that the field may take: the other choices, the other boolean, a tenth more and less; for an absent one,
// some value; for an order, some others, the reverse among them.
std::vector<Value> others(const Field& field, const Value& value);

// A mapping among the keys of a struct.
struct Group {
  std::string key{};
  std::string help{};
  bool required = false;
  std::string short_for{};             // `recompute: full` = `recompute: {mode: full}`
  std::function<void(void*)> begin{};  // makes what is absent without the mapping
};

// What a rule between keys sees of the mapping beside its values, and where it complains.
class Keys {
 public:
  virtual ~Keys() = default;
  virtual bool given(std::string_view key) const = 0;
  virtual void refuse(std::string_view key, const std::string& why) = 0;  // at the key, or the mapping itself
};
// It holds of a mapping that could be read; `key`: which one, empty for the struct itself.
struct Rule {
  std::function<void(const void*, Keys&)> check;
  std::string key{};
};
template <class S>
Rule check(void (*rule)(const S&, Keys&)) {
  return {[rule](const void* s, Keys& keys) { rule(*static_cast<const S*>(s), keys); }};
}
// A key that is none here, and what to do instead: "is of all stages; ...".
struct Misplaced {
  std::string key, why;
};

struct Description {
  std::vector<Field> fields{};
  std::vector<Group> groups{};
  std::vector<Rule> rules{};
  std::vector<Misplaced> misplaced{};

  const Field* find(std::string_view key) const;
  const Field& at(std::string_view key) const;  // INVARIANT that it is there
  const Group* group(std::string_view key) const;
};

// All of an entry as one line: its values in the order of the description, in their smallest units.
std::string line_of(const Description& entry, const void* s);

}  // namespace rehearsal::fields
