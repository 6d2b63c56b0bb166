// The used parts of a file. An extent consists of whole blocks, as O_DIRECT requires; requested sizes are counted to
// the byte.
#pragma once
#include <cstdint>
#include <map>

#include "base/units.hpp"

namespace rehearsal::tiers {

// Alignment for O_DIRECT: enough for existing disks (logical sectors of 512 or 4096 bytes).
inline constexpr std::int64_t kBlock = 4096;

constexpr std::int64_t whole_blocks(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

class Extents {
 public:
  // Takes the lowest gap that is large enough; returns its offset in the file. An extent of no bytes takes a block too.
  std::int64_t allocate(Bytes size);
  void free(std::int64_t offset);  // of a used extent
  // End of the last used extent.
  std::int64_t end() const { return end_; }
  Bytes live() const { return live_; }  // as requested
  Bytes high_water() const { return high_water_; }

 private:
  std::map<std::int64_t, Bytes> used_;         // by offset
  std::map<std::int64_t, std::int64_t> gaps_;  // offset -> length; merged with neighbours, none at the end
  std::int64_t end_ = 0;
  Bytes live_, high_water_;
};

}  // namespace rehearsal::tiers
