#include "answer/caching_allocator.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::answer {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kRound = 512;          // every size is a multiple
constexpr std::int64_t kLargestSmall = kMiB;  // requests served by the small pool
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kSharedSegment = 20 * kMiB;  // in the large pool, for requests below kOwnSegment
constexpr std::int64_t kOwnSegment = 10 * kMiB;     // from this size a request gets a segment of its own,
constexpr std::int64_t kSegmentRound = 2 * kMiB;    // rounded up to a multiple of this
// Segments lie far apart, so that blocks of two of them are never neighbours; only the order of addresses counts.
constexpr std::int64_t kGap = std::int64_t(1) << 44;

std::int64_t round_up(std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; }
bool is_large(std::uint32_t pool) { return pool % 2 == 1; }
std::int64_t page(std::uint32_t pool) { return is_large(pool) ? kSharedSegment : kSmallSegment; }
std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kSharedSegment : round_up(size, kSegmentRound);
}
bool worth_splitting(std::uint32_t pool, std::int64_t rest) {
  return is_large(pool) ? rest > kLargestSmall : rest >= kRound;
}

}  // namespace

CachingAllocator::Handle CachingAllocator::allocate(Bytes requested, std::uint32_t stream) {
  const std::int64_t size = std::max(kRound, round_up(requested.count(), kRound));
  const std::uint32_t index = 2 * stream + (size > kLargestSmall);
  if (index >= pools_.size()) pools_.resize(index + 1);
  FreeBlocks::Entry found;
  const bool free = pools_[index].free.take(size, found);
  Handle block = free ? found.block : kNone;
  if (block == kNone && options_.expandable_segments) block = map_again(index, size);
  if (block == kNone)
    block = options_.expandable_segments ? grow(index, size) : take_segment(index, segment_size(size));
  blocks_[block].state = State::live;
  if (const auto rest = blocks_[block].size - size; worth_splitting(index, rest)) {
    const Handle behind = split(block, size);
    if (free)
      list_free(behind);  // what was free had no free neighbours
    else
      make_free(behind);
  }
  allocated_ += blocks_[block].size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return block;
}

void CachingAllocator::release(Handle block) {
  INVARIANT(block < blocks_.size() && blocks_[block].state == State::live && blocks_[block].size > 0,
            "only a live block is released");
  allocated_ -= blocks_[block].size;
  make_free(block);
}

CachingAllocator::Handle CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<Handle>(blocks_.size() - 1);
  }
  const Handle id = unused_.back();
  unused_.pop_back();
  blocks_[id] = block;
  return id;
}

CachingAllocator::Handle CachingAllocator::take_segment(std::uint32_t pool, std::int64_t size) {
  reserve(size);
  next_address_ += kGap;
  return new_block({size, next_address_, kNone, kNone, pool, State::live});
}

CachingAllocator::Handle CachingAllocator::split(Handle block, std::int64_t size) {
  const Block whole = blocks_[block];
  const Handle rest = new_block({whole.size - size, whole.address + size, block, whole.next, whole.pool, State::live});
  if (whole.next != kNone) blocks_[whole.next].previous = rest;
  if (pools_[whole.pool].last == block) pools_[whole.pool].last = rest;
  blocks_[block].next = rest, blocks_[block].size = size;
  return rest;
}

void CachingAllocator::join(Handle first) {
  const Handle second = blocks_[first].next;
  blocks_[first].size += blocks_[second].size;
  blocks_[first].next = blocks_[second].next;
  if (blocks_[second].next != kNone) blocks_[blocks_[second].next].previous = first;
  if (pools_[blocks_[second].pool].last == second) pools_[blocks_[second].pool].last = first;
  blocks_[second].size = 0;
  unused_.push_back(second);
}

void CachingAllocator::make_free(Handle block) {
  auto& pool = pools_[blocks_[block].pool];
  const auto is_free = [&](Handle b) { return b != kNone && blocks_[b].state == State::free; };
  const auto forget = [&](Handle b) { pool.free.erase(entry(b)); };
  if (const Handle next = blocks_[block].next; is_free(next)) forget(next), join(block);
  if (const Handle previous = blocks_[block].previous; is_free(previous))
    forget(previous), join(previous), block = previous;
  list_free(block);
}

void CachingAllocator::list_free(Handle block) {
  auto& pool = pools_[blocks_[block].pool];
  blocks_[block].state = State::free;
  pool.free.insert(entry(block));
  if (is_whole(block) && !blocks_[block].listed) blocks_[block].listed = true, pool.whole.push_back(block);
}

bool CachingAllocator::is_whole(Handle block) const {
  return !options_.expandable_segments && blocks_[block].previous == kNone && blocks_[block].next == kNone;
}

// Which blocks are free, listed as whole segments or at the end of a segment follows from these.
Fingerprint CachingAllocator::state() const {
  Fingerprint blocks, all;
  for (const Block& block : blocks_) {
    if (block.size == 0) continue;
    Fingerprint one;
    one.add(std::uint64_t(block.address));
    one.add(std::uint64_t(block.size) << 8 | std::uint64_t{block.pool} << 2 | static_cast<std::uint64_t>(block.state));
    blocks.add_member(one);
  }
  for (const auto amount : {allocated_, reserved_, next_address_}) all.add(std::uint64_t(amount));
  all.add_member(blocks);
  return all;
}

void CachingAllocator::reserve(std::int64_t size) {
  if (reserved_ + size > options_.capacity.count()) {
    retries_++;
    give_back_cached();
    if (reserved_ + size > options_.capacity.count()) failures_++;
  }
  reserved_ += size;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

void CachingAllocator::give_back_cached() {
  for (std::uint32_t index = 0; index < pools_.size(); index++) {
    if (options_.expandable_segments) {
      unmap_pages(index);
      continue;
    }
    // Only segments that became free since the last retry: a job that does not fit retries at every request.
    for (const Handle handle : std::exchange(pools_[index].whole, {})) {
      Block& block = blocks_[handle];
      block.listed = false;
      if (block.state != State::free || block.size == 0 || block.pool != index || !is_whole(handle)) continue;
      pools_[index].free.erase(entry(handle));
      reserved_ -= block.size;
      block.size = 0;
      unused_.push_back(handle);
    }
  }
}

// --- expandable segments
// ----------------------------------------------------------------------------------------------

// Grows the pool's segment at its end; a free block at the end becomes part of the returned block.
CachingAllocator::Handle CachingAllocator::grow(std::uint32_t index, std::int64_t size) {
  // A retry inside `reserve` may unmap the free end itself, so it is taken first.
  Handle end = pools_[index].last;
  const bool free_end = end != kNone && blocks_[end].state == State::free;
  if (free_end) pools_[index].free.erase(entry(end)), blocks_[end].state = State::live;
  const std::int64_t more = round_up(size - (free_end ? blocks_[end].size : 0), page(index));
  reserve(more);
  if (end == kNone) next_address_ += kGap;
  const std::int64_t address = end == kNone ? next_address_ : blocks_[end].address + blocks_[end].size;
  const Handle fresh = new_block({more, address, end, kNone, index, State::live});
  if (end != kNone) blocks_[end].next = fresh;
  pools_[index].last = fresh;
  if (!free_end) return fresh;
  join(end);
  return end;
}

CachingAllocator::Handle CachingAllocator::map_again(std::uint32_t index, std::int64_t size) {
  auto& unmapped = pools_[index].unmapped;
  FreeBlocks::Entry found;
  if (!unmapped.take(round_up(size, page(index)), found)) return kNone;
  const Handle block = found.block;
  blocks_[block].state = State::live;
  if (const auto used = round_up(size, page(index)); used < blocks_[block].size) {
    const Handle rest = split(block, used);
    blocks_[rest].state = State::unmapped;
    pools_[index].unmapped.insert(entry(rest));
  }
  reserve(blocks_[block].size);
  return block;
}

// Page boundaries are at multiples of the page size from the segment's address, which is a multiple of kGap.
void CachingAllocator::unmap_pages(std::uint32_t index) {
  auto& pool = pools_[index];
  for (const FreeBlocks::Entry& free : pool.free.all(page(index))) {  // smaller blocks contain no whole page
    const std::int64_t offset = free.address % kGap;
    const std::int64_t begin = round_up(offset, page(index)) - offset;
    const std::int64_t end = (offset + free.size) / page(index) * page(index) - offset;
    if (begin >= end) continue;
    pool.free.erase(free);
    Handle middle = free.block;
    blocks_[middle].state = State::live;
    if (begin > 0) {
      const Handle front = middle;
      middle = split(front, begin);
      make_free(front);
    }
    if (end - begin < blocks_[middle].size) make_free(split(middle, end - begin));
    blocks_[middle].state = State::unmapped;
    pool.unmapped.insert(entry(middle));
    reserved_ -= blocks_[middle].size;
  }
}

}  // namespace rehearsal::answer
