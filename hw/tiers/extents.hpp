// Which parts of a file are in use. An extent begins at a block and has whole blocks, as O_DIRECT asks for; what was
// asked for is counted to the byte.
#pragma once
#include <cstdint>
#include <map>

#include "base/units.hpp"

namespace rehearsal::tiers {

// What O_DIRECT is aligned to: enough for the disks there are (logical sectors of 512 or 4096 bytes).
inline constexpr std::int64_t kBlock = 4096;

constexpr std::int64_t whole_blocks(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

class Extents {
 public:
  // The lowest gap that is large enough; the offset in the file. An extent of no bytes takes a block too.
  std::int64_t allocate(Bytes size);
  void free(std::int64_t offset);  // of an extent that is in use
  // Of the last extent in use.
  std::int64_t end() const { return end_; }
  Bytes live() const { return live_; }  // as asked for
  Bytes high_water() const { return high_water_; }

 private:
  std::map<std::int64_t, Bytes> used_;         // by offset
  std::map<std::int64_t, std::int64_t> gaps_;  // offset -> length; never two that touch, none at the end
  std::int64_t end_ = 0;
  Bytes live_, high_water_;
};

}  // namespace rehearsal::tiers
