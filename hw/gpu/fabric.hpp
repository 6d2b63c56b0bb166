// What carries messages and collectives between the ranks of a job, as streams see it. Implemented twice: copies within
// one GPU (copy_fabric.hpp), where the ranks are virtual stages, and NCCL (nccl_fabric.hpp), with one GPU per process.
//
// Calls queue work and return. `stream` is that of the task; ordering with other tasks of the rank is the caller's.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "gpu/device.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::gpu {

class Fabric {
 public:
  virtual ~Fabric() = default;
  // All streams have met before and go on after it.
  virtual void begin_iteration() = 0;

  // The next message of a send endpoint; `from` may be used again when the stream has passed the call.
  virtual void send(RankId rank, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) = 0;
  // The next message of a receive endpoint, in memory of the fabric, until it is released.
  virtual Address receive(RankId rank, graph::EndpointId from, Bytes size, StreamId stream) = 0;
  virtual void release(RankId rank, graph::EndpointId from, Address message, StreamId last_user) = 0;

  // One member's side of a collective: `in` and `out` as in dispatch::Transport::join.
  struct Member {
    RankId rank;
    graph::EndpointId endpoint;
    const std::byte* in = nullptr;
    Address out = nullptr;
    StreamId stream;
  };
  struct Operation {
    CollectiveKind kind{};
    Precision precision{};
    std::int64_t part = 0;  // elements, as in Communicator::collective
  };
  // `here`: all members that this process serves, in the order of the group.
  virtual void collective(const Operation& operation, std::span<const Member> here) = 0;

  // What went wrong with a peer or a wire since; never waits.
  virtual std::optional<std::string> failure() { return std::nullopt; }
  // Ends what is under way on this side, so that the device comes to rest. Any thread.
  virtual void abort() noexcept {}
};

}  // namespace rehearsal::gpu
