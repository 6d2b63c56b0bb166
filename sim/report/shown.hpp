// An answer, described once: what it shows, under which key of its JSON, in which unit and under which name. Its JSON,
// CSV and schema, the tables and facts of its page, the columns of a comparison and the attributes of a library are
// walks over that. A new figure is one line of a description (run_answer.cpp is the longest).
//
//   Shown<Limit>("The time that one part of the machine would need by itself.")
//       .figure("name", Unit::none, "part", "of the machine", &Limit::name)
//       .figure("time_s", Unit::seconds, "alone", "what it would need by itself", &Limit::seconds)
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/units.hpp"
#include "page/page.hpp"
#include "report/json.hpp"

namespace rehearsal::report {

using page::Unit;

// One key. A figure has a value; others have keys below them: of an object, of each of a list, of each of an object
// whose keys are names (ranks, kinds of time).
struct Item {
  enum class Kind : std::uint8_t { figure, group, rows, named, lists };
  Kind kind = Kind::figure;
  std::string key;
  Unit unit = Unit::none;
  std::string label;  // what people call it: head of a column, name of a fact
  std::string help;   // for those who read the schema
  std::string type;   // of a figure, or of the values of a `named` without items: JSON Schema's word; empty: any
  std::function<std::optional<Json>(const void*)> read;  // nothing: what the key is of is not there
  std::shared_ptr<const std::vector<Item>> below = {};
  bool left_out = false;   // where there is no value: the key is not there; else it is null
  bool of_a_part = false;  // which may not be there
  std::shared_ptr<const std::vector<Item>> instead = {};  // of a list: what some of its objects have instead of `below`
};

namespace shown {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {
  using Value = T;
};

// Times are seconds; sizes are bytes, as whole numbers, as are other amounts of bytes.
template <class T>
Json json_of(const T& value, Unit unit) {
  if constexpr (std::is_same_v<T, Json>)
    return value;
  else if constexpr (std::is_same_v<T, Time>)
    return to_seconds(value);
  else if constexpr (std::is_same_v<T, Bytes>)
    return number(double(value.count()));
  else if constexpr (IsOptional<T>::value)
    return value ? json_of(*value, unit) : Json();
  else if constexpr (std::is_same_v<T, double>)
    return unit == Unit::bytes ? number(value) : Json(value);
  else if constexpr (std::ranges::input_range<T> && !std::is_convertible_v<T, std::string_view>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(json_of(one, unit));
    return list;
  } else
    return value;
}

// What a pointer or an optional holds, or else the value itself; null for an empty one.
template <class T>
const auto* inside(const T& value) {
  if constexpr (std::is_pointer_v<T>)
    return value;
  else if constexpr (IsOptional<T>::value)
    return value ? &*value : nullptr;
  else
    return &value;
}

template <class T>
std::string type_of() {
  if constexpr (IsOptional<T>::value) return type_of<typename IsOptional<T>::Value>();
  if constexpr (std::is_same_v<T, Json>) return "";
  if constexpr (std::is_same_v<T, bool>) return "boolean";
  if constexpr (std::is_integral_v<T>) return "integer";
  if constexpr (std::is_same_v<T, Time> || std::is_same_v<T, Bytes> || std::is_arithmetic_v<T>) return "number";
  if constexpr (std::is_convertible_v<T, std::string_view>) return "string";
  return "array";
}

std::string words(std::string key);  // "cut_limits" -> "cut limits", "alone_s" -> "alone"

}  // namespace shown

// What `get` gives of each.
template <class Range, class Get>
auto each(const Range& range, Get get) {
  std::vector<std::remove_cvref_t<std::invoke_result_t<Get, const std::ranges::range_value_t<Range>&>>> all;
  for (const auto& one : range) all.push_back(std::invoke(get, one));
  return all;
}

template <class T>
class Shown {
 public:
  explicit Shown(std::string what = "") : what_(std::move(what)) {}

  // `get`: a member of T or a function of it. Gives a number, a text, a Time, a size, a list of these, or an optional.
  template <class Get>
  Shown& figure(std::string key, Unit unit, std::string label, std::string help, Get get) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Get, const T&>>;
    items_.push_back({Item::Kind::figure, std::move(key), unit, std::move(label), std::move(help),
                      shown::type_of<Value>(), [get, unit](const void* of) {
                        const Value& value = std::invoke(get, *static_cast<const T*>(of));
                        return shown::json_of(value, unit);
                      }});
    return *this;
  }

  // Several of one unit, whose keys are their labels: key, get, key, get.
  template <class Get, class... More>
  Shown& figures(Unit unit, std::string key, Get get, const More&... more) {
    figure(key, unit, shown::words(key), "", get);
    if constexpr (sizeof...(more) > 0) figures(unit, more...);
    return *this;
  }

  template <class Get>
  Shown& figure(std::string key, std::string label, std::string help, Get get) {
    return figure(std::move(key), Unit::none, std::move(label), std::move(help), std::move(get));
  }

  // An object. `get` gives what `below` describes, or a pointer or an optional of it, which may be empty; so below.
  template <class U, class Get>
  Shown& group(std::string key, Shown<U> below, Get get) {
    return nested(Item::Kind::group, std::move(key), "object", std::move(below), get,
                  [](const std::vector<Item>& items, const U& one) { return write(items, &one); });
  }

  // A list of objects. `get` gives a range of what `below` describes.
  template <class U, class Get>
  Shown& rows(std::string key, Shown<U> below, Get get) {
    return nested(Item::Kind::rows, std::move(key), "array", std::move(below), get,
                  [](const std::vector<Item>& items, const auto& all) {
                    auto list = Json::array();
                    for (const U& one : all) list.push_back(write(items, &one));
                    return list;
                  });
  }

  // An object of figures whose keys are names: `get` gives pairs of a name and a value.
  template <class Get>
  Shown& named(std::string key, Unit unit, std::string label, std::string help, Get get) {
    using Pair = std::ranges::range_value_t<std::invoke_result_t<Get, const T&>>;
    items_.push_back({Item::Kind::named, std::move(key), unit, std::move(label), std::move(help),
                      shown::type_of<std::remove_cvref_t<decltype(std::declval<Pair>().second)>>(),
                      [get, unit](const void* of) {
                        auto object = Json::object();
                        for (const auto& [name, value] : std::invoke(get, *static_cast<const T*>(of)))
                          object.append(std::string(name), shown::json_of(value, unit));
                        return object;
                      }});
    return *this;
  }

  // An object of objects whose keys are names.
  template <class U, class Get>
  Shown& named_rows(std::string key, Shown<U> below, Get get) {
    return nested(Item::Kind::named, std::move(key), "object", std::move(below), get,
                  [](const std::vector<Item>& items, const auto& all) {
                    auto object = Json::object();
                    for (const auto& [name, one] : all) object.append(std::string(name), write(items, &one));
                    return object;
                  });
  }

  // Of the last one.
  Shown& or_left_out() {
    items_.back().left_out = true;
    return *this;
  }

  // Of all that are there.
  Shown& or_all_left_out() {
    for (auto& item : items_) item.left_out = true;
    return *this;
  }

  // Of the last one, a list: some of its objects are such.
  template <class U>
  Shown& or_rows(Shown<U> other) {
    items_.back().instead = std::make_shared<const std::vector<Item>>(std::move(other.items_));
    return *this;
  }

  // All of another description of the same, as it is here.
  Shown& also(const Shown& more) {
    items_.insert(items_.end(), more.items_.begin(), more.items_.end());
    return *this;
  }
  // That of a part of T. Where `get` gives an empty pointer or optional, its keys are left out.
  template <class U, class Get>
  Shown& also(const Shown<U>& more, Get get) {
    for (auto item : more.items()) {
      item.of_a_part |= !std::is_same_v<std::remove_cvref_t<std::invoke_result_t<Get, const T&>>, U>;
      item.read = [get, read = item.read](const void* of) {
        const auto& part = std::invoke(get, *static_cast<const T*>(of));
        const auto* there = shown::inside(part);
        return there ? read(there) : std::nullopt;
      };
      items_.push_back(std::move(item));
    }
    return *this;
  }

  // One key that was made elsewhere.
  Shown& item(Item item) {
    items_.push_back(std::move(item));
    return *this;
  }

  // A list of lists of objects.
  template <class U, class Get>
  Shown& lists(std::string key, Shown<U> below, Get get) {
    return nested(Item::Kind::lists, std::move(key), "array", std::move(below), get,
                  [](const std::vector<Item>& items, const auto& all) {
                    auto lists = Json::array();
                    for (const auto& some : all) {
                      auto& list = lists.push_back(Json::array());
                      for (const U& one : some) list.push_back(write(items, &one));
                    }
                    return lists;
                  });
  }

  // The words of the key are the label.
  template <class Get>
  Shown& figure(std::string key, Unit unit, std::string help, Get get) {
    return figure(key, unit, shown::words(key), std::move(help), std::move(get));
  }
  template <class Get>
  Shown& figure(std::string key, Get get) {
    return figure(key, Unit::none, shown::words(key), "", std::move(get));
  }

  Json json(const T& value) const { return write(items_, &value); }
  std::string json_text(const T& value) const { return json(value).dump(2) + "\n"; }
  // Rows of a table or of a CSV that are no list of the answer.
  template <class Range>
  Json rows_of(const Range& all) const {
    auto rows = Json::array();
    for (const T& one : all) rows.push_back(write(items_, &one));
    return rows;
  }
  const std::vector<Item>& items() const { return items_; }
  const std::string& what() const { return what_; }

 private:
  template <class>
  friend class Shown;

  // A key with others below it: `form` makes the JSON of what `get` gives, if that is not empty.
  template <class U, class Get, class Form>
  Shown& nested(Item::Kind kind, std::string key, const char* type, Shown<U> below, Get get, Form form) {
    auto items = std::make_shared<const std::vector<Item>>(std::move(below.items_));
    items_.push_back({kind, std::move(key), Unit::none, "", std::move(below.what_), type,
                      [get, form, items](const void* of) {
                        const auto& value = std::invoke(get, *static_cast<const T*>(of));
                        const auto* there = shown::inside(value);
                        return there ? form(*items, *there) : Json();
                      },
                      items});
    return *this;
  }

  static Json write(const std::vector<Item>& items, const void* value) {
    auto object = Json::object();
    for (const auto& item : items) {
      auto json = item.read(value);
      if (json && !(item.left_out && json->is_null())) object.append(item.key, std::move(*json));
    }
    return object;
  }

  std::string what_;
  std::vector<Item> items_;
};

// The value at a JSON pointer; null if there is none.
const Json* find(const Json& json, std::string_view pointer);

// JSON Schema of an answer.
Json schema(std::string_view what, std::span<const Item> items);

// The cell of a value in CSV: yes and no as true and false, nothing for null; numbers in full, or with so many digits;
// lists as "0 1 2", lists of lists as "0:4,2:8".
std::string csv_cell(const Json* value, int digits = 0);

// CSV columns by pointer into the JSON of a row: {"allocated_bytes", "/peak_memory_bytes/allocated"}; an empty pointer
// is "/" and the name. A name with a star stands for all keys of the object that the pointer names.
struct CsvColumn {
  std::string name, pointer = {};
};
std::string csv(std::span<const CsvColumn> columns, std::span<const Json> rows, int digits = 0);
// "gpus iteration_s allocated_bytes=/peak_memory_bytes/allocated"
std::vector<CsvColumn> csv_columns(std::string_view text);

// An answer's JSON with its description: what pages and texts show of it, each value with its pointer.
class Showing {
 public:
  Showing(const Json& json, std::span<const Item> items) : json_(json), items_(items) {}

  const Json& json() const { return json_; }
  // As text in its unit; empty where there is none.
  page::Value value(const std::string& pointer) const;
  // In these words: "{} allocated" of its text, "{:.2f} sequences/s" of its number.
  page::Value value(const std::string& pointer, std::string_view words) const;
  // Under its label.
  page::Fact fact(const std::string& pointer, std::string more = "") const;

  // The rows of a list, which `names` counts from 1, or of an object whose keys are names, which are the first column,
  // headed `names`; if that is empty, there is no such column. Columns are pointers within a row, "time_s",
  // "worse/iteration_s"; with "=HEAD" behind, HEAD in place of the label. An empty pointer is a Shown::rows_of: its
  // cells say no place in a JSON.
  page::Table table(const std::string& pointer, std::span<const std::string_view> columns,
                    const std::string& names = "") const;
  page::Table table(const std::string& pointer, std::initializer_list<std::string_view> columns,
                    const std::string& names = "") const {
    return table(pointer, std::span(columns.begin(), columns.size()), names);
  }

 private:
  const Json& json_;
  std::span<const Item> items_;
};

// Rows that are no list of an answer, as a table, and as CSV whose columns are keys.
template <class T, class Range>
page::Table table(const Shown<T>& row, const Range& all, std::initializer_list<const char*> columns) {
  const auto json = row.rows_of(all);
  return Showing(json, row.items()).table("", std::vector<std::string_view>(columns.begin(), columns.end()));
}
template <class T, class Range>
std::string csv(const Shown<T>& row, const Range& all, std::initializer_list<const char*> columns) {
  std::vector<CsvColumn> same;
  for (const char* key : columns) same.push_back({key});
  return csv(same, row.rows_of(all).items());
}

}  // namespace rehearsal::report
