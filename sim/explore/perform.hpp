// Performs a scenario on a real backend: every rank runs, none represents others, and every iteration is timed from its
// own start to its own end.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "backend/backend.hpp"
#include "timeline/compare.hpp"

namespace rehearsal::explore {

// Loads a scenario so that `backend` can perform it: symmetry off. Default of `compute`: real for a scenario with a
// model, timed for one with given times. Real compute needs native kernels: a scenario of another framework is loaded
// again with them, and a warning says so.
//
// Throws UserError that names any unsupported feature.
struct Performable {
  scenario::Scenario scenario;
  backend::Compute compute = backend::Compute::timed;
};
Performable load_performable(const std::string& path, const std::vector<std::string>& sets,
                             std::optional<backend::Compute> compute, const std::string& backend,
                             const scenario::Files& files = scenario::disk());

// Real compute needs the memory of all ranks on this machine. Throws MachineError, before anything is allocated, when
// the predicted peaks exceed free memory: Linux would overcommit and kill a process later.
void require_memory(const answer::Result& prediction);

// How collectives are performed unless a user says otherwise: step by step, as they are predicted, but on GPUs by NCCL,
// whose calls training runs make.
backend::Collectives usual_collectives(const std::string& backend);
// What becomes of RunOptions::collectives: nothing where collectives move no bytes (loopback, timed compute).
std::optional<backend::Collectives> collectives(const std::string& backend, const backend::RunOptions& options);

// The training data of real compute.
backend::TrainingData learning(const scenario::Scenario& scenario);

// Which prices the profile measured at exactly their shape: one entry per work; all unknown without a profile.
std::vector<timeline::Sampling> sampling(const scenario::Scenario& scenario, std::span<const graph::Work> works);

struct Performed {
  timeline::Timeline timeline;
  backend::TrainingResult trained;  // real compute
  // How collectives were performed; nothing where there are none, or where they only take their predicted time.
  std::optional<backend::Collectives> collectives;
  std::vector<answer::Measured::Link> links = {};  // over hosts of this machine
};
// `options` without durations, algorithms and training data, which the lowered job provides. Throws MachineError when
// this machine cannot perform it.
Performed perform(const answer::LoweredJob& lowered, backend::Backend& backend, backend::RunOptions options);

}  // namespace rehearsal::explore
