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
  explicit Collector(const KernelClasses& classes) : classes_(classes) {}
  // `kind`: of events that are known without their name (copies).
  void kernel(const Event& event, std::optional<Kind> kind = {});
  void operation(const Event& event);     // with shapes, or a node of autograd
  void launch(const Event& event);        // or another call on the host
  void range(const Event& event);         // record_function, NVTX
  void range_on_gpu(const Event& event);  // the kernels of one
  // Marks of one number, on the host or on the GPU, are one step, from the first start to the last end. `by`: the
  // process and thread.
  void step(std::int64_t number, std::int64_t start, std::int64_t end, bool on_gpu, const Event& by);
  std::uint64_t skipped() const { return skipped_; }  // kernels without a time

  std::vector<Trace> finish(const std::string& file, const Header& header) &&;

 private:
  struct OfDevice {
    std::deque<LaunchedKernel> kernels;  // `fact` of those that move nothing: their external id; correlation, process
    std::map<std::int64_t, std::uint16_t> streams;
    std::vector<Range> ranges;  // lanes: places of `streams`
  };
  std::uint16_t place_of(OfDevice& device, std::int64_t stream);
  std::optional<Label> meaning(const std::string& text);
  void join(OfDevice& device, Trace& trace);

  const KernelClasses& classes_;
  HostSide host_;
  std::unordered_map<std::string, std::optional<Label>> meanings_;
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
