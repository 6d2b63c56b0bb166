#include "answer/other_framework.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"

namespace rehearsal::answer {

std::vector<FrameworkTime> with_other_framework(const scenario::Scenario& scenario, std::uint64_t tasks) {
  const auto& others = scenario.other_framework;
  std::vector<std::optional<FrameworkTime>> times(others.size());
  in_parallel(others.size(), std::max(1u, std::thread::hardware_concurrency()), [&](std::size_t i) {
    auto changed = scenario;
    changed.concrete->framework = others[i].framework;
    changed.concrete->training.gradient_precision = others[i].gradient_precision;
    changed.simulate.detail = graph::Detail::stage;  // the iteration is the same at every detail
    changed.simulate.symmetry = true, changed.job.reset();
    const bool whole = tasks <= kMostTasks;
    try {
      times[i] = {others[i].framework.name,
                  whole ? predict(changed, Options::time_alone()).summary.iteration : estimate(changed).iteration,
                  whole};
    } catch (const UserError&) {
    }
  });
  std::vector<FrameworkTime> answered;
  for (auto& time : times)
    if (time) answered.push_back(std::move(*time));
  return answered;
}

}  // namespace rehearsal::answer
