// The tiers of one rank beside the memory that it computes in (spec of a buffer's tier: base/tier.hpp): handles instead
// of stores, and the file is there only where it is needed.
#pragma once
#include <memory>
#include <span>

#include "base/tier.hpp"
#include "tiers/file_store.hpp"
#include "tiers/heap_store.hpp"

namespace rehearsal::tiers {

struct Handle {
  Tier tier = Tier::host;
  Region region = 0;
};
enum class Direction : std::uint8_t { out, in };  // from the rank's memory, and back to it

struct Pending {
  Tier tier = Tier::host;
  Ticket ticket;
};

class Storage {
 public:
  // The file is opened by the first region in it, or now, where it has a capacity: a full disk is found at the
  // beginning. Both throw MachineError.
  explicit Storage(FileOptions file);

  Handle allocate(Tier tier, Bytes size);  // host or nvme
  void free(Handle handle);
  // Begins a copy between memory and `at` of a region; as Store::write and Store::read.
  Pending copy(std::span<std::byte> memory, Handle handle, Direction direction, Bytes at = {});
  void wait(Pending copy);
  std::optional<Lane::Instant> ended(Pending copy) const;
  std::span<std::byte> host_memory(Handle handle) const;  // of a region of the host

  Bytes live(Tier tier) const;
  Bytes high_water(Tier tier) const;
  std::string means(Tier tier) const;  // empty where nothing was kept there
  struct FileUse {
    Bytes length, cached;  // of the file, and how much of it is in the page cache
  };
  FileUse file_use() const;

 private:
  Store& store(Tier tier) const;
  FileStore& file();

  FileOptions options_;
  std::unique_ptr<HeapStore> heap_;
  std::unique_ptr<FileStore> file_;
};

}  // namespace rehearsal::tiers
