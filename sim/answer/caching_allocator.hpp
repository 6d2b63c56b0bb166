// A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): which segments a sequence of allocations
// and frees makes it take from the device. Sizes only, without memory behind them; in bytes.
//
// Requests are rounded up to 512 B. Up to 1 MiB they are cut from segments of 2 MiB (small pool); above, from segments
// of 20 MiB if below 10 MiB, else from a segment of their own, rounded up to 2 MiB (large pool). Every stream has its
// own pools. Best fit: the smallest free block that suffices, among equal sizes the one at the lowest address. The rest
// becomes a free block of its own if it is at least 512 B (small) or above 1 MiB (large); free neighbours within a
// segment merge. Segments stay reserved until the device is full: then all wholly free ones are returned and the
// request is repeated once (a retry: cudaFree waits for the device, so real runs stall).
//
// Expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True): one segment per stream and pool, which grows
// at its end, page by page (2 MiB small, 20 MiB large); a free block at the end grows with it. When the device is full,
// whole pages inside free blocks are unmapped; their addresses are mapped again before the segment grows.
//
// If even a retry fails, the model allocates anyway and reports it: `reserved` then shows by how much memory is short.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "answer/free_blocks.hpp"
#include "base/fingerprint.hpp"
#include "base/units.hpp"

namespace rehearsal::answer {

class CachingAllocator {
 public:
  struct Options {
    Bytes capacity{std::numeric_limits<std::int64_t>::max()};  // for segments: device less context, libraries
    bool expandable_segments = false;
  };
  using Handle = std::uint32_t;

  explicit CachingAllocator(const Options& options) : options_(options) {}

  Handle allocate(Bytes size, std::uint32_t stream = 0);
  void release(Handle block);

  Bytes allocated() const { return Bytes(allocated_); }  // rounded sizes of live blocks
  Bytes reserved() const { return Bytes(reserved_); }
  Bytes peak_allocated() const { return Bytes(peak_allocated_); }
  Bytes peak_reserved() const { return Bytes(peak_reserved_); }
  std::uint32_t retries() const { return retries_; }
  std::uint32_t failures() const { return failures_; }  // requests that the device could not hold

  // Of all that decides what it does from now on, whatever its blocks are called.
  Fingerprint state() const;
  std::int64_t address(Handle block) const { return blocks_[block].address; }
  // As if this had happened: requests that ended in the state in which they began.
  void count(std::uint32_t retries, std::uint32_t failures) { retries_ += retries, failures_ += failures; }

 private:
  static constexpr Handle kNone = std::numeric_limits<Handle>::max();
  enum class State : std::uint8_t { live, free, unmapped };
  struct Block {
    std::int64_t size = 0;
    std::int64_t address = 0;
    Handle previous = kNone, next = kNone;  // neighbours in the segment
    std::uint32_t pool = 0;                 // 2 * stream + large
    State state = State::live;
    bool listed = false;  // in Pool::whole
  };
  struct Pool {
    FreeBlocks free, unmapped;
    std::vector<Handle> whole;  // segments that became free since the last retry; some may be in use again
    Handle last = kNone;        // expandable: the block at the end of the segment
  };

  Handle new_block(const Block& block);
  FreeBlocks::Entry entry(Handle block) const { return {blocks_[block].size, blocks_[block].address, block}; }
  Handle take_segment(std::uint32_t pool, std::int64_t size);
  Handle grow(std::uint32_t pool, std::int64_t size);
  Handle map_again(std::uint32_t pool, std::int64_t size);
  void reserve(std::int64_t size);  // with a retry
  void give_back_cached();
  void unmap_pages(std::uint32_t pool);
  Handle split(Handle block, std::int64_t size);  // the rest, as a live block behind it
  void join(Handle first);                        // absorbs its next block
  void make_free(Handle block);                   // joined with free neighbours
  void list_free(Handle block);                   // as it is
  bool is_whole(Handle block) const;              // fills a whole segment, which can be returned to the device

  Options options_;
  std::vector<Block> blocks_;
  std::vector<Handle> unused_;
  std::vector<Pool> pools_;
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::uint32_t retries_ = 0, failures_ = 0;
};

}  // namespace rehearsal::answer
