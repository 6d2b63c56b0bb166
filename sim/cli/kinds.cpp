#include "cli/kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/spelling.hpp"
#include "cli/performer.hpp"
#include "cluster/registry.hpp"
#include "collective/registry.hpp"
#include "interchange/format.hpp"
#include "page/page.hpp"
#include "report/model_report.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/scenario.hpp"
#include "scenario/schema.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::cli {
namespace {

using report::Shown, scenario::Constant;

struct FactsOf {
  std::string kind;
  const Item& item;
};

template <class Registry>
std::vector<Item> registered(const Registry& registry) {
  std::vector<Item> items;
  for (const auto& [name, plugin] : registry) items.push_back({.name = name, .summary = plugin.summary});
  return items;
}
std::string yes_no(bool yes) { return yes ? "yes" : "no"; }

// In the order of schedule::Placement.
constexpr const char* kPlaced[]{"stage s on rank s modulo the ranks",
                                "rank r holds stages r and 2p-1-r",
                                "chunks go down and up the ranks in turn",
                                "two copies of the model in opposite directions",
                                "stage s on rank s, and a part of the vocabulary on each rank",
                                "as its file says"};

std::vector<Item> schedules() {
  auto items = registered(schedule::registry());
  for (auto& item : items) {
    const auto& s = schedule::registry().at(item.name);
    const bool flushes = s.updates == schedule::Updates::at_flush;
    item.facts = {{"stages", kPlaced[std::size_t(s.placement)]},
                  {"chunks per rank", s.min_chunks == s.max_chunks ? fmt::format("{}", s.min_chunks)
                                                                   : fmt::format("{} or more", s.min_chunks)},
                  {"splits the backward", yes_no(s.splits_backward)},
                  {"cuts sequences", yes_no(s.cuts_sequences)},
                  {"graphs of stages", yes_no(s.any_graph)},
                  {"updates", flushes ? "after all micro-batches" : "while others are under way, with old weights"},
                  {"searched for", yes_no(bool(s.plan))},
                  {"closed form", yes_no(bool(s.closed_form))}};
    if (!s.one_chunk.empty()) item.facts.insert(item.facts.begin() + 2, {"with one chunk", s.one_chunk});
  }
  return items;
}
std::vector<Item> collectives() {
  auto items = registered(collective::registry());
  const auto libraries = scenario::named_libraries();
  for (auto& item : items) {
    const auto& a = collective::registry().at(item.name);
    item.facts = {{"does", name(a.kind)},
                  {"pieces at once", yes_no(a.pipelined)},
                  {"across nodes", a.across_nodes ? "one kind of wire inside, another between" : "one kind of wire"}};
    for (const auto& library : libraries) {
      const auto entry = library.algorithms.find(item.name);
      item.facts.emplace_back(
          library.title, entry == library.algorithms.end() ? "never runs it" : "since " + show(entry->second.since));
    }
    if (!a.needs.empty()) item.facts.emplace_back("needs", a.needs);
  }
  return items;
}
std::vector<Item> topologies() {
  auto items = registered(cluster::registry());
  for (auto& item : items) {
    const auto& topology = cluster::registry().at(item.name);
    using Role = cluster::Topology::Role;
    item.facts.emplace_back("wires", topology.role == Role::node     ? "the GPUs of a node"
                                     : topology.role == Role::fabric ? "nodes"
                                                                     : "GPUs of all nodes");
    std::vector<std::string> parameters;
    for (const auto& p : topology.parameters) {
      parameters.push_back(fmt::format("{}: {} ({})", p.name, p.fallback, p.help));
      item.facts.emplace_back(p.name,
                              fmt::format("{}; {} to {}, {} where it is not given", p.help, p.low, p.high, p.fallback));
    }
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
    items.push_back(
        {.name = backend.name, .summary = backend.summary + " " + state, .available = !backend.why.has_value()});
  }
  return items;
}

std::vector<Item> configured(const char* kind) {
  std::vector<Item> items;
  for (const auto& part : scenario::list(kind))
    items.push_back({.name = part.name, .summary = part.summary, .source = part.source});
  return items;
}
std::vector<Item> models() {
  auto items = configured("models");
  for (auto& item : items) {
    const auto model = scenario::named_model(item.name);
    item.parameters = models::parameters(model), item.active = models::active_parameters(model);
    item.layers = model.layers, item.hidden = model.hidden;
  }
  return items;
}
std::vector<Item> clusters() { return configured("clusters"); }
std::vector<Item> gpus() { return configured("gpus"); }
std::vector<Item> interconnects() { return configured("interconnects"); }
std::vector<Item> libraries() { return configured("libraries"); }
std::vector<Item> frameworks() { return configured("frameworks"); }

std::string closed_forms(const std::string&, const std::string& name, const CommonOptions& common) {
  const auto model = scenario::named_model(name);
  if (common.format == Format::csv) throw UserError("'rehearse list models NAME' has no csv; use text or json");
  return common.format == Format::json ? report::model_answer().json_text(model) : report::model_text(model);
}

// "450GB/s" is a number with unit; "rail-optimized" is not.
struct Quantity {
  Json value;
  std::optional<std::string> unit = {};
};
Quantity quantity(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end == text.c_str() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.'))
    return {text};
  const std::string unit = end;  // a list or a name that begins with a digit has none
  return unit.find_first_of("0123456789 ,") != std::string::npos ? Quantity{text} : Quantity{number, unit};
}

Shown<Constant> listed_constant(const std::string& kind) {
  return Shown<Constant>("A number of a file, in its unit, or a text.")
      .figure("key", &Constant::key)
      .also(Shown<Quantity>().figure("value", &Quantity::value).figure("unit", &Quantity::unit).or_left_out(),
            [](auto& c) { return quantity(c.value); })
      .also(Shown<Constant>()
                .figure("source", &Constant::source)
                .figure("assumed", report::Unit::none, "not measured", &Constant::assumed),
            [](auto& c) { return c.source.empty() ? nullptr : &c; })
      .figure("meaning",
              [kind](auto& c) {
                const auto row = scenario::key_of(kind, c.key);
                return row && !row->help.empty() ? Json(row->help) : Json();
              })
      .or_left_out();
}

std::string constants_report(const std::string& kind, const std::string& name, const CommonOptions& common) {
  const auto all = scenario::constants(kind, name);
  std::string report;
  switch (common.format) {
    case Format::json:
      return listed_constant(kind).rows_of(all).dump(2) + "\n";
    case Format::csv:
      report = page::csv_line({"key", "value", "source", "assumed"});
      for (const auto& c : all) report += page::csv_line({c.key, c.value, c.source, c.assumed ? "yes" : "no"});
      return report;
    case Format::text: {
      std::size_t keys = 0, values = 0;
      for (const auto& c : all) {
        keys = std::max(keys, c.key.size());
        if (!c.source.empty()) values = std::max(values, c.value.size());
      }
      const std::size_t width = std::size_t(text_style(common).width), beside = keys + values + 4;
      const bool below = beside + 40 > width;  // not enough room for file names beside it
      const std::size_t indent = below ? 6 : beside;
      for (const auto& c : all) {
        const std::string said = (c.assumed ? "assumed: " : "") + c.source;
        const std::string margin(indent, ' ');
        report += fmt::format("{:<{}}  {}", c.key, keys, c.value);
        if (!said.empty())
          report += (below ? "\n" + margin : std::string(values + 2 - std::min(values, c.value.size()), ' ')) +
                    page::wrap(said, std::max(indent + 30, width), margin, indent);
        report += "\n";
      }
      return report;
    }
  }
  return report;
}

Shown<FactsOf> listed_facts() {
  return Shown<FactsOf>("A plug-in.")
      .figure("name", [](auto& f) { return f.item.name; })
      .figure("kind", &FactsOf::kind)
      .figure("summary", [](auto& f) { return f.item.summary; })
      .named(
          "facts", report::Unit::none, "facts", "", [](auto& f) -> auto& { return f.item.facts; })
      .figure("available", [](auto& f) { return f.item.available; })
      .or_left_out();
}

std::string facts_report(const std::string& kind, const std::string& name, const CommonOptions& common) {
  const auto known = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& k) { return k.name == kind; });
  const auto items = known->items();
  std::vector<std::string> names;
  for (const auto& i : items) names.push_back(i.name);
  const auto item = std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.name == name; });
  if (item == items.end())
    throw UserError(fmt::format("there is no '{}' among the {}{}", name, kind, suggestion(name, names)));
  if (common.format == Format::json) return listed_facts().json_text({kind, *item});
  auto csv = page::csv_line({"key", "value"});
  page::Facts facts;
  for (const auto& [what, value] : item->facts)
    csv += page::csv_line({what, value}), facts.facts.push_back({what, {value}});
  return common.format == Format::csv
             ? csv
             : page::text({item->name, "  " + item->summary, {{"", {{"", facts}}}}, ""}, text_style(common));
}

std::vector<Item> formats() {
  std::vector<Item> items;
  for (const auto& [name, format] : interchange::registry()) {
    const bool read = format.read, written = format.write || format.writes_graph;
    items.push_back({.name = name,
                     .summary = format.summary,
                     .facts = {{"is", format.title},
                               {"commands", read && written ? "import, export"
                                            : read          ? "import"
                                                            : "export"}}});
  }
  return items;
}

constexpr std::array kKinds{
    Kind{"schedules", "pipeline schedules; with a name, its facts", schedules, facts_report},
    Kind{"collectives", "collective algorithms; with a name, what it does and which libraries run it", collectives,
         facts_report},
    Kind{"topologies", "how GPUs and nodes are wired; with a name, its parameters", topologies, facts_report},
    Kind{"models", "models (models/zoo); with a name, FLOPs and bytes of its layers", models, closed_forms},
    Kind{"clusters", "clusters (configs/clusters); with a name, its numbers", clusters, constants_report},
    Kind{"gpus", "GPUs (configs/gpus); with a name, its numbers", gpus, constants_report},
    Kind{"interconnects", "links between GPUs (configs/interconnects); with a name, its numbers", interconnects,
         constants_report},
    Kind{"libraries", "collective libraries (configs/libraries); with a name, their algorithms", libraries,
         constants_report},
    Kind{"frameworks", "frameworks and their releases (configs/frameworks); with a name, its numbers", frameworks,
         constants_report},
    Kind{"formats", "files of other tools that import and export know", formats, facts_report},
    Kind{"backends", "what can rehearse or perform a task graph", listed_backends, facts_report},
};

}  // namespace

std::span<const Kind> kinds() { return kKinds; }

Shown<Item> listed_item() {
  const auto of_a_model = [](const Item& item) { return item.parameters > 0 ? &item : nullptr; };
  return Shown<Item>("What there is of a kind.")
      .figures(report::Unit::none, "name", &Item::name, "summary", &Item::summary)
      .figure("source", [](auto& item) { return item.source.empty() ? Json() : Json(item.source); })
      .or_left_out()
      .figure("available", &Item::available)
      .or_left_out()
      .also(Shown<Item>()
                .figure("parameters", [](auto& item) { return std::llround(item.parameters); })
                .figure("active_parameters", [](auto& item) { return std::llround(item.active); })
                .figures(report::Unit::none, "layers", &Item::layers, "hidden", &Item::hidden),
            of_a_model);
}

std::vector<report::AnswerOf> list_answers() {
  return {{"list KIND", listed_item(), true},
          {"list KIND NAME", listed_constant(""), true},
          {"list KIND NAME of a plug-in", listed_facts()}};
}

}  // namespace rehearsal::cli
