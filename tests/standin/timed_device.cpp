#include "standin/timed_device.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/kernels.hpp"

namespace rehearsal::standin {
namespace {

// Realistic sizes, so that predictions and goals are meaningful; nothing depends on the exact values.
const Time kLaunch = seconds(2e-6), kEvent = seconds(1e-6), kHostCopy = seconds(8e-6), kMessage = seconds(6e-6);
constexpr double kMemory = 2.8e12, kHostLink = 55e9;  // bytes a second

double products(Precision precision) {  // FLOP/s
  switch (precision) {
    case Precision::fp8:
      return 1.2e15;
    case Precision::bf16:
      return 7e14;
    case Precision::tf32:
      return 3.5e14;
    default:
      return 5e13;
  }
}

class Alone : public gpu::Communicator {
 public:
  explicit Alone(TimedDevice& device) : device_(device) {}
  void send(const std::byte*, Bytes size, int, gpu::StreamId stream) override { passed(size, stream); }
  void receive(gpu::Address, Bytes size, int, gpu::StreamId stream) override { passed(size, stream); }
  void collective(CollectiveKind, Precision precision, const std::byte*, gpu::Address, std::int64_t part,
                  gpu::StreamId stream) override {
    passed(Bytes(part * bytes_per_element(precision)), stream);
  }
  std::optional<std::string> failure() override { return std::nullopt; }
  void abort() noexcept override {}

 private:
  void passed(Bytes size, gpu::StreamId stream) {
    device_.busy(stream, kMessage + seconds(2 * double(size.count()) / kMemory));
  }
  TimedDevice& device_;
};

}  // namespace

TimedDevice::TimedDevice() {
  facts_.name = "NVIDIA H100 80GB HBM3", facts_.capability = "9.0";
  facts_.memory = facts_.free = Bytes(85'018'000'000);
  facts_.driver = facts_.runtime = "a stand-in";
  facts_.libraries = {{"stand-in", "of no GPU"}};
}

std::vector<int> TimedDevice::partition(std::size_t parts) {
  parts_ = double(parts);
  return HostDevice::partition(parts);
}

gpu::StreamId TimedDevice::make_stream(std::size_t part) {
  clocks_.push_back({});
  return HostDevice::make_stream(part);
}

void TimedDevice::record(gpu::EventId event, gpu::StreamId stream) {
  call([=, this] { events_[event.index()] = clocks_[stream.index()] += kEvent; });
}

void TimedDevice::wait(gpu::StreamId stream, gpu::EventId event) {
  call([=, this] { clocks_[stream.index()] = std::max(clocks_[stream.index()], events_[event.index()]); });
}

void TimedDevice::busy(gpu::StreamId stream, Time duration) {
  call([=, this] { clocks_[stream.index()] += duration; });
}

Time TimedDevice::moved(Bytes bytes) const { return kLaunch + seconds(double(bytes.count()) * parts_ / kMemory); }

void TimedDevice::copy(void*, const void*, Bytes size, gpu::Direction direction, gpu::StreamId stream) {
  busy(stream, direction == gpu::Direction::within_device ? moved(Bytes(2 * size.count()))
                                                          : kHostCopy + seconds(double(size.count()) / kHostLink));
}

void TimedDevice::fill(gpu::Address, std::byte, Bytes size, gpu::StreamId stream) { busy(stream, moved(size)); }

void TimedDevice::perform(const kernels::Call& call, gpu::StreamId stream) {
  const Kernel& kernel = call.kernel;
  busy(stream, moved(kernel.traffic()) + seconds(kernel.flops().value() * parts_ / products(kernel.precision)));
}

void TimedDevice::accumulate(Precision precision, gpu::Address, const std::byte*, std::int64_t elements,
                             gpu::StreamId stream) {
  busy(stream, moved(Bytes(3 * elements * bytes_per_element(precision))));
}

void TimedDevice::count(std::int64_t*, std::int64_t, gpu::StreamId stream) { busy(stream, kLaunch); }

std::unique_ptr<gpu::Communicator> TimedCommunicators::join(const std::string&, int members, int, gpu::Traffic, Time) {
  if (members > 1) throw MachineError("a stand-in has one GPU");
  return std::make_unique<Alone>(device_);
}

}  // namespace rehearsal::standin
