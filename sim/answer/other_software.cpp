#include "answer/other_software.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"

namespace rehearsal::answer {

std::vector<SoftwareTime> with_other_software(const scenario::Scenario& scenario, std::uint64_t tasks) {
  const auto& others = scenario.other_software;
  std::vector<std::optional<SoftwareTime>> times(others.size());
  in_parallel(others.size(), std::max(1u, std::thread::hardware_concurrency()), [&](std::size_t i) {
    auto changed = scenario;
    changed.concrete->software = others[i].software;
    changed.concrete->training.gradient_precision = others[i].gradient_precision;
    changed.simulate.detail = graph::Detail::stage;  // as long at every detail
    changed.simulate.symmetry = true, changed.job.reset();
    const bool whole = tasks <= kMostTasks;
    try {
      times[i] = {others[i].software.name,
                  whole ? predict(changed, {.summary = {.memory = false, .critical_path = false}}).summary.iteration
                        : estimate(changed).iteration,
                  whole};
    } catch (const UserError&) {
    }
  });
  std::vector<SoftwareTime> answered;
  for (auto& time : times)
    if (time) answered.push_back(std::move(*time));
  return answered;
}

}  // namespace rehearsal::answer
