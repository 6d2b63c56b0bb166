// Carries messages and collectives between the ranks of a job, on streams. Implemented twice: by copies within one GPU
// (copy_fabric.hpp), where the ranks are virtual stages, and by NCCL (nccl_fabric.hpp), one GPU per process.
//
// Calls queue work and return. `stream` is the task's; the caller orders it with the rank's other tasks.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "collective/routine.hpp"
#include "dispatch/operands.hpp"
#include "gpu/device.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::gpu {

class Fabric {
 public:
  virtual ~Fabric() = default;
  // Called between iterations, when all streams have synchronised.
  virtual void begin_iteration() = 0;

  // Sends the next message of a send endpoint; `from` may be reused once the stream has passed the call.
  virtual void send(RankId rank, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) = 0;
  // Receives the next message of a receive endpoint, into memory of the fabric that is valid until release().
  virtual Address receive(RankId rank, graph::EndpointId from, Bytes size, StreamId stream) = 0;
  virtual void release(RankId rank, graph::EndpointId from, Address message, StreamId last_user) = 0;

  // One member's side of a collective: `in` and `out` as in dispatch::Transport::join.
  struct Member {
    RankId rank;
    graph::EndpointId endpoint;
    const std::byte* in = nullptr;
    Address out = nullptr;
    StreamId stream;
    dispatch::Blocks blocks = {};  // in the place of Operation::part
  };
  struct Operation {
    CollectiveKind kind{};
    Precision precision{};
    std::int64_t part = 0;  // elements, as in Communicator::collective
    // The algorithm whose steps are performed; null: as the fabric does without being told.
    const collective::Execution* by = nullptr;
  };
  // `here`: all members that this process serves, in group order.
  virtual void collective(const Operation& operation, std::span<const Member> here) = 0;

  // A failure of a peer or a connection so far, if any; never blocks.
  virtual std::optional<std::string> failure() { return std::nullopt; }
  // Aborts pending work on this side, so that the device becomes idle. Any thread may call it.
  virtual void abort() noexcept {}
};

}  // namespace rehearsal::gpu
