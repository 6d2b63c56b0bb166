#include "scenario/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/quantity_text.hpp"
#include "base/spelling.hpp"
#include "scenario/check.hpp"

namespace rehearsal::scenario {
namespace {

constexpr std::string_view kUnknownKey = "unknown key ";

bool looks_numeric(std::string_view text) {
  double number = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc{} && end == text.data() + text.size();
}

// The text of a plain or quoted scalar, or an error.
const std::string* scalar(Diagnostics& problems, const Node& node, const std::string& what, std::string_view allowed) {
  if (node.kind == Node::Kind::scalar) return &node.text;
  problems.error(node.where(), fmt::format("{} must be {}; found {}", what, allowed, describe(node)));
  return nullptr;
}

template <auto Parse>
fields::Value parsed(std::string_view text) {
  return Parse(text);
}
using Kind = fields::Form::Kind;
constexpr Measure kMeasures[] = {
    {Kind::time, "time", "a time such as 18.5ms", parsed<parse_time>},
    {Kind::bytes, "size", "a size such as 80GiB", parsed<parse_bytes>},
    {Kind::bandwidth, "bandwidth", "a bandwidth such as 400Gb/s", parsed<parse_bandwidth>},
    {Kind::flop_rate, "FLOP rate", "a rate such as 312TFLOP/s", parsed<parse_flop_rate>},
    {Kind::duration, "duration", "a duration such as 30d", parsed<parse_duration>},
    {Kind::power, "power", "a power such as 700W", parsed<parse_power>},
    {Kind::carbon, "carbon intensity", "a carbon intensity such as 0.4kg/kWh", parsed<parse_carbon>},
    {Kind::count, "count", "a count such as 2T", parsed<parse_count>},
    {Kind::version, "version", "a version such as 2.18", parsed<parse_version>}};

}  // namespace

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::map:
      return "a mapping";
    case Node::Kind::sequence:
      return fmt::format("a list of {}", node.items.size());
    case Node::Kind::scalar:
      break;
  }
  return (node.tag                   ? fmt::format("a text by its tag {}: ", node.tag)
          : node.quoted              ? "the quoted text "
          : looks_numeric(node.text) ? "the number "
                                     : "the text ") +
         in_quotes(node.text);
}

std::optional<std::int64_t> read_integer(Diagnostics& problems, const Node& node, const std::string& what,
                                         IntegerRange range) {
  const auto allowed = fmt::format("a whole number from {} to {}", range.low, range.high);
  const std::string* text = scalar(problems, node, what, allowed);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* begin = text->data() + (text->starts_with('+') ? 1 : 0);
  const auto [end, problem] = std::from_chars(begin, text->data() + text->size(), value);
  if (node.quoted || problem != std::errc{} || end != text->data() + text->size() || value < range.low ||
      value > range.high) {
    problems.error(node.where(), fmt::format("{} must be {}; found {}", what, allowed, describe(node)));
    return std::nullopt;
  }
  return value;
}

std::optional<double> read_number(Diagnostics& problems, const Node& node, const std::string& what, NumberRange range) {
  const auto allowed = range.above ? fmt::format("a number above {} and at most {}", range.low, range.high)
                                   : fmt::format("a number from {} to {}", range.low, range.high);
  const std::string* text = scalar(problems, node, what, allowed);
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (node.quoted || problem != std::errc{} || end != text->data() + text->size() || !std::isfinite(value) ||
      value > range.high || (range.above ? value <= range.low : value < range.low)) {
    problems.error(node.where(), fmt::format("{} must be {}; found {}", what, allowed, describe(node)));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> read_boolean(Diagnostics& problems, const Node& node, const std::string& what) {
  if (node.kind == Node::Kind::scalar && !node.quoted && node.text == "true") return true;
  if (node.kind == Node::Kind::scalar && !node.quoted && node.text == "false") return false;
  problems.error(node.where(), fmt::format("{} must be true or false; found {}", what, describe(node)));
  return std::nullopt;
}

std::optional<std::string> read_text(Diagnostics& problems, const Node& node, const std::string& what) {
  const std::string* text = scalar(problems, node, what, "a text");
  return text ? std::optional(*text) : std::nullopt;
}

const Measure* measure_of(fields::Form::Kind kind) {
  const auto* found = std::find_if(std::begin(kMeasures), std::end(kMeasures), [&](auto& m) { return m.kind == kind; });
  return found == std::end(kMeasures) ? nullptr : found;
}

std::optional<fields::Value> read_measure(Diagnostics& problems, const Node& node, const std::string& what,
                                          const Measure& measure) {
  const std::string* text = scalar(problems, node, what, measure.example);
  if (!text) return std::nullopt;
  try {
    return measure.parse(*text);
  } catch (const UserError& e) {
    problems.error(node.where(), fmt::format("{}: {}", what, e.diagnostics()[0].message));
    return std::nullopt;
  }
}

std::optional<std::size_t> read_choice(Diagnostics& problems, const Node& node, const std::string& what,
                                       const std::vector<std::string>& built, const std::vector<std::string>& planned) {
  const std::string* text = scalar(problems, node, what, fmt::format("one of {}", fmt::join(built, ", ")));
  if (!text) return std::nullopt;
  const auto same = std::find(built.begin(), built.end(), *text);
  if (same != built.end()) return static_cast<std::size_t>(same - built.begin());
  if (std::find(planned.begin(), planned.end(), *text) != planned.end())
    problems.error(node.where(), fmt::format("{} for {} is not supported yet; supported: {}", in_quotes(*text), what,
                                             fmt::join(built, ", ")));
  else
    problems.error(node.where(), fmt::format("{} must be one of {}; found {}{}", what, fmt::join(built, ", "),
                                             in_quotes(*text), nearest(*text, built) ? suggestion(*text, built) : ""));
  return std::nullopt;
}

MapReader::MapReader(Diagnostics& problems, const Node* node, std::string name, const Node& place)
    : problems_(problems), node_(node), name_(std::move(name)), place_(node ? *node : place) {
  if (node_ && node_->kind != Node::Kind::map) {
    const auto what = name_.empty() ? std::string("the file") : label(name_);
    problems_.error(node_->where(),
                    fmt::format("{} must be a mapping of keys to values; found {}", what, describe(*node_)));
    node_ = nullptr;
    mistyped_ = true;
  }
}

const Node* MapReader::said(std::string_view key) const {
  const Node* node = node_;
  for (std::size_t from = 0; node && from <= key.size();) {
    const auto dot = std::min(key.find('.', from), key.size());
    node = node->find(key.substr(from, dot - from));
    from = dot + 1;
  }
  return node;
}

Location MapReader::at(std::string_view key) const {
  const Node* value = said(key);
  return value ? value->where() : place_.where();
}

const Node* MapReader::find(std::string_view key) {
  asked_.emplace_back(key);
  const Node* value = node_ ? node_->find(key) : nullptr;
  if (!value || value->kind != Node::Kind::null) return value;
  const bool set = value->line == 0;  // --set KEY=null: as if the file did not have the key
  if (!set) problems_.error(value->where(), fmt::format("{} has no value", label(key)));
  return nullptr;
}

const Node* MapReader::nullable(std::string_view key) {
  const Node* value = node_ ? node_->find(key) : nullptr;
  if (!value || value->kind != Node::Kind::null) return find(key);
  asked_.emplace_back(key);
  return nullptr;
}

const Node* MapReader::uncited(std::string_view key, const Node* node) {
  if (!citations_ || !node || node->kind != Node::Kind::map) return node;
  if (!node->find("value") && !node->find("source") && !node->find("assumed")) return node;
  MapReader number(problems_, *node, std::string(key));
  const Node* value = number.require("value", "the number itself");
  const auto source = number.text("source", "");
  if (!source.empty()) citations_->sources[prefix_ + std::string(key)] = source;
  if (number.boolean("assumed", false)) citations_->assumed.push_back(prefix_ + std::string(key));
  if (number.boolean("fitted", false)) citations_->fitted.push_back(prefix_ + std::string(key));
  number.finish();
  return value;
}

const Node* MapReader::demand(std::string_view key, std::string_view what, const Node* value, std::size_t before) {
  if (value || mistyped_ || problems_.count() != before) return value;
  problems_.error(place_.where(), name_.empty() ? fmt::format("missing key {}: {}", label(key), what)
                                                : fmt::format("missing key {} in '{}': {}", label(key), name_, what));
  return nullptr;
}

const Node* MapReader::require(std::string_view key, std::string_view what) {
  const auto before = problems_.count();
  return demand(key, what, find(key), before);
}

const Node* MapReader::number_of(std::string_view key, bool required, std::string_view what) {
  const auto before = problems_.count();
  const Node* value = uncited(key, find(key));
  return required ? demand(key, what, value, before) : value;
}

std::optional<std::size_t> MapReader::pick(std::string_view key, const std::vector<std::string>& built,
                                           const std::vector<std::string>& planned, bool required) {
  const auto allowed = fmt::format("one of {}", fmt::join(built, ", "));
  const Node* value = number_of(key, required, allowed);
  if (!value) return std::nullopt;
  return read_choice(problems_, *value, label(key), built, planned);
}

void MapReader::finish() {
  if (std::exchange(finished_, true) || !node_) return;
  for (const auto& e : node_->entries) {
    if (std::find(asked_.begin(), asked_.end(), e.key->text) != asked_.end()) continue;
    problems_.error(e.key->where(), fmt::format("{}{}{}{}", kUnknownKey, in_quotes(e.key->text),
                                                name_.empty() ? "" : " in '" + name_ + "'",
                                                problems_.crowded() ? "" : suggestion(e.key->text, asked_)));
  }
}

std::vector<Diagnostic> unknown_keys(const std::vector<Diagnostic>& errors, const std::vector<std::string>& sets) {
  std::vector<Diagnostic> unknown;
  for (const auto& error : errors)
    if (error.message.starts_with(kUnknownKey) &&
        std::any_of(sets.begin(), sets.end(), [&](const auto& set) { return error.where.file == set_origin(set); }))
      unknown.push_back(error);
  return unknown;
}

}  // namespace rehearsal::scenario
