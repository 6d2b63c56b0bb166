// Puts together the traces of a file, event by event.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

class Collector {
 public:
  // `kind`: of events that are known without their name (copies).
  void kernel(const Event& event, std::optional<Kind> kind = {});
  void operation(const Event& event);  // with shapes
  // Marks of one number, on the host or on the GPU, are one step, from the first start to the last end.
  void step(std::int64_t number, std::int64_t start, std::int64_t end, bool on_gpu);
  std::uint64_t skipped() const { return skipped_; }  // kernels without a time

  std::vector<Trace> finish(const std::string& file, const Header& header, const KernelClasses& classes) &&;

 private:
  struct OfDevice {
    std::deque<LaunchedKernel> kernels;  // `fact` of those that move nothing: their external id
    std::map<std::int64_t, std::uint16_t> streams;
  };
  void join(OfDevice& device);

  std::map<std::int64_t, OfDevice> devices_;
  std::unordered_map<std::string, std::uint32_t> name_of_, transfer_of_, operator_of_;
  std::vector<KernelName> names_;
  std::vector<std::optional<Kind>> known_kinds_;  // by name
  std::vector<Transfer> transfers_;
  std::vector<Operator> operators_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> launched_;  // external id, operator
  std::map<std::int64_t, Step> host_steps_, gpu_steps_;
  std::uint64_t skipped_ = 0;
};

}  // namespace rehearsal::traces
