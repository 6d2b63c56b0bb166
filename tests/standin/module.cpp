// A librehearsal_cuda.so for tests, found through REHEARSAL_MODULES: the program's own commands, processes and reports
// with a stand-in for the GPU. REHEARSAL_STANDIN_GPUS: how many there are (1); REHEARSAL_STANDIN_FOLDER: where their
// messages go; REHEARSAL_STANDIN_FAULT: file_communicators.cpp; REHEARSAL_STANDIN_TIMED, if set: timed_device.hpp.
#include "modules/module.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "gpu/gpu_backend.hpp"
#include "standin/file_communicators.hpp"
#include "standin/host_device.hpp"
#include "standin/timed_device.hpp"

namespace rehearsal::standin {
namespace {

std::size_t devices() {
  const char* text = std::getenv("REHEARSAL_STANDIN_GPUS");
  return text ? std::strtoul(text, nullptr, 10) : 1;
}

std::unique_ptr<gpu::Device> open(std::size_t) {
  if (std::getenv("REHEARSAL_STANDIN_TIMED")) return std::make_unique<TimedDevice>();
  return std::make_unique<HostDevice>();
}

std::unique_ptr<gpu::Communicators> communicators(gpu::Device& device) {
  if (auto* const timed = dynamic_cast<TimedDevice*>(&device)) return std::make_unique<TimedCommunicators>(*timed);
  const char* folder = std::getenv("REHEARSAL_STANDIN_FOLDER");
  if (!folder) throw MachineError("REHEARSAL_STANDIN_FOLDER is not set");
  return std::make_unique<FileCommunicators>(dynamic_cast<HostDevice&>(device), folder);
}

std::unique_ptr<backend::Backend> make() {
  return gpu::make_backend({.name = "cuda", .devices = devices, .open = open, .communicators = communicators});
}

}  // namespace
}  // namespace rehearsal::standin

extern "C" [[gnu::visibility("default")]] int rehearsal_backend(const char* build_id, rehearsal::backend::Backend** out,
                                                                rehearsal::modules::ModuleError* error) {
  return rehearsal::modules::enter_module(build_id, rehearsal::standin::make, out, error);
}
