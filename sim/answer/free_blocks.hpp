// The free blocks of one pool of the caching allocator, ordered by size and then by address.
//
// A pool holds many blocks of few sizes: a sorted list of sizes and, for each, its addresses with the lowest last.
// Addresses above all of those go into a second list: blocks of new segments, of which a deep model leaves thousands.
// Emptied lists are kept for the next size, so that the replay of an iteration soon allocates nothing. (With
// std::set, these lists took two thirds of the time of a prediction.)
#pragma once
#include <cstdint>
#include <vector>

namespace rehearsal::answer {

class FreeBlocks {
 public:
  struct Entry {
    std::int64_t size = 0, address = 0;
    std::uint32_t block = 0;
  };

  void insert(const Entry& entry);
  void erase(const Entry& entry);  // must be present
  // Removes the smallest block of at least `size`, lowest address first among equal sizes. False if there is none.
  bool take(std::int64_t size, Entry& taken);

  std::vector<Entry> all(std::int64_t at_least = 0) const;  // ordered by size, then by address

 private:
  struct Place {
    std::int64_t address;
    std::uint32_t block;
  };
  struct Places {
    std::vector<Place> low;   // highest address first
    std::vector<Place> high;  // above all of `low`, lowest address first
    bool empty() const { return low.empty() && high.empty(); }
    bool holds_low(std::int64_t address) const { return !low.empty() && address <= low.front().address; }
  };

  static std::ptrdiff_t above(const std::vector<Place>& places, std::int64_t address);
  static std::vector<Place>::iterator up_to(std::vector<Place>& places, std::int64_t address);
  std::size_t first_of(std::int64_t size) const;  // index of the first size that is not smaller
  void close(std::size_t index);                  // removes a size without blocks

  std::vector<std::int64_t> sizes_;   // ascending
  std::vector<std::uint32_t> where_;  // by size: index in places_
  std::vector<Places> places_;
  std::vector<std::uint32_t> unused_;  // indices in places_
};

}  // namespace rehearsal::answer
