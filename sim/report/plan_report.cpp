#include "report/plan_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/compare_report.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using search::Found, search::Outcome, search::Space;

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Something of a space that has a layout, and the first of its list.
template <class T>
struct In {
  const Space& space;
  const T& of;
  const T& best = of;
};
template <class T>
std::vector<In<T>> all_in(const Space& space, const std::vector<T>& list) {
  std::vector<In<T>> all;
  for (const auto& one : list) all.push_back({space, one, list.front()});
  return all;
}
template <class Some>  // a pointer or an optional
auto one_in(const Space& space, const Some& one) {
  return one ? std::optional(In<std::remove_cvref_t<decltype(*one)>>{space, *one}) : std::nullopt;
}

template <class T, class Member>
auto in(Member T::*member) {
  return [member](const In<T>& one) { return one.of.*member; };
}

template <class T>
Shown<In<T>> setting(const char* what) {
  return Shown<In<T>>(what).figure("set", Unit::none, "--set", "the layout, as --set takes it",
                                   [](auto& l) { return settings(l.space.sets(l.of.layout)); });
}
Shown<In<Found>> layout() {
  return setting<Found>("A layout, and the answer of `run` for it.")
      .figure("alone_s", Unit::seconds, "alone", "the iteration without contention", [](auto& l) { return l.of.alone; })
      .also(run_answer(), [](auto& l) -> const Result& { return l.of.full; });
}
// The whole training, where there is a job.
Shown<In<Found>> trained() {
  const auto total = [](auto member) {
    return [member](const In<Found>& l) { return l.of.run ? Json((*l.of.run).*member) : Json(); };
  };
  using job::Totals;
  return Shown<In<Found>>()
      .figures(Unit::none, "days", total(&Totals::days), "gpu_hours", total(&Totals::gpu_hours))
      .figures(Unit::money, "cost", total(&Totals::cost))
      .figures(Unit::share, "goodput", total(&Totals::goodput))
      .or_all_left_out();
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

std::string training_text(const Space& space, const job::Totals& run) {
  return fmt::format("{:.1f} days, {} GPU-hours{}{}", run.days, show(Count(run.gpu_hours)),
                     run.cost ? ", " + money(space, *run.cost) : "",
                     job_of(space)->failures ? fmt::format("; {:.1f} % of the time trains", run.goodput * 100) : "");
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

// One row per layout of a list of the answer: results first, then the layout without the parts that all share.
std::string table_text(const Showing& shown, const Plan& plan, const char* list, const std::vector<Found>& all,
                       const page::TextStyle& style) {
  std::vector<std::string_view> columns{"iteration_s", "alone_s"};
  const bool top = list == std::string_view("/top");
  columns.push_back(top ? "peak_memory_bytes/device=memory" : "device_bytes");
  if (!all.empty() && all.front().run)
    columns.insert(columns.end(), {top ? "job/days=days" : "days", top ? "job/cost=cost" : "cost"});
  auto table = shown.table(list, columns, "#");
  table.head.emplace_back("layout"), table.words.push_back(true);
  std::vector<std::vector<std::string>> parts;
  for (const auto& found : all) parts.push_back(letters(plan.space, found.layout));
  std::string shared;
  for (std::size_t i = 0; all.size() > 1 && i < parts.front().size(); ++i) {
    const auto first = parts.front()[i];
    if (first.empty() || std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p[i] != first; }))
      continue;
    shared += " " + first;
    for (auto& p : parts) p[i].clear();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::erase(parts[i], "");
    table.rows[i].push_back({fmt::format("{}", fmt::join(parts[i], " "))});
  }
  const auto text = page::text(table, Paint{style.color}, style.width);
  return shared.empty() ? text : text + wrap("     in all:" + shared, std::size_t(style.width), "       ") + "\n";
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
  const double more = *one.run->cost - *best.run->cost;
  return with_sign(more < 0, money(space, std::abs(more))) + "; " + text;
}

// The limit that no layout meets, and by how much it is missed.
std::string out_of_reach(const Space& space, const Outcome& outcome, int width) {
  const auto goal = search::goal_of(space.file().space);
  const auto& closest = *outcome.closest;
  const auto& run = *closest.run;
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

std::string plan_text(const Plan& plan, const page::TextStyle& style) {
  const auto& [space, outcome, goal, front] = plan;
  const Paint paint{style.color};
  const auto& base = space.file().bases.front().scenario;
  const auto width = static_cast<std::size_t>(style.width);
  std::string searched = wrap(space_text(outcome), width) + "\n" + refusal_text(outcome, width);
  for (const auto& note : space.file().notes) searched += wrap("warning: " + note, width, "  ") + "\n";
  std::string text = paint.bold(wrap(base.name, width, "  ")) + "\n";
  if (outcome.top.empty()) return text + searched + "\n" + nothing(space, outcome, style.width);
  const auto json = plan_answer().json(plan);
  const Showing shown(json, plan_answer().items());
  const auto& best = outcome.top.front();
  text += wrap(fmt::format("The best: {} per iteration, {} of it contention; {} of {} on the fullest GPU{}.",
                           show(best.iteration), show(best.iteration - best.alone), show(bytes(best.device)),
                           show(bytes(best.full.summary.capacity.value_or(0))),
                           best.run ? "; " + training_text(space, *best.run) : ""),
               width) +
          "\n";
  text += command_text(space, best.layout, style.width);
  text += wrap(proof_text(space, outcome), width) + "\n";
  text += "\n" + paint.bold(fmt::format("The best {}, as `run` predicts them", outcome.top.size())) + "\n";
  text += table_text(shown, plan, "/top", outcome.top, style);
  if (outcome.top.size() > 1) text += "\n" + paint.bold("Why the others lose") + "\n";
  for (std::size_t i = 1; i < outcome.top.size(); ++i)
    text += wrap(fmt::format("  {:>2}: {}", i + 1, loss(space, outcome.top[i], best)), width, "      ") + "\n";
  text += "\n" +
          paint.bold(wrap(fmt::format("Nothing else predicted is better in time, memory{} and as good in the others",
                                      job_of(space) ? ", GPUs or cost" : " or GPUs"),
                          width)) +
          "\n";
  text += table_text(shown, plan, "/pareto", front, style);
  text += "\n" + paint.bold("What was searched") + "\n" + searched;
  text += wrap(fmt::format("iteration: as `run` says it, with contention; alone: nobody takes anything from anybody; "
                           "memory: what the fullest GPU holds; layout: {}.",
                           kLetters),
               width) +
          "\n";
  return text;
}

const Shown<Plan>& plan_answer() {
  using search::Counts;
  const auto count = [](auto member) { return [member](const Plan& p) { return p.outcome.counts.*member; }; };
  const auto limited = [](auto member) {
    return
        [member](const Plan& p) { return p.goal.limited() ? std::optional(p.outcome.counts.*member) : std::nullopt; };
  };
  const auto of = [](auto member) { return [member](const Plan& p) { return p.outcome.*member; }; };
  static const auto kAnswer =
      Shown<Plan>("The best layouts of a space.")
          .figures(Unit::none, "layouts", count(&Counts::layouts), "priced", count(&Counts::priced))
          .figure("proven", Unit::none, "proven", "that the best is optimal", of(&Outcome::proven))
          .figure("gap", Unit::share, "gap", "by which the best may exceed it", of(&Outcome::gap))
          .group("cut",
                 Shown<Plan>("Never priced.")
                     .figure("memory", Unit::none, "ruled out by memory", "", count(&Counts::cut_memory))
                     .figure("bound", Unit::none, "ruled out by a bound of time", "", count(&Counts::cut_bound))
                     .figures(Unit::none, "refused", count(&Counts::refused), "limits", limited(&Counts::cut_limits))
                     .or_left_out(),
                 [](auto& p) { return &p; })
          .figure("simulated", Unit::none, "priced in full", "", count(&Counts::simulated))
          .figures(Unit::none, "proven_places", of(&Outcome::places), "unfit", count(&Counts::unfit), "stagings",
                   count(&Counts::stagings))
          .group("best", layout(),
                 [](auto& p) { return one_in(p.space, p.outcome.top.empty() ? nullptr : &p.outcome.top.front()); })
          .group("limits",
                 Shown<Plan>("Of the training.")
                     .figures(Unit::none, "deadline_days", [](auto& p) { return p.goal.deadline_days; })
                     .figures(Unit::money, "budget", [](auto& p) { return p.goal.budget; })
                     .figures(Unit::none, "met", [](auto& p) { return !p.outcome.top.empty(); }),
                 [](auto& p) { return p.goal.limited() ? &p : nullptr; })
          .or_left_out()
          .figure("missed", Unit::none, "missed", "its limits, of those priced in full", limited(&Counts::missed))
          .or_left_out()
          .rows("refusals",
                setting<search::Refusal>("By rule, with the first layout that it refused.")
                    .figures(Unit::none, "why", in(&search::Refusal::why), "layouts", in(&search::Refusal::layouts)),
                [](auto& p) { return all_in(p.space, p.outcome.refusals); })
          .figures(Unit::none, "warnings", [](auto& p) { return p.space.file().notes; })
          .rows("top",
                layout()
                    .figure("against_best", Unit::none, "against the best", "where it is slower and faster",
                            [](auto& l) { return &l.of == &l.best ? Json() : Json(against(l.of, l.best)); })
                    .or_left_out(),
                [](auto& p) { return all_in(p.space, p.outcome.top); })
          .rows("pareto",
                setting<Found>("What nothing beats in time, memory, GPUs or cost.")
                    .figures(Unit::seconds, "iteration_s", in(&Found::iteration), "alone_s", in(&Found::alone))
                    .figure("device_bytes", Unit::bytes, "memory", "of a GPU", in(&Found::device))
                    .figure("gpus", Unit::none, "GPUs", "", [](auto& l) { return l.space.gpus(l.of.layout); })
                    .also(trained()),
                [](auto& p) { return all_in(p.space, p.front); })
          .group("nearest",
                 setting<Outcome::Nearest>("If nothing fits: what lacks least.")
                     .figures(Unit::bytes, "device_bytes", in(&Outcome::Nearest::device), "lacks_bytes",
                              [](auto& l) { return l.of.device - l.of.capacity; }),
                 [](auto& p) { return one_in(p.space, p.outcome.nearest); })
          .or_left_out()
          .group("closest", layout().also(trained()), [](auto& p) { return one_in(p.space, p.outcome.closest); })
          .or_left_out();
  return kAnswer;
}

std::string plan_csv(const Plan& plan) {
  std::string columns =
      "rank *=/set iteration_s alone_s samples_per_s mfu device_bytes=/peak_memory_bytes/device gpus proven";
  if (job_of(plan.space)) columns += " days=/job/days gpu_hours=/job/gpu_hours job_cost=/job/cost goodput=/job/goodput";
  std::vector<Json> rows;
  for (const auto& found : plan.outcome.top) {
    auto& row = rows.emplace_back(layout().json({plan.space, found}));
    row.append("rank", rows.size()), row.append("proven", plan.outcome.proven);
  }
  return csv(csv_columns(columns), rows);
}

}  // namespace rehearsal::report
