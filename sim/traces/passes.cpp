#include "traces/passes.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "traces/trace.hpp"

namespace rehearsal::traces {
namespace {

constexpr std::size_t kMostLabels = 0x7fff;  // LaunchedKernel::label
constexpr std::size_t kMostLanes = 0xffff;   // Launch::thread

constexpr std::uint64_t key_of(std::uint32_t process, std::uint32_t correlation) {
  return std::uint64_t{process} << 32 | correlation;
}

}  // namespace

std::string_view name(Pass pass) {
  static constexpr std::string_view kNames[kPasses] = {"unknown", "forward", "backward", "optimizer"};
  return kNames[index(pass)];
}

Pass pass_of(graph::Pass pass) {
  switch (pass) {
    case graph::Pass::forward:
      return Pass::forward;
    case graph::Pass::optimizer:
    case graph::Pass::parameter_gather:
      return Pass::optimizer;
    default:
      return Pass::backward;
  }
}

OpenRanges::OpenRanges(std::vector<Range> ranges, std::vector<std::uint32_t> processes, std::vector<bool> backward)
    : ranges_(std::move(ranges)),
      processes_(std::move(processes)),
      backward_(std::move(backward)),
      open_(processes_.size()) {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
    return std::tuple(a.start, -a.end, a.lane, a.label) < std::tuple(b.start, -b.end, b.lane, b.label);
  });
}

std::vector<std::uint32_t>& OpenRanges::open_on(std::uint32_t lane, std::int64_t time) {
  auto& open = open_[lane];
  std::erase_if(open, [&](std::uint32_t range) { return ranges_[range].end <= time; });
  return open;
}

Label OpenRanges::at(std::uint32_t lane, std::int64_t time) {
  for (; next_ < ranges_.size() && ranges_[next_].start <= time; ++next_)
    open_[ranges_[next_].lane].push_back(std::uint32_t(next_));
  Label found;
  bool within_backward = false;
  for (const auto range : open_on(lane, time)) {  // inner ones count more
    const auto& label = ranges_[range].label;
    if (label.pass != Pass::unknown) found.pass = label.pass;
    if (label.microbatch != graph::kNoMicrobatch) found.microbatch = label.microbatch;
    within_backward |= label.pass == Pass::backward;
  }
  if (found.pass == Pass::forward && within_backward) found.pass = Pass::backward;
  if (found.pass == Pass::unknown && backward_[lane]) found.pass = Pass::backward;
  if (found.pass != Pass::unknown && found.microbatch != graph::kNoMicrobatch) return found;
  const bool pass = found.pass == Pass::unknown, microbatch = found.microbatch == graph::kNoMicrobatch;
  std::int64_t pass_since = std::numeric_limits<std::int64_t>::min(), microbatch_since = pass_since;
  for (std::uint32_t other = 0; other < open_.size(); ++other) {
    if (other == lane || processes_[other] != processes_[lane] || open_[other].empty()) continue;
    for (const auto range : open_on(other, time)) {
      const auto& [start, end, _, label] = ranges_[range];
      if (pass && label.pass != Pass::unknown && start >= pass_since) found.pass = label.pass, pass_since = start;
      if (microbatch && label.microbatch != graph::kNoMicrobatch && start >= microbatch_since)
        found.microbatch = label.microbatch, microbatch_since = start;
    }
  }
  return found;
}

std::uint32_t HostSide::lane(std::uint32_t process, std::int64_t thread) {
  const auto [at, fresh] = lanes_.try_emplace({process, thread}, std::uint32_t(lanes_.size()));
  if (fresh)
    processes_.push_back(process), autograds_.push_back(false), leads_.push_back(false), last_node_.push_back(0);
  return at->second;
}

void HostSide::launch(std::uint32_t process, std::uint32_t correlation, std::int64_t thread, std::int64_t start,
                      std::int64_t duration) {
  const auto on = lane(process, thread);
  if (on > kMostLanes) return;
  const auto most = std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  launches_.push_back({key_of(process, correlation),
                       {start, std::uint32_t(std::clamp<std::int64_t>(duration, 0, most)), std::uint16_t(on)}});
}

void HostSide::range(std::uint32_t process, std::int64_t thread, std::int64_t start, std::int64_t end, Label label) {
  const auto on = lane(process, thread);
  ranges_.push_back({start, end, on, label});
  if (label.pass == Pass::optimizer) leads_[on] = true;
}

void HostSide::autograd(std::uint32_t process, std::int64_t thread, std::int64_t start, std::int64_t end) {
  const auto on = lane(process, thread);
  autograds_[on] = true;
  if (last_node_[on]) {  // nodes within a node, as of a checkpoint
    const auto& last = ranges_[last_node_[on] - 1];
    if (start >= last.start && end <= last.end) return;
  }
  ranges_.push_back({start, end, on, {Pass::backward, graph::kNoMicrobatch}});
  last_node_[on] = ranges_.size();
}

void HostSide::settle() {
  std::sort(launches_.begin(), launches_.end(),
            [](const Known& a, const Known& b) { return a.launch.start < b.launch.start; });
  auto backward = autograds_;
  for (std::size_t i = 0; i < backward.size(); ++i) backward[i] = backward[i] && !leads_[i];
  OpenRanges open(std::move(ranges_), processes_, std::move(backward));
  ranges_.clear();
  for (auto& one : launches_) one.launch.label = number_of(open.at(one.launch.thread, one.launch.start), labels_);
  std::sort(launches_.begin(), launches_.end(), [](const Known& a, const Known& b) {
    return std::tuple(a.key, a.launch.start) < std::tuple(b.key, b.launch.start);
  });
}

const HostSide::Known* HostSide::find(std::uint32_t process, std::uint32_t correlation) const {
  const auto key = key_of(process, correlation);
  const auto found = std::lower_bound(launches_.begin(), launches_.end(), key,
                                      [](const Known& one, std::uint64_t wanted) { return one.key < wanted; });
  return found != launches_.end() && found->key == key ? &*found : nullptr;
}

std::uint16_t number_of(const Label& label, std::vector<Label>& all) {
  const auto found = std::find(all.rbegin(), all.rend(), label);  // the last one is likely the same
  if (found != all.rend()) return std::uint16_t(all.rend() - found - 1);
  if (all.size() > kMostLabels) return 0;
  all.push_back(label);
  return std::uint16_t(all.size() - 1);
}

void by_elimination(Trace& trace) {
  std::vector<std::uint32_t> order(trace.kernels.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto launched = [&](std::uint32_t i) {
    const auto& kernel = trace.kernels[i];
    return kernel.launch == kNone ? kernel.start : trace.launches[kernel.launch].start;
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return launched(a) < launched(b); });
  bool backward = false, optimizer = false;
  for (auto& kernel : trace.kernels) {
    auto label = trace.labels[kernel.label];
    if (label.pass == Pass::unknown && trace.kind(kernel) == Kind::optimizer)
      label.pass = Pass::optimizer, kernel.part_of(number_of(label, trace.labels));
    backward |= label.pass == Pass::backward, optimizer |= label.pass == Pass::optimizer;
  }
  if (!backward || !optimizer) return;
  Pass next = Pass::unknown;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    auto& kernel = trace.kernels[*at];
    auto label = trace.labels[kernel.label];
    if (label.pass != Pass::unknown) {
      next = label.pass;
    } else if (next != Pass::unknown) {
      label.pass = next == Pass::optimizer ? Pass::optimizer : Pass::forward;
      kernel.part_of(number_of(label, trace.labels));
    }
  }
}

}  // namespace rehearsal::traces
