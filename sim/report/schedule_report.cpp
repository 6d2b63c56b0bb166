#include "report/schedule_report.hpp"

namespace rehearsal::report {

using schedule::Evaluation;

Shown<Evaluation> schedule_answer() {
  using schedule::Asynchrony, schedule::Replay;
  const auto replayed = [](auto member) {
    return [member](const Evaluation& e) -> decltype(auto) { return std::invoke(member, e.replay); };
  };
  return Shown<Evaluation>("A schedule with given costs; lists are by rank.")
      .figure("schedule", [](auto& e) { return e.schedule.name; })
      .figure("pipeline", Unit::none, "ranks", [](auto& e) { return e.problem.ranks; })
      .figure("microbatches", [](auto& e) { return e.problem.microbatches; })
      .figure("chunks", Unit::none, "of a rank", [](auto& e) { return e.problem.chunks; })
      .figure("cost_s", Unit::seconds, "cost", "longest of a rank, first to last action", replayed(&Replay::cost))
      .figure("makespan_s", Unit::seconds, "from the start of rank 0", replayed(&Replay::makespan))
      .figure("bubble_rate", Unit::share, "bubble", "of the busiest rank's cost", replayed(&Replay::bubble_rate))
      .figure("busy_s", Unit::seconds, "in actions", replayed(&Replay::busy))
      .figure("in_flight_FW", Unit::none, "most held, forward to weight gradient", replayed(&Replay::in_flight_FW))
      .figure("in_flight_FB", Unit::none, "most held, forward to input gradient", replayed(&Replay::in_flight_FB))
      .figure("peak_memory", Unit::none, "as costs are given",
              [](auto& e) { return each(e.replay.peak_memory, [](double m) { return number(m); }); })
      .figure("actions", replayed(&Replay::actions))
      .figure("sha256", Unit::none, "of the order", &Evaluation::sha256)
      .figure("order", Unit::none, "if it is asked for, or short", &Evaluation::order)
      .or_left_out()
      .figure("optimal", Unit::none, "null: nothing is proven", [](auto& e) { return e.schedule.optimal; })
      .figure("lower_bound_s", Unit::seconds, "lower bound", "of any order", &Evaluation::lower_bound)
      .also(Shown<Asynchrony>()
                .figure("weight_versions", Unit::none, "kept at once", &Asynchrony::weight_versions)
                .figure("staleness", Unit::none, "updates that a gradient is late", &Asynchrony::staleness)
                .figure("steady_state_s", Unit::seconds, "of a micro-batch, once full", &Asynchrony::steady_state),
            [](auto& e) {
              return e.schedule.asynchrony ? std::optional(e.schedule.asynchrony(e.problem)) : std::nullopt;
            });
}

Shown<BatchLine> batch_answer() {
  return Shown<BatchLine>("A line of a batch: of a case that fails, its error alone.")
      .figure("id", Unit::none, "as given", &BatchLine::id)
      .also(schedule_answer(), &BatchLine::result)
      .figure("error", &BatchLine::error)
      .or_left_out();
}

}  // namespace rehearsal::report
