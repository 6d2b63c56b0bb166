// Communicators for HostDevice: messages are files in a folder shared by all ranks of a host, and a receive waits for
// its file. They buffer everything, so they do not test NCCL's rules (tests/recorder does).
#pragma once
#include <atomic>
#include <filesystem>

#include "gpu/communicator.hpp"
#include "standin/host_device.hpp"

namespace rehearsal::standin {

class FileCommunicators : public gpu::Communicators {
 public:
  FileCommunicators(HostDevice& device, std::filesystem::path folder) : device_(device), folder_(std::move(folder)) {}
  std::string make_id() override;
  std::unique_ptr<gpu::Communicator> join(const std::string& id, int members, int index, gpu::Traffic,
                                          Time patience) override;
  void begin_group() override {}
  void end_group() override {}

 private:
  HostDevice& device_;
  std::filesystem::path folder_;
  int ids_ = 0;
};

}  // namespace rehearsal::standin
