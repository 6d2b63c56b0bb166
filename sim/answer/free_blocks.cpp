#include "answer/free_blocks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::answer {

std::size_t FreeBlocks::first_of(std::int64_t size) const {
  const std::int64_t* first = sizes_.data();
  for (std::size_t left = sizes_.size(); left > 0;) {  // branch-free: which half is right cannot be predicted
    const std::size_t half = (left + 1) / 2;
    const std::int64_t* const upper = first + half;
    first = upper[-1] < size ? upper : first;
    left -= half;
  }
  return std::size_t(first - sizes_.data());
}

// The number of places above the address.
std::ptrdiff_t FreeBlocks::above(const std::vector<Place>& places, std::int64_t address) {
  const Place* first = places.data();
  for (std::size_t left = places.size(); left > 0;) {  // as in first_of
    const std::size_t half = (left + 1) / 2;
    first = first[half - 1].address > address ? first + half : first;
    left -= half;
  }
  return first - places.data();
}

// The first place not below the address, in a list in ascending order.
std::vector<FreeBlocks::Place>::iterator FreeBlocks::up_to(std::vector<Place>& places, std::int64_t address) {
  return std::lower_bound(places.begin(), places.end(), address,
                          [](const Place& place, std::int64_t a) { return place.address < a; });
}

void FreeBlocks::insert(const Entry& entry) {
  const std::size_t index = first_of(entry.size);
  if (index == sizes_.size() || sizes_[index] != entry.size) {
    if (unused_.empty()) unused_.push_back(static_cast<std::uint32_t>(places_.size())), places_.emplace_back();
    sizes_.insert(sizes_.begin() + std::ptrdiff_t(index), entry.size);
    where_.insert(where_.begin() + std::ptrdiff_t(index), unused_.back());
    unused_.pop_back();
  }
  Places& places = places_[where_[index]];
  const Place place{entry.address, entry.block};
  if (places.empty() || places.holds_low(entry.address))
    places.low.insert(places.low.begin() + above(places.low, entry.address), place);
  else
    places.high.insert(up_to(places.high, entry.address), place);
}

void FreeBlocks::erase(const Entry& entry) {
  const std::size_t index = first_of(entry.size);
  INVARIANT(index < sizes_.size() && sizes_[index] == entry.size, "a free block is listed");
  Places& places = places_[where_[index]];
  auto& list = places.holds_low(entry.address) ? places.low : places.high;
  const auto at = &list == &places.low ? list.begin() + above(list, entry.address) : up_to(list, entry.address);
  INVARIANT(at != list.end() && at->block == entry.block, "a free block is listed");
  list.erase(at);
  if (places.empty()) close(index);
}

bool FreeBlocks::take(std::int64_t size, Entry& taken) {
  const std::size_t index = first_of(size);
  if (index == sizes_.size()) return false;
  Places& places = places_[where_[index]];
  if (places.low.empty()) {
    places.low.assign(places.high.rbegin(), places.high.rend());
    places.high.clear();
  }
  taken = {sizes_[index], places.low.back().address, places.low.back().block};
  places.low.pop_back();
  if (places.empty()) close(index);
  return true;
}

void FreeBlocks::close(std::size_t index) {
  unused_.push_back(where_[index]);
  sizes_.erase(sizes_.begin() + std::ptrdiff_t(index));
  where_.erase(where_.begin() + std::ptrdiff_t(index));
}

std::vector<FreeBlocks::Entry> FreeBlocks::all(std::int64_t at_least) const {
  std::vector<Entry> entries;
  for (std::size_t i = first_of(at_least); i < sizes_.size(); i++) {
    const auto& places = places_[where_[i]];
    for (auto place = places.low.rbegin(); place != places.low.rend(); ++place)
      entries.push_back({sizes_[i], place->address, place->block});
    for (const auto& place : places.high) entries.push_back({sizes_[i], place.address, place.block});
  }
  return entries;
}

}  // namespace rehearsal::answer
