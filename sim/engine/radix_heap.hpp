// A monotone priority queue for integer time: nothing is pushed before the last instant that was taken out.
//
// R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", JACM 37(2), 1990,
// section 3. An item sits in the bucket of the highest bit in which its time differs from the last instant, and only
// ever moves down: at most 63 moves, in practice one or two, without comparing items with each other. Its cost hardly
// grows with the number of pending items, unlike a binary heap's.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace rehearsal::engine {

template <class Item>
class RadixHeap {
 public:
  bool empty() const { return occupied_ == 0; }

  void push(Time at, Item item) { place({at.count(), item}); }

  // Takes out every item of the earliest instant, in no particular order, and returns that instant.
  Time pop_instant(std::vector<Item>& items) {
    INVARIANT(!empty(), "empty queue");
    const int low = std::countr_zero(occupied_);
    occupied_ &= occupied_ - 1;
    std::vector<Entry>& bucket = buckets_[low];
    if (low > 0) {
      last_ = std::min_element(bucket.begin(), bucket.end(), [](const Entry& a, const Entry& b) {
                return a.at < b.at;
              })->at;
    }
    for (const Entry& entry : bucket) {
      if (entry.at == last_)
        items.push_back(entry.item);
      else
        place(entry);  // a lower bucket: it agrees with `last_` in the bit of this one
    }
    bucket.clear();
    return Time(last_);
  }

 private:
  struct Entry {
    std::int64_t at;
    Item item;
  };

  void place(const Entry& entry) {
    const auto bucket = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(entry.at ^ last_)));
    buckets_[bucket].push_back(entry);
    occupied_ |= std::uint64_t{1} << bucket;
  }

  std::array<std::vector<Entry>, 64> buckets_;  // times are not negative: 63 bits
  std::uint64_t occupied_ = 0;                  // bit b: bucket b is not empty
  std::int64_t last_ = 0;
};

}  // namespace rehearsal::engine
