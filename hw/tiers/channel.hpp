// Concurrent reads and writes of a file: io_uring where the kernel permits it, otherwise pread and pwrite one by one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace rehearsal::tiers {

struct Request {
  bool write = false;
  int file = -1;
  std::byte* memory = nullptr;
  std::int64_t size = 0, offset = 0;  // in the file
};

class Channel {
 public:
  virtual ~Channel() = default;
  // At most kDepth at once. `slot` identifies it.
  virtual void submit(std::size_t slot, const Request& request) = 0;
  // Completion of a submitted request, in any order. `result`: bytes, or an error as -errno.
  struct Completion {
    std::size_t slot;
    std::int64_t result;
  };
  virtual Completion next() = 0;
};

inline constexpr std::size_t kDepth = 8;

struct OpenedChannel {
  std::unique_ptr<Channel> channel;
  std::string refused;  // why io_uring is not used; empty if it is
};
OpenedChannel open_channel(bool io_uring);

}  // namespace rehearsal::tiers
