// What lies beside the memory that ranks compute in: copies within the memory of the host, an optimizer on the host, a
// disk. Through hw/tiers and hw/cpu, as performed runs use them.
#pragma once
#include <string>
#include <vector>

#include "base/units.hpp"
#include "calibrate/kernel_times.hpp"

namespace rehearsal::calibrate {

struct TierSettings {
  unsigned threads = 1;        // that copy at once, and that share an update
  std::string directory = {};  // of the disk; empty: the usual one
  bool quick = false;
};

// Each thread copies to a heap beside its own and back, cold memory, begun and waited for.
struct CopyTime {
  Bytes size;
  Spread time;
};
std::vector<CopyTime> time_heap_copies(const TierSettings& settings);

// An update of AdamW by all threads together. `stored`: the parameters are kept in bf16 too.
struct AdamTime {
  std::int64_t parameters = 0;
  Bytes each;
  Spread time;
};
AdamTime time_host_adam(const TierSettings& settings, bool stored);

// By one thread, several sizes, in less than 2.5 s unless a single copy takes longer. Throws MachineError.
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
