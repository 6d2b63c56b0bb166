// Device memory for messages between the copy out of a rank's buffer and the copy into another's: used again as soon as
// its last reader has passed it, which the streams find out by themselves. As many blocks as the host, running ahead,
// needs: none is waited for whose release was not queued yet.
#pragma once
#include <deque>
#include <map>

#include "gpu/device.hpp"

namespace rehearsal::gpu {

class Slots {
 public:
  Slots(Device& device, PoolId pool) : device_(device), pool_(pool) {}

  // Of at least `size` bytes, for what is queued on `user` from now on.
  Address acquire(Bytes size, StreamId user);
  // Nothing after what is queued on `last_user` looks at it.
  void release(Address block, StreamId last_user);
  // Between iterations all streams have met: every block is free, whoever used it last.
  void begin_iteration();
  // Gives all blocks back; `stream` comes after everything that used them.
  void clear(StreamId stream);

 private:
  struct Free {
    Address block = nullptr;
    std::optional<EventId> released;  // nothing: long ago
  };
  Device& device_;
  PoolId pool_;
  std::map<Bytes, std::deque<Free>> free_;  // by size
  std::map<Address, Bytes> used_;
  std::map<Address, EventId> events_;  // one of each block
};

}  // namespace rehearsal::gpu
