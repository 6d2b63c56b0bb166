// How the vendor-neutral backend gets its GPUs: a vendor's module (hw/cuda) provides these functions. Making a Platform
// needs no GPU; its functions report that there is none.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "gpu/communicator.hpp"
#include "gpu/device.hpp"

namespace rehearsal::gpu {

struct Platform {
  std::string name;  // of the backend: "cuda"
  // Number of GPUs that this process may use, at least one. Throws MachineError with the reason when there is none.
  std::function<std::size_t()> devices;
  // Opens a GPU, from index 0. All calls to the device and to the objects it made come from the thread that opened it.
  std::function<std::unique_ptr<Device>(std::size_t index)> open;
  // Communicators of a device from open(), which must outlive them. Calls that wait for other processes, or for other
  // devices of this process, give up after the `patience` given to join().
  std::function<std::unique_ptr<Communicators>(Device& device)> communicators;
};

}  // namespace rehearsal::gpu
