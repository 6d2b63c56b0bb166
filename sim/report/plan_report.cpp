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
std::string cluster_name(const Space& space, const search::Layout& layout) {
  return space.file().cluster_of(space.file().bases[layout.base]);
}
Shown<In<Found>> layout() {
  return setting<Found>("A layout, and the answer of `run` for it.")
      .figure("cluster", Unit::none, "cluster", "by name", [](auto& l) { return cluster_name(l.space, l.of.layout); })
      .figure("alone_s", Unit::seconds, "alone", "the iteration without contention", [](auto& l) { return l.of.alone; })
      .also(run_answer(), [](auto& l) -> const Result& { return l.of.full; });
}
// The band of one of the best.
Shown<In<Found>> band() {
  const auto end = [](auto member) {
    return [member](const In<Found>& l) {
      const auto band = band_of(l.space, l.of);
      return band ? std::optional((*band).*member) : std::nullopt;
    };
  };
  return Shown<In<Found>>("Where 80 % of the runs like it would fall, in what is minimised.")
      .figure("of", Unit::none, "of", "cost, energy_mwh or iteration_s",
              [](auto& l) { return std::string(band_of(l.space, l.of)->of); })
      .figures(Unit::none, "low", end(&Band::low), "high", end(&Band::high))
      .figure("overlaps_best", Unit::none, "overlaps", "with the band of the best",
              [](auto& l) { return overlap(l.space, l.of, l.best); });
}
// Of one of several clusters.
struct OfCluster {
  const Space& space;
  const Outcome& outcome;
  std::size_t which;
  const Outcome::OfCluster& found() const { return outcome.clusters[which]; }
};
std::vector<OfCluster> of_clusters(const Plan& plan) {
  std::vector<OfCluster> all;
  for (std::size_t c = 0; c < plan.outcome.clusters.size(); ++c) all.push_back({plan.space, plan.outcome, c});
  return all;
}
struct InTie {
  const Space& space;
  const Outcome& outcome;
  const Tie& tie;
};
std::vector<InTie> ties_of(const Plan& plan) {
  std::vector<InTie> all;
  for (const auto& tie : plan.ties) all.push_back({plan.space, plan.outcome, tie});
  return all;
}
// The whole training, where there is a job.
Shown<In<Found>> trained();
Shown<In<Outcome::Nearest>> lacks() {
  return setting<Outcome::Nearest>("If nothing fits: what lacks least.")
      .figures(Unit::bytes, "device_bytes", in(&Outcome::Nearest::device), "lacks_bytes",
               [](auto& l) { return l.of.device - l.of.capacity; });
}
// The best of a cluster, without all that `run` says of it.
Shown<In<Found>> brief() {
  return setting<Found>("A layout.")
      .figures(Unit::seconds, "iteration_s", in(&Found::iteration))
      .figure("device_bytes", Unit::bytes, "memory", "of a GPU", in(&Found::device))
      .figure("gpus", Unit::none, "GPUs", "", [](auto& l) { return l.space.gpus(l.of.layout); })
      .also(trained());
}
Shown<OfCluster> cluster_best() {
  return Shown<OfCluster>("The best of a cluster, or what misses by least where nothing fits or keeps to the limits.")
      .figure("cluster", Unit::none, "cluster", "by name",
              [](auto& c) { return c.space.file().space.clusters[c.which].name; })
      .group("best", brief(), [](auto& c) { return one_in(c.space, c.found().best); })
      .figure("behind", Unit::share, "behind", "by which it is worse than the best, in what is minimised",
              [](auto& c) {
                const bool both = c.found().best && !c.outcome.top.empty();
                return both ? std::optional(behind(c.space, *c.found().best, c.outcome.top.front())) : std::nullopt;
              })
      .group("closest", brief(), [](auto& c) { return one_in(c.space, c.found().closest); })
      .or_left_out()
      .group("nearest", lacks(), [](auto& c) { return one_in(c.space, c.found().nearest); })
      .or_left_out();
}
// What would tell layouts apart.
Shown<explore::Deciding> deciding_number() {
  using D = explore::Deciding;
  return Shown<D>("A number that was not measured on the machine.")
      .figures(Unit::none, "key", &D::key, "value", &D::value)
      .figure("of", Unit::none, "of", "best, other or both: whose number it is",
              [](auto& d) {
                return std::string(d.of == D::Of::both ? "both" : d.of == D::Of::first ? "best" : "other");
              })
      .figure("width", Unit::share, "width", "by which it may be off", &D::width)
      .figure("assumed", Unit::none, "assumed", "else fitted to training runs", &D::assumed)
      .figure("moves", Unit::share, "moves", "the other nearer to the best, or before it", &D::moves)
      .figure("decides", Unit::none, "decides", "the other may be the better one", &D::decides);
}
Shown<In<Found>> trained() {
  const auto total = [](auto member) {
    return [member](const In<Found>& l) { return l.of.run ? Json((*l.of.run).*member) : Json(); };
  };
  using job::Totals;
  return Shown<In<Found>>()
      .figures(Unit::none, "days", total(&Totals::days), "gpu_hours", total(&Totals::gpu_hours))
      .figures(Unit::money, "cost", total(&Totals::cost))
      .figures(Unit::none, "energy_mwh", total(&Totals::energy_mwh))
      .figures(Unit::share, "goodput", total(&Totals::goodput))
      .or_all_left_out();
}

}  // namespace

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

const job::Job* job_of(const Space& space) {
  const auto& job = space.file().bases.front().scenario.job;
  return job ? &*job : nullptr;
}

std::optional<Band> band_of(const Space& space, const Found& found) {
  const auto& summary = found.full.summary;
  const auto goal = search::goal_of(space.file().space);
  if (goal.of_run()) {
    if (!summary.job || !summary.job->low || !summary.job->high || !summary.error_band.low) return std::nullopt;
    return Band{goal.order == search::Goal::Order::cost ? "cost" : "energy_mwh",
                goal.worth(*summary.job->low).value_or(0), goal.worth(*summary.job->high).value_or(0)};
  }
  const auto& [low, high] = std::pair(summary.error_band.low, summary.error_band.high);
  const double seconds = to_seconds(found.iteration);
  return low && high ? std::optional(Band{"iteration_s", *low * seconds, *high * seconds}) : std::nullopt;
}

std::vector<const Found*> contenders(const Space& space, const Outcome& outcome) {
  std::vector<const Found*> all;
  if (outcome.top.empty()) return all;
  const auto& best = outcome.top.front();
  const auto add = [&](const Found& found) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const Found* f) { return f->layout == found.layout; });
    if (!known && found.layout != best.layout && overlap(space, found, best).value_or(false)) all.push_back(&found);
  };
  for (const auto& of : outcome.clusters)
    if (of.best && space.cluster(of.best->layout) != space.cluster(best.layout)) add(*of.best);
  if (outcome.top.size() > 1) add(outcome.top[1]);
  return all;
}

std::optional<bool> overlap(const Space& space, const Found& one, const Found& other) {
  const auto a = band_of(space, one), b = band_of(space, other);
  if (!a || !b) return std::nullopt;
  return a->low <= b->high && b->low <= a->high;
}

double behind(const Space& space, const Found& one, const Found& best) {
  const auto goal = search::goal_of(space.file().space);
  if (const auto least = best.run ? goal.worth(*best.run) : std::nullopt; least.value_or(0) > 0)
    return *goal.worth(*one.run) / *least - 1;
  if (const auto a = space.gpus(one.layout), b = space.gpus(best.layout);
      a != b && goal.order == search::Goal::Order::gpus)
    return double(a) / double(b) - 1;
  return one.step / best.step - 1;
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
                    .or_left_out()
                    .group("band", band(), [](auto& l) { return band_of(l.space, l.of) ? &l : nullptr; }),
                [](auto& p) { return all_in(p.space, p.outcome.top); })
          .rows("clusters", cluster_best(), of_clusters)
          .rows("ties",
                Shown<InTie>("Layouts whose band overlaps with that of the best, and what would tell them apart.")
                    .figure("set", Unit::none, "--set", "the layout, as --set takes it",
                            [](auto& t) { return settings(t.space.sets(t.tie.other->layout)); })
                    .figure("behind", Unit::share, "behind", "by which it is worse",
                            [](auto& t) { return behind(t.space, *t.tie.other, t.outcome.top.front()); })
                    .rows("numbers", deciding_number(), [](auto& t) { return t.tie.numbers; }),
                ties_of)
          .figure("ties_stopped", Unit::none, "stopped", "before all of these were looked at",
                  [](auto& p) { return p.ties_stopped ? std::optional(true) : std::nullopt; })
          .or_left_out()
          .rows("pareto",
                setting<Found>("What nothing beats in time, memory, GPUs or cost.")
                    .figures(Unit::seconds, "iteration_s", in(&Found::iteration), "alone_s", in(&Found::alone))
                    .figure("device_bytes", Unit::bytes, "memory", "of a GPU", in(&Found::device))
                    .figure("gpus", Unit::none, "GPUs", "", [](auto& l) { return l.space.gpus(l.of.layout); })
                    .also(trained()),
                [](auto& p) { return all_in(p.space, p.front); })
          .group("nearest", lacks(), [](auto& p) { return one_in(p.space, p.outcome.nearest); })
          .or_left_out()
          .group("closest", layout().also(trained()), [](auto& p) { return one_in(p.space, p.outcome.closest); })
          .or_left_out();
  return kAnswer;
}

std::string plan_csv(const Plan& plan) {
  std::string columns =
      "rank *=/set iteration_s alone_s samples_per_s mfu device_bytes=/peak_memory_bytes/device gpus proven";
  if (job_of(plan.space))
    columns +=
        " days=/job/days gpu_hours=/job/gpu_hours job_cost=/job/cost goodput=/job/goodput energy_mwh=/job/energy_mwh";
  std::vector<Json> rows;
  for (const auto& found : plan.outcome.top) {
    auto& row = rows.emplace_back(layout().json({plan.space, found}));
    row.append("rank", rows.size()), row.append("proven", plan.outcome.proven);
  }
  return csv(csv_columns(columns), rows);
}

}  // namespace rehearsal::report
