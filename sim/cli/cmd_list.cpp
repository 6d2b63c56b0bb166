// rehearse list: everything that exists, with one sentence each; for a configuration, every constant with its source.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/spelling.hpp"
#include "cli/kinds.hpp"
#include "page/layout.hpp"

namespace rehearsal::cli {
namespace {

CommandText list_text() {
  std::string all = "Kinds:\n";
  for (const auto& k : kinds()) all += fmt::format("  {:<12} {}\n", k.name, k.summary);
  return {"list", "KIND [NAME] | NAME",
          "Lists what exists of one kind, one sentence each; of one GPU, cluster or framework profile\n"
          "every number with its unit and source, of one model what its layers compute and keep, of one\n"
          "schedule, collective, topology or backend its facts. A name that one kind has needs no kind.",
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

// The sentence beside the name, wrapped at spaces and indented to its own beginning.
std::string entry(const Item& item, std::size_t name_width, std::size_t size_width, std::size_t width) {
  auto head = fmt::format("{:<{}}  ", item.name, name_width);
  if (size_width > 0) head += fmt::format("{:<{}}  ", size_of(item), size_width);
  return head +
         page::wrap(item.summary, std::max(head.size() + 20, width), std::string(head.size(), ' '), head.size()) + "\n";
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
          json.back()["layers"] = i.layers, json.back()["hidden"] = i.hidden;
        }
      }
      report = json.dump(2) + "\n";
      break;
    }
    case Format::csv:
      if (!items.empty() && items.front().parameters > 0) {
        report = page::csv_line({"name", "summary", "source", "layers", "hidden", "parameters", "active_parameters"});
        for (const auto& i : items)
          report += page::csv_line({i.name, i.summary, i.source, std::to_string(i.layers), std::to_string(i.hidden),
                                    fmt::format("{:.0f}", i.parameters), fmt::format("{:.0f}", i.active)});
        break;
      }
      report = page::csv_line({"name", "summary", "source"});
      for (const auto& i : items) report += page::csv_line({i.name, i.summary, i.source});
      break;
    case Format::text: {
      std::size_t longest = 0, sizes = 0;
      for (const auto& i : items)
        longest = std::max(longest, i.name.size()), sizes = std::max(sizes, size_of(i).size());
      for (const auto& i : items) report += entry(i, longest, sizes, std::size_t(text_style(common).width));
      break;
    }
  }
  emit_report(common, report);
  return 0;
}

}  // namespace rehearsal::cli
