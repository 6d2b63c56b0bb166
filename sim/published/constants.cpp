#include "published/constants.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "scenario/reader.hpp"

namespace rehearsal::published {
namespace {

constexpr const char* kConstants = "/configs/constants.yaml";

// One text, or a list.
std::vector<std::string> texts(const scenario::Node* node) {
  std::vector<std::string> all;
  if (!node) return all;
  if (node->kind != scenario::Node::Kind::sequence) return {node->text};
  for (const auto* item : node->items) all.push_back(item->text);
  return all;
}

std::vector<std::string> causes(scenario::Diagnostics& problems, scenario::MapReader& map) {
  const auto* node = map.find("cause");
  auto all = texts(node);
  for (const auto& cause : all)
    if (std::find(std::begin(kCauses), std::end(kCauses), cause) == std::end(kCauses))
      problems.error(node->where(), fmt::format("a cause is one of {}; found '{}'", fmt::join(kCauses, ", "), cause));
  return all;
}

Substitute read_route(scenario::Diagnostics& problems, const scenario::Node& node) {
  Substitute other;
  if (node.kind == scenario::Node::Kind::map) {
    scenario::MapReader fields(problems, node, "without");
    if (const auto* value = fields.require("value", "by the other route")) other.value = scenario::flow_text(*value);
    other.source = fields.text("source");
    other.saw = texts(fields.find("saw")), other.causes = causes(problems, fields);
    fields.finish();
  } else if (node.text != "none") {
    problems.error(node.where(), "a route is {value, source}, a list of them, or 'none'");
  }
  return other;
}

Constant read_constant(scenario::Diagnostics& problems, const scenario::Node& node) {
  scenario::MapReader map(problems, node, "constant");
  Constant c;
  c.key = map.text("key"), c.gpu = map.text("gpu", ""), c.framework = map.text("software", "");
  c.causes = causes(problems, map);
  c.where = fmt::format("{}:{}", *node.origin, node.line);
  if (const auto* value = map.require("value", "what it is")) c.value = scenario::flow_text(*value);
  c.width = map.number("width", {0, 10});
  if (const auto* saw = map.require("saw", "the families that it was fitted to")) c.saw = texts(saw);
  if (const auto* without = map.require("without", "its other route"))
    for (const auto& [family, route] : without->entries) {
      auto& routes = c.without[family->text];
      if (route->kind == scenario::Node::Kind::sequence)
        for (const auto* item : route->items) routes.push_back(read_route(problems, *item));
      else
        routes.push_back(read_route(problems, *route));
      if (family->text != "any" && std::find(c.saw.begin(), c.saw.end(), family->text) == c.saw.end())
        problems.error(family->where(), fmt::format("'{}' is not among the families of 'saw'", family->text));
    }
  // A constant from a single family, or of a cause, must name its substitute.
  if (c.saw.size() == 1 && c.without.empty())
    problems.error(node.where(), fmt::format("'{}' saw one family and has no route without it", c.key));
  if (!c.causes.empty() && !c.without.count("any"))
    problems.error(node.where(), fmt::format("'{}' is of one cause and has no route 'any' without it", c.key));
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
  const auto of_cause = [&](const std::vector<std::string>& causes) {
    return std::any_of(causes.begin(), causes.end(), [&](const auto& cause) {
      return std::find(run.causes.begin(), run.causes.end(), cause) != run.causes.end();
    });
  };
  // Whether it, or a substitute, rests on nothing but what is left out.
  const auto alone = [&](const auto& it) {
    if (left == Left::cause) return of_cause(it.causes);
    return !it.saw.empty() && std::all_of(it.saw.begin(), it.saw.end(), is_left);
  };
  Forecast forecast;
  for (const auto& c : constants) {
    if (!c.acts_on(run.gpu, run.framework)) continue;
    if (left == Left::cause ? !alone(c) : std::none_of(c.saw.begin(), c.saw.end(), is_left)) continue;
    auto routes = c.without.find(run.family);
    if (routes == c.without.end()) routes = c.without.find("any");
    if (routes == c.without.end()) {  // other runs support it, or none does
      if (alone(c)) forecast.missing.push_back(c.key);
      continue;
    }
    const auto& all = routes->second;
    const auto route = std::find_if(all.begin(), all.end(), [&](const auto& other) { return !alone(other); });
    if (route == all.end() || route->value.empty())
      forecast.missing.push_back(c.key);
    else
      forecast.sets.push_back(c.key + "=" + route->value);
  }
  return forecast;
}

std::vector<std::string> causes_of(const scenario::RunClass& run, const RowTraits& row) {
  constexpr double kLong = 16384;  // tokens of a sequence
  const bool has[] = {row.natural_routing, row.fine_tuning || run.adapters, run.eager || row.eager_launches,
                      run.precision == "fp8" || run.precision == "fp4", run.sequence >= kLong};
  std::vector<std::string> causes;
  for (std::size_t i = 0; i < std::size(kCauses); i++)
    if (has[i]) causes.emplace_back(kCauses[i]);
  return causes;
}

std::vector<std::string> causes_of(const scenario::Scenario& scenario, const scenario::RunClass& run,
                                   bool fine_tuning) {
  const auto& c = *scenario.concrete;
  // Benchmarks force balance, or their rows say that they do not; who tunes a mixture takes tokens where its router
  // sends them.
  const bool natural = c.model.is_moe() && (fine_tuning || c.experts.skew.kind != models::Skew::Kind::uniform);
  return causes_of(run, {natural, fine_tuning, c.framework.launches == models::LaunchCounts::eager});
}

}  // namespace rehearsal::published
