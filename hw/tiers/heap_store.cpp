#include "tiers/heap_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "base/quantity_text.hpp"

namespace rehearsal::tiers {
namespace {

constexpr std::align_val_t kPage{4096};  // also the memory alignment of O_DIRECT: a file may be read into it

std::byte* address(std::int64_t place) { return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(place)); }

}  // namespace

void HeapStore::Freed::operator()(std::byte* block) const { ::operator delete[](block, kPage); }

HeapStore::~HeapStore() { stop(); }

Region HeapStore::allocate(Bytes size) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(size.count(), 1));
  auto* block = static_cast<std::byte*>(::operator new[](bytes, kPage, std::nothrow));
  if (!block)
    throw MachineError(fmt::format("tier host: {} more are not to be had beside {}; keep less there (training.offload)",
                                   show(size), show(live_)));
  const auto place = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(block));
  blocks_.emplace(place, Block{std::unique_ptr<std::byte[], Freed>(block), size});
  live_ += size;
  high_water_ = std::max(high_water_, live_);
  return add(place, size);
}

std::span<std::byte> HeapStore::memory(Region region) const {
  const auto place = this->place(region);
  return {address(place), static_cast<std::size_t>(blocks_.at(place).size.count())};
}

void HeapStore::release(std::int64_t place) {
  const auto block = blocks_.find(place);
  live_ -= block->second.size;
  blocks_.erase(block);
}

void HeapStore::put(std::int64_t place, Bytes, std::span<const std::byte> from, std::int64_t at) {
  if (!from.empty()) std::memcpy(address(place) + at, from.data(), from.size());
}

void HeapStore::get(std::int64_t place, Bytes, std::span<std::byte> to, std::int64_t at) {
  if (!to.empty()) std::memcpy(to.data(), address(place) + at, to.size());
}

}  // namespace rehearsal::tiers
