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

Forecast forecast_of(const std::vector<Constant>& constants, const std::string& family, const std::string& gpu,
                     const std::string& framework) {
  Forecast forecast;
  for (const auto& c : constants) {
    if (!c.acts_on(gpu, framework) || std::find(c.saw.begin(), c.saw.end(), family) == c.saw.end()) continue;
    auto route = c.without.find(family);
    if (route == c.without.end()) route = c.without.find("any");
    if (route == c.without.end()) continue;  // other families support it
    if (route->second.value.empty())
      forecast.missing.push_back(c.key);
    else
      forecast.sets.push_back(c.key + "=" + route->second.value);
  }
  return forecast;
}

}  // namespace rehearsal::published
