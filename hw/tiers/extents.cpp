#include "tiers/extents.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::tiers {

std::int64_t Extents::allocate(Bytes size) {
  const std::int64_t length = std::max(whole_blocks(size.count()), kBlock);
  auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& g) { return g.second >= length; });
  std::int64_t offset = end_;
  if (gap != gaps_.end()) {
    offset = gap->first;
    const std::int64_t left = gap->second - length;
    gaps_.erase(gap);
    if (left > 0) gaps_.emplace(offset + length, left);
  } else {
    end_ += length;
  }
  used_.emplace(offset, size);
  live_ += size;
  high_water_ = std::max(high_water_, live_);
  return offset;
}

void Extents::free(std::int64_t offset) {
  const auto extent = used_.find(offset);
  INVARIANT(extent != used_.end(), "an extent that is in use is freed");
  std::int64_t begin = offset, end = offset + std::max(whole_blocks(extent->second.count()), kBlock);
  live_ -= extent->second;
  used_.erase(extent);
  auto after = gaps_.lower_bound(begin);
  if (after != gaps_.end() && after->first == end) end += after->second, after = gaps_.erase(after);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) begin = before->first, gaps_.erase(before);
  }
  if (end == end_)
    end_ = begin;
  else
    gaps_.emplace(begin, end - begin);
}

}  // namespace rehearsal::tiers
