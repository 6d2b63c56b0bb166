#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/results.hpp"
#include "dispatch/traffic.hpp"
#include "dispatch/watchdog.hpp"
#include "dispatch/zero_buffer.hpp"
#include "gpu/device_executor.hpp"
#include "gpu/nccl_fabric.hpp"
#include "gpu/sessions.hpp"
#include "launch/frames.hpp"
#include "launch/rank_process.hpp"

namespace rehearsal::gpu {
namespace {

using backend::Compute;
using backend::RunOptions;
using backend::Timeline;

const Time kLead = seconds(20e-3);  // from the agreement to the start: until all ranks have received it

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

class OneOfMany : public backend::Session {
 public:
  OneOfMany(const graph::TaskGraph& graph, const Platform& platform) : graph_(graph), platform_(platform) {
    job_.guarded([&] {
      const launch::RankEnvironment& mine = job_.membership();
      job_.bootstrap();  // before anything can fail: failures are reported through it
      if (mine.size != graph.ranks().size())
        throw MachineError(
            fmt::format("the job has {} ranks and the scenario needs {}", mine.size, graph.ranks().size()));
      const std::size_t gpus = platform.devices();
      if (mine.local_rank >= gpus)
        throw MachineError(fmt::format("{} ranks of a host want a GPU each, and it has {}",
                                       std::max(mine.local_size, mine.local_rank + 1), gpus));
      dispatch::compare_digests(job_.bootstrap().gather_everywhere("graph", graph.digest()));
      const auto hosts = job_.bootstrap().gather_everywhere("host", host_name());
      one_host_ = std::ranges::count(hosts, hosts.front()) == static_cast<std::ptrdiff_t>(hosts.size());
    });
  }

  Timeline run(const RunOptions& options) override {
    return job_.guarded([&] { return report(perform(options), options); });
  }
  backend::TrainingResult trained() const override { return trained_; }

 private:
  RankId rank() const { return RankId(job_.membership().rank); }

  dispatch::RankResult perform(const RunOptions& options) {
    const auto device = platform_.open(job_.membership().local_rank);
    const auto communicators = platform_.communicators(*device);
    const std::size_t depth = dispatch::message_depth(graph_);
    const auto made = launch::join_frames(make_ids(graph_, rank(), *communicators));
    std::vector<CommunicatorIds> ids;
    for (const std::string& one : job_.bootstrap().gather_everywhere("ids", made))
      ids.push_back(launch::split_frames(one));
    NcclFabric fabric(graph_, rank(), *device, *communicators, ids, options.timeout, depth,
                      dispatch::by_steps(options));
    try {
      DeviceExecutor executor(graph_, {rank()}, options, *device, fabric, depth);
      return perform(executor, fabric, options);
    } catch (...) {
      fabric.abort();  // before memory is freed: the device may wait for a peer that is gone
      throw;
    }
  }

  dispatch::RankResult perform(DeviceExecutor& executor, NcclFabric& fabric, const RunOptions& options) {
    std::atomic<bool> stop{false};
    const auto check = [&] {
      job_.bootstrap().throw_if_failed();
      if (stop)
        throw MachineError(
            fmt::format("nothing has moved for {}; this rank stands at:\n{}", show(options.timeout),
                        fmt::join(dispatch::heads(graph_, rank(), dispatch::positions(executor.progress(0))), "\n")));
    };
    executor.load();
    fabric.connect(check);
    job_.presence().begin(executor.progress(0), options.timeout, stop);
    dispatch::RankResult result;
    try {
      for (int step = 0; step < options.warmup + std::max(options.iterations, 1); ++step) {
        if (options.recorded && step == 1) executor.record(step);  // all ranks record before any of them starts
        const Time start = agree_on_start();
        executor.issue(step);
        executor.finish(check);
        if (step == 0) fabric.connected();
        clock_error_ = std::max(clock_error_, executor.began_error());
        if (step >= options.warmup) result.iterations.push_back(std::move(executor.spans(start).front()));
      }
    } catch (...) {
      job_.presence().end();
      throw;
    }
    job_.presence().end();
    result.clock_error = clock_error_;
    result.learned = executor.learned(0);
    if (options.observed) {  // the training result of this iteration is dropped
      agree_on_start();
      result.learned.devices = {executor.observe(options.warmup + std::max(options.iterations, 1), check)};
    }
    result.raised_priority = true;  // irrelevant: the CPU does not compute
    return result;
  }

  // Ranks of one host share its clock; otherwise each starts when it learns that all are there.
  Time agree_on_start() {
    const Time asked = dispatch::now();
    job_.bootstrap().barrier("start");
    if (!one_host_) {
      clock_error_ = std::max(clock_error_, dispatch::now() - asked);
      return dispatch::now();
    }
    const std::string proposed = std::to_string((dispatch::now() + kLead).count());
    const Time start(std::stoll(job_.bootstrap().broadcast("instant", proposed)));
    dispatch::sleep_until(start);
    return start;
  }

  // Reports to the process that makes the timeline: the parent, or rank 0 of a job without one.
  Timeline report(const dispatch::RankResult& result, const RunOptions& options) {
    std::vector<dispatch::RankResult> all;
    for (const std::string& one : job_.publish(dispatch::write(result))) all.push_back(dispatch::read(one));
    if (all.empty()) return {};
    if (options.compute == Compute::real) trained_ = dispatch::trained(graph_, all);
    Timeline timeline = dispatch::assemble(graph_, std::move(all), platform_.name, options.compute, false);
    timeline.engine = "processes";
    return timeline;
  }

  const graph::TaskGraph& graph_;
  const Platform& platform_;
  launch::RankProcess job_;
  bool one_host_ = true;
  Time clock_error_;
  backend::TrainingResult trained_;
};

}  // namespace

std::unique_ptr<backend::Session> one_of_many(const graph::TaskGraph& graph, const Platform& platform) {
  return std::make_unique<OneOfMany>(graph, platform);
}

}  // namespace rehearsal::gpu
