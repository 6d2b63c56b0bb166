// The tier `nvme`: one file per rank. It bypasses the page cache (O_DIRECT) and uses io_uring where the kernel and the
// file system permit it, otherwise what they permit; means() tells which.
#pragma once
#include <array>
#include <memory>

#include "tiers/channel.hpp"
#include "tiers/extents.hpp"
#include "tiers/store.hpp"
#include "tiers/unnamed_file.hpp"

namespace rehearsal::tiers {

struct FileOptions {
  std::string directory = usual_directory();
  std::string whose = "rank 0";         // for messages
  Bytes capacity;                       // disk space reserved at once; beyond it the file grows
  bool direct = true, io_uring = true;  // false: not attempted
};

class FileStore final : public Store {
 public:
  explicit FileStore(const FileOptions& options);  // throws MachineError
  ~FileStore() override;
  Region allocate(Bytes size) override;
  Bytes live() const override { return extents_.live(); }
  Bytes high_water() const override { return extents_.high_water(); }
  std::string means() const override;  // "io_uring, O_DIRECT"

  bool direct() const { return file_.direct(); }
  Bytes length() const { return Bytes(file_.length()); }  // of the file, in whole blocks
  Bytes cached() const { return file_.cached(); }         // of the file, in the page cache

 private:
  struct Bounce;  // aligned memory of a slot
  // One direction, used by its lane.
  struct Side {
    OpenedChannel opened;
    std::array<std::unique_ptr<Bounce>, kDepth> bounces;
  };
  struct Copy;
  void release(std::int64_t place) override { extents_.free(place); }
  void put(std::int64_t place, Bytes size, std::span<const std::byte> from, std::int64_t at) override;
  void get(std::int64_t place, Bytes size, std::span<std::byte> to, std::int64_t at) override;

  UnnamedFile file_;
  Extents extents_;
  Side writes_, reads_;
};

}  // namespace rehearsal::tiers
