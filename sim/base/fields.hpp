// One description per struct of a configuration: for every member its key as users write it, unit, range, default and
// one line of help. Reader, digest, JSON Schema, lists, the table of keys and the assumptions of a report all walk the
// same description, so none of them can forget a member: describe() counts the members of the struct and does not
// compile if one is missing or named twice.
//
// A description stands beside its struct and knows nothing of files. Descriptions are made once and never change.
#pragma once
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// The values that a key takes.
struct Form {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    number,
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
    table  // only its own loader knows; as text it is complete
  };
  Kind kind = Kind::text;
  double low = 0, high = 0;            // of an integer or a number, inclusive
  bool above = false;                  // `low` itself is not allowed; of a quantity: 0 is not
  std::vector<std::string> names{};    // the values of a choice
  std::vector<std::string> planned{};  // choices that are known but not built
  std::string what{};                  // what a name names, and what a table holds
  bool list = false;
  bool each_once = false;  // a list that names every choice once: an order

  bool some() const { return list && !each_once && kind == Kind::choice; }  // a list of choices: a set
  bool quantity() const { return kind >= Kind::time && kind <= Kind::count; }
  bool measurable() const { return quantity() || kind == Kind::integer || kind == Kind::number; }
};

Form boolean();
Form whole(double low, double high);
Form number(double low, double high);
Form number_above(double low, double high);
Form fraction();
Form positive();
Form time();  // 0 allowed, as of latencies
Form size();
Form bandwidth();
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
Form list_of(Form form);

struct Field {
  std::string key;  // below its struct, dotted where mappings nest: "links.scale_up.latency"
  Form form;
  std::string help;
  std::vector<Form> others{};  // other forms, which only its own loader reads
  bool null = false;           // null means the same as absence
  bool required = false;
  bool key_of_files = true;  // false: set by the program, only the digest holds it
  bool assumed = false;      // taking its default is an assumption
  bool acts = true;          // false: a label or advice; no digest holds it
  std::function<Value(const void*)> get{};
  std::function<void(void*, const Value&)> set{};
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
  std::string key;
  std::string help{};
  bool required = false;
  std::string short_for{};  // `recompute: full` = `recompute: {mode: full}`
};

struct Description {
  std::vector<Field> fields{};
  std::vector<Group> groups{};

  const Field* find(std::string_view key) const;
  const Field& at(std::string_view key) const;  // INVARIANT that it is there
  const Group* group(std::string_view key) const;
};

struct Required {};
inline constexpr Required kRequired{};
struct Usual {};
inline constexpr Usual kDefault{};  // the struct's own initializer

namespace detail {

// Converts to every member type except an optional, which would accept it for its content too.
struct Anything {
  template <class T>
  operator T() const;
};
template <class S, class... Members>
consteval std::size_t arity() {
  if constexpr (requires { S{std::declval<Members>()..., std::declval<Anything>()}; })
    return arity<S, Members..., Anything>();
  else if constexpr (requires { S{std::declval<Members>()..., std::nullopt}; })
    return arity<S, Members..., std::nullopt_t>();
  else
    return sizeof...(Members);
}

// A distinct text for every member; addresses of variables are not constants under the sanitizers.
template <auto M>
constexpr std::string_view mark() {
  return __PRETTY_FUNCTION__;
}
template <auto... Ms>
consteval bool distinct() {
  const std::array<std::string_view, sizeof...(Ms)> marks{mark<Ms>()...};
  for (std::size_t i = 0; i < marks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (marks[i] == marks[j]) return false;
  return true;
}

template <class M>
struct Split;
template <class S, class T>
struct Split<T S::*> {
  using Struct = S;
  using Type = T;
};
template <auto M>
using StructOf = typename Split<decltype(M)>::Struct;
template <auto M>
using TypeOf = typename Split<decltype(M)>::Type;

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using Type = T;
};

// The value of a member, and back. What a field does beyond that does not depend on the member's type, so that there is
// little to compile per member. `as_time`: a double is seconds. Enumerators are numbers.
template <class T>
Value value_of(const T& x, bool as_time) {
  if constexpr (std::is_same_v<T, double>)
    return as_time ? Value(seconds(x)) : Value(x);
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
    return x;
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    return static_cast<std::int64_t>(x);
  else
    return x;  // a quantity
}
template <class T>
Value value_of(const std::optional<T>& x, bool as_time) {
  return x ? value_of(*x, as_time) : Value();
}
template <class T>
Value value_of(const std::vector<T>& list, bool as_time) {
  std::vector<Value> values;
  for (const T& x : list) values.push_back(value_of(x, as_time));
  return values;
}

template <class T>
void take(T& to, const Value& value) {
  if constexpr (std::is_same_v<T, double>) {
    const auto* time = std::get_if<Time>(&value);
    to = time ? to_seconds(*time) : std::get<double>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    to = std::get<bool>(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    to = static_cast<T>(std::get<std::int64_t>(value));
  } else {
    to = std::get<T>(value);
  }
}
template <class T>
void take(std::optional<T>& to, const Value& value) {
  if (value.absent())
    to.reset();
  else
    take(to.emplace(), value);
}
template <class T>
void take(std::vector<T>& to, const Value& value) {
  to.clear();
  for (const auto& x : std::get<std::vector<Value>>(value)) take(to.emplace_back(), x);
}

// Reads and writes one member of a struct.
struct Access {
  Value (*get)(const void* s, bool as_time);
  void (*set)(void* s, const Value& value);
};
template <auto M>
constexpr Access access() {
  using S = StructOf<M>;
  return {[](const void* s, bool as_time) { return value_of(static_cast<const S*>(s)->*M, as_time); },
          [](void* s, const Value& value) { take(static_cast<S*>(s)->*M, value); }};
}

// The default of a member, whatever its type.
struct Otherwise {
  enum class Kind : std::uint8_t { required, usual, absent, follows } kind;
  const void* (*usual)() = nullptr;  // a default-constructed struct
  void (*from)() = nullptr;          // the function that computes it, for `call`
  Value (*call)(void (*from)(), const void* s, bool as_time) = nullptr;
  const char* said = "";
};

struct NamedValue {
  std::string name;
  Value value;
};

}  // namespace detail

// How the default of a T in an S is given: kRequired, kDefault, std::nullopt (absent), or {function, "in words"}.
template <class S, class T>
struct Says : detail::Otherwise {
  Says(Required) : Otherwise{Kind::required} {}
  Says(Usual) : Otherwise{Kind::usual} {
    usual = []() -> const void* {
      static const S begins{};
      return &begins;
    };
  }
  Says(std::nullopt_t) : Otherwise{Kind::absent} {}
  Says(T (*function)(const S&), const char* in_words) : Otherwise{Kind::follows} {
    said = in_words, from = reinterpret_cast<void (*)()>(function);
    call = [](void (*f)(), const void* s, bool as_time) {
      return detail::value_of(reinterpret_cast<T (*)(const S&)>(f)(*static_cast<const S*>(s)), as_time);
    };
  }
};
template <auto M>
using Default = Says<detail::StructOf<M>, detail::TypeOf<M>>;

// What a member adds to a description.
struct Part {
  Description adds{};

  Part();
  explicit Part(Description);
  explicit Part(Field);
  Part(Part&&) noexcept;
  Part& operator=(Part&&) noexcept;
  ~Part();
};
template <auto M>
struct Member : Part {
  using Part::Part;
  explicit Member(Part part) : Part(std::move(part)) {}
};

namespace detail {
Part field(const char* key, Form form, Access member, const Otherwise& otherwise, const char* help);
Part choice(const char* key, std::vector<NamedValue> names, Access member, const Otherwise& otherwise, const char* help,
            std::initializer_list<const char*> planned);
}  // namespace detail

template <auto M>
Member<M> field(const char* key, Form form, Default<M> otherwise, const char* help) {
  return Member<M>(detail::field(key, std::move(form), detail::access<M>(), otherwise, help));
}

template <class T>
struct Named {
  std::string_view name;
  T value;
};
template <auto M>
using Names = std::initializer_list<Named<typename detail::Plain<detail::TypeOf<M>>::Type>>;

// One of some names; a value without a name is what the first name means.
template <auto M>
Member<M> choice(const char* key, Names<M> names, Default<M> otherwise, const char* help,
                 std::initializer_list<const char*> planned = {}) {
  std::vector<detail::NamedValue> values;
  for (const auto& n : names) values.push_back({std::string(n.name), detail::value_of(n.value, false)});
  return Member<M>(detail::choice(key, std::move(values), detail::access<M>(), otherwise, help, planned));
}

// All of some names, in an order: an array of enumerators.
template <auto M>
Member<M> order(const char* key, std::initializer_list<Named<typename detail::TypeOf<M>::value_type>> names,
                const char* help) {
  using S = detail::StructOf<M>;
  using E = typename detail::TypeOf<M>::value_type;
  std::vector<std::pair<std::string, E>> known;
  Field f{.key = key, .form = {Form::Kind::choice}, .help = help};
  for (const auto& [name, value] : names) known.emplace_back(name, value), f.form.names.emplace_back(name);
  f.form.list = f.form.each_once = true;
  f.get = [known](const void* s) {
    std::vector<Value> all;
    for (const E e : static_cast<const S*>(s)->*M)
      for (const auto& [name, value] : known)
        if (value == e) all.emplace_back(name);
    return Value(all);
  };
  f.set = [known](void* s, const Value& v) {
    auto at = (static_cast<S*>(s)->*M).begin();
    for (const auto& said : std::get<std::vector<Value>>(v))
      for (const auto& [name, value] : known)
        if (said == Value(name)) *at++ = value;
  };
  f.otherwise = [get = f.get](const void*) {
    static const S begins{};
    return get(&begins);
  };
  return Member<M>(std::move(f));
}

// Some of these names, in any order: a set of enumerators.
template <auto M>
Member<M> some(const char* key, std::initializer_list<Named<typename detail::TypeOf<M>::value_type>> names,
               const char* help) {
  using S = detail::StructOf<M>;
  using E = typename detail::TypeOf<M>::value_type;
  std::vector<std::pair<std::string, E>> known;
  Field f{.key = key, .form = {Form::Kind::choice}, .help = help};
  for (const auto& [name, value] : names) known.emplace_back(name, value), f.form.names.emplace_back(name);
  f.form.list = true;
  f.get = [known](const void* s) {
    std::vector<Value> all;
    for (const auto& [name, value] : known)
      if ((static_cast<const S*>(s)->*M).count(value)) all.emplace_back(name);
    return Value(all);
  };
  f.set = [known](void* s, const Value& v) {
    auto& to = static_cast<S*>(s)->*M;
    to.clear();
    for (const auto& said : std::get<std::vector<Value>>(v))
      for (const auto& [name, value] : known)
        if (said == Value(name)) to.insert(value);
  };
  f.otherwise = [](const void*) { return Value(std::vector<Value>()); };
  return Member<M>(std::move(f));
}

// A plug-in of a registry, by its name.
template <auto M, class Registry>
Member<M> plugin(const char* key, const Registry& registry, std::string help) {
  using S = detail::StructOf<M>;
  Field f{.key = key, .form = {Form::Kind::choice}, .help = std::move(help)};
  f.form.names = registry.names();
  f.get = [](const void* s) { return Value((static_cast<const S*>(s)->*M)->name); };
  f.set = [&registry](void* s, const Value& v) { static_cast<S*>(s)->*M = &registry.at(std::get<std::string>(v)); };
  f.otherwise = [get = f.get](const void*) {
    static const S begins{};
    return get(&begins);
  };
  return Member<M>(std::move(f));
}

// A map from enumerators to quantities: one key for each, none required.
template <auto M, class K>
Member<M> each(const std::string& prefix, std::initializer_list<Named<K>> keys, const Form& form, const char* help) {
  using S = detail::StructOf<M>;
  using T = typename detail::TypeOf<M>::mapped_type;
  Member<M> member;
  for (const auto& [name, key] : keys) {
    Field f{.key = prefix + "." + std::string(name), .form = form, .help = help};
    f.get = [key = key, as_time = form.kind == Form::Kind::time](const void* s) {
      const auto& map = static_cast<const S*>(s)->*M;
      const auto found = map.find(key);
      return found == map.end() ? Value() : detail::value_of(found->second, as_time);
    };
    f.set = [key = key](void* s, const Value& v) {
      auto& map = static_cast<S*>(s)->*M;
      if (v.absent())
        map.erase(key);
      else
        detail::take<T>(map[key], v);
    };
    f.otherwise = [](const void*) { return Value(); };
    member.adds.fields.push_back(std::move(f));
  }
  return member;
}

// A member that has a description itself, under its own key ("": its keys are among those of the outer struct). An
// optional or a pointer that is empty has no values.
Description inside(const Description& inner, const std::string& prefix, std::function<const void*(const void*)> in,
                   std::function<void*(void*)> out);
namespace detail {
Part nested(const char* prefix, const Description& inner, const void* (*in)(const void*));
template <class T>
const void* content(const T& member) {
  if constexpr (requires { member.has_value(); })
    return member ? &*member : nullptr;
  else
    return &member;
}
}  // namespace detail
template <auto M>
Member<M> nested(const char* prefix, const Description& inner) {
  using S = detail::StructOf<M>;
  return Member<M>(
      detail::nested(prefix, inner, [](const void* s) { return detail::content(static_cast<const S*>(s)->*M); }));
}

// A member that users cannot set but that affects results: the digest holds it.
template <auto M>
Member<M> settled(Member<M> member) {
  for (auto& f : member.adds.fields) f.key_of_files = false, f.required = false;
  return member;
}
// A member whose own loader accepts other forms too.
template <auto M>
Member<M> or_also(Member<M> member, std::vector<Form> others) {
  for (auto& f : member.adds.fields) f.others = others;
  return member;
}
template <auto M>
Member<M> or_null(Member<M> member) {
  for (auto& f : member.adds.fields) f.null = true;
  return member;
}
template <auto M>
Member<M> absence_means(Member<M> member, const Value& value) {
  for (auto& f : member.adds.fields) f.when_absent = value;
  return member;
}
// A member whose default was at best measured elsewhere.
template <auto M>
Member<M> assumed(Member<M> member) {
  for (auto& f : member.adds.fields) f.assumed = true;
  return member;
}
// A member that users may set without effect on any result; `why` documents the reason.
template <auto M>
Member<M> label(Member<M> member, [[maybe_unused]] const char* why) {
  for (auto& f : member.adds.fields) f.acts = false;
  return member;
}
// A member that is not a setting: sources of numbers, values derived from other members.
template <auto M>
Member<M> aside([[maybe_unused]] const char* why) {
  return Member<M>();
}
// A table that only its own loader reads; `text` must contain all of it, for the digest.
template <auto M>
Member<M> opaque(const char* key, const char* what, std::string (*text)(const detail::TypeOf<M>&), const char* help) {
  using S = detail::StructOf<M>;
  Field f{.key = key, .form = table(what), .help = help};
  f.get = [text](const void* s) { return Value(text(static_cast<const S*>(s)->*M)); };
  f.otherwise = [](const void*) { return Value(); };
  return Member<M>(std::move(f));
}

namespace detail {
Description together(Description also, std::initializer_list<Part*> parts);
}

// The description of a struct: one entry for each of its members, in any order. `also`: its mappings, and parts of the
// format that are not built.
template <class S, auto... Ms>
Description describe(Description also, Member<Ms>... members) {
  static_assert(sizeof...(Ms) == detail::arity<S>(), "a member of the struct is not described");
  static_assert(detail::distinct<Ms...>(), "a member of the struct is described twice");
  return detail::together(std::move(also), {&members...});
}

}  // namespace rehearsal::fields
