// A GPU that computes nothing and reports how long it would have taken: an H100's size, every launch at an invented
// price, one clock per stream, which events carry to other streams. It rehearses in seconds the tools that use minutes
// of a real GPU; its profiles name the driver "a stand-in". Data copied back is zero.
#pragma once
#include <vector>

#include "gpu/communicator.hpp"
#include "standin/host_device.hpp"

namespace rehearsal::standin {

class TimedDevice : public HostDevice {
 public:
  TimedDevice();
  std::vector<int> partition(std::size_t parts) override;
  gpu::StreamId make_stream(std::size_t part) override;
  void record(gpu::EventId event, gpu::StreamId stream) override;
  void wait(gpu::StreamId stream, gpu::EventId event) override;
  void copy(void* to, const void* from, Bytes size, gpu::Direction direction, gpu::StreamId stream) override;
  void fill(gpu::Address to, std::byte value, Bytes size, gpu::StreamId stream) override;
  void perform(const kernels::Call& call, gpu::StreamId stream) override;
  void spin(Time duration, gpu::StreamId stream) override { busy(stream, duration); }
  void accumulate(Precision precision, gpu::Address to, const std::byte* from, std::int64_t elements,
                  gpu::StreamId stream) override;
  void count(std::int64_t* number, std::int64_t more, gpu::StreamId stream) override;
  void busy(gpu::StreamId stream, Time duration);

 private:
  Time moved(Bytes bytes) const;  // within device memory, by one partition

  double parts_ = 1;
  std::vector<Time> clocks_;  // by stream: when its queued work is done
};

// One rank alone, at invented prices; there is no GPU for a second one.
class TimedCommunicators : public gpu::Communicators {
 public:
  explicit TimedCommunicators(TimedDevice& device) : device_(device) {}
  std::string make_id() override { return "alone"; }
  std::unique_ptr<gpu::Communicator> join(const std::string& id, int members, int index, gpu::Traffic,
                                          Time patience) override;
  void begin_group() override {}
  void end_group() override {}

 private:
  TimedDevice& device_;
};

}  // namespace rehearsal::standin
