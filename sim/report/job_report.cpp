#include "report/job_report.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/decimal.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

Shown<job::Totals> totals(const char* what) {
  using job::Totals;
  return Shown<Totals>(what)
      .figure("days", &Totals::days)
      .figure("gpu_hours", Unit::none, "spare GPUs included", &Totals::gpu_hours)
      .figure("goodput", Unit::share, "share of the time that trains", &Totals::goodput)
      .figure("cost", Unit::money, "", &Totals::cost)
      .figure("energy_mwh", &Totals::energy_mwh)
      .figure("carbon_t", Unit::none, "tonnes of CO2", &Totals::carbon_t);
}

std::string span(const std::string& from, const std::string& to) { return fmt::format("  ({} .. {})", from, to); }

// "54.2 days  (50.1 .. 61.0)": in the unit that fits the expected one.
std::string clock(const job::WholeRun& run) {
  const double days = run.expected.days;
  const auto [name, unit] = days >= 1           ? std::pair{"days", 1.}
                            : days >= 1. / 24   ? std::pair{"h", 1. / 24}
                            : days >= 1. / 1440 ? std::pair{"min", 1. / 1440}
                                                : std::pair{"s", 1. / 86400};
  const auto count = [unit = unit](double n) { return fmt::format("{:.1f}", n / unit); };
  if (days < 1. / 86400) return show(Duration(86400 * days));
  return fmt::format("{} {}{}", count(days), name,
                     run.low && run.high ? span(count(run.low->days), count(run.high->days)) : "");
}

std::string money(double amount) { return show(Count(amount)); }

const char* name(job::Scope scope) {
  return scope == job::Scope::process ? "process" : scope == job::Scope::node ? "node" : "group of nodes";
}

}  // namespace

std::string job_text(const job::WholeRun& run, int width) {
  std::string text;
  const auto line = [&](const char* what, const std::string& said) {
    text += wrap(fmt::format("  {:<12} {}", what, said), std::size_t(width), "               ") + "\n";
  };
  const auto& e = run.expected;
  line("Steps", show(Count(run.steps)));
  constexpr std::size_t kShown = 8;  // phases; of a ramp with more, the first and the last few
  for (std::size_t i = 0; i < run.phases.size(); ++i) {
    const auto& phase = run.phases[i];
    if (run.phases.size() > kShown && i >= 2 && i + 2 < run.phases.size()) {
      if (i == 2) line("", fmt::format("... {} more", run.phases.size() - 4));
      continue;
    }
    line(i == 0 ? "Phases" : "",
         fmt::format("{}: {} steps of {} sequences, {} tokens, {} each: {}", i + 1, show(Count(phase.steps)),
                     show(Count(phase.sequences)), show(Count(phase.tokens)), show(Duration(phase.step_seconds)),
                     show(Duration(86400 * phase.days()))));
  }
  if (run.evaluations > 0)
    line("Evaluations",
         fmt::format("{} of {} each, {} in all", show(Count(run.evaluations)), show(Duration(run.evaluation_s)),
                     show(Duration(run.evaluations * run.evaluation_s))));
  if (run.stops > 0)
    line("Stops", fmt::format("{} planned, {} in all", show(Count(run.stops)), show(Duration(run.stopped_s))));
  std::string limit;
  if (const auto met = run.in_time())
    limit =
        fmt::format("; {} the deadline of {}{}", *met ? "meets" : "MISSES", show(Duration(86400 * *run.deadline_days)),
                    *met ? "" : " by " + show(Duration(86400 * (e.days - *run.deadline_days))));
  line("Time", clock(run) + limit);
  line("GPU-hours", fmt::format("{}{}", show(Count(e.gpu_hours)),
                                run.spare_gpus ? fmt::format(", with {} spare GPUs", run.spare_gpus) : ""));
  if (e.cost) {
    std::string ends;
    if (run.low && run.high) ends = span(money(*run.low->cost), money(*run.high->cost));
    if (const auto met = run.in_budget())
      ends += fmt::format("; {} the budget of {}", *met ? "within" : "OVER", money(*run.budget));
    line("Cost", fmt::format("{} {}{}", money(*e.cost), run.currency, ends));
  }
  if (e.energy_mwh)
    line("Energy",
         decimal(*e.energy_mwh * 1e6, "Wh") +
             (e.carbon_t
                  ? ", " + (*e.carbon_t < 1 ? decimal(*e.carbon_t * 1e6, "g") : decimal(*e.carbon_t, "t")) + " of CO2"
                  : ""));
  if (!run.simulated) return text;
  const auto& s = *run.simulated;
  const auto share = [&](double goodput) { return show_share(goodput, e.goodput); };
  line("Goodput", fmt::format("{} % of the time trains{}; {}", share(e.goodput),
                              run.low && run.high ? span(share(run.low->goodput), share(run.high->goodput) + " %") : "",
                              run.closed_form_goodput ? (run.kept.empty() ? "closed form, exact here" : "closed form")
                                                      : fmt::format("mean of {} simulated runs", s.runs)));
  line("Failures", fmt::format("{} that stop the run; {} of work done again, {} down after each{}",
                               show_events(run.failures), show(Duration(s.lost)), show(Duration(run.down_s)),
                               s.waited > 0 ? fmt::format(", {} waiting for repairs", show(Duration(s.waited))) : ""));
  if (s.slow > 0 || s.shrunk > 0)
    line("",
         fmt::format("{} with a slow node, {} with fewer replicas", show(Duration(s.slow)), show(Duration(s.shrunk))));
  line("Checkpoints", fmt::format("{} each, every {} of training{}; one stops it for {}, is safe after {}",
                                  decimal(run.checkpoint_bytes, "B"), show(Duration(run.checkpoint_interval_s)),
                                  run.best_interval ? " (the best)" : "", show(Duration(run.checkpoint_stall_s)),
                                  show(Duration(run.checkpoint_save_s))));
  for (const auto& kept : run.kept) {
    if (kept.name == "storage") continue;
    line("", kept.interval_s <= 0
                 ? fmt::format("in memory ({}): none, which is the best", kept.name)
                 : fmt::format("in memory ({}) every {}{}; one stops it for {}, is safe after {}", kept.name,
                               show(Duration(kept.interval_s)), kept.best_interval ? " (the best)" : "",
                               show(Duration(kept.stall_s)), show(Duration(kept.save_s))));
  }
  for (const auto& i : run.interruptions)
    line(&i == &run.interruptions.front() ? "Restarts" : "",
         fmt::format("{} of a {}, from {}: {} of work lost, {} down", show_events(i.failures), name(i.scope), i.from,
                     show(Duration(i.lost_s)), show(Duration(i.down_s))));
  return text;
}

Shown<job::WholeRun> job_answer() {
  using job::Interruption, job::KeptIn, job::Simulated, job::WholeRun;
  const auto run = [](auto& r) { return &r; };
  const auto days = [](auto member) { return [member](const Simulated& s) { return s.*member / 86400; }; };
  const auto checkpoint = Shown<WholeRun>("Checkpoints: safe after save_s. A failure stops the run for down_s.")
                              .figures(Unit::none, "bytes", &WholeRun::checkpoint_bytes, "interval_s",
                                       &WholeRun::checkpoint_interval_s, "best_interval", &WholeRun::best_interval)
                              .figures(Unit::seconds, "stall_s", &WholeRun::checkpoint_stall_s, "save_s",
                                       &WholeRun::checkpoint_save_s, "down_s", &WholeRun::down_s);
  const auto in_memory =
      Shown<WholeRun>()
          .rows("checkpoints",
                Shown<KeptIn>("Where checkpoints are, nearest first; interval_s 0: none, which is best.")
                    .figure("kept_in", &KeptIn::name)
                    .figure("survives", Unit::none, "what may fail", [](auto& k) { return name(k.survives); })
                    .figure("best_interval", &KeptIn::best_interval)
                    .figures(Unit::seconds, "interval_s", &KeptIn::interval_s, "stall_s", &KeptIn::stall_s, "save_s",
                             &KeptIn::save_s, "down_s", &KeptIn::down_s),
                [](auto& r) { return &r.kept; })
          .rows("interruptions",
                Shown<Interruption>("Failures by what fails: the work that each loses and how long it is down, means.")
                    .figure("fails", [](auto& i) { return name(i.scope); })
                    .figure("restarts_from", &Interruption::from)
                    .figure("failures", &Interruption::failures)
                    .figures(Unit::seconds, "lost_s", &Interruption::lost_s, "down_s", &Interruption::down_s),
                [](auto& r) { return &r.interruptions; });
  const auto simulated =
      Shown<Simulated>("Runs with failures at random; means. Lost: trained again; slow: with a slow node.")
          .figure("runs", &Simulated::runs)
          .group("days",
                 Shown<Simulated>("Of a run; error: of the mean.")
                     .figures(Unit::none, "mean", days(&Simulated::mean), "error", days(&Simulated::error))
                     .figures(Unit::none, "p5", days(&Simulated::p5), "p50", days(&Simulated::p50), "p95",
                              days(&Simulated::p95)),
                 [](auto& s) { return &s; })
          .figure("failures", Unit::none, "that stop the run", &Simulated::failures)
          .figures(Unit::seconds, "lost_s", &Simulated::lost, "waited_s", &Simulated::waited, "slow_s",
                   &Simulated::slow, "shrunk_s", &Simulated::shrunk);
  return Shown<WholeRun>("The whole training; null for what is not asked or not known.")
      .also(totals(""), &WholeRun::expected)
      .figure("steps", [](auto& r) { return number(r.steps); })
      .rows("phases",
            Shown<job::PhaseRun>("A part of the training, without failures and stops.")
                .figure("steps", [](auto& p) { return number(p.steps); })
                .figure("step_s", Unit::seconds, "", &job::PhaseRun::step_seconds)
                .figures(Unit::none, "sequences", &job::PhaseRun::sequences, "tokens", &job::PhaseRun::tokens)
                .figure("days", [](auto& p) { return p.days(); }),
            [](auto& r) { return r.phases.empty() ? nullptr : &r.phases; })
      .group("evaluations",
             Shown<WholeRun>("Between steps.")
                 .figure("count", [](auto& r) { return number(r.evaluations); })
                 .figure("each_s", Unit::seconds, "", &WholeRun::evaluation_s),
             [](const WholeRun& r) { return r.evaluations > 0 ? &r : nullptr; })
      .group("stops",
             Shown<WholeRun>("Planned.")
                 .figure("count", [](auto& r) { return number(r.stops); })
                 .figure("all_s", Unit::seconds, "", &WholeRun::stopped_s),
             [](const WholeRun& r) { return r.stops > 0 ? &r : nullptr; })
      .figure("currency", [](auto& r) { return r.currency.empty() ? Json() : Json(r.currency); })
      .figure("spare_gpus", &WholeRun::spare_gpus)
      .figure("failures", Unit::none, "expected", &WholeRun::failures)
      .figure("checkpoint_interval_s", Unit::seconds, "of training",
              [](auto& r) { return r.simulated ? std::optional(r.checkpoint_interval_s) : std::nullopt; })
      .group("low", totals("The low end."), &WholeRun::low)
      .group("high", totals("The high end."), &WholeRun::high)
      .figure("deadline_days", &WholeRun::deadline_days)
      .figure("meets_deadline", &WholeRun::in_time)
      .figure("budget", Unit::money, "", &WholeRun::budget)
      .figure("within_budget", &WholeRun::in_budget)
      .also(Shown<WholeRun>()
                .group("checkpoint", checkpoint, run)
                .also(in_memory, [](const WholeRun& r) { return r.kept.empty() ? nullptr : &r; })
                .figure("closed_form_goodput", Unit::share, "where it holds", &WholeRun::closed_form_goodput)
                .group("simulated", simulated, &WholeRun::simulated),
            [](const WholeRun& r) { return r.simulated ? &r : nullptr; });
}

}  // namespace rehearsal::report
