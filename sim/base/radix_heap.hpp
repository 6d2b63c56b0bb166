// A monotone priority queue for integer time: nothing is pushed before the last instant that was taken out.
//
// R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", JACM 37(2), 1990
// (their radix heap of two levels), with digits of six bits. An item sits where its time first differs from the last
// instant: level = that digit, counted from the lowest, slot = its own value of the digit. It only ever moves to lower
// levels, at most ten times and in practice once or twice, without being compared with other items. Its cost hardly
// grows with the number of pending items, unlike a binary heap's, and has no width to tune, unlike a calendar queue's.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace rehearsal {

template <class Item>
class RadixHeap {
 public:
  bool empty() const { return size_ == 0; }

  void push(Time at, Item item) {
    ++size_;
    place({at.count(), item});
  }

  // Takes out every item of the earliest instant, in no particular order, and returns that instant.
  Time pop_instant(std::vector<Item>& items) {
    INVARIANT(!empty(), "empty queue");
    const auto level = static_cast<std::size_t>(std::countr_zero(levels_));
    Level& lowest = *heap_[level];
    const auto slot = static_cast<std::size_t>(std::countr_zero(lowest.occupied));
    std::vector<Entry>& bucket = lowest.slots[slot];
    lowest.occupied &= lowest.occupied - 1;
    if (lowest.occupied == 0) levels_ &= levels_ - 1;

    last_ = bucket.front().at;
    if (bucket.size() == 1) {
      items.push_back(bucket.front().item);
      bucket.clear();
      --size_;
      return Time(last_);
    }
    for (const Entry& entry : bucket) last_ = std::min(last_, entry.at);
    for (const Entry& entry : bucket) {
      if (entry.at != last_) {
        place(entry);  // on a lower level: it agrees with `last_` in the digit of this one
      } else {
        items.push_back(entry.item);
        --size_;
      }
    }
    bucket.clear();
    return Time(last_);
  }

 private:
  static constexpr std::size_t kDigit = 6;
  static constexpr std::size_t kSlots = std::size_t{1} << kDigit;
  static constexpr std::size_t kLevels = (63 + kDigit - 1) / kDigit;  // times are not negative: 63 bits

  struct Entry {
    std::int64_t at;
    Item item;
  };
  struct Level {
    std::uint64_t occupied = 0;  // bit s: slot s is not empty
    std::array<std::vector<Entry>, kSlots> slots;
  };

  void place(const Entry& entry) {
    const auto differs = static_cast<std::uint64_t>(entry.at ^ last_);
    // `last_` itself belongs to the lowest level, as if the last digit differed.
    const std::size_t level = static_cast<std::size_t>(std::bit_width(differs | 1) - 1) / kDigit;
    const std::size_t slot = static_cast<std::size_t>(entry.at >> (level * kDigit)) % kSlots;
    if (!heap_[level]) heap_[level] = std::make_unique<Level>();
    heap_[level]->slots[slot].push_back(entry);
    heap_[level]->occupied |= std::uint64_t{1} << slot;
    levels_ |= std::uint32_t{1} << level;
  }

  std::array<std::unique_ptr<Level>, kLevels> heap_;  // a short run needs few
  std::uint32_t levels_ = 0;                          // bit l: level l is not empty
  std::size_t size_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace rehearsal
