// Times this program's kernels on this machine, called one by one from as many threads as there will be ranks.
//
// All threads compute at once, because cores share caches, memory and heat. Operands rotate through `footprint` bytes,
// because in a run they may be anywhere in memory; a warm buffer is up to twice as fast.
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
  int repetitions = 16;                                                 // per rank, after three that do not count
  Bytes footprint;                                                      // per rank
  std::function<void(std::size_t done)> progress = [](std::size_t) {};  // kernels done; called by one thread
};

// Ignores the offsets of the kernels. All kinds, with suitable data.
std::vector<KernelTime> time_kernels(std::span<const Kernel> kernels, const Settings& settings);

// [p10, p50, p90] of measurements; sorts them.
struct Spread {
  Time p10, p50, p90;
};
Spread spread(std::vector<Time>& times);

}  // namespace rehearsal::calibrate
