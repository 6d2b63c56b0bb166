#include "answer/unused_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "answer/stage_costs.hpp"
#include "cost/device_memory.hpp"
#include "engine/sim.hpp"
#include "scenario/fields.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::answer {
namespace {

// Keys whose name in the summary differs, and their values if those differ too.
struct Alias {
  std::string_view given, field;
  bool truth = false;
};
constexpr Alias kAliases[] = {{"training.recompute.early_stop", "framework.early_stop"},
                              {"training.overlap.gradients", "framework.gradient_overlap", true},
                              {"training.overlap.pipeline", "framework.blocking_sends", true},
                              {"training.overlap.tensor", "framework.async_tensor", true}};
const Alias* alias_of(std::string_view key) {
  const auto alias = std::find_if(std::begin(kAliases), std::end(kAliases), [&](auto& a) { return a.given == key; });
  return alias == std::end(kAliases) ? nullptr : alias;
}

const fields::Field* field_of(std::string_view key) {
  const auto& described = scenario::scenario_fields();
  const auto* alias = alias_of(key);
  const auto* group = described.group(key);  // a name for a mapping
  const auto* field = group && !group->short_for.empty() ? described.find(group->key + "." + group->short_for)
                                                         : described.find(alias ? alias->field : key);
  const bool asked =
      field && field->set && field->acts && field->key_of_files &&
      (field->key == "placement" || field->key.starts_with("cluster.") || field->key.starts_with("training.") ||
       field->key.starts_with("framework.") || field->key.starts_with("experts."));
  return asked ? field : nullptr;
}

bool same(std::span<const Time> a, std::span<const Time> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// The step at the coarsest detail, which gives the same result.
struct Step {
  Time iteration;
  std::vector<Bytes> peaks;  // by rank
  bool operator==(const Step&) const = default;
};
Step step(const graph::TaskGraph& graph, std::span<const Time> durations, std::span<const Time> held) {
  backend::RunOptions run;
  run.durations = durations, run.held = held;
  const auto timeline = engine::make_sim()->prepare(graph)->run(run);
  Step step{timeline.makespan(), {}};
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    step.peaks.push_back(timeline::memory_peak(graph, timeline, RankId(r)).peak);
  return step;
}
Step step(StageCosts staged, const scenario::Scenario& scenario) {
  const auto graph = std::move(staged.lowering)
                         .lower(scenario.schedule.schedule(), staged.problem, {graph::Detail::stage, true})
                         .graph;
  return step(graph, staged.cost.price(graph.works(), graph.conditions()),
              staged.cost.held(graph.works(), graph.conditions()));
}

// Compares the step under other values with the original. A difference in a price, in the number of works or in a peak
// is found without a full simulation.
class Probe {
 public:
  Probe(const scenario::Scenario& scenario, const LoweredJob& lowered) : scenario_(scenario), question_(lowered) {}

  bool reprices(const scenario::Scenario& changed) const {
    const auto& c = *changed.concrete;
    const cost::CostModel other(c.cluster, c.curves, c.framework, c.profile);
    return !same(other.price(question_.graph.works(), question_.graph.conditions()), question_.durations);
  }
  bool differs(const scenario::Scenario& changed) {
    const auto& c = *changed.concrete;
    const auto& before = *scenario_.concrete;
    if (cost::context(c.cluster.gpu, c.framework) != cost::context(before.cluster.gpu, before.framework)) return true;
    if (reprices(changed)) return true;
    auto now = stage(changed);
    if (!now_) now_.emplace(stage(scenario_));
    // Different works mean a different step; the same works with other numbers may not, for example host work that is
    // hidden under a longer kernel.
    if (now.lowering.works().size() != now_->lowering.works().size()) return true;
    if (now.problem.activation != now_->problem.activation || now.problem.weight_hold != now_->problem.weight_hold)
      return true;
    const bool coarse = scenario_.simulate.detail == graph::Detail::stage && scenario_.simulate.symmetry;
    if (!step_)
      step_ = coarse ? step(question_.graph, question_.durations, question_.held) : step(stage(scenario_), scenario_);
    return step(std::move(now), changed) != *step_;
  }

 private:
  const scenario::Scenario& scenario_;
  const LoweredJob& question_;
  std::optional<StageCosts> now_;
  std::optional<Step> step_;
};

class Idle {
 public:
  Idle(const Result& predicted, const Reread& reread)
      : predicted_(predicted), reread_(reread), probe_(predicted.scenario(), *predicted.lowered) {}

  bool moves(const std::string& key, const fields::Field& field) {
    const auto& scenario = predicted_.scenario();
    const auto others = fields::others(field, field.get(&scenario));
    if (field.form.measurable())  // quick, and usually sufficient
      for (const auto& other : others) {
        auto changed = scenario;
        field.set(&changed, other);
        try {
          if (probe_.reprices(changed)) return true;
        } catch (const UserError&) {
          // A number alone may be invalid, such as three GPUs for two NICs: reading the file again gives the reason.
        }
      }
    std::vector<std::string> values;
    if (const auto* alias = alias_of(key); alias && alias->truth)
      values = {"true", "false"};
    else
      for (const auto& other : others) values.push_back(fields::written(other));
    // A full prediction is slower, so it is used only if no value changes the step.
    std::vector<scenario::Scenario> changed;
    try {
      for (const auto& value : values) {
        const auto& now = changed.emplace_back(reread_({key + "=" + value}));
        if (another_program(now) || probe_.differs(now)) return true;
      }
      return std::any_of(changed.begin(), changed.end(),
                         [&](const auto& now) { return !same_answer(whole(now), before()); });
    } catch (const UserError&) {
      return true;  // rejected by name
    }
  }

 private:
  bool another_program(const scenario::Scenario& changed) const {
    return !changed.concrete ||
           changed.concrete->framework.native_kernels != predicted_.scenario().concrete->framework.native_kernels;
  }
  // At the coarsest detail, which gives the same result.
  static Summary whole(scenario::Scenario scenario) {
    scenario.simulate.detail = graph::Detail::stage, scenario.simulate.symmetry = true;
    return predict(scenario, Options::summary_alone()).summary;
  }
  const Summary& before() {
    const auto& simulate = predicted_.scenario().simulate;
    if (simulate.detail == graph::Detail::stage && simulate.symmetry) return predicted_.summary;
    if (!before_) before_ = whole(predicted_.scenario());
    return *before_;
  }

  const Result& predicted_;
  const Reread& reread_;
  Probe probe_;
  std::optional<Summary> before_;
};

}  // namespace

std::vector<double> runs_of_works(const graph::TaskGraph& graph) {
  std::vector<double> ranks(graph.programs().size()), runs(graph.works().size());
  for (const auto& rank : graph.ranks()) ranks[rank.program.index()] += rank.multiplicity;
  for (std::size_t p = 0; p < ranks.size(); p++)
    for (const WorkId work : graph.programs()[p].work) runs[work.index()] += ranks[p];
  return runs;
}

std::vector<std::string> unused_settings(const Result& predicted, const Reread& reread) {
  std::vector<std::string> warnings;
  const auto& scenario = predicted.scenario();
  const bool performed = scenario.concrete->framework.native_kernels;
  Idle idle(predicted, reread);
  for (const auto& [key, where] : scenario.given) {
    const auto* field = field_of(key);
    const bool of_training = key == "training.learning_rate" || key == "training.weight_decay";
    if (!field || (performed && of_training) || idle.moves(key, *field)) continue;
    const auto at = where.line ? fmt::format("{}:{}:{}: ", where.file, where.line, where.column) : "";
    warnings.push_back(
        fmt::format("{}'{}' is set and changes nothing in this answer: no part of this step depends on it ({})", at,
                    key, field->help));
  }
  return warnings;
}

std::vector<std::string> assumed_framework(const scenario::Scenario& scenario, const LoweredJob& lowered) {
  std::vector<std::string> all;
  const auto& framework = scenario.concrete->framework;
  Probe probe(scenario, lowered);
  const auto moves = [&](const fields::Field& field) {
    const auto others = fields::others(field, field.get(&scenario));
    return std::any_of(others.begin(), others.end(), [&](const auto& other) {
      auto changed = scenario;
      field.set(&changed, other);
      try {
        return probe.differs(changed);
      } catch (const UserError&) {
        return true;  // rejected by name
      }
    });
  };
  for (const auto& key : framework.assumed) {
    const auto* field = field_of("framework." + key);
    if (!field || !moves(*field)) continue;
    const auto source = framework.sources.find(key);
    all.push_back(fmt::format("framework {}: {} = {} was not measured ({}).", framework.name, key,
                              fields::shown(field->get(&scenario)),
                              source == framework.sources.end() ? "no source" : source->second));
  }
  return all;
}

}  // namespace rehearsal::answer
