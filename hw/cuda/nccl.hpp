// Communicators of NCCL behind the table of gpu/communicator.hpp.
//
// They do not block: a call that cannot be queued at once (the first message to a peer connects to it) is polled
// until it is, or until the patience of join() is over. So nothing waits for ever on a peer that is gone.
#pragma once
#include <memory>
#include <vector>

#include "cuda/device.hpp"
#include "gpu/communicator.hpp"

namespace rehearsal::cuda {

class NcclCommunicator;

class NcclCommunicators : public gpu::Communicators {
 public:
  // The device outlives this and the communicators.
  explicit NcclCommunicators(CudaDevice& device) : device_(device) {}

  std::string make_id() override;
  std::unique_ptr<gpu::Communicator> join(const std::string& id, int members, int index, Time patience) override;
  void begin_group() override;
  void end_group() override;

 private:
  friend class NcclCommunicator;
  CudaDevice& device_;
  bool in_group_ = false;
  std::vector<NcclCommunicator*> of_group_;  // that have calls in the open group
};

}  // namespace rehearsal::cuda
