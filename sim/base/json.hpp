// A value as JSON, read or to be written: members stay in the order in which they were added.
//
// Braces mean what they look like: pairs whose first is a text make an object, all else an array.
//
//   Json json{{"name", name}, {"sizes", {1, 2}}};
//   json["time_s"] = 0.5;
//
// Behind it, in json.cpp alone, is the JSON library, which is large: it reads, and it spells numbers and text.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rehearsal {

class Json {
 public:
  struct Member;
  class Item;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json();
  Json(std::nullptr_t);
  template <std::same_as<bool> T>  // nothing that converts to bool: no pointers
  Json(T value) : Json(Scalar{value}) {}
  template <std::signed_integral T>
  Json(T value) : Json(Scalar{std::int64_t{value}}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : Json(Scalar{std::uint64_t{value}}) {}
  template <std::floating_point T>
  Json(T value) : Json(Scalar{double{value}}) {}
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  template <std::ranges::input_range R>
  requires(!std::convertible_to<const R&, std::string_view> && !std::same_as<R, Json>) Json(const R& list)
      : Json(array()) {
    for (const auto& x : list) push_back(x);
  }
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}
  Json(std::initializer_list<Item> items);
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  static Json array();
  static Json object();
  // Throws UserError that says where text is no JSON. Equal keys all stay.
  static Json parse(const std::string& text);
  static std::optional<Json> read(const std::string& text);  // nothing if parse() would throw

  bool is_null() const { return value_.index() == 0; }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  bool is_number() const;
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* type_name() const;  // "number"

  // INVARIANT that it is one.
  double real() const;
  const std::string& text() const;
  const Array& items() const;
  const Object& members() const;

  // The first member of that name; null if there is none, or this is not an object.
  const Json* find(std::string_view key) const;
  Json& operator[](std::string_view key);     // added when it is not there; null becomes an object
  Json& append(std::string key, Json value);  // without looking for an equal one; returns what was added

  Json& push_back(Json value);  // null becomes an array; returns what was added
  Json& back();                 // of an array
  void update(Json other);      // with all members of another object

  // One line, or lines indented by `indent` spaces per level. Invalid UTF-8 is repaired, non-numbers become null.
  std::string dump(int indent = -1) const;
  // An object with a line for each member; values are on it, but that of `wide`, which has lines of its own for
  // `levels` more.
  std::string lines(std::string_view wide, int levels) const;

 private:
  // Constructors here are those of this: what makes or destroys an Object needs Member, which is complete below.
  using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double>;
  explicit Json(const Scalar& value);
  void write(std::string& out, int indent, int level, int levels = 1000) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

// What stands between braces: a value, or more braces.
class Json::Item {
 public:
  template <class T>
  requires std::convertible_to<T, Json> Item(T&& value) : value_(std::forward<T>(value)) {}
  Item(std::initializer_list<Item> items) : value_(items) {}

 private:
  friend class Json;
  mutable Json value_;  // an initializer_list is const, but each item is read once
};

}  // namespace rehearsal
