#include "cuda/activity.hpp"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace rehearsal::cuda {
namespace {

constexpr std::size_t kBuffer = std::size_t(8) << 20;  // bytes; about 40,000 records
constexpr std::size_t kRecordAlignment = 8;            // ACTIVITY_RECORD_ALIGNMENT

// Loaded once and never unloaded: its threads may still run when the process ends.
struct Library {
  std::string missing;  // why there is none
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiGetResultString) text = nullptr;

  Library() {
    const std::string file = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000);  // record layout depends on version
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      missing = dlerror();
      return;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (function == nullptr) missing = fmt::format("{} has no {}", file, symbol);
    };
    find(register_callbacks, "cuptiActivityRegisterCallbacks");
    find(enable, "cuptiActivityEnable");
    find(disable, "cuptiActivityDisable");
    find(flush, "cuptiActivityFlushAll");
    find(next, "cuptiActivityGetNextRecord");
    find(text, "cuptiGetResultString");
  }

  std::string words(CUptiResult result) const {
    const char* said = nullptr;
    if (text(result, &said) != CUPTI_SUCCESS || said == nullptr) return fmt::format("CUPTI error {}", int(result));
    return fmt::format("CUPTI: {}", said);
  }
};

// CUPTI observes the whole process and its callbacks carry no user pointer, so there is one Watch per process. Devices
// may observe concurrently: the first one enables it, the last one disables it.
class Watch {
 public:
  static Watch& of_process() {
    static Watch watch;
    return watch;
  }

  void begin(std::uint32_t device) {
    const std::lock_guard lock(mutex_);
    seen_[device] = {};
    if (observers_++ > 0) return;
    why_ = library_.missing;
    if (why_.empty()) attempt(library_.register_callbacks(give_buffer, take_buffer));
    for (CUpti_ActivityKind kind : kKinds)
      if (why_.empty()) attempt(library_.enable(kind));
  }

  gpu::DeviceReport end(std::uint32_t device) {
    if (library_.missing.empty()) library_.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // calls back: no lock held
    const std::lock_guard lock(mutex_);
    if (--observers_ == 0 && library_.missing.empty())
      for (CUpti_ActivityKind kind : kKinds) library_.disable(kind);
    gpu::DeviceReport activity = seen_[device];
    activity.unavailable = why_;
    return activity;
  }

 private:
  static constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY};

  void attempt(CUptiResult result) {
    if (result != CUPTI_SUCCESS) why_ = library_.words(result);
  }

  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kRecordAlignment, kBuffer));
    *size = *buffer ? kBuffer : 0;
    *most_records = 0;  // as many as fit
  }

  static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    Watch& watch = of_process();
    {
      const std::lock_guard lock(watch.mutex_);
      CUpti_Activity* record = nullptr;
      while (watch.library_.next(buffer, valid, &record) == CUPTI_SUCCESS) watch.add(*record);
    }
    std::free(buffer);
  }

  void add(const CUpti_Activity& record) {
    const auto lasted = [](std::uint64_t start, std::uint64_t end) {  // nanoseconds
      return picoseconds(static_cast<std::int64_t>(end - start) * 1000);
    };
    if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      gpu::DeviceReport& seen = seen_[kernel.deviceId];
      ++seen.kernels, seen.kernel_time += lasted(kernel.start, kernel.end);
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      gpu::DeviceReport& seen = seen_[copy.deviceId];
      ++seen.copies, seen.copy_time += lasted(copy.start, copy.end);
    }
  }

  const Library library_;
  std::mutex mutex_;  // guards the members below
  std::string why_;
  int observers_ = 0;
  std::map<std::uint32_t, gpu::DeviceReport> seen_;
};

}  // namespace

void Profiler::observe() { Watch::of_process().begin(static_cast<std::uint32_t>(device_)); }

gpu::DeviceReport Profiler::observed() { return Watch::of_process().end(static_cast<std::uint32_t>(device_)); }

}  // namespace rehearsal::cuda
