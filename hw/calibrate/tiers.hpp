// Times the tiers outside the memory that ranks compute in: copies within host memory, an optimizer on the host, a
// disk. Uses hw/tiers and hw/cpu as performed runs do.
#pragma once
#include <string>
#include <vector>

#include "base/units.hpp"
#include "calibrate/kernel_times.hpp"

namespace rehearsal::calibrate {

struct TierSettings {
  unsigned threads = 1;        // copy concurrently, and share an update
  std::string directory = {};  // of the disk; empty: the default
  bool quick = false;
};

// Each thread copies to a second heap and back, with cold memory; started and waited for.
struct CopyTime {
  Bytes size;
  Spread time;
};
std::vector<CopyTime> time_heap_copies(const TierSettings& settings);

// An AdamW update by all threads together. `stored`: parameters are also stored in bf16.
struct AdamTime {
  std::int64_t parameters = 0;
  Bytes each;
  Spread time;
};
AdamTime time_host_adam(const TierSettings& settings, bool stored);

// By one thread, for several sizes, in under 2.5 s unless a single copy takes longer. Throws MachineError.
struct DiskTime {
  Bytes size;
  Spread write, read;
};
struct DiskProbe {
  std::string means;
  bool page_cache = false;  // most of the file was in it after all reads
  std::vector<DiskTime> times;
};
DiskProbe probe_disk(const TierSettings& settings, bool direct);

}  // namespace rehearsal::calibrate
