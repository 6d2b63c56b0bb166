#include "report/shown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "page/layout.hpp"

namespace rehearsal::report {
namespace {

// The first part of a pointer "/a/b", and the rest "/b".
std::pair<std::string_view, std::string_view> split(std::string_view pointer) {
  if (pointer.starts_with('/')) pointer.remove_prefix(1);
  const auto slash = pointer.find('/');
  return {pointer.substr(0, slash), slash == std::string_view::npos ? "" : pointer.substr(slash)};
}

// The item that a pointer names: places in lists, and names, are of any row.
const Item* item_at(std::span<const Item> items, std::string_view pointer) {
  const auto [key, rest] = split(pointer);
  const auto item = std::find_if(items.begin(), items.end(), [key = key](const Item& i) { return i.key == key; });
  if (item == items.end()) return nullptr;
  if (rest.empty()) return &*item;
  const bool keyed = item->kind != Item::Kind::figure && item->kind != Item::Kind::group;
  const auto below = keyed ? split(rest).second : rest;
  return below.empty() || !item->below ? &*item : item_at(*item->below, below);
}

// A name as a step of a pointer (RFC 6901).
std::string step(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

template <class Cell>
std::string joined(const Json& list, const char* between, const Cell& cell) {
  std::string text;
  for (const auto& one : list.items()) {
    if (!text.empty()) text += one.is_array() ? "," : between;
    text += one.is_array() ? joined(one, ":", cell) : cell(one);
  }
  return text;
}

constexpr std::size_t kMostInList = 6;

std::string text_of(const Json& value, const Item* item) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.dump() == "true" ? "yes" : "no";
  if (value.is_string()) return value.text();
  if (value.is_object()) {  // settings
    std::string all;
    for (const auto& [key, of] : value.members()) all += (all.empty() ? "" : " ") + key + "=" + text_of(of, nullptr);
    return all;
  }
  if (value.is_array()) {
    const auto& all = value.items();
    if (all.size() > kMostInList)
      return fmt::format("{} .. {} ({})", csv_cell(&all.front()), csv_cell(&all.back()), all.size());
    return joined(value, ",", [&](const Json& one) { return one.is_real() ? text_of(one, item) : csv_cell(&one); });
  }
  const bool real = value.is_real() || (item && item->unit != Unit::none);
  return real               ? page::show_amount(value.real(), item ? item->unit : Unit::none)
         : value.real() < 0 ? value.dump()
                            : page::grouped(std::uint64_t(value.real()));
}

page::Value page_value(const Json& value, const Item* item, std::string pointer) {
  page::Value shown{text_of(value, item)};
  if (value.is_number()) shown.number = value.real(), shown.json = std::move(pointer);
  return shown;
}

}  // namespace

std::string shown::words(std::string key) {
  if (key.ends_with("_s")) key.resize(key.size() - 2);
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

const Json* find(const Json& json, std::string_view pointer) {
  const Json* at = &json;
  while (at && !pointer.empty()) {
    const auto [key, rest] = split(pointer);
    if (at->is_array()) {
      const auto place = std::size_t(std::atoi(std::string(key).c_str()));
      at = place < at->items().size() ? &at->items()[place] : nullptr;
    } else {
      at = at->find(key);
    }
    pointer = rest;
  }
  return at;
}

Json schema(std::string_view what, std::span<const Item> items) {
  auto properties = Json::object();
  auto required = Json::array();
  for (const auto& item : items) {
    using Kind = Item::Kind;
    auto one = item.kind == Kind::group ? schema(item.help, *item.below) : Json::object();
    if (item.kind != Kind::group && !item.help.empty()) one["description"] = item.help;
    if (!item.type.empty()) one["type"] = {item.kind == Kind::named ? "object" : item.type, "null"};
    const auto below = item.below ? schema("", *item.below) : Json{{"type", {item.type, "null"}}};
    if (item.kind == Kind::rows)
      one["items"] = item.instead ? Json{{"anyOf", {below, schema("", *item.instead)}}} : below;
    if (item.kind == Kind::lists) one["items"] = {{"type", "array"}, {"items", below}};
    if (item.kind == Kind::named) one["additionalProperties"] = below;
    properties.append(item.key, std::move(one));
    if (!item.left_out && !item.of_a_part) required.push_back(item.key);
  }
  Json all{{"type", "object"}};
  if (!what.empty()) all["description"] = std::string(what);
  all["properties"] = std::move(properties), all["required"] = std::move(required);
  return all;
}

std::string csv_cell(const Json* value, int digits) {
  if (!value || value->is_null()) return "";
  if (digits && value->is_number()) return fmt::format("{:.{}g}", value->real(), digits);
  if (value->is_real()) return fmt::format("{}", value->real());
  if (value->is_array()) return joined(*value, " ", [](const Json& one) { return csv_cell(&one); });
  return value->is_string() ? value->text() : value->dump();
}

std::string csv(std::span<const CsvColumn> columns, std::span<const Json> rows, int digits) {
  std::vector<std::string> names, pointers;
  for (const auto& column : columns) {
    const auto star = column.name.find('*');
    if (star == std::string::npos) {
      names.push_back(column.name), pointers.push_back(column.pointer.empty() ? "/" + column.name : column.pointer);
      continue;
    }
    for (const auto& row : rows) {
      const Json* object = find(row, column.pointer);
      if (!object || !object->is_object()) continue;
      for (const auto& member : object->members()) {
        auto name = column.name;
        names.push_back(name.replace(star, 1, member.key)), pointers.push_back(column.pointer + "/" + member.key);
      }
      break;  // all rows have the same names
    }
  }
  std::string text = page::csv_line(names);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto& pointer : pointers) cells.push_back(csv_cell(find(row, pointer), digits));
    text += page::csv_line(cells);
  }
  return text;
}

std::vector<CsvColumn> csv_columns(std::string_view text) {
  std::vector<CsvColumn> columns;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto equals = std::min(word.find('='), word.size());
    columns.push_back({word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))});
  }
  return columns;
}

page::Value Showing::value(const std::string& pointer) const {
  const Json* value = find(json_, pointer);
  return value ? page_value(*value, item_at(items_, pointer), pointer) : page::Value{};
}

page::Value Showing::value(const std::string& pointer, std::string_view words) const {
  auto said = value(pointer);
  if (said.text.empty()) return said;
  const double number = said.number.value_or(0);
  said.text = words.find("{}") == std::string_view::npos ? fmt::format(fmt::runtime(words), number)
                                                         : fmt::format(fmt::runtime(words), said.text);
  return said;
}

page::Fact Showing::fact(const std::string& pointer, std::string more) const {
  const auto* item = item_at(items_, pointer);
  return {item ? item->label : pointer, value(pointer), std::move(more)};
}

page::Table Showing::table(const std::string& pointer, std::span<const std::string_view> columns,
                           const std::string& names) const {
  const bool own = pointer.empty();
  const auto* list = own ? nullptr : item_at(items_, pointer);
  const auto of_row = own                   ? items_
                      : list && list->below ? std::span<const Item>(*list->below)
                                            : std::span<const Item>();
  const Json* rows = find(json_, pointer);
  page::Table table;
  table.words.clear();
  if (!names.empty()) table.head.push_back(names), table.words.push_back(rows && rows->is_object());
  std::vector<std::pair<std::string, const Item*>> asked;
  for (const auto column : columns) {
    const auto equals = column.find('=');
    const auto key = "/" + std::string(column.substr(0, equals));
    const auto* item = item_at(of_row, key);
    asked.emplace_back(key, item);
    table.head.push_back(equals != std::string_view::npos ? std::string(column.substr(equals + 1))
                         : item                           ? item->label
                                                          : std::string(column));
    table.words.push_back(item && item->type == "string");
  }
  const auto add = [&](const Json& row, const std::string& at, const std::string* name) {
    auto& cells = table.rows.emplace_back();
    if (name) cells.push_back({*name});
    for (const auto& [key, item] : asked) {
      const Json* value = find(row, key);
      cells.push_back(value ? page_value(*value, item, own ? "" : at + key) : page::Value{});
    }
  };
  if (rows && rows->is_array())
    for (std::size_t i = 0; i < rows->items().size(); i++) {
      const auto place = std::to_string(i + 1);
      add(rows->items()[i], fmt::format("{}/{}", pointer, i), names.empty() ? nullptr : &place);
    }
  if (rows && rows->is_object())
    for (const auto& [name, row] : rows->members())
      add(row, pointer + "/" + step(name), names.empty() ? nullptr : &name);
  return table;
}

}  // namespace rehearsal::report
