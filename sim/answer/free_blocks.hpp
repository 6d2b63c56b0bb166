// The free blocks of one pool of the caching allocator, ordered by size and then by address.
//
// A pool holds many blocks of few sizes: a sorted list of sizes and, for each, its addresses with the lowest last.
// Addresses above all of those go into a second list: blocks of new segments, of which a deep model leaves thousands.
// Most requests are for a size that is there: a table knows it without a search. A size whose blocks are all taken
// stays listed, since it will be needed again, until many are empty. (With std::set, these lists took two thirds of the
// time of a prediction.)
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

  static constexpr std::int64_t kNoSize = -1;
  struct Known {
    std::int64_t size = kNoSize;
    std::uint32_t where = 0;
  };

  static std::ptrdiff_t above(const std::vector<Place>& places, std::int64_t address);
  static std::vector<Place>::iterator up_to(std::vector<Place>& places, std::int64_t address);
  std::size_t first_of(std::int64_t size) const;  // index of the first size that is not smaller
  std::size_t slot(std::int64_t size) const;      // of the table: where the size is, or belongs
  Places* find(std::int64_t size) {
    if (table_.empty()) return nullptr;
    const Known& known = table_[slot(size)];
    return known.size == size ? &places_[known.where] : nullptr;
  }
  Places& list(std::int64_t size);  // a new size
  void tabulate();
  void became_empty();  // of a size; forgets such sizes when there are many

  std::vector<std::int64_t> sizes_;   // ascending
  std::vector<std::uint32_t> where_;  // by size: index in places_
  std::vector<Places> places_;
  std::vector<std::uint32_t> unused_;  // indices in places_
  std::vector<Known> table_;           // a power of two, at most half full
  std::size_t empty_ = 0;              // sizes without blocks
};

}  // namespace rehearsal::answer
