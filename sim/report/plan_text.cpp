// What `plan` says in a terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/decimal.hpp"
#include "base/quantity_text.hpp"
#include "base/range.hpp"
#include "page/layout.hpp"
#include "report/plan_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using search::Found, search::Outcome, search::Space;

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string space_text(const Outcome& outcome) {
  const auto& c = outcome.counts;
  return fmt::format(
      "{} layouts: {} cannot hold their model states, {}{} are ruled out by a time bound{}, {} were priced. {} of "
      "those were simulated with contention: {} do not fit{}. {} sets of stage times were enough for all.",
      grouped(c.layouts), grouped(c.cut_memory),
      c.cut_limits ? fmt::format("{} miss the deadline or the budget by a bound, ", grouped(c.cut_limits)) : "",
      grouped(c.cut_bound),
      c.refused ? fmt::format(", {} are refused by rules that only a plan knows", grouped(c.refused)) : "",
      grouped(c.priced), grouped(c.simulated), grouped(c.unfit),
      c.missed ? fmt::format(", {} miss the deadline or the budget", grouped(c.missed)) : "", grouped(c.stagings));
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
    case Objective::energy:
      return {"needs less energy", "lower in energy"};
    case Objective::time:
      break;
  }
  return {"is faster", "faster"};
}

std::string money(const Space& space, double amount) { return show(Count(amount)) + " " + job_of(space)->currency; }

std::string watt_hours(double mwh) { return decimal(mwh * 1e6, "Wh"); }

std::string training_text(const Space& space, const job::Totals& run) {
  const bool energy = space.file().space.objective == scenario::PlanSpace::Objective::energy;
  return fmt::format("{:.1f} days, {} GPU-hours{}{}{}", run.days, show(Count(run.gpu_hours)),
                     run.cost ? ", " + money(space, *run.cost) : "", energy ? ", " + watt_hours(*run.energy_mwh) : "",
                     job_of(space)->failures ? fmt::format("; {:.1f} % of the time trains", run.goodput * 100) : "");
}

// A layout in a few letters, part by part; a part without effect is empty.
std::vector<std::string> letters(const Space& space, const search::Layout& l) {
  const auto degree = [](char letter, std::int64_t n) { return n > 1 ? fmt::format("{}{}", letter, n) : ""; };
  const auto& file = space.file();
  const auto& base = file.bases[l.base];
  std::string size, framework;
  for (const auto& set : base.sets) {
    if (set.starts_with("framework=")) framework = set.substr(set.find('=') + 1);
    if (set.starts_with("cluster.")) size = last_part(set);
    if (set.starts_with("cluster="))
      size = fmt::format("{} {}", base.scenario.concrete->cluster.nodes, file.cluster_of(base));
  }
  std::vector<std::string> parts{size, framework};
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
  if (!all.empty() && all.front().run) {
    columns.insert(columns.end(), {top ? "job/days=days" : "days", top ? "job/cost=cost" : "cost"});
    if (plan.goal.order == search::Goal::Order::energy)
      columns.push_back(top ? "job/energy_mwh=MWh" : "energy_mwh=MWh");
  }
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

// The table's letters, all of them.
std::string layout_text(const Space& space, const search::Layout& layout) {
  auto parts = letters(space, layout);
  parts.erase(parts.begin(), parts.begin() + 2);
  std::erase(parts, "");
  return fmt::format("{}", fmt::join(parts, " "));
}

// The machine, where it is chosen too: "24 nodes of b200-sxm (192 GPUs) with megatron-2025".
std::string machine_text(const Space& space, const search::Layout& layout) {
  const auto& base = space.file().bases[layout.base];
  const auto& c = *base.scenario.concrete;
  return fmt::format("{} node{} of {} ({} GPUs) with {}", c.cluster.nodes, c.cluster.nodes == 1 ? "" : "s",
                     space.file().cluster_of(base), space.gpus(layout), c.framework.name);
}

// Where 80 % of the runs like it would fall.
std::string band_text(const Space& space, const Found& found) {
  const auto& summary = found.full.summary;
  const auto& band = summary.error_band;
  if (!band.low || !band.high) return "No band: " + band.basis + ".";
  const auto range = [](const std::string& low, const std::string& high) { return low + " to " + high; };
  std::string text = band.comparable ? "80 % of comparable runs: " : "No published run is comparable; 80 % band: ";
  if (!summary.job || !summary.job->low || !summary.job->high) {
    const double seconds = to_seconds(found.iteration);
    return text + range(show(counted(*band.low * seconds)), show(counted(*band.high * seconds))) + ".";
  }
  const auto &low = *summary.job->low, &high = *summary.job->high;
  text += range(fmt::format("{:.1f}", low.days), fmt::format("{:.1f} days", high.days));
  if (low.cost && high.cost) text += ", " + range(show(Count(*low.cost)), money(space, *high.cost));
  return text + ".";
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
  return wrap(fmt::format("Nothing fits: the layout that comes closest needs {} for its states on a GPU that has {}, "
                          "{:.2f} GiB too much:",
                          show(bytes(near.device)), show(bytes(near.capacity)),
                          (near.device - near.capacity) / double(1 << 30)),
              std::size_t(width)) +
         "\n" + command_text(space, near.layout, width);
}

// How far a layout is behind the best, in the objective and in time, and why.
std::string loss(const Space& space, const Found& one, const Found& best) {
  const auto with_sign = [](bool less, const std::string& amount) { return (less ? "-" : "+") + amount; };
  const Time mine = one.iteration, its = best.iteration;
  const auto text = with_sign(mine < its, show(mine < its ? its - mine : mine - its)) + " = " + against(one, best);
  const auto goal = search::goal_of(space.file().space);
  const auto mine_is = one.run ? goal.worth(*one.run) : std::nullopt;
  if (!mine_is) return text;
  const double more = *mine_is - *goal.worth(*best.run);
  const bool energy = goal.order == search::Goal::Order::energy;
  return with_sign(more < 0, energy ? watt_hours(std::abs(more)) : money(space, std::abs(more))) + "; " + text;
}

// The limit that no layout meets, and by how much it is missed.
std::string missed(const Space& space, const Found& closest, const std::string& subject) {
  const auto goal = search::goal_of(space.file().space);
  const auto& run = *closest.run;
  if (!goal.in_time(run))
    return fmt::format("{} is done within {:.2f} days: the fastest takes {:.2f}, {:.2f} too many", subject,
                       *goal.deadline_days, run.days, run.days - *goal.deadline_days);
  return fmt::format("{}{} costs {} or less: the cheapest costs {}, {} too much", subject,
                     goal.deadline_days ? fmt::format(" and is done within {:.2f} days", *goal.deadline_days) : "",
                     money(space, *goal.budget), money(space, *run.cost), money(space, *run.cost - *goal.budget));
}
std::string out_of_reach(const Space& space, const Outcome& outcome, int width) {
  const auto& closest = *outcome.closest;
  return wrap(missed(space, closest, "Nothing that fits") + ":", std::size_t(width)) + "\n" +
         command_text(space, closest.layout, width) + "  " + training_text(space, *closest.run) + "\n";
}

// What a cluster that is not chosen has to offer.
std::string offer(const Plan& plan, std::size_t which) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  const auto& of = outcome.clusters[which];
  const auto& name = space.file().space.clusters[which].name;
  if (of.best) {
    const auto& best = outcome.top.front();
    const auto worth =
        of.best->run ? training_text(space, *of.best->run) : fmt::format("{} per iteration", show(of.best->iteration));
    return fmt::format("{}: {}, {:.1f} % behind.", machine_text(space, of.best->layout), worth,
                       behind(space, *of.best, best) * 100);
  }
  if (of.closest)
    return fmt::format("{}: {}, on {}.", name, missed(space, *of.closest, "nothing that fits"),
                       machine_text(space, of.closest->layout));
  if (of.nearest)
    return fmt::format("{}: nothing fits: the layout that comes closest needs {} on a GPU that has {}, on {}.", name,
                       show(bytes(of.nearest->device)), show(bytes(of.nearest->capacity)),
                       machine_text(space, of.nearest->layout));
  return name + ": all layouts are refused.";
}

// The clusters that are not chosen, those behind by least first.
std::vector<std::size_t> losers(const Plan& plan) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  std::vector<std::size_t> all;
  if (outcome.top.empty()) return all;
  for (std::size_t c = 0; c < outcome.clusters.size(); ++c)
    if (c != space.cluster(outcome.top.front().layout)) all.push_back(c);
  const auto far = [&](std::size_t c) {
    const auto& best = outcome.clusters[c].best;
    return best ? behind(space, *best, outcome.top.front()) : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return far(a) < far(b); });
  return all;
}

// Why a cluster with a layout that would do is not chosen: its price, how many of its hours are needed, and where its
// step goes.
std::string why_behind(const Plan& plan, const Found& its) {
  const auto& space = plan.space;
  const auto& best = plan.outcome.top.front();
  const auto name = [&](const Found& found) { return space.file().cluster_of(space.file().bases[found.layout.base]); };
  const auto price = [&](const Found& found) { return space.file().bases[found.layout.base].scenario.job->gpu_hour; };
  std::string text = layout_text(space, its.layout) + "; ";
  if (its.run && price(its) && price(best))
    text += fmt::format("{:.2f} times the GPU-hours of {}, each at {:.2f} times its price; ",
                        its.run->gpu_hours / best.run->gpu_hours, name(best), *price(its) / *price(best));
  return text + against(its, best);
}

// How a number is measured, for a machine that is there.
const char* measured_by(const std::string& key) {
  if (key.starts_with("cluster.links.") || key.starts_with("cluster.collectives."))
    return "nccl-tests, read by `rehearse import`";
  return "the trace of a step, read by `rehearse calibrate --from`";
}

// Layouts that the prediction cannot tell from the best, and what would.
std::string certainty_text(const Plan& plan, std::size_t width) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  const auto& best = outcome.top.front();
  if (!band_of(space, best) || outcome.stopped) return "";
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < outcome.top.size(); ++i)
    if (overlap(space, outcome.top[i], best).value_or(false)) places.push_back(i + 1);
  if (places.empty() && plan.ties.empty())
    return wrap("The band of the best overlaps with no other: no measurement is needed to choose.", width) + "\n";
  std::string text;
  const auto others = outcome.top.size() - 1;
  if (!places.empty())
    text += wrap(fmt::format("The band of the best overlaps with {}: predictions cannot tell these apart.",
                             places.size() == others
                                 ? fmt::format("those of all {} behind it", others)
                                 : fmt::format("those of {} of the {} behind it", places.size(), others)),
                 width) +
            "\n";
  for (const auto& [other, numbers] : plan.ties) {
    const bool elsewhere = space.cluster(other->layout) != space.cluster(best.layout);
    const auto who = elsewhere ? space.file().cluster_of(space.file().bases[other->layout.base]) : std::string("2");
    const auto label = fmt::format("  1 or {}, {:.1f} % behind: ", who, behind(space, *other, best) * 100);
    std::string what = "nothing that was not measured tells them apart.";
    if (!numbers.empty()) {
      const auto& n = numbers.front();
      const auto whose =
          n.of == explore::Deciding::Of::both || !elsewhere
              ? std::string()
              : fmt::format(" of {}", n.of == explore::Deciding::Of::second
                                          ? who
                                          : space.file().cluster_of(space.file().bases[best.layout.base]));
      what = fmt::format(
          "{} {}{} ({}, {} to {:.0f} %) {} by {:.1f} %{}.", n.decides ? "measure" : "most of all", n.key, whose,
          n.value, n.assumed ? "assumed" : "fitted", n.width * 100, n.decides ? "moves them" : "moves them, but only",
          n.moves * 100,
          n.decides ? fmt::format(": it decides. By {}; then `plan --with PROFILE`", measured_by(n.key)) : "");
    }
    text += wrap(label + what, width, "     ") + "\n";
  }
  if (plan.ties_stopped) text += wrap("Stopped before it was known which number would tell them apart.", width) + "\n";
  return text;
}

std::string nothing(const Plan& plan, int width) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
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
  if (!space.whole()) return "Stopped before all layouts were listed: how far the optimum may be is not known.";
  if (outcome.gap >= 1) return "Stopped before all families had a bound: how far the optimum may be is not known.";
  return fmt::format("Stopped: the best of this space may be {} by up to {:.1f} %.", wanted(space).unit,
                     outcome.gap * 100);
}

std::string headline(const Plan& plan, const page::TextStyle& style) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  const auto& best = outcome.top.front();
  const auto width = static_cast<std::size_t>(style.width);
  std::string text;
  const bool chosen = !space.file().space.clusters.empty();
  const auto step = fmt::format("{} per iteration, {} of it contention; {} of {} on the fullest GPU{}",
                                show(best.iteration), show(best.iteration - best.alone), show(bytes(best.device)),
                                show(bytes(best.full.summary.capacity.value_or(0))),
                                best.full.summary.narrow() ? ", narrowly: --set plan.margin=5% leaves room" : "");
  if (chosen)
    text += wrap(fmt::format("The best: {}{}.", machine_text(space, best.layout),
                             best.run ? ": " + training_text(space, *best.run) : ""),
                 width) +
            "\n";
  else
    text += wrap(fmt::format("The best: {}{}.", step, best.run ? "; " + training_text(space, *best.run) : ""), width) +
            "\n";
  text += wrap("  " + band_text(space, best), width, "  ") + "\n";
  for (const auto c : losers(plan)) text += wrap("  Not " + offer(plan, c), width, "  ") + "\n";
  if (chosen) text += wrap(fmt::format("  Layout: {}; {}.", layout_text(space, best.layout), step), width, "  ") + "\n";
  text += command_text(space, best.layout, style.width);
  return text;
}

std::string plan_text(const Plan& plan, const page::TextStyle& style) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  const Paint paint{style.color};
  const auto& base = space.file().bases.front().scenario;
  const auto width = static_cast<std::size_t>(style.width);
  std::string searched = wrap(space_text(outcome), width) + "\n" + refusal_text(outcome, width);
  for (const auto& note : space.file().notes) searched += wrap("warning: " + note, width, "  ") + "\n";
  std::string text = paint.bold(wrap(base.name, width, "  ")) + "\n";
  if (outcome.top.empty()) return text + searched + "\n" + nothing(plan, style.width);
  const auto json = plan_answer().json(plan);
  const Showing shown(json, plan_answer().items());
  const auto& best = outcome.top.front();
  text += headline(plan, style);
  text += wrap(proof_text(space, outcome), width) + "\n";
  text += "\n" + paint.bold(fmt::format("The best {}, as `run` predicts them", outcome.top.size())) + "\n";
  text += table_text(shown, plan, "/top", outcome.top, style);
  bool titled = false;
  for (const auto c : losers(plan))
    if (const auto& its = outcome.clusters[c].best) {
      if (!std::exchange(titled, true)) text += "\n" + paint.bold("Why the other clusters lose") + "\n";
      text +=
          wrap(fmt::format("  {}: {}", space.file().space.clusters[c].name, why_behind(plan, *its)), width, "      ") +
          "\n";
    }
  if (outcome.top.size() > 1) text += "\n" + paint.bold("Why the others lose") + "\n";
  for (std::size_t i = 1; i < outcome.top.size(); ++i)
    text += wrap(fmt::format("  {:>2}: {}", i + 1, loss(space, outcome.top[i], best)), width, "      ") + "\n";
  if (const auto sure = certainty_text(plan, width); !sure.empty())
    text += "\n" + paint.bold("How sure the choice is") + "\n" + sure;
  text +=
      "\n" +
      paint.bold(wrap(
          fmt::format("Pareto-optimal: nothing predicted is better in time, memory{} without being worse in another",
                      job_of(space) ? ", GPUs or cost" : " or GPUs"),
          width)) +
      "\n";
  text += table_text(shown, plan, "/pareto", plan.front, style);
  text += "\n" + paint.bold("What was searched") + "\n" + searched;
  text += wrap(fmt::format("iteration: as in `run`, with contention; alone: without contention; memory: that of the "
                           "fullest GPU; layout: {}.",
                           kLetters),
               width) +
          "\n";
  return text;
}

}  // namespace rehearsal::report
