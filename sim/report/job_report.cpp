#include "report/job_report.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/decimal.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

Json totals(const job::Totals& t) {
  return {{"days", t.days}, {"gpu_hours", t.gpu_hours},   {"goodput", t.goodput},
          {"cost", t.cost}, {"energy_mwh", t.energy_mwh}, {"carbon_t", t.carbon_t}};
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

}  // namespace

std::string job_text(const job::WholeRun& run, int width) {
  std::string text;
  const auto line = [&](const char* what, const std::string& said) {
    text += wrap(fmt::format("  {:<12} {}", what, said), std::size_t(width), "               ") + "\n";
  };
  const auto& e = run.expected;
  line("Steps", show(Count(run.steps)));
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
                              run.closed_form_goodput ? "closed form, exact here"
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
  return text;
}

Json job_json(const job::WholeRun& run) {
  Json json = totals(run.expected);
  json["steps"] = number(run.steps);
  json["currency"] = run.currency.empty() ? Json(nullptr) : Json(run.currency);
  json["spare_gpus"] = run.spare_gpus;
  json["failures"] = run.failures;
  json["checkpoint_interval_s"] = run.simulated ? Json(run.checkpoint_interval_s) : Json(nullptr);
  json["low"] = run.low ? totals(*run.low) : Json(nullptr);
  json["high"] = run.high ? totals(*run.high) : Json(nullptr);
  json["deadline_days"] = run.deadline_days, json["meets_deadline"] = run.in_time();
  json["budget"] = run.budget, json["within_budget"] = run.in_budget();
  if (!run.simulated) return json;
  const auto& s = *run.simulated;
  json["checkpoint"] = {{"bytes", run.checkpoint_bytes},      {"interval_s", run.checkpoint_interval_s},
                        {"best_interval", run.best_interval}, {"stall_s", run.checkpoint_stall_s},
                        {"save_s", run.checkpoint_save_s},    {"down_s", run.down_s}};
  json["closed_form_goodput"] = run.closed_form_goodput;
  json["simulated"] = {{"runs", s.runs},
                       {"days",
                        {{"mean", s.mean / 86400},
                         {"error", s.error / 86400},
                         {"p5", s.p5 / 86400},
                         {"p50", s.p50 / 86400},
                         {"p95", s.p95 / 86400}}},
                       {"failures", s.failures},
                       {"lost_s", s.lost},
                       {"waited_s", s.waited},
                       {"slow_s", s.slow},
                       {"shrunk_s", s.shrunk}};
  return json;
}

}  // namespace rehearsal::report
