// Device memory for messages of one channel in transit, between the copy out of the sender's buffer and the copy into
// the receiver's. Blocks are reused in turn; a block's next user waits, on the device, for its last reader.
//
// These waits must not deadlock: a rank that waits for a block waits for its peer. So a block is reused only `depth`
// messages later (dispatch::message_depth()) and only once its release has been queued; until then more blocks are
// allocated.
#pragma once
#include <deque>
#include <map>

#include "gpu/device.hpp"

namespace rehearsal::gpu {

class Slots {
 public:
  Slots(Device& device, PoolId pool, std::size_t depth) : device_(device), pool_(pool), depth_(depth) {}

  // A block of at least `size` bytes, for work queued on `user` from now on.
  Address acquire(Bytes size, StreamId user);
  // Call when the block's last use has been queued, on `last_user`.
  void release(Address block, StreamId last_user);
  // All streams have synchronised between iterations: every block is free, whichever stream used it last.
  void begin_iteration();
  // Frees all blocks; `stream` must come after all work that used them.
  void clear(StreamId stream);

 private:
  struct Free {
    Address block = nullptr;
    std::optional<EventId> released;  // nullopt: before this iteration
    std::size_t number = 0;           // of the message that used it, within the iteration
  };
  struct Used {
    Bytes size;
    std::size_t number = 0;
  };
  Device& device_;
  PoolId pool_;
  std::size_t depth_;
  std::size_t acquired_ = 0;                // in this iteration
  std::map<Bytes, std::deque<Free>> free_;  // by size
  std::map<Address, Used> used_;
  std::map<Address, EventId> events_;  // one per block
};

}  // namespace rehearsal::gpu
