// One description per struct of a configuration: for every member its key as users write it, unit, range, default and
// one line of help. Reader, digest, JSON Schema, lists, the table of keys and the assumptions of a report all walk the
// same description, so none of them can forget a member: describe() counts the members of the struct and does not
// compile if one is missing or named twice.
//
// A description stands beside its struct and knows nothing of files. Descriptions are made once and never change.
#pragma once
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "base/described.hpp"

namespace rehearsal::fields {

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

// A value without what may hold none or several.
template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<std::optional<T>> : Plain<T> {};
template <class T>
struct Plain<std::vector<T>> : Plain<T> {};
template <class T>
struct Plain<std::set<T>> : Plain<T> {};
template <class T, std::size_t N>
struct Plain<std::array<T, N>> : Plain<T> {};

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
template <class List>
Value values_of(const List& list, bool as_time) {
  std::vector<Value> values;
  for (const auto& x : list) values.push_back(value_of<typename List::value_type>(x, as_time));
  return values;
}
template <class T>
Value value_of(const std::vector<T>& list, bool as_time) {
  return values_of(list, as_time);
}
template <class T>
Value value_of(const std::set<T>& list, bool as_time) {
  return values_of(list, as_time);
}
template <class T, std::size_t N>
Value value_of(const std::array<T, N>& list, bool as_time) {
  return values_of(list, as_time);
}
template <class T>
Value value_of(const std::optional<T>& x, bool as_time) {
  return x ? value_of(*x, as_time) : Value();
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
T taken(const Value& value) {
  T one{};
  take(one, value);
  return one;
}
template <class T>
void take(std::vector<T>& to, const Value& value) {
  to.clear();
  for (const auto& x : std::get<std::vector<Value>>(value)) to.push_back(taken<T>(x));
}
template <class T>
void take(std::set<T>& to, const Value& value) {
  to.clear();
  for (const auto& x : std::get<std::vector<Value>>(value)) to.insert(taken<T>(x));
}
template <class T, std::size_t N>
void take(std::array<T, N>& to, const Value& value) {
  auto at = to.begin();
  for (const auto& x : std::get<std::vector<Value>>(value)) *at++ = taken<T>(x);
}
template <class T>
void take(std::optional<T>& to, const Value& value) {
  if (value.absent())
    to.reset();
  else
    take(to.emplace(), value);
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
Member<M> order(const char* key, Names<M> names, const char* help) {
  auto member = choice<M>(key, names, kDefault, help);
  for (auto& f : member.adds.fields) f.form.list = f.form.each_once = true;
  return member;
}

// Some of these names, in any order: a set of enumerators.
template <auto M>
Member<M> some(const char* key, Names<M> names, const char* help) {
  auto member = choice<M>(key, names, kDefault, help);
  for (auto& f : member.adds.fields) f.form.list = f.form.set = true;
  return member;
}

// Several values, in any order, or the only one; the word means all that there are.
template <auto M>
Member<M> any_of(Member<M> member, const char* word) {
  for (auto& f : member.adds.fields) f.form.list = f.form.set = f.form.or_one = true, f.word = word;
  return member;
}

// Entries that have a description themselves: mappings, or rows. `what` shows some. `line`: an entry as its digest was
// first taken, where that is not its line.
template <class T>
Form entries(const Description& of, const char* what, bool row = false) {
  static const T blank{};
  Form form{Form::Kind::entry};
  form.what = what, form.list = true, form.of = &of, form.blank = &blank, form.row = row;
  return form;
}
template <auto M>
Member<M> list_of(const char* key, Form form, const char* help,
                  std::string (*line)(const typename detail::TypeOf<M>::value_type&) = nullptr) {
  using S = detail::StructOf<M>;
  Field f{.key = key, .form = std::move(form), .help = help};
  f.get = [line, of = f.form.of](const void* s) {
    std::string text;
    for (const auto& entry : static_cast<const S*>(s)->*M) text += line ? line(entry) : line_of(*of, &entry);
    return Value(text);
  };
  f.append = [](void* s) -> void* { return &(static_cast<S*>(s)->*M).emplace_back(); };
  f.otherwise = [](const void*) { return Value(); };
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
Member<M> nested(const char* prefix, const Description& inner, Group mapping = {}) {
  using S = detail::StructOf<M>;
  Member<M> member(
      detail::nested(prefix, inner, [](const void* s) { return detail::content(static_cast<const S*>(s)->*M); }));
  if (mapping.help.empty()) return member;
  if constexpr (requires(S s) { (s.*M).emplace(); })
    mapping.begin = [](void* s) { (static_cast<S*>(s)->*M).emplace(); };
  mapping.key = prefix;
  member.adds.groups.push_back(std::move(mapping));
  return member;
}

// A text with a grammar of its own; `parse` throws UserError.
template <auto M, class T>
Member<M> parsed(const char* key, T (*parse)(std::string_view), std::string (*write)(const T&), const char* help) {
  using S = detail::StructOf<M>;
  Field f{.key = key, .form = text(), .help = help};
  f.get = [write](const void* s) {
    const std::optional<T>& value = static_cast<const S*>(s)->*M;
    return value ? Value(write(*value)) : Value();
  };
  f.set = [parse](void* s, const Value& v) {
    auto& to = static_cast<S*>(s)->*M;
    if (v.absent())
      to.reset();
    else
      to = parse(std::get<std::string>(v));
  };
  f.otherwise = [](const void*) { return Value(); };
  return Member<M>(std::move(f));
}

// A member that users cannot set but that affects results: the digest holds it.
template <auto M>
Member<M> settled(Member<M> member) {
  for (auto& f : member.adds.fields) f.key_of_files = false, f.required = false;
  return member;
}
// A member that a word may stand for; without a value it is the absent one.
template <auto M>
Member<M> or_word(Member<M> member, const char* word, const Value& means = {}) {
  for (auto& f : member.adds.fields) f.word = word, f.word_means = means;
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
