// Device memory for the messages of one channel between the copy out of a rank's buffer and the copy into another's:
// blocks are used in turn, and who gets one waits, on the device, for its last reader.
//
// That waiting must not close a circle: a rank that waits for a block waits for its peer. So a block is used again
// `depth` messages later at the earliest (dispatch::message_depth()), and by nobody whose release has not been queued;
// until then there are more blocks.
#pragma once
#include <deque>
#include <map>

#include "gpu/device.hpp"

namespace rehearsal::gpu {

class Slots {
 public:
  Slots(Device& device, PoolId pool, std::size_t depth) : device_(device), pool_(pool), depth_(depth) {}

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
    std::optional<EventId> released;  // nothing: before the iteration
    std::size_t number = 0;           // of the message that had it, within the iteration
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
  std::map<Address, EventId> events_;  // one of each block
};

}  // namespace rehearsal::gpu
