// A rank's tiers outside the memory it computes in (tiers of buffers: base/tier.hpp): handles instead of stores, and
// the file is opened only if needed.
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
  // The file is opened for the first region in it, or at once if it has a capacity, so that a full disk shows at the
  // start. Both throw MachineError.
  explicit Storage(FileOptions file);

  Handle allocate(Tier tier, Bytes size);  // host or nvme
  void free(Handle handle);
  // Starts a copy between memory and offset `at` of a region; as Store::write and Store::read.
  Pending copy(std::span<std::byte> memory, Handle handle, Direction direction, Bytes at = {});
  void wait(Pending copy);
  std::optional<Lane::Instant> ended(Pending copy) const;
  std::span<std::byte> host_memory(Handle handle) const;  // for a region on the host

  Bytes live(Tier tier) const;
  Bytes high_water(Tier tier) const;
  std::string means(Tier tier) const;  // empty if the tier was never used
  struct FileUse {
    Bytes length, cached;  // of the file, and its part in the page cache
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
