#include "gpu/device_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::gpu {
namespace {

constexpr auto kLook = std::chrono::microseconds(50);
const Time kCheck = seconds(10e-3);

}  // namespace

DeviceExecutor::DeviceExecutor(const graph::TaskGraph& graph, std::vector<RankId> served,
                               const backend::RunOptions& options, Device& device, Fabric& fabric, std::size_t depth)
    : graph_(graph),
      computes_(options.compute == backend::Compute::real),
      device_(device),
      fabric_(fabric),
      main_(device.make_stream()),
      probe_(device.make_event()),
      base_(device.make_event()),
      done_(device.make_event()),
      index_(graph.ranks().size(), 0),
      order_(issue_order(graph, served, options.starts)),
      progress_(served.size()) {
  for (std::size_t i = 0; i < served.size(); ++i) {
    index_[served[i].index()] = i;
    ranks_.push_back(
        std::make_unique<GpuRank>(graph, served[i], options, device, served.size() > 1 ? i : 0, fabric, depth));
    rank_done_.push_back(device.make_event());
    const auto lanes = dispatch::issue_lists(graph.program_of(graph.ranks()[served[i].index()])).size();
    progress_[i].heads = std::vector<std::atomic<std::uint32_t>>(lanes);
  }
  for (const auto& rank : ranks_) drain(device_, rank->home(), done_);
}

void DeviceExecutor::load() {
  for (const auto& rank : ranks_) rank->load(), drain(device_, rank->home(), done_);
}

void DeviceExecutor::record(int step) {
  device_.begin_recording(main_);
  queue_all(step);
  recording_ = device_.end_recording(main_);
}

void DeviceExecutor::issue(int step) {
  // Relates the device's clock to the host's: nothing is queued, so an event is reached at once.
  device_.record(probe_, main_);
  const Time before = dispatch::now();
  while (!device_.reached(probe_)) {
  }
  began_error_ = Time((dispatch::now() - before).count() / 2);
  probed_ = before + began_error_;
  if (recording_)
    device_.replay(*recording_, main_);
  else
    queue_all(step);
  device_.record(done_, main_);
}

void DeviceExecutor::queue_all(int step) {
  fabric_.begin_iteration();
  device_.record(base_, main_);
  for (const auto& rank : ranks_) rank->begin(step, base_);
  for (std::size_t row = 0; row < order_.rows(); ++row) {
    const auto tasks = order_[row];
    const graph::Program& program = graph_.program_of(graph_.ranks()[tasks.front().rank.index()]);
    const std::uint32_t endpoint = program.endpoint[tasks.front().task.index()];
    if (endpoint != graph::kNoEndpoint && program.endpoints[endpoint] == graph::EndpointKind::group)
      queue_collective(tasks);
    else
      rank(tasks.front().rank).issue(tasks.front().task);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i]->end();
    device_.record(rank_done_[i], ranks_[i]->home());
    device_.wait(main_, rank_done_[i]);
  }
}

void DeviceExecutor::queue_collective(std::span<const TaskOfRank> members) {
  std::vector<Fabric::Member> here;
  for (const TaskOfRank& member : members)
    if (const auto joining = rank(member.rank).begin_collective(member.task)) here.push_back(*joining);
  INVARIANT(here.empty() || here.size() == members.size(), "a collective is left out by all members or by none");
  if (!here.empty()) fabric_.collective(rank(members.front().rank).operation(members.front().task), here);
  for (const TaskOfRank& member : members) rank(member.rank).end_collective(member.task);
}

void DeviceExecutor::look() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i]->look(progress_[i]);
}

void DeviceExecutor::finish(const std::function<void()>& check) {
  const auto look_around = [&] {
    look();
    if (const auto failure = fabric_.failure()) throw MachineError(*failure);
    check();
  };
  Time next_check = dispatch::now() + kCheck;
  while (!device_.reached(done_)) {
    if (dispatch::now() >= next_check) {
      look_around();
      next_check = dispatch::now() + kCheck;
    }
    std::this_thread::sleep_for(kLook);
  }
  look_around();
  // The device dates its start relative to the probe: the host may have queued it at any time before.
  began_ = probed_ + device_.between(probe_, base_);
  for (const auto& rank : ranks_) rank->collect();
  for (dispatch::Progress& progress : progress_) ++progress.iterations;
}

std::string DeviceExecutor::crowding() const {
  // On an H100 (driver 580) four stages took 1.9 times as long from a recording as in streams, with 32 connections, and
  // three times with one: short kernels of a stage waited for long ones of another, which had multiprocessors of its
  // own.
  if (recording_ && computes_ && ranks_.size() > 1)
    return "a recording runs kernels of one virtual stage behind those of another where they share a hardware queue; "
           "without --replay they run beside each other";
  std::size_t streams = 1;  // main_
  for (const auto& rank : ranks_) streams += rank->streams();
  if (streams <= device_.facts().connections) return {};
  return fmt::format("{} streams share the {} connections of the device: work on one may wait for work on another",
                     streams, device_.facts().connections);
}

DeviceReport DeviceExecutor::observe(int step, const std::function<void()>& check) {
  device_.observe();
  issue(step);
  finish(check);
  return device_.observed();
}

std::vector<timeline::Spans> DeviceExecutor::spans(Time origin) const {
  std::vector<timeline::Spans> all;
  const Time base_at = began_ - origin;
  for (const auto& rank : ranks_) all.push_back(rank->spans(base_, base_at));
  return all;
}

}  // namespace rehearsal::gpu
