// The caching allocator, on sequences whose segments are worked out in the comments. MiB = 2^20 bytes.
#include "answer/caching_allocator.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace rehearsal::answer {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
Bytes mib(double n) { return bytes(n * double(kMiB)); }

CachingAllocator limited(double capacity_mib, bool expandable = false) {
  return CachingAllocator({mib(capacity_mib), expandable});
}

}  // namespace

TEST_CASE("sizes of segments") {
  struct Case {
    Bytes size, allocated, reserved;
  };
  for (const auto& [size, allocated, reserved] : {
           Case{Bytes(1), Bytes(512), mib(2)},                     // rounded to 512 B, in a small segment
           Case{mib(1), mib(1), mib(2)},                           // the largest of the small pool
           Case{mib(1) + Bytes(1), mib(1) + Bytes(512), mib(20)},  // shares a segment of 20 MiB
           Case{mib(10) - Bytes(512), mib(10) - Bytes(512), mib(20)}, Case{mib(10), mib(10), mib(10)},  // its own
           Case{mib(10.25), mib(10.25), mib(12)},  // 1.75 MiB over: above 1, a block of its own
           Case{mib(11.25), mib(12), mib(12)},     // 0.75 MiB over: not worth splitting, it stays in the block
       }) {
    CachingAllocator allocator({});
    const auto block = allocator.allocate(size);
    CAPTURE(size.count());
    CHECK(allocator.reserved() == reserved);
    CHECK(allocator.allocated() == allocated);
    allocator.release(block);
    CHECK(allocator.allocated() == Bytes{});
    CHECK(allocator.reserved() == reserved);  // cached
  }
}

TEST_CASE("the smallest block that suffices, and no other stream's") {
  CachingAllocator allocator({});
  const auto large = allocator.allocate(mib(64)), small = allocator.allocate(mib(32));
  allocator.release(large), allocator.release(small);
  // 30 MiB fit in 32 as in 64: the 32 are taken and keep 2 MiB over. So 64 MiB still fit without a new segment.
  allocator.allocate(mib(30));
  allocator.allocate(mib(64));
  CHECK(allocator.reserved() == mib(96));
  // Another stream has pools of its own: 2 MiB are free on stream 0, and yet 2 MiB on stream 1 take a segment of 20.
  allocator.allocate(mib(2), 1);
  CHECK(allocator.reserved() == mib(116));
  allocator.allocate(mib(2), 0);
  CHECK(allocator.reserved() == mib(116));
}

TEST_CASE("free neighbours join, and only neighbours") {
  CachingAllocator allocator({});
  // One segment of 60 MiB, cut into 20 + 20 + 20: the first request makes it, is freed, and is cut from the left.
  allocator.release(allocator.allocate(mib(60)));
  const auto a = allocator.allocate(mib(20)), b = allocator.allocate(mib(20)), c = allocator.allocate(mib(20));
  CHECK(allocator.reserved() == mib(60));
  // 20 free on both sides of b: 40 MiB are free, but no 40 in one piece.
  allocator.release(a), allocator.release(c);
  const auto d = allocator.allocate(mib(40));
  CHECK(allocator.reserved() == mib(100));
  allocator.release(d);
  // With b free as well the 60 are one block again.
  allocator.release(b);
  allocator.allocate(mib(60));
  CHECK(allocator.reserved() == mib(100));
  CHECK(allocator.peak_allocated() == mib(60));  // a, b, c together; b and d later as much
}

TEST_CASE("a full device gives wholly free segments back and tries once more") {
  auto allocator = limited(100);
  const auto a = allocator.allocate(mib(40)), b = allocator.allocate(mib(40));
  allocator.release(a);
  // 60 do not fit beside 80 reserved; the free 40 go back, and 40 + 60 = 100 just fit.
  const auto c = allocator.allocate(mib(60));
  CHECK(allocator.retries() == 1);
  CHECK(allocator.failures() == 0);
  CHECK(allocator.reserved() == mib(100));
  // A segment that is partly in use cannot go: 20 of b's 40.
  allocator.release(b);
  allocator.allocate(mib(20));
  allocator.release(c);
  // Live 20, reserved 100. 70 MiB: c's 60 go back, b's 40 stay, 40 + 70 > 100.
  allocator.allocate(mib(70));
  CHECK(allocator.retries() == 2);
  CHECK(allocator.failures() == 1);
  CHECK(allocator.reserved() == mib(110));  // shows what was missing: 10
}

TEST_CASE("expandable segments need no piece of the right size") {
  // Growing requests: every one larger than all free blocks. Caching: 20 + 30 + 40 + 50 are all reserved, each for
  // itself. Expandable: one segment of pages of 20 MiB whose free end grows: 20, 40, 40, 60.
  for (const bool expandable : {false, true}) {
    CachingAllocator allocator({mib(1000), expandable});
    for (const int size : {20, 30, 40, 50}) allocator.release(allocator.allocate(mib(size)));
    CHECK(allocator.reserved() == (expandable ? mib(60) : mib(140)));
  }
  // Pages inside go back when the device is full. 20 | 40 free | 20 live in 80 of 100 MiB: 60 more MiB need the 40.
  auto allocator = limited(100, true);
  const auto front = allocator.allocate(mib(20)), middle = allocator.allocate(mib(40));
  allocator.allocate(mib(20));
  allocator.release(middle);
  CHECK(allocator.reserved() == mib(80));
  const auto after = allocator.allocate(mib(60));
  CHECK(allocator.retries() == 1);
  CHECK(allocator.failures() == 0);
  CHECK(allocator.reserved() == mib(100));
  // The hole is mapped again, rather than the segment grown: 60 at the end are free, in pages 4 to 6; 40 fit there.
  allocator.release(after);
  allocator.allocate(mib(40));
  allocator.allocate(mib(20));
  allocator.allocate(mib(20));  // nothing free: one page of the hole
  CHECK(allocator.retries() == 2);
  CHECK(allocator.failures() == 1);  // 20 + 20 + 60 were the whole device
  allocator.release(front);
}

TEST_CASE("random sequences: reserved covers allocated, and everything comes back") {
  for (const bool expandable : {false, true})
    for (std::uint32_t seed = 0; seed < 40; seed++) {
      std::mt19937 random(seed);
      auto allocator = limited(2000, expandable);
      std::vector<std::pair<CachingAllocator::Handle, Bytes>> live;
      Bytes requested;
      for (int step = 0; step < 2000; step++) {
        if (live.empty() || (random() % 2 == 0 && live.size() < 60)) {
          const Bytes size(1 + std::int64_t(random() % (std::uint32_t(1) << (9 + random() % 16))));
          live.emplace_back(allocator.allocate(size, random() % 3), size);
          requested += size;
        } else {
          std::swap(live[random() % live.size()], live.back());
          allocator.release(live.back().first);
          requested -= live.back().second;
          live.pop_back();
        }
        CHECK(allocator.allocated() >= requested);
        CHECK(allocator.reserved() >= allocator.allocated());
      }
      for (const auto& [block, size] : live) allocator.release(block);
      CHECK(allocator.allocated() == Bytes{});
      // All blocks have joined again: a request beyond the device gives every segment back before it fails.
      const auto before = allocator.reserved();
      CHECK(before <= mib(2000));
      allocator.allocate(mib(2000));
      CHECK(allocator.failures() == 0);
      CHECK(allocator.reserved() == mib(2000));
    }
}

}  // namespace rehearsal::answer
