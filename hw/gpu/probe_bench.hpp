// What the measurements of a probe share: streams of the parts, memory for operands, and the way of timing.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/probe.hpp"

namespace rehearsal::gpu {

LaunchTime launch_time(std::vector<Time> times);  // at least one; not below a tick of the clock
LaunchTime divided(const LaunchTime& t, std::int64_t by);  // of each of so many

class ProbeBench {
 public:
  // Partitions the device, allocates and fills the arenas. Borrows both.
  ProbeBench(Device& device, const ProbeOptions& options);
  ~ProbeBench();
  ProbeBench(const ProbeBench&) = delete;
  ProbeBench& operator=(const ProbeBench&) = delete;

  Device& device() { return device_; }
  int multiprocessors() const { return multiprocessors_; }
  std::size_t parts() const { return streams_.size(); }
  StreamId stream(std::size_t part) const { return streams_.at(part); }
  StreamId other() const { return other_; }  // a second one of the first part

  // Queues launch number `round` of a part on its stream.
  using Launch = std::function<void(std::size_t part, std::int64_t round)>;
  // Of the parts from 0 to `parts`, all at once. `settle`: goes on for so long before it counts.
  LaunchTime time(std::size_t parts, const Launch& launch, Time settle = {});
  // Of the first part, while `load` is queued often enough on other() to last longer. Nothing when it never does.
  std::optional<LaunchTime> time_beside(const Launch& launch, const std::function<void(std::int64_t)>& load);

  // Puts fresh numbers where the kernel's operands will be, and makes the data of its micro-batch. Says why not when
  // the arena, or the first `room` bytes of it, cannot hold a set of operands for each of so many parts.
  std::optional<std::string> prepare(const Kernel& kernel, std::size_t parts, std::optional<Bytes> room = {});
  // A Call of the kernel that was prepared last, with the operands whose turn it is.
  kernels::Call call(std::size_t part, std::int64_t round) const;

  Address arena() const { return arena_; }
  Bytes arena_size() const { return options_.arena; }
  void drain_all();

 private:
  enum Pattern : std::uint8_t { kSigned, kPositive, kFp8, kPatterns };
  EventId event(std::size_t number);
  void wait_for(EventId event) const;
  Time estimate(const Launch& launch);
  Address allocate(Bytes size);
  template <class T>
  T* upload(const std::vector<T>& values);
  void make_data(const Kernel& kernel);

  Device& device_;
  const ProbeOptions& options_;
  int multiprocessors_ = 0;
  std::vector<StreamId> streams_;
  StreamId other_;
  PoolId pool_;
  std::vector<EventId> events_;
  std::vector<Address> blocks_, data_blocks_;
  Address arena_ = nullptr, shared_ = nullptr;  // shared: scratch, sums and steps of each part
  std::array<Address, kPatterns> patterns_{};
  Bytes pattern_size_;

  // Of the prepared kernel.
  kernels::Call call_;
  std::array<std::int64_t, kMostOperands> offset_{};
  std::size_t operands_ = 0;
  Address slots_ = nullptr;               // of a kernel that goes by them
  std::int64_t set_size_ = 0, sets_ = 1;  // of each part
};

}  // namespace rehearsal::gpu
