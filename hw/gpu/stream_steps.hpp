// One member's part in one collective, performed by the steps of its algorithm (collective::Routine) as work queued on
// a stream: the counterpart of dispatch::Steps, for fabrics that queue messages and cannot look at what has arrived.
//
// Step s of piece p belongs to tick s + p, at both ends of a message alike, so pieces follow each other through the
// steps as in a pipeline. The fabric carries the messages of a tick together; then what arrived is added up. Messages
// between two members are listed by number, so the k-th that one sends in a tick is the k-th that the other receives.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "dispatch/cells.hpp"
#include "dispatch/routines.hpp"
#include "gpu/fabric.hpp"
#include "gpu/slots.hpp"

namespace rehearsal::gpu {

class StreamSteps {
 public:
  struct Message {
    bool sends = false;
    std::uint32_t member = 0;  // the other end, possibly the member itself
    std::uint32_t number = 0;  // among those from one member to the other
    Address at = nullptr;      // only read if it sends
    Bytes size;
  };

  // `buffers`: used by the collectives of this group alone, which wait for each other anyway. All must outlive this.
  StreamSteps(Device& device, Slots& buffers, const collective::Routine& routine, const Fabric::Operation& operation,
              const Fabric::Member& member);

  std::uint32_t ticks() const { return ticks_; }
  // The messages of a tick, by the other end and number; ticks in order.
  std::vector<Message> begin_tick(std::uint32_t tick);
  // Call when they have been queued, receives on the member's own stream or before it.
  void end_tick();
  // Call after the last tick.
  void finish();

 private:
  struct Piece : dispatch::Cell {
    Address owned = nullptr;  // a buffer behind `at`
  };
  struct Arrival {
    std::size_t where = 0;
    Address buffer = nullptr;  // null: received into its home
    bool adds = false;
  };
  void arrive(Piece& piece, const Arrival& arrival);
  void keep(Piece& piece, Address buffer);
  void copy(Address to, const std::byte* from, std::size_t size);

  Device& device_;
  Slots& buffers_;
  const collective::Routine& routine_;
  const Precision precision_;
  const StreamId stream_;
  std::uint32_t ticks_ = 0;
  std::vector<Piece> pieces_;  // by cell and piece
  std::vector<Arrival> arriving_;
};

// What a fabric keeps from one collective of a group to the next: they wait for each other anyway, and for no others.
struct GroupMemory {
  GroupMemory(Device& device, PoolId pool) : buffers(device, pool, 0) {}
  Slots buffers;
  std::map<std::uint32_t, dispatch::Routines> routines;  // by member
};

}  // namespace rehearsal::gpu
