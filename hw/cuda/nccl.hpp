// NCCL communicators, as an implementation of gpu/communicator.hpp.
//
// The first calls may wait for a peer (the first message to a peer connects to it), but not longer than the patience of
// join(): each runs in a thread of its own. After connected() calls are made directly.
#pragma once
#include <memory>
#include <vector>

#include "cuda/device.hpp"
#include "gpu/communicator.hpp"

namespace rehearsal::cuda {

class NcclCommunicator;

class NcclCommunicators : public gpu::Communicators {
 public:
  // The device must outlive this object and the communicators.
  explicit NcclCommunicators(CudaDevice& device) : device_(device) {}

  std::string make_id() override;
  std::unique_ptr<gpu::Communicator> join(const std::string& id, int members, int index, gpu::Traffic traffic,
                                          Time patience) override;
  void connected() override { connected_ = true; }
  void begin_group() override;
  void end_group() override;

 private:
  friend class NcclCommunicator;
  CudaDevice& device_;
  bool in_group_ = false, connected_ = false;
  std::vector<NcclCommunicator*> of_group_;  // those with calls in the open group
};

}  // namespace rehearsal::cuda
