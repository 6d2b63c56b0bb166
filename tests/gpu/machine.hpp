// The GPU for the tests of this folder: a real one, or (in a second build) a stand-in, which shows that the tests
// themselves are correct.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu/communicator.hpp"

namespace rehearsal::test {

bool is_real();
std::optional<std::string> why_no_gpu();

// A device of its own, and communicators for it.
class Machine {
 public:
  Machine();
  ~Machine();
  gpu::Device& device() { return *device_; }
  gpu::Communicators& communicators() { return *communicators_; }

  // Returns when the stream has completed its queued work. Throws what the device throws.
  void finish(gpu::StreamId stream);

 private:
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Communicators> communicators_;
};

struct Options {
  bool quick = false;  // few trials: for tools that slow kernels down a thousandfold
};
const Options& options();

}  // namespace rehearsal::test
