// What this program asks of NCCL, and nothing else. hw/cuda answers with NCCL; the tests answer with a recorder that
// enforces its rules.
//
// Calls only queue work on a stream. There are no tags: the k-th send to a peer meets the k-th receive from it, the
// k-th collective of a member that of the others, and neither ends before its counterpart is there (nobody buffers).
// All members call the same collectives with the same sizes in the same order. Calls between begin_group() and
// end_group() are queued together; a message to oneself needs both its halves in one group.
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
  // `in` and `out` as in dispatch::Transport::join, a shift not in place. `part`: elements of one member's part
  // (all-gather: of `in`; reduce-scatter: of `out`; all-to-all: of what goes to one member; all-reduce, shift: of the
  // whole). Sums are of `precision`, fp32 or bf16.
  virtual void collective(CollectiveKind kind, Precision precision, const std::byte* in, Address out, std::int64_t part,
                          StreamId stream) = 0;
  // What went wrong since, in NCCL's words: a peer that is gone, a wire that broke. Never waits.
  virtual std::optional<std::string> failure() = 0;
  // Gives up what is under way, on this side; the communicator is of no use afterwards. Any thread.
  virtual void abort() noexcept = 0;
};

// What a communicator is made for.
enum class Traffic : std::uint8_t { messages, collectives };

class Communicators {
 public:
  virtual ~Communicators() = default;
  // An id that one member makes and all use; opaque bytes.
  virtual std::string make_id() = 0;
  // Returns when all members have called it. Throws MachineError, also when that takes longer than `patience`.
  virtual std::unique_ptr<Communicator> join(const std::string& id, int members, int index, Traffic traffic,
                                             Time patience) = 0;
  // Everything that will be called has been called once: from now on nobody waits for a peer to connect.
  virtual void connected() {}
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
};

}  // namespace rehearsal::gpu
