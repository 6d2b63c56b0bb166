#include "answer/whole_run.hpp"

#include <fmt/format.h>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "models/framework.hpp"
#include "models/shapes.hpp"
#include "plan/plan.hpp"

namespace rehearsal::answer {
namespace {

// The parameters that a checkpoint must restore: frozen weights are read from their original file.
double learning_parameters(const scenario::Concrete& c) {
  const bool tower_is_read = c.model.vision && c.model.vision->frozen;
  if (!c.training.frozen())
    return models::parameters(c.model) - (tower_is_read ? models::tower_parameters(c.model) : 0);
  const auto network = models::framework_network(c.model, c.training, c.framework, {.sequence = c.model.sequence}, {});
  double all = 0;
  for (std::int64_t l = 0; l < c.model.layers; ++l) all += network.layer(l).learning;
  all += network.embedding.learning + network.head.learning;
  return all;
}

void timed(job::Step& step, const Summary& summary) {
  step.seconds = to_seconds(summary.useful ? summary.useful->step : summary.iteration);
  step.low = summary.error_band.low, step.high = summary.error_band.high;
}

}  // namespace

job::Step job_step(const scenario::Scenario& scenario) {
  INVARIANT(scenario.job && scenario.concrete, "a whole run without a job or a model");
  const auto& c = *scenario.concrete;
  job::Step step;
  step.sequences = double(scenario.batch.global);
  step.tokens = step.sequences * double(scenario.batch.sequence);
  step.gpus = scenario.parallelism.gpus(), step.nodes = c.cluster.nodes, step.gpus_per_node = c.cluster.gpus_per_node;
  step.server_gpus = scenario.data_parallel.own_nodes() * c.cluster.gpus_per_node;
  step.replicas = scenario.parallelism.data;
  step.gpu_watts = c.cluster.gpu.power_limit;
  const auto states = plan::state_bytes(c.training);
  step.state_bytes = learning_parameters(c) * (states.parameters + states.optimizer);
  if (const auto& pcie = c.cluster.host.pcie) step.to_host = pcie->value();
  step.to_peer = c.cluster.node_rate().value() / double(c.cluster.gpus_per_node);
  if (const auto& memory = c.cluster.host.memory) step.host_memory = double(memory->count());
  return step;
}

job::WholeRun whole_run(const LoweredJob& lowered, const Summary& summary) {
  const auto& scenario = lowered.scenario;
  auto step = job_step(scenario);
  timed(step, summary);
  // A forward pass is a third of the FLOPs without recomputation, and takes that share of the step here.
  step.forward = lowered.model_flops.value() / 3 / lowered.hardware_flops.value();
  std::vector<std::string> warnings;
  bool fits = true;
  for (std::size_t i = 0; i < scenario.phases.size(); ++i) {
    const auto& phase = *scenario.phases[i];
    const auto predicted = predict(phase, Options::summary_alone()).summary;
    auto& one = step.phases.emplace_back();
    one.sequences = double(phase.batch.global), one.tokens = one.sequences * double(phase.batch.sequence);
    timed(one, predicted);
    if (predicted.fits != false) continue;
    fits = false, warnings.push_back(fmt::format("job: phase {} does not fit its GPUs", i + 1));
  }
  auto run = job::whole_run(*scenario.job, step);
  run.fits = fits;
  run.warnings.insert(run.warnings.end(), warnings.begin(), warnings.end());
  return run;
}

}  // namespace rehearsal::answer
