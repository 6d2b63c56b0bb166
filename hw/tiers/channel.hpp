// Reads and writes of a file, several under way: io_uring where the kernel permits it, else pread and pwrite one by
// one.
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
  // No more than kDepth at once. `slot` names it.
  virtual void submit(std::size_t slot, const Request& request) = 0;
  // Of one that was submitted, in any order. `result`: bytes, or an error as -errno.
  struct Completion {
    std::size_t slot;
    std::int64_t result;
  };
  virtual Completion next() = 0;
};

inline constexpr std::size_t kDepth = 8;

struct OpenedChannel {
  std::unique_ptr<Channel> channel;
  std::string refused;  // why it is not io_uring; empty where it is
};
OpenedChannel open_channel(bool io_uring);

}  // namespace rehearsal::tiers
