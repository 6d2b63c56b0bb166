#include "tiers/storage.hpp"

#include <utility>

#include "base/error.hpp"

namespace rehearsal::tiers {

Storage::Storage(FileOptions file) : options_(std::move(file)), heap_(std::make_unique<HeapStore>()) {
  if (options_.capacity > Bytes()) this->file();
}

FileStore& Storage::file() {
  if (!file_) file_ = std::make_unique<FileStore>(options_);
  return *file_;
}

Store& Storage::store(Tier tier) const {
  INVARIANT(tier == Tier::host || file_, "only what was allocated is copied or freed");
  if (tier == Tier::host) return *heap_;
  return *file_;
}

Handle Storage::allocate(Tier tier, Bytes size) {
  INVARIANT(tier != Tier::device, "a rank's own memory is no tier beside it");
  return {tier, tier == Tier::host ? heap_->allocate(size) : file().allocate(size)};
}

void Storage::free(Handle handle) { store(handle.tier).free(handle.region); }

Pending Storage::copy(std::span<std::byte> memory, Handle handle, Direction direction, Bytes at) {
  auto& where = store(handle.tier);
  return {handle.tier,
          direction == Direction::out ? where.write(handle.region, memory, at) : where.read(handle.region, memory, at)};
}

void Storage::wait(Pending copy) { store(copy.tier).wait(copy.ticket); }
std::optional<Lane::Instant> Storage::ended(Pending copy) const { return store(copy.tier).ended(copy.ticket); }

std::span<std::byte> Storage::host_memory(Handle handle) const {
  INVARIANT(handle.tier == Tier::host, "a file has no address");
  return heap_->memory(handle.region);
}

Bytes Storage::live(Tier tier) const {
  if (tier == Tier::nvme && !file_) return Bytes();
  return store(tier).live();
}

Bytes Storage::high_water(Tier tier) const {
  if (tier == Tier::nvme && !file_) return Bytes();
  return store(tier).high_water();
}

Storage::FileUse Storage::file_use() const { return file_ ? FileUse{file_->length(), file_->cached()} : FileUse{}; }

std::string Storage::means(Tier tier) const {
  if (tier == Tier::nvme && !file_) return "";
  return store(tier).means();
}

}  // namespace rehearsal::tiers
