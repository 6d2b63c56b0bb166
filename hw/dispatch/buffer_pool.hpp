// Buffers of equal size, reused round-robin as a rank's own buffers are; they are returned, and freed only at the end.
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <memory>

namespace rehearsal::dispatch {

class BufferPool {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;

  Buffer get(std::size_t size) {
    auto& free = free_[size];
    if (free.empty()) return std::make_unique_for_overwrite<std::byte[]>(size);
    Buffer buffer = std::move(free.front());
    free.pop_front();
    return buffer;
  }
  void put(std::size_t size, Buffer buffer) { free_[size].push_back(std::move(buffer)); }

 private:
  std::map<std::size_t, std::deque<Buffer>> free_;
};

}  // namespace rehearsal::dispatch
