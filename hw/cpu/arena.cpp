#include "cpu/arena.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.hpp"

namespace rehearsal::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the width of the widest vector

}  // namespace

void Arena::Freed::operator()(std::byte* block) const { ::operator delete[](block, kAlignment); }

Arena::Block Arena::take(std::size_t size) {
  auto& same = kept_[size];
  if (!same.empty()) {
    Block block = std::move(same.back());
    same.pop_back();
    return block;
  }
  const auto fresh = [size] { return Block(static_cast<std::byte*>(::operator new[](size, kAlignment))); };
  try {
    return fresh();
  } catch (const std::bad_alloc&) {
    kept_.clear();  // blocks kept for other sizes may be the memory that is missing
    return fresh();
  }
}

void Arena::allocate(BufferId id) {
  Block& block = blocks_[id.index()];
  INVARIANT(!block, "a buffer is allocated once");
  const Bytes size = buffers_[id.index()].size;
  block = take(static_cast<std::size_t>(size.count()));
  if (poison_) std::memset(block.get(), kNan, static_cast<std::size_t>(size.count()));
  live_ += size;
  peak_ = std::max(peak_, live_);
}

void Arena::free(BufferId id) {
  Block& block = blocks_[id.index()];
  INVARIANT(block, "only live buffers are freed");
  const Bytes size = buffers_[id.index()].size;
  kept_[static_cast<std::size_t>(size.count())].push_back(std::move(block));
  live_ -= size;
}

std::span<std::byte> Arena::bytes(BufferId id) const {
  INVARIANT(blocks_[id.index()], "a buffer is used while it is live");
  return {blocks_[id.index()].get(), static_cast<std::size_t>(buffers_[id.index()].size.count())};
}

std::span<float> Arena::floats(BufferId id) const {
  const std::span<std::byte> all = bytes(id);
  return {reinterpret_cast<float*>(all.data()), all.size() / sizeof(float)};
}

}  // namespace rehearsal::cpu
