// The free blocks of one pool of the caching allocator, found by size, at equal size by address.
//
// A pool holds many blocks of few sizes: a sorted list of the sizes, and for each the addresses, the lowest last.
// Higher ones than all of those come in a second list: blocks of new segments, of which a deep model leaves thousands.
// What became empty is kept for the next size, so that the replay of an iteration soon asks for no more memory. (With
// std::set it took two thirds of the time of a prediction.)
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
  void erase(const Entry& entry);  // one that is in
  // Takes out the smallest block of at least `size`, at equal size that of the lowest address. False: there is none.
  bool take(std::int64_t size, Entry& taken);

  std::vector<Entry> all(std::int64_t at_least = 0) const;  // ordered by size, then by address

 private:
  struct Place {
    std::int64_t address;
    std::uint32_t block;
  };
  struct Places {
    std::vector<Place> low;   // from the highest address to the lowest
    std::vector<Place> high;  // above all of those, from the lowest to the highest
    bool empty() const { return low.empty() && high.empty(); }
    bool holds_low(std::int64_t address) const { return !low.empty() && address <= low.front().address; }
  };

  static std::ptrdiff_t above(const std::vector<Place>& places, std::int64_t address);
  static std::vector<Place>::iterator up_to(std::vector<Place>& places, std::int64_t address);
  std::size_t first_of(std::int64_t size) const;  // index of the first size that is not below
  void close(std::size_t index);                  // no block of that size is left

  std::vector<std::int64_t> sizes_;   // ascending
  std::vector<std::uint32_t> where_;  // of each size, its places
  std::vector<Places> places_;
  std::vector<std::uint32_t> unused_;  // of places_
};

}  // namespace rehearsal::answer
