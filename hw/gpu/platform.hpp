// How a backend comes to its GPUs: made by a module of one vendor (hw/cuda), used by the backend that every vendor
// shares. Nothing here needs a GPU to exist; the functions say so when there is none.
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
  // How many GPUs this process may use, at least one. Throws MachineError why there is none.
  std::function<std::size_t()> devices;
  // One of them, from 0. The thread that opened a device makes all calls to it, and to what came from it.
  std::function<std::unique_ptr<Device>(std::size_t index)> open;
  // Communicators of a device that came from open(), which outlives them. Calls that wait for other processes or for
  // other devices of this one give up after the patience of join().
  std::function<std::unique_ptr<Communicators>(Device& device)> communicators;
};

}  // namespace rehearsal::gpu
