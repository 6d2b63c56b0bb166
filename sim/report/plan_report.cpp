#include "report/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/json.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using search::Found, search::Outcome, search::Space;
using Sets = std::vector<std::pair<std::string, std::string>>;

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

Json json_of(const Sets& sets) {
  auto json = Json::object();
  for (const auto& [key, value] : sets) {
    const auto read = Json::read(value);
    json[key] = read && (read->is_number() || read->is_boolean()) ? *read : Json(value);
  }
  return json;
}

// Where a layout is slower and faster than another: the parts of its iteration that differ by at least a thousandth of
// it, largest first.
std::string against(const Found& one, const Found& best) {
  struct Part {
    Time more;
    graph::Category category;
  };
  std::vector<Part> parts;
  const auto& a = one.full.summary;
  const auto& b = best.full.summary;
  for (std::size_t c = 0; c < a.breakdown.size(); ++c)
    parts.push_back({a.breakdown[c] - b.breakdown[c], static_cast<graph::Category>(c)});
  const auto size = [](Time t) { return std::max(t, Time{} - t); };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const auto& x, const auto& y) { return size(x.more) > size(y.more); });
  std::string text;
  for (const auto& part : parts) {
    if (size(part.more).count() * 1000 < b.iteration.count()) break;
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", part.more < Time{} ? "-" : "+", show(size(part.more)),
                        graph::name(part.category));
  }
  return text.empty() ? "the same to a thousandth" : text;
}

std::string space_text(const Outcome& outcome) {
  const auto& c = outcome.counts;
  return fmt::format(
      "{} layouts: {} do not fit by the states that they keep, {}{} are ruled out by a bound of their time{}, {} were "
      "priced. {} of these were priced in full, with contention: {} do not fit{}. {} sets of stage times served all.",
      grouped(c.layouts), grouped(c.cut_memory),
      c.cut_limits ? fmt::format("{} are too late or too dear by a bound, ", grouped(c.cut_limits)) : "",
      grouped(c.cut_bound),
      c.refused ? fmt::format(", {} are refused by rules that only a plan knows", grouped(c.refused)) : "",
      grouped(c.priced), grouped(c.simulated), grouped(c.unfit),
      c.missed ? fmt::format(", {} are too late or too dear", grouped(c.missed)) : "", grouped(c.stagings));
}

std::string refusal_text(const Outcome& outcome, std::size_t width) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, outcome.refusals.size()); ++i) {
    const auto& [layout, why, layouts] = outcome.refusals[i];
    text += wrap(fmt::format("  {} refused, such as tensor {}, context {}, pipeline {}, data {}, zero {}, micro {}: {}",
                             grouped(layouts), layout.tensor, layout.context, layout.pipeline, layout.data, layout.zero,
                             layout.micro, why),
                 width, "    ") +
            "\n";
  }
  if (outcome.refusals.size() > kShown)
    text += fmt::format("  and for {} other reasons (--format json names all)\n", outcome.refusals.size() - kShown);
  return text;
}

// The objective's value for the best layout.
struct Wanted {
  const char *better, *unit;
};
Wanted wanted(const Space& space) {
  using Objective = scenario::PlanSpace::Objective;
  switch (space.file().space.objective) {
    case Objective::gpus:
      return {"needs fewer GPUs or is faster", "smaller or faster"};
    case Objective::cost:
      return {"is cheaper", "cheaper"};
    case Objective::time:
      break;
  }
  return {"is faster", "faster"};
}

const job::Job* job_of(const Space& space) {
  const auto& job = space.file().bases.front().scenario.job;
  return job ? &*job : nullptr;
}
std::string money(const Space& space, double amount) { return show(Count(amount)) + " " + job_of(space)->currency; }

const job::Totals* training(const Found& found) { return found.run ? &*found.run : nullptr; }

std::string training_text(const Space& space, const job::Totals& run) {
  return fmt::format("{:.1f} days, {} GPU-hours{}{}", run.days, show(Count(run.gpu_hours)),
                     run.cost ? ", " + money(space, *run.cost) : "",
                     job_of(space)->failures ? fmt::format("; {:.1f} % of the time trains", run.goodput * 100) : "");
}

// Results first, then the layout. `list`: the name of the list in JSON.
Table table_of(const Space& space, const std::vector<Found>& all, const std::string& list) {
  Table table{{"#"}, {}, {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& found = all[i];
    auto& cells = table.rows.emplace_back();
    const auto cell = [&](const char* head, Value value) {
      if (i == 0) table.head.emplace_back(head);
      cells.push_back(std::move(value));
    };
    cells.push_back({std::to_string(i + 1)});
    const auto json = fmt::format("/{}/{}/", list, i);
    cell("iteration", {show(found.iteration), to_seconds(found.iteration), json + "iteration_s"});
    cell("alone", {show(found.alone), to_seconds(found.alone), json + "alone_s"});
    cell("memory", {show(bytes(found.device)), found.device, list == "top" ? "" : json + "device_bytes"});
    if (const auto* run = training(found)) {
      const auto of_job = list == "top" ? json + "job/" : json;
      cell("days", {fmt::format("{:.2f}", run->days), run->days, of_job + "days"});
      cell("GPU-hours", {show(Count(run->gpu_hours)), run->gpu_hours, of_job + "gpu_hours"});
      cell("cost", run->cost ? Value{money(space, *run->cost), *run->cost, of_job + "cost"} : Value{});
      cell("goodput %", {fmt::format("{:.1f}", run->goodput * 100), run->goodput, of_job + "goodput"});
    }
    const auto gpus = space.gpus(found.layout);
    cell("GPUs", {std::to_string(gpus), double(gpus), json + "gpus"});
    for (const auto& [key, value] : space.sets(found.layout)) cell(last_part(key).c_str(), {value});
  }
  return table;
}

// A layout in a few letters, part by part; a part without effect is empty.
std::vector<std::string> letters(const Space& space, const search::Layout& l) {
  const auto degree = [](char letter, std::int64_t n) { return n > 1 ? fmt::format("{}{}", letter, n) : ""; };
  std::vector<std::string> parts;
  for (const auto& set : space.file().bases[l.base].sets)  // cluster size, framework
    parts.push_back(set.starts_with("framework=") ? set.substr(set.find('=') + 1) : last_part(set));
  parts.push_back(fmt::format("t{}{}", l.tensor, l.sequence ? "s" : ""));
  parts.push_back(degree('c', l.context));
  parts.push_back(degree('p', l.pipeline) + (l.chunks > 1 ? fmt::format("x{}", l.chunks) : ""));
  parts.push_back(fmt::format("d{}", l.data));
  parts.push_back(degree('e', l.expert));
  parts.push_back(fmt::format("z{}", l.zero));
  parts.push_back(fmt::format("b{}", l.micro));
  parts.push_back(space.schedules()[l.schedule]);
  parts.push_back(l.recompute == models::Recompute::none ? "" : scenario::name(l.recompute));
  const auto& offload = space.file().space.offload[l.offload];
  parts.push_back(offload.states.any() ? offload.text : "");
  return parts;
}
constexpr const char* kLetters =
    "t tensor (s: sequence parallel), c context, p pipeline x chunks, d data, e expert, z ZeRO, b micro-batch";

// One line per layout, within the width: results first, then the layout without the parts that all share.
std::string lines_of(const Space& space, const std::vector<Found>& all, int width) {
  std::vector<std::vector<std::string>> parts;
  for (const auto& found : all) parts.push_back(letters(space, found.layout));
  std::string shared;
  for (std::size_t i = 0; all.size() > 1 && i < parts.front().size(); ++i) {
    const auto first = parts.front()[i];
    if (first.empty() || std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p[i] != first; }))
      continue;
    shared += " " + first;
    for (auto& p : parts) p[i].clear();
  }
  const bool trains = !all.empty() && training(all.front());
  std::string text = fmt::format("{:>3}  {:>10}  {:>10}  {:>10}", "#", "iteration", "alone", "memory");
  if (trains) text += fmt::format("  {:>7}  {:>9}", "days", "cost");
  const auto begin = text.size() + 2;
  text += "  layout\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& found = all[i];
    text += fmt::format("{:>3}  {:>10}  {:>10}  {:>10}", i + 1, show(found.iteration), show(found.alone),
                        show(bytes(found.device)));
    if (trains) {
      const auto& run = *training(found);
      text += fmt::format("  {:>7.2f}  {:>9}", run.days, run.cost ? show(Count(*run.cost)) : "");
    }
    auto column = begin - 2;
    bool first = true;
    for (const auto& part : parts[i]) {
      if (part.empty()) continue;
      if (!first && column + 1 + part.size() > std::size_t(width)) {
        column = std::min(begin, std::size_t(width) - std::min(part.size(), std::size_t(width)));
        text += "\n" + std::string(column, ' ');
      } else {
        text += first ? "  " : " ", column += first ? 2 : 1;
      }
      text += part, column += part.size(), first = false;
    }
    text += "\n";
  }
  if (!shared.empty()) text += wrap("     in all:" + shared, std::size_t(width), "       ") + "\n";
  return text;
}

// Quoted for a shell.
std::string command_text(const Space& space, const search::Layout& layout, int width, const std::string& begin) {
  std::string text = begin, line = begin;
  for (const auto& [key, value] : space.sets(layout)) {
    const auto set =
        fmt::format(" --set {}={}", key, value.find_first_of("{ ") == std::string::npos ? value : "'" + value + "'");
    if (line.size() + set.size() + 2 > std::size_t(width)) text += " \\\n   ", line = "   ";
    text += set, line += set;
  }
  return text + "\n";
}
std::string command_text(const Space& space, const search::Layout& layout, int width) {
  return command_text(space, layout, width, "  rehearse run " + space.file().path);
}

std::string lacking(const Space& space, const Outcome& outcome, int width) {
  const auto& near = *outcome.nearest;
  return wrap(
             fmt::format(
                 "Nothing fits: the layout whose states lack least needs {} of a GPU that has {}, {:.2f} GiB too many:",
                 show(bytes(near.device)), show(bytes(near.capacity)), (near.device - near.capacity) / double(1 << 30)),
             std::size_t(width)) +
         "\n" + command_text(space, near.layout, width);
}

// How far a layout is behind the best, in the objective and in time, and why.
std::string loss(const Space& space, const Found& one, const Found& best) {
  const auto with_sign = [](bool less, const std::string& amount) { return (less ? "-" : "+") + amount; };
  const Time mine = one.iteration, its = best.iteration;
  const auto text = with_sign(mine < its, show(mine < its ? its - mine : mine - its)) + " = " + against(one, best);
  if (space.file().space.objective != scenario::PlanSpace::Objective::cost) return text;
  const double more = *training(one)->cost - *training(best)->cost;
  return with_sign(more < 0, money(space, std::abs(more))) + "; " + text;
}

// The limit that no layout meets, and by how much it is missed.
std::string out_of_reach(const Space& space, const Outcome& outcome, int width) {
  const auto goal = search::goal_of(space.file().space);
  const auto& closest = *outcome.closest;
  const auto& run = *training(closest);
  std::string text;
  if (!goal.in_time(run))
    text = fmt::format("Nothing that fits is done within {:.2f} days: the fastest takes {:.2f}, {:.2f} too many",
                       *goal.deadline_days, run.days, run.days - *goal.deadline_days);
  else
    text = fmt::format("Nothing that fits{} costs {} or less: the cheapest costs {}, {} too much",
                       goal.deadline_days ? fmt::format(" and is done within {:.2f} days", *goal.deadline_days) : "",
                       money(space, *goal.budget), money(space, *run.cost), money(space, *run.cost - *goal.budget));
  return wrap(text + ":", std::size_t(width)) + "\n" + command_text(space, closest.layout, width) + "  " +
         training_text(space, run) + "\n";
}

std::string nothing(const Space& space, const Outcome& outcome, int width) {
  if (outcome.closest) return out_of_reach(space, outcome, width);
  if (outcome.nearest) return lacking(space, outcome, width);
  if (outcome.stopped) return "Stopped before a layout was found to fit; give the search more time.\n";
  return "All layouts are refused by rules of the plan or the schedule.\n";
}

}  // namespace

std::string proof_text(const Space& space, const Outcome& outcome) {
  const auto& limits = space.file().space;
  const auto& c = outcome.counts;
  if (c.anomalies > 0)
    return fmt::format("Not proven: {} layouts were faster than the bound that was taken for theirs.",
                       grouped(c.anomalies));
  if (outcome.proven) {
    auto text = fmt::format("Proven: no layout of this space that fits{} {}; that took {} predictions with contention.",
                            limits.deadline || limits.budget ? " and keeps to the limits" : "", wanted(space).better,
                            grouped(c.simulated));
    if (outcome.places < outcome.top.size())
      text +=
          outcome.places > 1 ? fmt::format(" Places 1 to {} are proven, the others", outcome.places) : " The others";
    return outcome.places < outcome.top.size() ? text + " are the best of these." : text;
  }
  if (outcome.gap >= 1) return "Stopped before all families had a bound: how far the optimum may be is not known.";
  return fmt::format("Stopped: the best of this space may be {} by up to {:.1f} %.", wanted(space).unit,
                     outcome.gap * 100);
}

Table plan_table(const Space& space, const Outcome& outcome) { return table_of(space, outcome.top, "top"); }

std::string plan_text(const Space& space, const Outcome& outcome, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& base = space.file().bases.front().scenario;
  const auto width = static_cast<std::size_t>(style.width);
  std::string searched = wrap(space_text(outcome), width) + "\n" + refusal_text(outcome, width);
  for (const auto& note : space.file().notes) searched += wrap("warning: " + note, width, "  ") + "\n";
  std::string text = paint.bold(wrap(base.name, width, "  ")) + "\n";
  if (outcome.top.empty()) return text + searched + "\n" + nothing(space, outcome, style.width);
  const auto& best = outcome.top.front();
  text += wrap(fmt::format("The best: {} per iteration, {} of it contention; {} of {} on the fullest GPU{}.",
                           show(best.iteration), show(best.iteration - best.alone), show(bytes(best.device)),
                           show(bytes(best.full.summary.capacity.value_or(0))),
                           training(best) ? "; " + training_text(space, *training(best)) : ""),
               width) +
          "\n";
  text += command_text(space, best.layout, style.width);
  text += wrap(proof_text(space, outcome), width) + "\n";
  text += "\n" + paint.bold(fmt::format("The best {}, as `run` predicts them", outcome.top.size())) + "\n";
  text += lines_of(space, outcome.top, style.width);
  if (outcome.top.size() > 1) text += "\n" + paint.bold("Why the others lose") + "\n";
  for (std::size_t i = 1; i < outcome.top.size(); ++i)
    text += wrap(fmt::format("  {:>2}: {}", i + 1, loss(space, outcome.top[i], best)), width, "      ") + "\n";
  text += "\n" +
          paint.bold(wrap(fmt::format("Nothing else predicted is better in time, memory{} and as good in the others",
                                      job_of(space) ? ", GPUs or cost" : " or GPUs"),
                          width)) +
          "\n";
  text += lines_of(space, search::front(space, outcome.found), style.width);
  text += "\n" + paint.bold("What was searched") + "\n" + searched;
  text += wrap(fmt::format("iteration: as `run` says it, with contention; alone: nobody takes anything from anybody; "
                           "memory: what the fullest GPU holds; layout: {}.",
                           kLetters),
               width) +
          "\n";
  return text;
}

std::string plan_json(const Space& space, const Outcome& outcome) {
  const auto& c = outcome.counts;
  Json json{{"layouts", c.layouts},
            {"priced", c.priced},
            {"proven", outcome.proven},
            {"gap", outcome.gap},
            {"cut", {{"memory", c.cut_memory}, {"bound", c.cut_bound}, {"refused", c.refused}}},
            {"simulated", c.simulated},
            {"proven_places", outcome.places},
            {"unfit", c.unfit},
            {"stagings", c.stagings},
            {"best", nullptr}};
  const auto goal = search::goal_of(space.file().space);
  if (goal.limited())
    json["limits"] = {{"deadline_days", goal.deadline_days}, {"budget", goal.budget}, {"met", !outcome.top.empty()}},
    json["cut"]["limits"] = c.cut_limits, json["missed"] = c.missed;
  auto refusals = Json::array();
  for (const auto& [layout, why, layouts] : outcome.refusals)
    refusals.push_back({{"set", json_of(space.sets(layout))}, {"why", why}, {"layouts", layouts}});
  json["refusals"] = std::move(refusals), json["warnings"] = space.file().notes;
  const auto add_run = [](Json& to, const job::Totals* run) {
    if (!run) return;
    to["days"] = run->days, to["gpu_hours"] = run->gpu_hours, to["cost"] = run->cost, to["goodput"] = run->goodput;
  };
  const auto entry = [&](const Found& found) {
    Json one{{"set", json_of(space.sets(found.layout))}};
    one["alone_s"] = to_seconds(found.alone);
    one.update(to_json(found.full));
    return one;
  };
  auto top = Json::array(), pareto = Json::array();
  for (const auto& found : outcome.top) {
    auto one = entry(found);
    if (&found != &outcome.top.front()) one["against_best"] = against(found, outcome.top.front());
    top.push_back(std::move(one));
  }
  for (const auto& found : search::front(space, outcome.found)) {
    pareto.push_back({{"set", json_of(space.sets(found.layout))},
                      {"iteration_s", to_seconds(found.iteration)},
                      {"alone_s", to_seconds(found.alone)},
                      {"device_bytes", number(found.device)},
                      {"gpus", space.gpus(found.layout)}});
    add_run(pareto.back(), training(found));
  }
  if (!outcome.top.empty()) json["best"] = entry(outcome.top.front());
  json["top"] = std::move(top), json["pareto"] = std::move(pareto);
  if (outcome.nearest)
    json["nearest"] = {{"set", json_of(space.sets(outcome.nearest->layout))},
                       {"device_bytes", number(outcome.nearest->device)},
                       {"lacks_bytes", number(outcome.nearest->device - outcome.nearest->capacity)}};
  if (outcome.closest) {
    auto& closest = json["closest"] = entry(*outcome.closest);
    add_run(closest, training(*outcome.closest));
  }
  return json.dump(2) + "\n";
}

std::string plan_csv(const Space& space, const Outcome& outcome) {
  std::vector<std::string> heading{"rank"};
  const auto names = outcome.top.empty() ? Sets{} : space.sets(outcome.top.front().layout);
  for (const auto& [key, value] : names) heading.push_back(key);
  heading.insert(heading.end(), {"iteration_s", "alone_s", "samples_per_s", "mfu", "device_bytes", "gpus", "proven"});
  if (job_of(space)) heading.insert(heading.end(), {"days", "gpu_hours", "job_cost", "goodput"});
  std::string csv = csv_line(heading);
  for (std::size_t i = 0; i < outcome.top.size(); ++i) {
    const auto& found = outcome.top[i];
    const auto& s = found.full.summary;
    std::vector<std::string> cells{std::to_string(i + 1)};
    for (const auto& [key, value] : space.sets(found.layout)) cells.push_back(value);
    const auto cell = [](const auto& value) { return value ? fmt::format("{}", *value) : ""; };
    cells.insert(cells.end(),
                 {fmt::format("{}", to_seconds(found.iteration)), fmt::format("{}", to_seconds(found.alone)),
                  cell(s.samples_per_s), cell(s.mfu), fmt::format("{}", found.device),
                  std::to_string(space.gpus(found.layout)), outcome.proven ? "true" : "false"});
    if (const auto* run = training(found))
      cells.insert(cells.end(), {fmt::format("{}", run->days), fmt::format("{}", run->gpu_hours), cell(run->cost),
                                 fmt::format("{}", run->goodput)});
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace rehearsal::report
