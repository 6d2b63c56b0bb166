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

// What a layout loses against another, and what it gains: the parts of its iteration that differ by a thousandth of it
// or more, the largest first.
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
      "priced{}. {} graphs were simulated, of which {} did not fit; {} sets of stage times served all.",
      grouped(c.layouts), grouped(c.cut_memory),
      c.cut_limits ? fmt::format("{} are too late or too dear by a bound, ", grouped(c.cut_limits)) : "",
      grouped(c.cut_bound),
      c.refused ? fmt::format(", {} are refused by rules that only a plan knows", grouped(c.refused)) : "",
      grouped(c.priced), c.missed ? fmt::format(", of which {} are too late or too dear", grouped(c.missed)) : "",
      grouped(c.simulated), grouped(c.unfit), grouped(c.stagings));
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

// What was asked for of the best.
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

// Of the whole training: by the full prediction where there is one.
const job::Totals* training(const Found& found) {
  if (found.full.summary.job) return &found.full.summary.job->expected;
  return found.run ? &*found.run : nullptr;
}

std::string training_text(const Space& space, const job::Totals& run) {
  return fmt::format("{:.1f} days, {} GPU-hours{}{}", run.days, show(Count(run.gpu_hours)),
                     run.cost ? ", " + money(space, *run.cost) : "",
                     job_of(space)->failures ? fmt::format("; {:.1f} % of the time trains", run.goodput * 100) : "");
}

// `full`: with what the full prediction says.
Table table_of(const Space& space, const std::vector<Found>& all, bool full) {
  Table table{{"#"}, {}, {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& found = all[i];
    const auto& s = found.full.summary;
    auto& cells = table.rows.emplace_back();
    const auto cell = [&](const char* head, Value value) {
      if (i == 0) table.head.emplace_back(head);
      cells.push_back(std::move(value));
    };
    cells.push_back({std::to_string(i + 1)});
    for (const auto& [key, value] : space.sets(found.layout)) cell(last_part(key).c_str(), {value});
    const auto json = fmt::format("/{}/{}/", full ? "top" : "pareto", i);
    if (full) cell("iteration", {show(s.iteration), to_seconds(s.iteration), json + "iteration_s"});
    cell("alone", {show(found.iteration), to_seconds(found.iteration), json + "alone_s"});
    if (full) cell("MFU %", s.mfu ? Value{fmt::format("{:.2f}", *s.mfu * 100), *s.mfu, json + "mfu"} : Value{});
    cell("memory", {show(bytes(found.device)), found.device, full ? "" : json + "device_bytes"});
    const auto gpus = space.gpus(found.layout);
    cell("GPUs", {std::to_string(gpus), double(gpus), json + "gpus"});
    if (const auto* run = training(found)) {
      const auto of_job = full ? json + "job/" : json;
      cell("days", {fmt::format("{:.2f}", run->days), run->days, of_job + "days"});
      cell("GPU-hours", {show(Count(run->gpu_hours)), run->gpu_hours, of_job + "gpu_hours"});
      cell("cost", run->cost ? Value{money(space, *run->cost), *run->cost, of_job + "cost"} : Value{});
      cell("goodput %", {fmt::format("{:.1f}", run->goodput * 100), run->goodput, of_job + "goodput"});
    }
  }
  return table;
}

std::string set_text(const Sets& sets) {
  std::string text;
  for (const auto& [key, value] : sets)
    text +=
        fmt::format(" --set {}={}", key, value.find_first_of("{ ") == std::string::npos ? value : "'" + value + "'");
  return text;
}

std::string lacking(const Space& space, const Outcome& outcome, int width) {
  const auto& near = *outcome.nearest;
  return wrap(
             fmt::format(
                 "Nothing fits: the layout whose states lack least needs {} of a GPU that has {}, {:.2f} GiB too many:",
                 show(bytes(near.device)), show(bytes(near.capacity)), (near.device - near.capacity) / double(1 << 30)),
             std::size_t(width)) +
         "\n " + set_text(space.sets(near.layout)) + "\n";
}

// By how much a layout is behind the best, in what was asked for and in time, and where that comes from.
std::string loss(const Space& space, const Found& one, const Found& best) {
  const auto with_sign = [](bool less, const std::string& amount) { return (less ? "-" : "+") + amount; };
  const Time mine = one.full.summary.iteration, its = best.full.summary.iteration;
  const auto text = with_sign(mine < its, show(mine < its ? its - mine : mine - its)) + " = " + against(one, best);
  if (space.file().space.objective != scenario::PlanSpace::Objective::cost) return text;
  const double more = *training(one)->cost - *training(best)->cost;
  return with_sign(more < 0, money(space, std::abs(more))) + "; " + text;
}

// Which limit nothing keeps to, and by how much it is missed.
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
  return wrap(text + ":", std::size_t(width)) + "\n " + set_text(space.sets(closest.layout)) + "\n " +
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
  if (outcome.proven)
    return fmt::format("Proven: no layout of this space that fits{} {}, as long as works take nothing from each other.",
                       limits.deadline || limits.budget ? " and keeps to the limits" : "", wanted(space).better);
  if (outcome.gap >= 1) return "Stopped before all families had a bound: how far the optimum may be is not known.";
  return fmt::format("Stopped: the best of this space may be {} by up to {:.1f} %.", wanted(space).unit,
                     outcome.gap * 100);
}

Table plan_table(const Space& space, const Outcome& outcome) { return table_of(space, outcome.top, true); }

std::string plan_text(const Space& space, const Outcome& outcome, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& base = space.file().bases.front().scenario;
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = paint.bold(base.name) + "\n";
  text += wrap(space_text(outcome), width) + "\n";
  text += refusal_text(outcome, width);
  if (outcome.top.empty()) return text + "\n" + nothing(space, outcome, style.width);
  text += wrap(proof_text(space, outcome), width) + "\n";
  if (!outcome.met)
    text += wrap(fmt::format("With contention none of the best {} keeps to the limits, which alone they all do.",
                             outcome.top.size()),
                 width) +
            "\n";
  const auto& best = outcome.top.front();
  text += "\n" + paint.bold("The best") + "\n";
  text += fmt::format("  {} per iteration, {} when nothing is in its way; {} of {} on the fullest GPU\n",
                      show(best.full.summary.iteration), show(best.iteration), show(bytes(best.device)),
                      show(bytes(best.full.summary.capacity.value_or(0))));
  if (const auto* run = training(best)) text += "  " + training_text(space, *run) + "\n";
  text +=
      wrap(fmt::format("  rehearse run {}{}", space.file().path, set_text(space.sets(best.layout))), width, "    ") +
      "\n";
  text += "\n" + paint.bold(fmt::format("The best {}, by their full prediction", outcome.top.size())) + "\n";
  text += page::text(plan_table(space, outcome), paint);
  if (outcome.top.size() > 1) text += "\n" + paint.bold("Why the others lose") + "\n";
  for (std::size_t i = 1; i < outcome.top.size(); ++i)
    text += wrap(fmt::format("  {:>2}: {}", i + 1, loss(space, outcome.top[i], best)), width, "      ") + "\n";
  text += "\n" +
          paint.bold(fmt::format("Nothing else found is better in time, memory, GPUs{} and as good in the others",
                                 job_of(space) ? " or cost" : "")) +
          "\n";
  text += page::text(table_of(space, search::front(space, outcome.found), false), paint);
  text += "\n" +
          wrap(
              "iteration: as `run` says it, with contention; alone: nobody takes anything from anybody, by which "
              "layouts were searched; memory: what the fullest GPU holds.",
              width) +
          "\n";
  return text;
}

std::string plan_json(const Space& space, const Outcome& outcome, const std::string& version) {
  const auto& c = outcome.counts;
  Json json{{"layouts", c.layouts},
            {"priced", c.priced},
            {"proven", outcome.proven},
            {"gap", outcome.gap},
            {"cut", {{"memory", c.cut_memory}, {"bound", c.cut_bound}, {"refused", c.refused}}},
            {"simulated", c.simulated},
            {"unfit", c.unfit},
            {"stagings", c.stagings},
            {"best", nullptr}};
  const auto goal = search::goal_of(space.file().space);
  if (goal.limited())
    json["limits"] = {{"deadline_days", goal.deadline_days},
                      {"budget", goal.budget},
                      {"met", !outcome.top.empty() && outcome.met}},
    json["cut"]["limits"] = c.cut_limits, json["missed"] = c.missed;
  auto refusals = Json::array();
  for (const auto& [layout, why, layouts] : outcome.refusals)
    refusals.push_back({{"set", json_of(space.sets(layout))}, {"why", why}, {"layouts", layouts}});
  json["refusals"] = std::move(refusals);
  const auto add_run = [](Json& to, const job::Totals* run) {
    if (!run) return;
    to["days"] = run->days, to["gpu_hours"] = run->gpu_hours, to["cost"] = run->cost, to["goodput"] = run->goodput;
  };
  const auto entry = [&](const Found& found) {
    Json one{{"set", json_of(space.sets(found.layout))}};
    one["alone_s"] = to_seconds(found.iteration);
    one.update(to_json(found.full, version));
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
                      {"alone_s", to_seconds(found.iteration)},
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
                 {fmt::format("{}", to_seconds(s.iteration)), fmt::format("{}", to_seconds(found.iteration)),
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
