#include "base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace rehearsal {
namespace {

// Reads into a tree, without recursion; that of a tree is bounded, since everything else walks it with recursion.
class Builder {
 public:
  using Library = nlohmann::json;

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(Library::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool key(std::string& text) { return keys_.back() = std::move(text), true; }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const Library::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    const auto bracket = what.find("] ");
    why_ = bracket == std::string::npos ? what : what.substr(bracket + 2);
    return false;
  }

  bool read(const std::string& text) { return Library::sax_parse(text, this); }
  Json& whole() { return whole_; }
  const std::string& why() const { return why_; }

 private:
  static constexpr std::size_t kDeepest = 500;

  bool add(Json value) {
    if (open_.empty())
      whole_ = std::move(value);
    else if (open_.back().is_array())
      open_.back().push_back(std::move(value));
    else
      open_.back().append(std::move(keys_.back()), std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kDeepest) return why_ = "more than 500 values inside each other", false;
    open_.push_back(std::move(value)), keys_.emplace_back();
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back(), keys_.pop_back();
    return add(std::move(done));
  }

  Json whole_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // of each that is open
  std::string why_;
};

bool plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

void write_text(std::string& out, const std::string& text) {
  if (plain(text))
    out += '"', out += text, out += '"';
  else
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class T>
void write_whole(std::string& out, T value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(const Scalar& value) {
  std::visit([this](auto scalar) { value_ = scalar; }, value);
}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json::Json(std::initializer_list<Item> items) {
  const auto pair = [](const Item& i) {
    return i.value_.is_array() && i.value_.items().size() == 2 && i.value_.items()[0].is_string();
  };
  if (std::all_of(items.begin(), items.end(), pair)) {
    auto& members = value_.emplace<Object>();
    for (const auto& i : items) {
      auto& both = std::get<Array>(i.value_.value_);
      members.push_back({std::get<std::string>(std::move(both[0].value_)), std::move(both[1])});
    }
  } else {
    auto& list = value_.emplace<Array>();
    list.reserve(items.size());
    for (const auto& i : items) list.push_back(std::move(i.value_));
  }
}

Json Json::array() {
  Json json;
  json.value_.emplace<Array>();
  return json;
}
Json Json::object() {
  Json json;
  json.value_.emplace<Object>();
  return json;
}
Json Json::parse(const std::string& text) {
  Builder builder;
  if (!builder.read(text)) throw UserError(builder.why());
  return std::move(builder.whole());
}
std::optional<Json> Json::read(const std::string& text) {
  Builder builder;
  if (!builder.read(text)) return std::nullopt;
  return std::move(builder.whole());
}

bool Json::is_number() const {
  return is_real() || std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_);
}
const char* Json::type_name() const {
  return is_null()      ? "null"
         : is_boolean() ? "boolean"
         : is_number()  ? "number"
         : is_string()  ? "string"
         : is_array()   ? "array"
                        : "object";
}

double Json::real() const {
  INVARIANT(is_number(), type_name());
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return double(*whole);
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return double(*whole);
  return std::get<double>(value_);
}
const std::string& Json::text() const {
  INVARIANT(is_string(), type_name());
  return std::get<std::string>(value_);
}
const Json::Array& Json::items() const {
  INVARIANT(is_array(), type_name());
  return std::get<Array>(value_);
}
const Json::Object& Json::members() const {
  INVARIANT(is_object(), type_name());
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& m : members())
    if (m.key == key) return &m.value;
  return nullptr;
}

Json& Json::operator[](std::string_view key) {
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  return append(std::string(key), {});
}

Json& Json::append(std::string key, Json value) {
  if (is_null()) value_.emplace<Object>();
  INVARIANT(is_object(), type_name());
  return std::get<Object>(value_).emplace_back(Member{std::move(key), std::move(value)}).value;
}

Json& Json::push_back(Json value) {
  if (is_null()) value_.emplace<Array>();
  INVARIANT(is_array(), type_name());
  return std::get<Array>(value_).emplace_back(std::move(value));
}

Json& Json::back() {
  INVARIANT(is_array(), type_name());
  return std::get<Array>(value_).back();
}

void Json::update(Json other) {
  INVARIANT(other.is_object(), other.type_name());
  for (auto& m : std::get<Object>(other.value_)) (*this)[m.key] = std::move(m.value);
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

std::string Json::lines(std::string_view wide, int levels) const {
  std::string out;
  for (const auto& [key, value] : members()) {
    out += out.empty() ? "{\n  " : ",\n  ";
    write_text(out, key);
    out += ": ";
    value.write(out, 2, 1, key == wide ? levels : 0);
  }
  return out + "\n}\n";
}

// `levels`: how many of them have lines of their own.
void Json::write(std::string& out, int indent, int level, int levels) const {
  if (levels == 0) indent = -1;
  const auto list = [&](char open, const auto& all, char close, const auto& one) {
    out += open;
    bool first = true;
    for (const auto& x : all) {
      if (!first) out += ',';
      first = false;
      if (indent >= 0) out += '\n', out.append(std::size_t(indent) * std::size_t(level + 1), ' ');
      one(x);
    }
    if (indent >= 0 && !first) out += '\n', out.append(std::size_t(indent) * std::size_t(level), ' ');
    out += close;
  };
  if (const auto* truth = std::get_if<bool>(&value_))
    out += *truth ? "true" : "false";
  else if (const auto* whole = std::get_if<std::int64_t>(&value_))
    write_whole(out, *whole);
  else if (const auto* natural = std::get_if<std::uint64_t>(&value_))
    write_whole(out, *natural);
  else if (const auto* number = std::get_if<double>(&value_))
    out += nlohmann::json(*number).dump();
  else if (const auto* text = std::get_if<std::string>(&value_))
    write_text(out, *text);
  else if (const auto* items = std::get_if<Array>(&value_))
    list('[', *items, ']', [&](const Json& x) { x.write(out, indent, level + 1, levels - 1); });
  else if (const auto* members = std::get_if<Object>(&value_))
    list('{', *members, '}', [&](const Member& m) {
      write_text(out, m.key);
      out += indent >= 0 ? ": " : ":";
      m.value.write(out, indent, level + 1, levels - 1);
    });
  else
    out += "null";
}

}  // namespace rehearsal
