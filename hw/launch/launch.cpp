#include "launch/launch.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/probe.hpp"
#include "dispatch/results.hpp"
#include "graph/validate.hpp"
#include "launch/launcher.hpp"
#include "modules/module.hpp"

namespace rehearsal::launch {
namespace {

using backend::RunOptions;
using backend::Timeline;

class LaunchedSession : public backend::Session, public dispatch::LinkProber {
 public:
  LaunchedSession(const graph::TaskGraph& graph, std::string backend, Starter starter,
                  std::vector<std::string> arguments)
      : graph_(graph), backend_(std::move(backend)), starter_(starter), arguments_(std::move(arguments)) {}

  Timeline run(const RunOptions& options) override {
    if (starter_ == Starter::mpirun) refuse_crowding(options, graph_.ranks().size());
    std::vector<dispatch::RankResult> results;
    for (const std::string& bytes : launch(options.timeout, options.progress)) results.push_back(dispatch::read(bytes));
    if (options.compute == backend::Compute::real) trained_ = dispatch::trained(graph_, results);
    Timeline timeline =
        dispatch::assemble(graph_, std::move(results), backend_, options.compute, starter_ == Starter::mpirun);
    timeline.engine = "processes";
    return timeline;
  }
  backend::TrainingResult trained() const override { return trained_; }

  dispatch::LinkProbe probe_links() override {
    std::vector<dispatch::LinkProbe> probes;
    for (const std::string& bytes : launch(seconds(60), {})) probes.push_back(dispatch::read_probe(bytes));
    return dispatch::merge(probes);
  }

 private:
  std::vector<std::string> launch(Time timeout, std::function<void(int)> progress) const {
    std::vector<std::uint32_t> nodes;
    for (const auto& rank : graph_.ranks()) nodes.push_back(rank.node);
    return run_ranks({.starter = starter_,
                      .ranks = graph_.ranks().size(),
                      .nodes = std::move(nodes),
                      .arguments = arguments_,
                      .timeout = timeout,
                      .hang_report =
                          [&](const std::vector<dispatch::Positions>& at) {
                            return fmt::format("{}: nothing has moved for {}; {}", backend_, show(timeout),
                                               dispatch::hang_report(graph_, at));
                          },
                      .progress = std::move(progress)});
  }

  const graph::TaskGraph& graph_;
  std::string backend_;
  Starter starter_;
  std::vector<std::string> arguments_;
  backend::TrainingResult trained_;
};

using InProcesses = std::function<bool(std::size_t ranks)>;

// The module's backend, performed by separate processes if `in_processes` says so.
class Launched : public backend::Backend {
 public:
  Launched(std::unique_ptr<Backend> module, Starter starter, std::vector<std::string> arguments,
           InProcesses in_processes)
      : module_(std::move(module)),
        starter_(starter),
        arguments_(std::move(arguments)),
        in_processes_(std::move(in_processes)) {}
  std::string name() const override { return module_->name(); }
  std::string summary() const override { return module_->summary(); }
  std::vector<backend::Capability> capabilities() const override { return module_->capabilities(); }
  std::optional<std::string> why_unavailable() const override { return module_->why_unavailable(); }
  std::size_t devices() const override { return module_->devices(); }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    if (!in_processes_(graph.ranks().size())) return module_->prepare(graph);
    graph::validate(graph);
    return std::make_unique<LaunchedSession>(graph, name(), starter_, arguments_);
  }

 private:
  std::unique_ptr<Backend> module_;
  Starter starter_;
  std::vector<std::string> arguments_;
  InProcesses in_processes_;
};

}  // namespace

std::unique_ptr<backend::Backend> open(const std::string& name, std::vector<std::string> arguments,
                                       InProcesses in_processes) {
  if (name == "mpi" && !is_rank()) refuse_plain_srun();
  auto module = modules::load_backend(name);
  if (is_rank() || in_job(name)) return module;
  if (name == "mpi") {
    find_mpirun();
    return std::make_unique<Launched>(std::move(module), Starter::mpirun, std::move(arguments),
                                      [](std::size_t) { return true; });
  }
  if (!in_processes) return module;
  return std::make_unique<Launched>(std::move(module), Starter::fork, std::move(arguments), std::move(in_processes));
}

std::optional<std::string> why_unavailable(const std::string& name) {
  if (auto why = modules::why_unavailable(name)) return why;
  if (name != "mpi") return std::nullopt;
  try {
    find_mpirun();
    return std::nullopt;
  } catch (const MachineError& why) {
    return why.what();
  }
}

bool reports(const std::string& backend) {
  if (is_rank()) return false;
  const auto mine = membership(launchers_of(backend));
  return !mine || mine->rank == 0;
}

void refuse_crowding(const RunOptions& options, std::size_t here) {
  if (options.compute != backend::Compute::real || !options.times_matter || here <= cores()) return;
  throw MachineError(
      fmt::format("{} ranks that compute need a core each to be timed, and this machine has {}; use fewer ranks, "
                  "--compute timed, or --verify without times",
                  here, cores()));
}

}  // namespace rehearsal::launch
