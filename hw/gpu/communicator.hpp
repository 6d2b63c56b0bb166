// The part of NCCL that this program uses. Implemented by hw/cuda with NCCL, and by the tests with a recorder that
// enforces NCCL's rules.
//
// Calls only queue work on a stream. There are no tags: the k-th send to a peer meets the k-th receive from it, and the
// k-th collective of a member meets the k-th of the others. Nothing is buffered, so no operation ends before its
// counterpart is there. All members call the same collectives with the same sizes in the same order. Calls between
// begin_group() and end_group() are queued together; a message from a rank to itself needs its send and receive in one
// group.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "gpu/device.hpp"

namespace rehearsal::gpu {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void send(const std::byte* from, Bytes size, int peer, StreamId stream) = 0;
  virtual void receive(Address into, Bytes size, int peer, StreamId stream) = 0;
  // `in` and `out` as in dispatch::Transport::join, but a shift is never in place. `part`: elements of one member's
  // part (all-gather: of `in`; reduce-scatter: of `out`; all-to-all: of what goes to one member; all-reduce, shift: of
  // the whole). Sums are computed in `precision`, fp32 or bf16.
  virtual void collective(CollectiveKind kind, Precision precision, const std::byte* in, Address out, std::int64_t part,
                          StreamId stream) = 0;
  // An asynchronous error, if any, in NCCL's words: a lost peer, a broken connection. Never blocks.
  virtual std::optional<std::string> failure() = 0;
  // Aborts pending operations on this side; the communicator cannot be used afterwards. Any thread may call it.
  virtual void abort() noexcept = 0;
};

// What a communicator is made for.
enum class Traffic : std::uint8_t { messages, collectives };

class Communicators {
 public:
  virtual ~Communicators() = default;
  // Makes the id of a new communicator (opaque bytes): one member makes it and all members join with it.
  virtual std::string make_id() = 0;
  // Returns when all members have called it. Throws MachineError on failure, also when joining takes over `patience`.
  virtual std::unique_ptr<Communicator> join(const std::string& id, int members, int index, Traffic traffic,
                                             Time patience) = 0;
  // Call when every communicator has been used once: from now on no call waits for a peer to connect.
  virtual void connected() {}
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
};

}  // namespace rehearsal::gpu
