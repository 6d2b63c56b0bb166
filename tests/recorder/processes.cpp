#include "recorder/processes.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "dispatch/traffic.hpp"
#include "dispatch/zero_buffer.hpp"
#include "gpu/device_executor.hpp"
#include "gpu/nccl_fabric.hpp"
#include "graph/validate.hpp"

namespace rehearsal::test {
namespace {

using backend::Compute;

struct OneProcess {
  explicit OneProcess(World& world) : device(world), communicators(world, device) {}
  RecordingDevice device;
  RecordingCommunicators communicators;
  std::optional<gpu::NcclFabric> fabric;
  std::optional<gpu::DeviceExecutor> executor;
};

class Processes : public backend::Session {
 public:
  Processes(const graph::TaskGraph& graph, World& world) : graph_(graph), world_(world) {
    graph::validate(graph);
    dispatch::check_zero_buffer(graph);
  }

  timeline::Timeline run(const backend::RunOptions& options) override {
    const std::size_t depth = dispatch::message_depth(graph_), ranks = graph_.ranks().size();
    std::vector<std::unique_ptr<OneProcess>> all;
    std::vector<gpu::CommunicatorIds> ids;
    for (std::size_t r = 0; r < ranks; ++r) {
      all.push_back(std::make_unique<OneProcess>(world_));
      ids.push_back(make_ids(graph_, RankId(r), all.back()->communicators));
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      OneProcess& one = *all[r];
      one.fabric.emplace(graph_, RankId(r), one.device, one.communicators, ids, seconds(1), depth,
                         dispatch::by_steps(options));
      one.executor.emplace(graph_, std::vector{RankId(r)}, options, one.device, *one.fabric, depth);
    }
    for (const auto& one : all) one->executor->load();
    for (const auto& one : all) one->fabric->begin_connecting();
    while (world_.progress()) {
    }
    std::vector<dispatch::RankResult> results(all.size());
    for (int step = 0; step < options.warmup + std::max(options.iterations, 1); ++step) {
      for (const auto& one : all) {
        if (options.recorded && step == 1) one->executor->record(step);
        one->executor->issue(step);
      }
      while (world_.progress()) {
      }
      for (std::size_t r = 0; r < all.size(); ++r) {
        all[r]->executor->finish([this] {
          if (world_.waiting() > 0) throw InternalError("a rank hangs:\n" + world_.heads());
        });
        if (step >= options.warmup)
          results[r].iterations.push_back(all[r]->executor->spans(all[r]->executor->began()).front());
      }
    }
    for (std::size_t r = 0; r < all.size(); ++r) results[r].learned = all[r]->executor->learned(0);
    if (options.compute == Compute::real) trained_ = dispatch::trained(graph_, results);
    return dispatch::assemble(graph_, std::move(results), "recorder", options.compute, false);
  }
  backend::TrainingResult trained() const override { return trained_; }

 private:
  const graph::TaskGraph& graph_;
  World& world_;
  backend::TrainingResult trained_;
};

class Job : public backend::Backend {
 public:
  explicit Job(World& world) : world_(world) {}
  std::string name() const override { return "recorder"; }
  std::string summary() const override { return "A GPU per process, recorded."; }
  std::vector<backend::Capability> capabilities() const override { return {}; }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph& graph) override {
    return std::make_unique<Processes>(graph, world_);
  }

 private:
  World& world_;
};

}  // namespace

std::unique_ptr<backend::Backend> processes_in_one_thread(World& world) { return std::make_unique<Job>(world); }

}  // namespace rehearsal::test
