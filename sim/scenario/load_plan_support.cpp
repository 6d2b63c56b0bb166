// What a plan lists by name against what its frameworks support.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "scenario/plan_file.hpp"

namespace rehearsal::scenario {
namespace {

// A listed value is searched with every framework, also with one that lacks it, and a note says which does. Each base
// is judged by itself, so what is best on one is found whatever else a plan offers.
template <class T, class Has, class Add>
void allow(PlanFile& file, const char* key, const std::optional<std::vector<T>>& listed, const Has& has,
           const Add& add) {
  if (!listed) return;
  std::map<std::string, std::vector<std::string>> lacking;  // by framework
  for (auto& base : file.bases) {
    std::vector<T> lacks;
    for (const T& value : *listed)
      if (!has(base, value)) lacks.push_back(value);
    for (const T& value : std::as_const(lacks)) {
      add(base, value);
      auto& values = lacking[base.scenario.concrete->framework.name];
      if (auto text = fmt::format("{}", value); std::find(values.begin(), values.end(), text) == values.end())
        values.push_back(std::move(text));
    }
  }
  for (const auto& [framework, values] : lacking)
    file.notes.push_back(fmt::format("plan.{} lists {}, which {} does not support; searched as if it were supported",
                                     key, fmt::join(values, ", "), framework));
}

// What a framework has, but not with everything, is searched with what it goes with.
void note_combinations(PlanFile& file) {
  const auto& space = file.space;
  for (const auto& base : file.bases)
    for (const auto& [text, states] : space.offload)
      if (base.support.needs_alone(states)) {
        auto note = fmt::format(
            "plan.offload lists {}, which {} supports only without a pipeline and without recomputation; searched only "
            "there",
            text, base.scenario.concrete->framework.name);
        if (std::find(file.notes.begin(), file.notes.end(), note) == file.notes.end())
          file.notes.push_back(std::move(note));
      }
  if (!space.zero || (space.pipeline && space.pipeline->back() == 1)) return;
  std::set<std::string> notes;
  for (const auto& base : file.bases) {
    std::vector<std::int64_t> levels;
    for (const auto level : *space.zero)
      if (!base.support.has_zero(level, true)) levels.push_back(level);
    if (!levels.empty())
      notes.insert(fmt::format("plan.zero lists {}, which {} supports only without a pipeline; searched only there",
                               fmt::join(levels, ", "), base.scenario.concrete->framework.name));
  }
  file.notes.insert(file.notes.end(), notes.begin(), notes.end());
}

void allow_each(PlanFile& file) {
  using S = Support;
  using Names = std::vector<std::string>;
  const auto& space = file.space;
  const auto degree = [&](const char* key, const PlanSpace::Degrees& listed, bool S::*member) {
    allow(
        file, key, listed, [&](const PlanBase& base, std::int64_t n) { return n == 1 || base.support.*member; },
        [&](PlanBase& base, std::int64_t) { base.support.*member = true; });
  };
  degree("tensor", space.tensor, &S::tensor), degree("pipeline", space.pipeline, &S::pipeline);
  // Of the kind that the file says.
  const auto kind = [](const PlanBase& base) { return base.scenario.concrete->training.context; };
  allow(
      file, "context", space.context,
      [&](const PlanBase& base, std::int64_t n) { return n == 1 || base.support.has_context(kind(base)); },
      [&](PlanBase& base, std::int64_t) { base.support.context = true, base.support.context_kinds.clear(); });
  allow(
      file, "sequence", space.sequence, [](const PlanBase& base, bool on) { return !on || base.support.sequence; },
      [](PlanBase& base, bool) { base.support.sequence = true; });
  allow(
      file, "zero", space.zero,
      [](const PlanBase& base, std::int64_t level) { return base.support.has_zero(level, false); },
      [](PlanBase& base, std::int64_t level) {
        auto& s = base.support;
        s.zero.push_back(level);
        if (!s.zero_in_pipeline.empty()) s.zero_in_pipeline.push_back(level);
      });
  allow(
      file, "schedules", space.schedules,
      [](const PlanBase& base, const std::string& name) { return base.support.has_schedule(name); },
      [](PlanBase& base, const std::string& name) { base.support.schedules.push_back(name); });
  Names states, modes;
  for (const auto& one : space.offload) states.push_back(one.text);
  const auto states_of = [&](const std::string& text) {
    return std::find_if(space.offload.begin(), space.offload.end(), [&](auto& o) { return o.text == text; })->states;
  };
  allow(
      file, "offload", std::optional(states),
      [&](const PlanBase& base, const std::string& text) { return base.support.has(states_of(text)); },
      [&](PlanBase& base, const std::string& text) { base.support.add(states_of(text)); });
  if (!space.recompute) return;
  for (const auto mode : *space.recompute) modes.emplace_back(name(mode));
  const auto mode_of = [&](const std::string& said) {
    return *std::find_if(space.recompute->begin(), space.recompute->end(), [&](auto m) { return said == name(m); });
  };
  allow(
      file, "recompute", std::optional(modes),
      [&](const PlanBase& base, const std::string& mode) { return base.support.has(mode_of(mode)); },
      [&](PlanBase& base, const std::string& mode) { base.support.recompute.insert(mode_of(mode)); });
}

}  // namespace

void allow_listed(PlanFile& file) {
  allow_each(file);
  note_combinations(file);
}

}  // namespace rehearsal::scenario
