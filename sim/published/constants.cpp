#include "published/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "scenario/reader.hpp"

namespace rehearsal::published {
namespace {

constexpr const char* kConstants = "/configs/constants.yaml";

Constant read_constant(scenario::Diagnostics& problems, const scenario::Node& node) {
  scenario::MapReader map(problems, node, "constant");
  Constant c;
  c.key = map.text("key"), c.gpu = map.text("gpu", ""), c.framework = map.text("software", "");
  c.cause = map.text("cause", "");
  c.where = fmt::format("{}:{}", *node.origin, node.line);
  if (const auto* value = map.require("value", "what it is")) c.value = scenario::flow_text(*value);
  c.width = map.number("width", {0, 10});
  if (const auto* saw = map.require("saw", "the families that it was fitted to"))
    for (const auto* family : saw->items) c.saw.push_back(family->text);
  if (const auto* without = map.require("without", "its other route"))
    for (const auto& [family, route] : without->entries) {
      Substitute other;
      if (route->kind == scenario::Node::Kind::map) {
        scenario::MapReader fields(problems, *route, "without");
        if (const auto* value = fields.require("value", "by the other route"))
          other.value = scenario::flow_text(*value);
        other.source = fields.text("source");
        fields.finish();
      } else if (route->text != "none") {
        problems.error(route->where(), "a route is {value, source}, or 'none'");
      }
      if (family->text != "any" && std::find(c.saw.begin(), c.saw.end(), family->text) == c.saw.end())
        problems.error(family->where(), fmt::format("'{}' is not among the families of 'saw'", family->text));
      c.without[family->text] = other;
    }
  // A constant from a single family must name its substitute.
  if (c.saw.size() == 1 && c.without.empty())
    problems.error(node.where(), fmt::format("'{}' saw one family and has no route without it", c.key));
  map.finish();
  return c;
}

}  // namespace

std::vector<Constant> read_constants(const scenario::Files& files) {
  scenario::Diagnostics problems;
  scenario::Documents documents(problems, files);
  std::vector<Constant> all;
  if (const auto* root = documents.read_file(files.home() + kConstants)) {
    scenario::MapReader file(problems, *root, "");
    file.find("code");  // identifiers in the code, which a test checks
    if (const auto* list = file.require("constants", "a list of constants"))
      for (const auto* item : list->items) all.push_back(read_constant(problems, *item));
    file.finish();
  }
  problems.throw_if_any();
  return all;
}

std::string family_of(const std::string& table, const std::string& gpu, const std::string& framework) {
  const auto end =
      std::find_if(table.begin(), table.end(), [](unsigned char c) { return c == '_' || std::isdigit(c); });
  return fmt::format("{}@{}/{}", std::string(table.begin(), end), gpu, framework);
}

Forecast forecast_of(const std::vector<Constant>& constants, const ForecastOf& run, Left left) {
  const auto is_left = [&](const std::string& family) {
    const auto at = family.find('@'), slash = family.find('/', at);
    if (left == Left::framework) return family.substr(slash + 1) == run.framework;
    if (left == Left::gpu) return family.substr(at + 1, slash - at - 1) == run.gpu;
    return family == run.family;
  };
  Forecast forecast;
  for (const auto& c : constants) {
    if (!c.acts_on(run.gpu, run.framework)) continue;
    const bool concerned = left == Left::cause
                               ? std::find(run.causes.begin(), run.causes.end(), c.cause) != run.causes.end()
                               : std::any_of(c.saw.begin(), c.saw.end(), is_left);
    if (!concerned) continue;
    const bool alone = left == Left::cause || std::all_of(c.saw.begin(), c.saw.end(), is_left);
    auto route = c.without.find(run.family);
    if (route == c.without.end()) route = c.without.find("any");
    if (route == c.without.end()) {  // other runs support it, or none does
      if (alone) forecast.missing.push_back(c.key);
    } else if (route->second.value.empty()) {
      forecast.missing.push_back(c.key);
    } else {
      forecast.sets.push_back(c.key + "=" + route->second.value);
    }
  }
  return forecast;
}

std::vector<std::string> causes_of(const scenario::RunClass& run, bool natural_routing) {
  constexpr double kLong = 16384;  // tokens of a sequence
  std::vector<std::string> causes;
  if (natural_routing) causes.emplace_back("routing");
  if (run.adapters) causes.emplace_back("fine-tuning");
  if (run.eager) causes.emplace_back("eager");
  if (run.precision == "fp8" || run.precision == "fp4") causes.emplace_back("8 or 4 bits");
  if (run.sequence >= kLong) causes.emplace_back("long context");
  return causes;
}

}  // namespace rehearsal::published
