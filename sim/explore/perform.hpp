// Performs a scenario on a real backend: every rank is there, none stands for others, and every iteration is performed
// from its own start to its own end.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "backend/backend.hpp"
#include "timeline/compare.hpp"

namespace rehearsal::explore {

// Loads a scenario so that it can be performed by `backend`: symmetry off. Without `compute`, what suits the scenario:
// real for one with a model, timed for one with given times. Real compute needs the kernels of this program: a scenario
// of other framework is loaded again with them, and its warnings say so.
//
// Throws UserError for what cannot be performed yet, by name.
struct Performable {
  scenario::Scenario scenario;
  backend::Compute compute = backend::Compute::timed;
};
Performable load_performable(const std::string& path, const std::vector<std::string>& sets,
                             std::optional<backend::Compute> compute, const std::string& backend);

// Real compute needs the memory of all ranks on this machine. Throws MachineError, before anything is allocated, when
// the predicted peaks are more than what is free: Linux would promise it and kill somebody later.
void require_memory(const answer::Result& prediction);

// What real compute trains on.
backend::TrainingData learning(const scenario::Scenario& scenario);

// Which prices a profile knows from the very shape: one per work; all unknown without a profile.
std::vector<timeline::Sampling> sampling(const scenario::Scenario& scenario, std::span<const graph::Work> works);

struct Performed {
  timeline::Timeline timeline;
  backend::TrainingResult trained;  // real compute
};
// `options` without durations and learning, which the lowered knows. Throws MachineError when this machine cannot
// perform it.
Performed perform(const answer::LoweredJob& lowered, backend::Backend& backend, backend::RunOptions options);

}  // namespace rehearsal::explore
