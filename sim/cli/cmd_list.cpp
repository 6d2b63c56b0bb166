// rehearse list: what exists, one honest sentence each.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "cli/backends.hpp"
#include "cli/output.hpp"
#include "cluster/registry.hpp"
#include "collective/registry.hpp"
#include "report/layout.hpp"
#include "scenario/scenario.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::cli {
namespace {

struct Item {
  std::string name, summary, source;  // `source` of the numbers, where it comes from a file
  std::optional<bool> available;      // of backends
};

// A kind of thing that can be listed. To add one: a function that returns its items, and a line in the table.
struct Kind {
  std::string_view name;
  std::string_view summary;
  std::vector<Item> (*items)();
};

template <class Registry>
std::vector<Item> registered(const Registry& registry) {
  std::vector<Item> items;
  for (const auto& [name, plugin] : registry) items.push_back({name, plugin.summary, "", {}});
  return items;
}
std::vector<Item> schedules() { return registered(schedule::registry()); }
std::vector<Item> collectives() { return registered(collective::registry()); }
std::vector<Item> topologies() { return registered(cluster::registry()); }

std::vector<Item> listed_backends() {
  std::vector<Item> items;
  for (const auto& backend : backends()) {
    std::string can;
    for (const auto& c : backend.capabilities)
      can += fmt::format("{}{} {}{}", can.empty() ? "" : "; ", c.kind, timeline::name(c.fidelity),
                         c.note.empty() ? "" : " (" + c.note + ")");
    const auto state = backend.why ? fmt::format("Unavailable: {}.", *backend.why) : fmt::format("Available: {}.", can);
    items.push_back({backend.name, backend.summary + " " + state, "", !backend.why.has_value()});
  }
  return items;
}

std::vector<Item> configured(const char* kind) {
  std::vector<Item> items;
  for (const auto& part : scenario::list(kind)) items.push_back({part.name, part.summary, part.source, {}});
  return items;
}
std::vector<Item> models() { return configured("models"); }
std::vector<Item> clusters() { return configured("clusters"); }
std::vector<Item> gpus() { return configured("gpus"); }
std::vector<Item> software() { return configured("software"); }

constexpr std::array kKinds{
    Kind{"schedules", "pipeline schedules", schedules},
    Kind{"collectives", "collective algorithms", collectives},
    Kind{"topologies", "what a cluster can be wired as", topologies},
    Kind{"models", "networks of models/zoo", models},
    Kind{"clusters", "kinds of cluster (configs/clusters)", clusters},
    Kind{"gpus", "GPU types (configs/gpus)", gpus},
    Kind{"software", "frameworks of a day (configs/software)", software},
    Kind{"backends", "what can rehearse or perform a task graph", listed_backends},
};

CommandText command_text() {
  std::string kinds = "Kinds:\n";
  for (const auto& k : kKinds) kinds += fmt::format("  {:<12} {}\n", k.name, k.summary);
  return {"list", "KIND [OPTIONS]", "Lists what exists of one kind, one sentence each.", kinds,
          "  rehearse list schedules\n"};
}

// The sentence beside the name, broken at spaces and continued under its own beginning.
std::string entry(const Item& item, std::size_t name_width, std::size_t width) {
  std::string text = fmt::format("{:<{}}  ", item.name, name_width), line;
  const std::size_t room = std::max<std::size_t>(20, width - name_width - 2);
  std::string_view rest = item.summary;
  while (rest.size() > room) {
    auto space = rest.rfind(' ', room);
    if (space == std::string_view::npos || space == 0) space = std::min(rest.find(' '), rest.size());
    text += fmt::format("{}\n{:{}}", rest.substr(0, space), "", name_width + 2);
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return text + std::string(rest) + "\n";
}

}  // namespace

int run_list(const Arguments& arguments) {
  const CommandText text = command_text();
  CommonOptions common;
  const auto line = parse(text, {}, arguments, common);
  if (!line) return 0;
  std::vector<std::string> names;
  for (const auto& k : kKinds) names.emplace_back(k.name);
  if (line->operands.empty()) throw UserError(fmt::format("'rehearse list' needs a kind: {}", fmt::join(names, ", ")));
  const std::string& wanted = one_operand(text, *line, "one kind");
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.name == wanted; });
  if (kind == kKinds.end())
    throw UserError(fmt::format("cannot list '{}'; what exists: {}", wanted, fmt::join(names, ", ")));

  const auto items = kind->items();
  std::string report;
  switch (common.format) {
    case Format::json: {
      nlohmann::ordered_json json = nlohmann::ordered_json::array();
      for (const auto& i : items) {
        json.push_back({{"name", i.name}, {"summary", i.summary}});
        if (!i.source.empty()) json.back()["source"] = i.source;
        if (i.available) json.back()["available"] = *i.available;
      }
      report = json.dump(2) + "\n";
      break;
    }
    case Format::csv:
      report = report::csv_line({"name", "summary", "source"});
      for (const auto& i : items) report += report::csv_line({i.name, i.summary, i.source});
      break;
    case Format::text: {
      std::size_t longest = 0;
      for (const auto& i : items) longest = std::max(longest, i.name.size());
      for (const auto& i : items) report += entry(i, longest, std::size_t(report_width(common)));
      break;
    }
  }
  emit_report(common, report);
  return 0;
}

}  // namespace rehearsal::cli
