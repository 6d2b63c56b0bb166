// rehearse list: everything that exists, with one sentence each; for a configuration, every constant with its source.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/kinds.hpp"
#include "page/page.hpp"

namespace rehearsal::cli {
namespace {

CommandText list_text() {
  std::string all = "Kinds:\n";
  for (const auto& k : kinds()) all += fmt::format("  {:<14} {}\n", k.name, k.summary);
  return {"list", "KIND [NAME] | NAME",
          "Lists everything of a kind, one sentence each. With a name, shows that one: every number of a GPU, a\n"
          "cluster or a framework with its unit and source; what the layers of a model compute and keep; facts\n"
          "about a schedule, a collective, a topology or a backend. A name that only one kind has needs no kind.",
          all,
          "  rehearse list schedules\n  rehearse list gpus h100-80g-sxm\n  rehearse list models deepseek-v3\n"
          "  rehearse list zb-h1\n"};
}

// Parameters; layers times hidden: "671 B, 37.6 B active; 61 x 7168". Empty for anything but a model.
std::string size_of(const Item& item) {
  const auto count = [](double parameters) {
    const bool billions = parameters >= 1e9;
    return fmt::format("{:.{}f} {}", parameters / (billions ? 1e9 : 1e6), parameters >= 1e11 || !billions ? 0 : 1,
                       billions ? 'B' : 'M');
  };
  if (item.parameters == 0) return "";
  return fmt::format("{}{}; {} x {}", count(item.parameters),
                     item.active < item.parameters ? ", " + count(item.active) + " active" : "", item.layers,
                     item.hidden);
}

// The index of the only kind with an item of this name.
std::ptrdiff_t kind_with(const std::string& name) {
  std::vector<std::string> with, all;
  std::ptrdiff_t place = 0;
  for (std::ptrdiff_t k = 0; k < std::ssize(kinds()); k++) {
    all.emplace_back(kinds()[k].name);
    for (const auto& item : kinds()[k].items())
      if (item.name == name) with.emplace_back(kinds()[k].name), place = k;
  }
  if (with.size() == 1) return place;
  if (with.empty())
    throw UserError(fmt::format("'{}' is neither a kind nor a name that can be listed; kinds: {}", name.substr(0, 80),
                                fmt::join(all, ", ")));
  throw UserError(fmt::format("'{0}' is among {1}; say which: rehearse list {2} {0}", name, fmt::join(with, " and "),
                              with.front()));
}

}  // namespace

int run_list(Session& session, const Arguments& arguments) {
  const CommandText text = list_text();
  CommonOptions common(session);
  const auto line = parse(text, {}, arguments, common);
  if (!line) return 0;
  std::vector<std::string> names;
  for (const auto& k : kinds()) names.emplace_back(k.name);
  if (line->operands.empty())
    throw UserError(fmt::format("'rehearse list' needs a kind or a name; kinds: {}", fmt::join(names, ", ")));
  const std::string& wanted = line->operands.front();
  const std::string kept = wanted == "software" ? "frameworks" : wanted;  // the former name of the kind
  auto kind = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& k) { return k.name == kept; });
  const bool alone = kind == kinds().end();
  if (alone) kind = kinds().begin() + kind_with(wanted);
  if (line->operands.size() > (alone ? 1 : 2))
    throw UserError(fmt::format("'rehearse list {}' takes {}, found also '{}'", wanted,
                                alone ? "nothing else" : "one name and nothing else", line->operands.back()));
  if (alone || line->operands.size() == 2) {
    emit_report(common, kind->one(std::string(kind->name), line->operands.back(), common));
    return 0;
  }

  const auto items = kind->items();
  const bool sized = !items.empty() && items.front().parameters > 0;
  const auto item = listed_item();
  emit_report(common, {.text =
                           [&] {
                             page::Table table{{"", ""}, {}, {true, true, true}};
                             if (sized) table.head.emplace_back();
                             for (const auto& i : items) {
                               auto& row = table.rows.emplace_back(std::vector<page::Value>{{i.name}});
                               if (sized) row.push_back({size_of(i)});
                               row.push_back({i.summary});
                             }
                             return page::text(table, {}, text_style(common).width);
                           },
                       .json = [&] { return item.rows_of(items).dump(2) + "\n"; },
                       .csv =
                           [&] {
                             return sized ? csv(item, items,
                                                {"name", "summary", "source", "layers", "hidden", "parameters",
                                                 "active_parameters"})
                                          : csv(item, items, {"name", "summary", "source"});
                           }});
  return 0;
}

}  // namespace rehearsal::cli
