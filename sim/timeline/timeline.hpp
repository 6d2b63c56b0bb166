// When everything happened, rehearsed or performed: one span per task of a graph. Reports are drawn from this alone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::timeline {

enum class Fidelity : std::uint8_t { simulated, exact, timed, emulated, unsupported };
const char* name(Fidelity fidelity);

struct Spans {
  std::vector<Time> start, end;  // indexed by TaskId, from the start of the iteration
};

// The cost of contention for shared resources.
struct Contention {
  struct Resource {
    std::uint32_t number = 0;  // graph::ResourceTable::resources
    Time slowed;               // total extra time of works whose rate it limited
    double busy = 0;           // share of it that was used or held
  };
  Time without;                     // the iteration without contention
  std::vector<Resource> resources;  // that slowed some work, worst first
};

// What the profiler of a device saw of one more iteration, and what the device itself counts of its memory.
struct DeviceReport {
  std::int64_t kernels = 0, copies = 0;
  Time kernel_time, copy_time;   // summed
  std::string unavailable = {};  // why the profiler saw nothing; empty otherwise
  Bytes taken;                   // of its memory since it was opened: pools, workspaces, code, buffers of libraries
};

struct Timeline {
  // Indexed by TaskId; time 0 = start of the iteration, or the end of the one before where iterations overlap (then
  // some times are negative). A collective's span begins when its last member is ready; a
  // send's ends when the data has arrived; a receive is the instant of arrival.
  std::vector<Time> start, end;
  std::vector<Time> iteration_end;  // one per iteration, from its own start; simulated: the spans are those of the last
  // Of performed timelines: every measured iteration, oldest first; `start` and `end` are those of the iteration of
  // median length, and `iteration_end` is in the same order.
  std::vector<Spans> iterations;
  std::vector<Bytes> peak_bytes;            // per rank: high-water mark of its own buffers; empty where none are made
  std::vector<Bytes> allocator_peak_bytes;  // the same as a device's allocator counts it; empty where there is none
  std::vector<Bytes>
      allocator_allowance;            // what it may count more: its rounding of as many blocks as were live at once
  std::vector<DeviceReport> devices;  // of each process with one, where RunOptions::observed asked for it
  std::vector<std::vector<Bytes>> beyond_bytes;  // per rank and tier: that of what it keeps beyond; empty likewise
  struct Disk {
    std::string means;     // what carried bytes to files: "io_uring, O_DIRECT"; empty without one
    Bytes length, cached;  // of all files, and how much of them the page cache held at the end
  };
  Disk disk;
  std::vector<std::string> disturbances;  // other activity on the machine meanwhile; empty = none was noticed
  Time clock_error;                       // performed on several hosts: how far their clocks may be apart
  Fidelity fidelity = Fidelity::simulated;
  std::string backend;  // "sim", "loopback", "mpi"
  std::string engine;   // which evaluator: "replay", "events", "threads"

  // Of the iteration that the spans belong to.
  Time makespan() const {
    if (iteration_end.empty()) return {};
    return iterations.empty() ? iteration_end.back() : iteration_end[median_iteration];
  }
  std::optional<Contention> contention = {};  // simulated, where something was shared
  std::size_t median_iteration = 0;           // which of `iterations` the spans are
};

}  // namespace rehearsal::timeline
