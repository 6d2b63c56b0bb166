#include "explore/perform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::explore {

using backend::Compute;

Performable load_performable(const std::string& path, const std::vector<std::string>& sets,
                             std::optional<Compute> compute, const std::string& backend, const scenario::Files& files) {
  // For other frameworks, features that only native kernels have are errors: then the native scenario is loaded
  // instead.
  std::optional<scenario::Scenario> asked;
  try {
    asked = scenario::load(path, sets, backend, files);
  } catch (const UserError&) {
    if (compute == Compute::timed) throw;
  }
  Performable result;
  result.compute = compute.value_or(asked && asked->abstract ? Compute::timed : Compute::real);
  if (result.compute == Compute::real && asked && asked->abstract)
    throw UserError(
        fmt::format("'{}' gives times instead of a model: there is nothing to compute; use --compute timed", path));
  auto& scenario = result.scenario;
  if (result.compute == Compute::timed || (asked && asked->concrete->framework.native_kernels)) {
    scenario = std::move(*asked);
  } else {
    auto with_own = sets;
    with_own.emplace_back("framework=native");
    scenario = scenario::load(path, with_own, backend, files);
    scenario.warnings.push_back(
        fmt::format("{} cannot be performed: its kernels are replaced by this program's own (framework: native)",
                    asked ? "framework " + asked->concrete->framework.name : "what the scenario's framework would do"));
  }
  if (const auto& data = scenario.data_parallel; data.served()) {
    if (backend == "cuda")
      throw UserError(
          "parameter servers were never tried on GPUs; use --backend loopback or mpi, or --set "
          "data_parallel=all-reduce");
    if (!data.synchronous() && data.performed == 0)
      throw UserError(
          fmt::format("parameter servers with a delay are predicted iteration by iteration, and timed tasks of "
                      "framework {} are one "
                      "of them; use --compute real, or --set data_parallel.delay=0",
                      scenario.concrete->framework.name));
    if (data.performed > 0)
      scenario.warnings.push_back(
          fmt::format("{} iterations that overlap are performed as one, and that is what is called an iteration here",
                      data.performed));
  }
  if (backend == "cuda" && !scenario.parallelism.layouts.empty())
    throw UserError(
        "stages with layouts of their own send parts of their activations, which was never tried on GPUs; use "
        "--backend "
        "loopback or mpi, or leave 'stages' out");
  if (auto& sync = scenario.optimizer_sync; sync.post_validation) {
    if (result.compute == Compute::timed)
      throw UserError(
          "steps that are validated afterwards (training.optimizer_sync: post-validation) have no timed tasks; use "
          "--compute real, or --set training.optimizer_sync=barrier");
    if (backend == "cuda")
      throw UserError(
          "steps that are validated afterwards (training.optimizer_sync: post-validation) were never tried on GPUs; "
          "use "
          "--backend loopback or mpi, or --set training.optimizer_sync=barrier");
    if (sync.rollback_probability != 0 && sync.rollback_probability != 1)
      throw UserError(
          fmt::format("performed steps are all taken back or none: set training.rollback_probability to 0 or 1, not {}",
                      sync.rollback_probability));
    sync.performed = scenario.simulate.iterations;
    scenario.warnings.push_back(
        fmt::format("{} iterations that overlap are performed as one, and that is what is called an iteration here; {}",
                    sync.performed,
                    sync.rollback_probability > 0 ? "every step is taken back, whatever its gradient, and taken again"
                                                  : "the state that travels is empty: no norm decides"));
  }
  const bool uneven = scenario.concrete && (!scenario.faults.empty() || !scenario.concrete->cluster.groups.empty());
  if (result.compute == Compute::real && uneven)
    scenario.warnings.emplace_back(
        "faults and groups of GPUs are predicted, not performed: ranks compute on the machine that is there");
  // What moves inside a pass moves over wires as a task of its own; in a coarser one it would be waited out.
  const auto& p = scenario.parallelism;
  const bool moves =
      scenario.concrete && !scenario.concrete->framework.native_kernels && p.tensor * p.context * p.expert > 1;
  if (result.compute == Compute::timed && backend != "loopback" && moves)
    scenario.simulate.detail = graph::Detail::operators;
  scenario.simulate.symmetry = false;
  scenario.simulate.iterations = 1;
  return result;
}

backend::TrainingData learning(const scenario::Scenario& scenario) {
  backend::TrainingData learning;
  if (!scenario.concrete) return learning;
  const auto& model = scenario.concrete->model;
  const auto& training = scenario.concrete->training;
  learning.seed = scenario.simulate.seed;
  learning.micro_batch = scenario.batch.micro;
  learning.sequence = scenario.batch.sequence;
  learning.microbatches = scenario.microbatches();
  learning.context = scenario.parallelism.context;
  learning.pieces = scenario.schedule.cut();
  for (const auto& layout : scenario.parallelism.layouts)
    learning.stages.push_back({layout.data, layout.context}),
        learning.context = std::max(learning.context, layout.context);
  if (!learning.stages.empty()) learning.micro_batch *= scenario.parallelism.data;
  learning.balanced = learning.context > 1 && training.balances_context();
  if (scenario.batch.packed && scenario.batch.document_mask) learning.documents = scenario.batch.lengths;
  learning.vocabulary = model.family == models::Family::mlp ? 0 : model.vocabulary;
  learning.width = model.hidden;
  learning.learning_rate = static_cast<float>(training.learning_rate);
  learning.weight_decay = static_cast<float>(training.weight_decay);
  return learning;
}

std::vector<timeline::Sampling> sampling(const scenario::Scenario& scenario, std::span<const graph::Work> works) {
  std::vector<timeline::Sampling> result(works.size(), timeline::Sampling::unknown);
  if (!scenario.concrete || !scenario.concrete->profile) return result;
  for (std::size_t w = 0; w < works.size(); w++)
    if (const auto* kernel = std::get_if<Kernel>(&works[w]))
      if (const auto price = scenario.concrete->profile->time(*kernel))
        result[w] = price->exact ? timeline::Sampling::in_sample : timeline::Sampling::out_of_sample;
  return result;
}

namespace {

// MemAvailable of the system, or the limit of a control group if lower; nothing if the system does not report it.
std::optional<Bytes> available_memory() {
  std::optional<std::int64_t> free;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;)
    if (std::int64_t kib = 0; key == "MemAvailable:" && meminfo >> kib) free = kib * 1024;
  std::int64_t limit = 0, used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit && std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    free = std::min(free.value_or(limit - used), limit - used);
  return free ? std::optional(Bytes(*free)) : std::nullopt;
}

}  // namespace

void require_memory(const answer::Result& prediction) {
  const auto free = available_memory();
  if (!free) return;
  const auto& graph = prediction.graph();
  Bytes needed;
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    needed += timeline::memory_peak(graph, prediction.timeline, RankId(r)).peak;
  if (needed > *free)
    throw MachineError(fmt::format(
        "{} ranks on this machine need {} of memory for their buffers, and {} is free; make the model or the "
        "batch smaller, or use --compute timed",
        graph.ranks().size(), show(needed), show(*free)));
}

backend::Collectives usual_collectives(const std::string& backend) {
  return backend == "cuda" ? backend::Collectives::library : backend::Collectives::own;
}

std::optional<backend::Collectives> collectives(const std::string& backend, const backend::RunOptions& options) {
  if (backend == "loopback" && options.compute == Compute::timed) return std::nullopt;
  return options.collectives;
}

Performed perform(const answer::LoweredJob& lowered, backend::Backend& backend, backend::RunOptions options) {
  const auto session = backend.prepare(lowered.graph);
  options.durations = lowered.durations;
  options.held = lowered.held;
  options.learning = learning(lowered.scenario);
  Performed performed;
  if (!lowered.graph.groups().empty()) performed.collectives = collectives(backend.name(), options);
  const auto executions = answer::executions(lowered);
  options.executions = executions;
  performed.timeline = session->run(options);
  if (options.compute == Compute::real) performed.trained = session->trained();
  return performed;
}

}  // namespace rehearsal::explore
