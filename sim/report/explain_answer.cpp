// What `explain` answers, described once.
#include <algorithm>

#include "report/explain_report.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

using explore::Limit, explore::PathPiece, explore::Sensitivities, explore::Sensitivity;

// Something of an explanation, with the step that changes are relative to.
template <class T>
struct Beside {
  const T& of;
  Time now;
};
template <class T, class List>
std::vector<Beside<T>> beside(const Explanation& e, const List& list) {
  std::vector<Beside<T>> all;
  for (const T& one : list) all.push_back({one, e.prediction->summary.iteration});
  return all;
}

Json key_and_value(const explore::Change& change) {
  Json set = Json::object();
  for (const auto& pair : change) {
    const auto equals = pair.find('=');
    set[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return set;
}

Shown<PathPiece> piece() {
  return Shown<PathPiece>("Pieces of the critical path.")
      .figure("category", "category", "", [](auto& p) { return graph::name(p.category); })
      .figure("share", Unit::share, "of the step", "", &PathPiece::share)
      .figure("time_s", Unit::seconds, "time", "", &PathPiece::time)
      .figure("text", "piece of the critical path", "in words", &PathPiece::text);
}

Shown<Beside<explore::Turn>> turn() {
  using Turn = Beside<explore::Turn>;
  return Shown<Turn>("A number with another value, and the step with it.")
      .figure("set", "--set", "as --set takes it", [](auto& t) { return t.of.set; })
      .figure("change", Unit::share, "change", "of the number", [](auto& t) { return t.of.change; })
      .figure("iteration_s", Unit::seconds, "iteration", "", [](auto& t) { return t.of.iteration; })
      .figure("iteration_change", Unit::change, "a tenth better", "of the iteration",
              [](auto& t) { return t.of.iteration / t.now - 1; });
}

Shown<Beside<Sensitivity>> sensitivity() {
  using S = Beside<Sensitivity>;
  return Shown<S>("What each number is worth: the step with it a tenth better, and a tenth worse.")
      .figure("key", "key", "", [](auto& s) { return s.of.key; })
      .figure("kind", "kind", "rate, time, measured or factor", [](auto& s) { return name(s.of.kind); })
      .figure("value", "now", "", [](auto& s) { return s.of.value; })
      .also(turn(),
            [](const S& s) {
              return Beside<explore::Turn>{s.of.better, s.now};
            })
      .group("worse", turn(),
             [](const S& s) {
               return Beside<explore::Turn>{s.of.worse, s.now};
             })
      .figure("elasticity", "elasticity", "d ln iteration / d ln value", [](auto& s) { return s.of.elasticity; })
      .figure("share", Unit::share, "share", "of the step that is due to this resource",
              [](auto& s) { return s.of.counted() ? Json(s.of.share()) : Json(); })
      .figure("follows", "follows", "the key that it is derived from unless given",
              [](auto& s) { return s.of.follows.empty() ? Json() : Json(s.of.follows); })
      .figure("assumed", "assumed", "not measured", [](auto& s) { return s.of.assumed; })
      .figure("fitted_width", Unit::share, "width", "uncertainty of a value fitted to training runs",
              [](auto& s) { return s.of.width > 0 ? Json(s.of.width) : Json(); });
}

Shown<Sensitivities> sensitivity_sum() {
  return Shown<Sensitivities>("Shares of all resources, whose unit has time in it.")
      .figure("shares", Unit::share, "sum", "", &Sensitivities::sum)
      .figure("all_at_once", Unit::share, "together", "all scaled at once", &Sensitivities::together)
      .figure("missing", "missing", "why the sum is not one", &Sensitivities::missing)
      .figure("idle", "idle", "numbers without effect", &Sensitivities::idle);
}

using OneChange = Beside<explore::Advice>;
Shown<OneChange> advice() {
  return Shown<OneChange>("Changes of one choice, each predicted in full.")
      .figure("set", "--set", "", [](auto& a) { return key_and_value(a.of.set); })
      .figure("iteration_s", Unit::seconds, "iteration", "", [](auto& a) { return a.of.iteration; })
      .figure("iteration_change", Unit::change, "against now", "", [](auto& a) { return a.of.iteration / a.now - 1; })
      .figure("memory_bytes", Unit::bytes, "memory", "of the fullest GPU", [](auto& a) { return a.of.memory; })
      .figure("memory_change_bytes", Unit::bytes, "more memory", "", [](auto& a) { return a.of.memory_change; })
      .figure("fits", "fits", "", [](auto& a) { return a.of.fits; });
}

Shown<explore::Advised> tried() {
  using explore::Advised;
  return Shown<Advised>("What was tried.")
      .figure("legal", "legal", "", [](auto& a) { return a.all.size() + a.same; })
      .figure("unfit", "unfit", "",
              [](auto& a) { return std::count_if(a.all.begin(), a.all.end(), [](auto& one) { return !one.fits; }); })
      .figure("same", "same", "without effect", &Advised::same)
      .figure("illegal", "illegal", "that the scenario forbids", &Advised::illegal)
      .figure("failed", "failed", "a bug of this program", [](auto& a) {
        auto list = Json::array();
        for (const auto& change : a.failed) list.push_back(key_and_value(change));
        return list;
      });
}

Shown<std::vector<Limit>> limits() {
  using Limits = std::vector<Limit>;
  return Shown<Limits>("What each part of the machine would need by itself.")
      .figure("nearest", "nearest", "", [](auto& l) { return l.empty() ? Json() : Json(l.front().name); })
      .rows("parts",
            Shown<Limit>("Largest share first.")
                .figure("name", "part of the machine", "", &Limit::name)
                .figure("amount", "moves", "", [](auto& l) { return number(l.amount); })
                .figure("unit", "unit", "", &Limit::unit)
                .figure("rate_per_s", "at", "", &Limit::rate)
                .figure("time_s", Unit::seconds, "alone", "", &Limit::seconds)
                .figure("share", Unit::share, "of the step", "", &Limit::share)
                .figure("most_on", "most on", "", &Limit::whose),
            [](const Limits& l) -> const Limits& { return l; });
}

}  // namespace

const Shown<Explanation>& explain_answer() {
  const auto summary = [](const Explanation& e) -> const answer::Summary& { return e.prediction->summary; };
  static const auto kAnswer =
      Shown<Explanation>("What decides the step, what each number is worth, and what to change.")
          .also(who_and_what(), summary)
          .figure("iteration_s", Unit::seconds, "iteration", "", [=](auto& e) { return summary(e).iteration; })
          .figure("fits", "fits", "", [=](auto& e) { return summary(e).fits; })
          .rows("critical_path", piece(), [](auto& e) { return e.path ? &*e.path : nullptr; })
          .or_left_out()
          .rows("sensitivity", sensitivity(),
                [](const Explanation& e) -> std::optional<std::vector<Beside<Sensitivity>>> {
                  if (!e.sensitivities) return std::nullopt;
                  return beside<Sensitivity>(e, e.sensitivities->all);
                })
          .or_left_out()
          .group("sensitivity_sum", sensitivity_sum(), &Explanation::sensitivities)
          .or_left_out()
          .rows("advice", advice(),
                [](const Explanation& e) -> std::optional<std::vector<OneChange>> {
                  if (!e.advised) return std::nullopt;
                  std::vector<OneChange> all;
                  for (const auto* one : e.chosen) all.push_back({*one, e.prediction->summary.iteration});
                  return all;
                })
          .or_left_out()
          .group("advice_tried", tried(), &Explanation::advised)
          .or_left_out()
          .group("limits", limits(), &Explanation::limits)
          .or_left_out();
  return kAnswer;
}

std::string explain_json(const Explanation& e) { return explain_answer().json(e).dump(2) + "\n"; }

}  // namespace rehearsal::report
