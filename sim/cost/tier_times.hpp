// What was measured of the tiers of a machine beside the memory that its ranks compute in: copies within the memory of
// the host, an optimizer on the host, its disks. A part of a Profile; measured by hw/calibrate/tiers.hpp.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "cost/kernel_fit.hpp"

namespace rehearsal::cost {

// From one heap to another, begun and waited for.
struct CopySample {
  Bytes size;
  Quantiles time;
};
// AdamW with its states in fp32.
struct HostAdam {
  std::int64_t parameters = 0;  // of one update
  Bytes each;                   // read and written for a parameter
  Quantiles time;               // of the update, by all threads together
};
struct DiskSample {
  Bytes size;
  Quantiles write, read;
};
struct DiskTimes {
  std::string means;        // what carried the bytes: "io_uring, O_DIRECT"
  bool page_cache = false;  // what served reads: the page cache, or the disk
  std::vector<DiskSample> samples;
};

struct TierTimes {
  std::int64_t threads = 0;                           // that copied at once, and that shared an update
  std::vector<CopySample> copies;                     // ascending sizes
  std::map<Precision, HostAdam> adam;                 // by what the parameters are stored as
  std::optional<DiskTimes> direct_disk, cached_disk;  // past the page cache where that is possible, and through it
};

}  // namespace rehearsal::cost
