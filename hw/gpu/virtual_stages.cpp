#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/results.hpp"
#include "dispatch/watchdog.hpp"
#include "dispatch/zero_buffer.hpp"
#include "gpu/copy_fabric.hpp"
#include "gpu/device_executor.hpp"
#include "gpu/sessions.hpp"

namespace rehearsal::gpu {
namespace {

using backend::Compute;
using backend::RunOptions;
using backend::Timeline;

class VirtualStages : public backend::Session {
 public:
  VirtualStages(const graph::TaskGraph& graph, const Platform& platform) : graph_(graph), platform_(platform) {
    platform.devices();  // throws the reason when there is none
  }

  Timeline run(const RunOptions& options) override {
    trained_ = {};
    const auto device = platform_.open(0);
    std::vector<RankId> ranks;
    for (std::size_t r = 0; r < graph_.ranks().size(); ++r) ranks.push_back(RankId(r));
    if (ranks.size() > 1) device->partition(ranks.size());
    const std::size_t depth = dispatch::message_depth(graph_);
    CopyFabric fabric(graph_, *device, depth);
    DeviceExecutor executor(graph_, ranks, options, *device, fabric, depth);
    auto results = perform(executor, options);
    for (std::size_t r = 0; r < ranks.size(); ++r) results[r].learned = executor.learned(r);
    if (options.observed) {  // the training result of this iteration is dropped
      Patience patience(*this, executor, options);
      const int next = options.warmup + std::max(options.iterations, 1);
      results.front().learned.devices = {executor.observe(next, [&] { patience.check(); })};
    }
    if (options.compute == Compute::real) trained_ = dispatch::trained(graph_, results);
    Timeline timeline = dispatch::assemble(graph_, std::move(results), platform_.name, options.compute, false);
    if (const auto crowded = executor.crowding(); !crowded.empty()) timeline.disturbances.push_back(crowded);
    timeline.engine = ranks.size() > 1 ? "virtual stages on one GPU" : "one GPU";
    if (ranks.size() > 1) timeline.fidelity = timeline::Fidelity::emulated;  // links and collectives are copies
    return timeline;
  }
  backend::TrainingResult trained() const override { return trained_; }

 private:
  // Limits the wait for one iteration: throws MachineError when nothing has moved for too long.
  class Patience {
   public:
    Patience(const VirtualStages& session, DeviceExecutor& executor, const RunOptions& options)
        : session_(session), timeout_(options.timeout), watchdog_(options.timeout) {
      for (std::size_t r = 0; r < session.graph_.ranks().size(); ++r) watched_.push_back(&executor.progress(r));
    }
    void check() {
      if (!watchdog_.expired(watched_, dispatch::now())) return;
      std::vector<dispatch::Positions> positions;
      for (const dispatch::Progress* rank : watched_) positions.push_back(dispatch::positions(*rank));
      throw MachineError(fmt::format("{}: nothing has moved for {}; {}", session_.platform_.name, show(timeout_),
                                     dispatch::hang_report(session_.graph_, positions)));
    }

   private:
    const VirtualStages& session_;
    const Time timeout_;
    dispatch::Watchdog watchdog_;
    std::vector<const dispatch::Progress*> watched_;
  };

  std::vector<dispatch::RankResult> perform(DeviceExecutor& executor, const RunOptions& options) const {
    std::vector<dispatch::RankResult> results(graph_.ranks().size());
    for (int step = 0; step < options.warmup + std::max(options.iterations, 1); ++step) {
      if (options.recorded && step == 1) executor.record(step);
      Patience patience(*this, executor, options);
      executor.issue(step);
      executor.finish([&] { patience.check(); });
      if (options.progress) options.progress(step + 1);
      if (step < options.warmup) continue;
      auto spans = executor.spans(executor.began());  // one device, one clock
      for (std::size_t r = 0; r < results.size(); ++r) results[r].iterations.push_back(std::move(spans[r]));
    }
    return results;
  }

  const graph::TaskGraph& graph_;
  const Platform& platform_;
  backend::TrainingResult trained_;
};

}  // namespace

std::unique_ptr<backend::Session> virtual_stages(const graph::TaskGraph& graph, const Platform& platform) {
  return std::make_unique<VirtualStages>(graph, platform);
}

}  // namespace rehearsal::gpu
