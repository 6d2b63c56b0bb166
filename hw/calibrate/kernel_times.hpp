// How long this program's kernels take on this machine, called one by one from as many threads as there will be ranks.
//
// All threads compute at once, because cores share caches, memory and heat. Operands rotate through `footprint` bytes,
// because a run's operands come from wherever its other buffers left them; a warm buffer is up to twice as fast.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"

namespace rehearsal::calibrate {

struct KernelTime {
  Kernel kernel;
  Time p10, p50, p90;
};

struct Settings {
  unsigned ranks = 1;
  int repetitions = 16;                                                 // of each rank, after three that do not count
  Bytes footprint;                                                      // of one rank
  std::function<void(std::size_t done)> progress = [](std::size_t) {};  // kernels; called from one thread
};

// Offsets of the kernels are ignored. Every kind, with data of its own.
std::vector<KernelTime> time_kernels(std::span<const Kernel> kernels, const Settings& settings);

// [p10, p50, p90] of measurements, which are sorted.
struct Spread {
  Time p10, p50, p90;
};
Spread spread(std::vector<Time>& times);

}  // namespace rehearsal::calibrate
