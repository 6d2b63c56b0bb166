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

std::size_t FreeBlocks::slot(std::int64_t size) const {
  const auto mask = table_.size() - 1;
  auto at = static_cast<std::size_t>(static_cast<std::uint64_t>(size) * 0x9e3779b97f4a7c15 >> 32) & mask;
  while (table_[at].size != size && table_[at].size != kNoSize) at = (at + 1) & mask;
  return at;
}

void FreeBlocks::tabulate() {
  std::size_t slots = 16;
  while (slots < 4 * sizes_.size()) slots *= 2;
  table_.assign(slots, {});
  for (std::size_t i = 0; i < sizes_.size(); ++i) table_[slot(sizes_[i])] = {sizes_[i], where_[i]};
}

FreeBlocks::Places& FreeBlocks::list(std::int64_t size) {
  if (unused_.empty()) unused_.push_back(static_cast<std::uint32_t>(places_.size())), places_.emplace_back();
  const auto index = static_cast<std::ptrdiff_t>(first_of(size));
  const auto where = unused_.back();
  unused_.pop_back();
  sizes_.insert(sizes_.begin() + index, size), where_.insert(where_.begin() + index, where);
  ++empty_;
  if (table_.size() < 2 * sizes_.size())
    tabulate();
  else
    table_[slot(size)] = {size, where};
  return places_[where];
}

void FreeBlocks::became_empty() {
  constexpr std::size_t kFew = 16;
  if (++empty_ <= kFew + sizes_.size() / 8) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (places_[where_[i]].empty())
      unused_.push_back(where_[i]);
    else
      sizes_[kept] = sizes_[i], where_[kept++] = where_[i];
  }
  sizes_.resize(kept), where_.resize(kept), empty_ = 0;
  tabulate();
}

void FreeBlocks::insert(const Entry& entry) {
  Places* const found = find(entry.size);
  Places& places = found ? *found : list(entry.size);
  const Place place{entry.address, entry.block};
  if (places.empty()) {
    --empty_;
    places.low.push_back(place);
  } else if (places.low.empty() || entry.address > places.low.front().address) {
    places.high.insert(up_to(places.high, entry.address), place);
  } else if (entry.address < places.low.back().address) {
    places.low.push_back(place);
  } else {
    places.low.insert(places.low.begin() + above(places.low, entry.address), place);
  }
}

void FreeBlocks::erase(const Entry& entry) {
  Places* const found = find(entry.size);
  INVARIANT(found, "a free block is listed");
  auto& list = found->holds_low(entry.address) ? found->low : found->high;
  const auto at = &list == &found->low ? list.begin() + above(list, entry.address) : up_to(list, entry.address);
  INVARIANT(at != list.end() && at->block == entry.block, "a free block is listed");
  list.erase(at);
  if (found->empty()) became_empty();
}

bool FreeBlocks::take(std::int64_t size, Entry& taken) {
  Places* found = find(size);
  if (!found || found->empty()) {
    std::size_t index = first_of(size);
    while (index < sizes_.size() && places_[where_[index]].empty()) ++index;
    if (index == sizes_.size()) return false;
    size = sizes_[index], found = &places_[where_[index]];
  }
  if (found->low.empty()) {
    found->low.assign(found->high.rbegin(), found->high.rend());
    found->high.clear();
  }
  taken = {size, found->low.back().address, found->low.back().block};
  found->low.pop_back();
  if (found->empty()) became_empty();
  return true;
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
