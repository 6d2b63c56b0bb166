// Traces written by hand.
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "traces/analysis.hpp"

namespace rehearsal::traces {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& ending = ".json") {
    static int made = 0;
    path_ = (std::filesystem::temp_directory_path() / fmt::format("rehearsal-trace-{}-{}{}", getpid(), made++, ending))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Microseconds. `args`: what stands in the braces.
inline std::string event(const std::string& category, const std::string& name, double start, double duration,
                         const std::string& args = "") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":7,"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                     category, name, start, duration, args);
}
inline std::string kernel(const std::string& name, double start, double duration, int stream = 7) {
  return event("kernel", name, start, duration, fmt::format(R"("device":0,"stream":{})", stream));
}
// On a thread of the host.
inline std::string on_host(const std::string& category, const std::string& name, int thread, double start,
                           double duration, const std::string& args = "") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                     category, name, thread, start, duration, args);
}
// A kernel and the call that launched it.
inline std::string launched(const std::string& name, int correlation, int thread, double call, double start,
                            double duration, int stream = 7) {
  return on_host("cuda_runtime", "cudaLaunchKernel", thread, call, 4, fmt::format(R"("correlation":{})", correlation)) +
         "," +
         event("kernel", name, start, duration,
               fmt::format(R"("device":0,"stream":{},"correlation":{})", stream, correlation));
}
inline std::string collective(const std::string& what, double start, double duration, const std::string& ranks,
                              int elements = 1000) {
  return event(
      "kernel",
      what == "send" || what == "recv" ? "ncclDevKernel_SendRecv" : "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start,
      duration,
      fmt::format(
          R"("device":0,"stream":20,"Collective name":"{}","dtype":"BFloat16","In msg nelems":{},"Out msg nelems":{},)"
          R"("Group size":2,"Process Group Name":"1","Process Group Ranks":"{}")",
          what, elements, elements, ranks));
}
inline std::string trace_of(int rank, const std::vector<std::string>& events) {
  return fmt::format(
      R"({{"distributedInfo":{{"rank":{},"world_size":2}},"deviceProperties":[{{"id":0,"name":"made up","numSms":10,)"
      R"("totalGlobalMem":1000}}],"traceEvents":[{}]}})",
      rank, fmt::join(events, ","));
}

inline std::int64_t us(Time time) { return time.count() / 1'000'000; }

}  // namespace rehearsal::traces
