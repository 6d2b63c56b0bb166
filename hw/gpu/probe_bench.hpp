// What the measurements of a probe share: a stream per part, memory for operands, and the timing method.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/probe.hpp"

namespace rehearsal::gpu {

LaunchTime launch_time(std::vector<Time> times);           // takes at least one time; results are at least a clock tick
LaunchTime divided(const LaunchTime& t, std::int64_t by);  // time per launch of a sample of `by`

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
  StreamId other() const { return other_; }  // a second stream of part 0

  // Queues launch number `round` of a part on its stream.
  using Launch = std::function<void(std::size_t part, std::int64_t round)>;
  // Times the parts 0 to `parts` - 1, all at once. `settle`: warm-up before samples count.
  LaunchTime time(std::size_t parts, const Launch& launch, Time settle = {});
  // Times part 0 while `load`, queued often enough on other(), outlasts it. Nothing when the load never does.
  std::optional<LaunchTime> time_beside(const Launch& launch, const std::function<void(std::int64_t)>& load);

  // Fills the memory of the kernel's operands with random numbers and makes the data of its micro-batch. Returns the
  // reason when the arena, or its first `room` bytes, cannot hold one set of operands per part.
  std::optional<std::string> prepare(const Kernel& kernel, std::size_t parts, std::optional<Bytes> room = {});
  // A Call of the last prepared kernel, on the set of operands of this round.
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
  Address arena_ = nullptr, shared_ = nullptr;  // shared: per part, scratch, sums and steps
  std::array<Address, kPatterns> patterns_{};
  Bytes pattern_size_;

  // Of the prepared kernel.
  kernels::Call call_;
  std::array<std::int64_t, kMostOperands> offset_{};
  std::size_t operands_ = 0;
  Address slots_ = nullptr;               // of a kernel with a slots operand
  std::int64_t set_size_ = 0, sets_ = 1;  // per part
};

}  // namespace rehearsal::gpu
