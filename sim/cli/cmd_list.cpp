// rehearse list: what exists, one honest sentence each; of a configuration, every constant with its source.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "cli/output.hpp"
#include "cli/performer.hpp"
#include "cluster/registry.hpp"
#include "collective/registry.hpp"
#include "report/layout.hpp"
#include "report/model_report.hpp"
#include "scenario/scenario.hpp"
#include "scenario/schema.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::cli {
namespace {

struct Item {
  std::string name, summary, source;  // `source` of the numbers, where it comes from a file
  std::optional<bool> available;      // of backends
  double parameters = 0, active = 0;  // of models: all, and those that a token meets
};

// A kind of thing that can be listed. To add one: a function that returns its items, and a line in the table.
struct Kind {
  std::string_view name;
  std::string_view summary;
  std::vector<Item> (*items)();
  // Its items say more when they are asked for by name: the numbers of a file, or what follows from them.
  std::string (*one)(const std::string& kind, const std::string& name, const CommonOptions& common) = nullptr;
};

template <class Registry>
std::vector<Item> registered(const Registry& registry) {
  std::vector<Item> items;
  for (const auto& [name, plugin] : registry)
    items.push_back({.name = name, .summary = plugin.summary, .source = "", .available = {}});
  return items;
}
std::vector<Item> schedules() { return registered(schedule::registry()); }
std::vector<Item> collectives() { return registered(collective::registry()); }
std::vector<Item> topologies() {
  auto items = registered(cluster::registry());
  for (auto& item : items) {
    std::vector<std::string> parameters;
    for (const auto& p : cluster::registry().at(item.name).parameters)
      parameters.push_back(fmt::format("{}: {} ({})", p.name, p.fallback, p.help));
    if (!parameters.empty()) item.summary += fmt::format(" Parameters: {}.", fmt::join(parameters, "; "));
  }
  return items;
}

std::vector<Item> listed_backends() {
  std::vector<Item> items;
  for (const auto& backend : backends()) {
    std::string can;
    for (const auto& c : backend.capabilities)
      can += fmt::format("{}{} {}{}", can.empty() ? "" : "; ", c.kind, timeline::name(c.fidelity),
                         c.note.empty() ? "" : " (" + c.note + ")");
    const auto state = backend.why ? fmt::format("Unavailable: {}.", *backend.why) : fmt::format("Available: {}.", can);
    items.push_back({.name = backend.name,
                     .summary = backend.summary + " " + state,
                     .source = "",
                     .available = !backend.why.has_value()});
  }
  return items;
}

std::vector<Item> configured(const char* kind) {
  std::vector<Item> items;
  for (const auto& part : scenario::list(kind))
    items.push_back({.name = part.name, .summary = part.summary, .source = part.source, .available = {}});
  return items;
}
std::vector<Item> models() {
  auto items = configured("models");
  for (auto& item : items) {
    const auto model = scenario::named_model(item.name);
    item.parameters = models::parameters(model), item.active = models::active_parameters(model);
  }
  return items;
}
std::vector<Item> clusters() { return configured("clusters"); }
std::vector<Item> gpus() { return configured("gpus"); }
std::vector<Item> software() { return configured("software"); }

std::string constants_report(const std::string& kind, const std::string& name, const CommonOptions& common);

std::string closed_forms(const std::string&, const std::string& name, const CommonOptions& common) {
  const auto model = scenario::named_model(name);
  if (common.format == Format::csv) throw UserError("'rehearse list models NAME' has no csv; use text or json");
  return common.format == Format::json ? report::model_json(model).dump(2) + "\n" : report::model_text(model);
}

constexpr std::array kKinds{
    Kind{"schedules", "pipeline schedules", schedules},
    Kind{"collectives", "collective algorithms", collectives},
    Kind{"topologies", "what a cluster can be wired as", topologies},
    Kind{"models", "networks of models/zoo; with a name, FLOPs and bytes of its layers", models, closed_forms},
    Kind{"clusters", "kinds of cluster (configs/clusters); with a name, its numbers", clusters, constants_report},
    Kind{"gpus", "GPU types (configs/gpus); with a name, its numbers", gpus, constants_report},
    Kind{"software", "frameworks of a day (configs/software); with a name, its numbers", software, constants_report},
    Kind{"backends", "what can rehearse or perform a task graph", listed_backends},
};

CommandText list_text() {
  std::string kinds = "Kinds:\n";
  for (const auto& k : kKinds) kinds += fmt::format("  {:<12} {}\n", k.name, k.summary);
  return {"list", "KIND [NAME] [OPTIONS]",
          "Lists what exists of one kind, one sentence each; of one GPU, cluster or software profile\n"
          "every number with its unit and source, of one model what its layers compute and keep.",
          kinds, "  rehearse list schedules\n  rehearse list gpus h100-80g-sxm\n  rehearse list models deepseek-v3\n"};
}

// Of a mixture of experts "671 B, 37.6 B active"; nothing of what is no model.
std::string size_of(const Item& item) {
  const auto count = [](double parameters) {
    const bool billions = parameters >= 1e9;
    return fmt::format("{:.{}f} {}", parameters / (billions ? 1e9 : 1e6), parameters >= 1e11 || !billions ? 0 : 1,
                       billions ? 'B' : 'M');
  };
  if (item.parameters == 0) return "";
  return count(item.parameters) + (item.active < item.parameters ? ", " + count(item.active) + " active" : "");
}

// The sentence beside the name, broken at spaces and continued under its own beginning.
std::string entry(const Item& item, std::size_t name_width, std::size_t size_width, std::size_t width) {
  auto head = fmt::format("{:<{}}  ", item.name, name_width);
  if (size_width > 0) head += fmt::format("{:<{}}  ", size_of(item), size_width);
  return head +
         report::wrap(item.summary, std::max<std::size_t>(20, width - std::min(width, head.size())),
                      std::string(head.size(), ' ')) +
         "\n";
}

// "450GB/s" is a number and its unit; "rail-optimized" is neither.
struct Quantity {
  std::optional<double> number;
  std::string unit;
};
Quantity quantity(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end == text.c_str() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.'))
    return {};
  const std::string unit = end;
  if (unit.find_first_of("0123456789 ,") != std::string::npos) return {};  // a list or a name that begins with a digit
  return {number, unit};
}

std::string constants_report(const std::string& kind, const std::string& name, const CommonOptions& common) {
  const auto all = scenario::constants(kind, name);
  std::string report;
  switch (common.format) {
    case Format::json: {
      Json json = Json::array();
      for (const auto& c : all) {
        const auto q = quantity(c.value);
        auto& one = json.push_back({{"key", c.key}});
        if (q.number)
          one["value"] = *q.number, one["unit"] = q.unit;
        else
          one["value"] = c.value;
        if (!c.source.empty()) one["source"] = c.source, one["assumed"] = c.assumed;
        if (const auto row = scenario::key_of(kind, c.key); row && !row->help.empty()) one["meaning"] = row->help;
      }
      return json.dump(2) + "\n";
    }
    case Format::csv:
      report = report::csv_line({"key", "value", "source", "assumed"});
      for (const auto& c : all) report += report::csv_line({c.key, c.value, c.source, c.assumed ? "yes" : "no"});
      return report;
    case Format::text: {
      std::size_t keys = 0, values = 0;
      for (const auto& c : all) {
        keys = std::max(keys, c.key.size());
        if (!c.source.empty()) values = std::max(values, c.value.size());
      }
      const std::size_t indent = keys + values + 4, width = std::size_t(report_width(common));
      for (const auto& c : all) {
        const std::string said = (c.assumed ? "assumed: " : "") + c.source;
        const auto line = fmt::format("{:<{}}  {:<{}}  ", c.key, keys, c.value, values);
        report += said.empty() ? fmt::format("{:<{}}  {}\n", c.key, keys, c.value)
                               : line +
                                     report::wrap(said, std::max<std::size_t>(30, width - std::min(width, indent)),
                                                  std::string(indent, ' ')) +
                                     "\n";
      }
      return report;
    }
  }
  return report;
}

}  // namespace

int run_list(const Arguments& arguments) {
  const CommandText text = list_text();
  CommonOptions common;
  const auto line = parse(text, {}, arguments, common);
  if (!line) return 0;
  std::vector<std::string> names;
  for (const auto& k : kKinds) names.emplace_back(k.name);
  if (line->operands.empty()) throw UserError(fmt::format("'rehearse list' needs a kind: {}", fmt::join(names, ", ")));
  const std::string& wanted = line->operands.front();
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.name == wanted; });
  if (kind == kKinds.end())
    throw UserError(fmt::format("cannot list '{}'; what exists: {}", wanted, fmt::join(names, ", ")));
  if (line->operands.size() > 2 || (line->operands.size() == 2 && !kind->one))
    throw UserError(fmt::format("'rehearse list {}' takes {}, found also '{}'", wanted,
                                kind->one ? "one name and nothing else" : "nothing else", line->operands.back()));
  if (line->operands.size() == 2) {
    emit_report(common, kind->one(wanted, line->operands[1], common));
    return 0;
  }

  const auto items = kind->items();
  std::string report;
  switch (common.format) {
    case Format::json: {
      Json json = Json::array();
      for (const auto& i : items) {
        json.push_back({{"name", i.name}, {"summary", i.summary}});
        if (!i.source.empty()) json.back()["source"] = i.source;
        if (i.available) json.back()["available"] = *i.available;
        if (i.parameters > 0) {
          json.back()["parameters"] = std::llround(i.parameters);
          json.back()["active_parameters"] = std::llround(i.active);
        }
      }
      report = json.dump(2) + "\n";
      break;
    }
    case Format::csv:
      if (!items.empty() && items.front().parameters > 0) {
        report = report::csv_line({"name", "summary", "source", "parameters", "active_parameters"});
        for (const auto& i : items)
          report += report::csv_line(
              {i.name, i.summary, i.source, fmt::format("{:.0f}", i.parameters), fmt::format("{:.0f}", i.active)});
        break;
      }
      report = report::csv_line({"name", "summary", "source"});
      for (const auto& i : items) report += report::csv_line({i.name, i.summary, i.source});
      break;
    case Format::text: {
      std::size_t longest = 0, sizes = 0;
      for (const auto& i : items)
        longest = std::max(longest, i.name.size()), sizes = std::max(sizes, size_of(i).size());
      for (const auto& i : items) report += entry(i, longest, sizes, std::size_t(report_width(common)));
      break;
    }
  }
  emit_report(common, report);
  return 0;
}

}  // namespace rehearsal::cli
