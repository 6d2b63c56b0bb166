#include "published/widths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/quantity_text.hpp"
#include "published/constants.hpp"

namespace rehearsal::published {
namespace {

// "16.1us" divided by 1.3: only the number changes. Divided, because a share above 1 is invalid.
std::string lower_by(const std::string& value, double factor) {
  const auto unit = std::min(value.find_first_not_of("0123456789.+-e"), value.size());
  return fmt::format("{:.9g}{}", parse_number(value.substr(0, unit)) / factor, value.substr(unit));
}

double seconds_of(const scenario::Scenario& scenario) {
  return to_seconds(answer::predict(scenario, answer::Options::time_alone()).summary.iteration);
}

}  // namespace

Widths widths(const std::vector<Prediction>& predictions, const ValidationRun& options) {
  std::map<std::string, std::vector<const Prediction*>> classes;
  for (const auto& p : predictions)
    if (p.timed() && !p.kind.experts) classes[class_of(p.kind)].push_back(&p);
  struct Turn {
    const std::string* of_class;
    const Prediction* run;
    const Constant* constant;
    double moves = 0;  // ln of the step
  };
  const auto mapping = read_mapping();
  const auto constants = read_constants();
  std::vector<Turn> turns;
  for (auto& [name, runs] : classes) {
    if (runs.size() < kFewestRuns) continue;
    const auto middle = runs.begin() + std::ptrdiff_t(runs.size() / 2);
    std::nth_element(runs.begin(), middle, runs.end(),
                     [](const auto* a, const auto* b) { return a->iteration_s < b->iteration_s; });
    for (const auto& constant : constants)
      if (constant.acts_on((*middle)->kind.gpu, (*middle)->kind.framework))
        turns.push_back({&name, *middle, &constant});
  }
  in_parallel(turns.size(), options.jobs, [&](std::size_t i) {
    auto& turn = turns[i];
    const auto row = scenario_of(turn.run->run, mapping, options.framework);
    auto sets = row.sets;
    sets.insert(sets.end(), options.sets.begin(), options.sets.end());
    sets.push_back(turn.constant->key + "=" + lower_by(turn.constant->value, 1 + turn.constant->width));
    try {
      const auto place = fmt::format("{}:{}", turn.run->run.file, turn.run->run.line);
      turn.moves = std::log(seconds_of(scenario::load_text(row.yaml, place, sets)) / turn.run->iteration_s);
    } catch (const UserError&) {  // a key that does not exist in this scenario has no effect
    }
  });
  Widths all;
  for (const auto& turn : turns) all[*turn.of_class] = std::hypot(all[*turn.of_class], turn.moves);
  return all;
}

}  // namespace rehearsal::published
