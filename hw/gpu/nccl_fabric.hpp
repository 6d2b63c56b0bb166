// Messages and collectives between processes with one GPU each, over NCCL communicators.
//
// NCCL has no tags, so every directed channel (a send endpoint and its receive) has its own communicator, and its own
// stream on either side: the k-th send meets the k-th receive, and messages of different channels never wait for each
// other. Every group has a communicator, over which the messages of collectives performed step by step go too
// (stream_steps.hpp). All ranks make them in the same order and use each once during setup, because NCCL connects at
// first use and blocks the host until the peer does.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/communicator.hpp"
#include "gpu/fabric.hpp"
#include "gpu/slots.hpp"
#include "gpu/stream_steps.hpp"

namespace rehearsal::gpu {

// Ids of the communicators that one rank makes: of its channels as their sender, then of the groups whose first member
// it is, in the order of the graph.
using CommunicatorIds = std::vector<std::string>;
CommunicatorIds make_ids(const graph::TaskGraph& graph, RankId rank, Communicators& communicators);

class NcclFabric : public Fabric {
 public:
  // Called by all ranks at the same time. `ids`: of make_ids(), by rank. `depth`: slots.hpp. `by_steps`: collectives
  // may be performed so. Throws MachineError.
  NcclFabric(const graph::TaskGraph& graph, RankId rank, Device& device, Communicators& communicators,
             std::span<const CommunicatorIds> ids, Time patience, std::size_t depth, bool by_steps);
  ~NcclFabric() override;

  // Uses every communicator once, on all ranks at the same time, and waits for completion; `check` as in
  // DeviceExecutor::finish(). begin_connecting() only queues that, for ranks that take turns in one thread.
  void connect(const std::function<void()>& check);
  void begin_connecting();
  // Call after an iteration: from now on no call waits for a peer to connect (Communicators::connected).
  void connected() { communicators_.connected(); }

  void begin_iteration() override;
  void send(RankId rank, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) override;
  Address receive(RankId rank, graph::EndpointId from, Bytes size, StreamId stream) override;
  void release(RankId rank, graph::EndpointId from, Address message, StreamId last_user) override;
  void collective(const Operation& operation, std::span<const Member> here) override;
  std::optional<std::string> failure() override;
  void abort() noexcept override;

 private:
  enum class Side : std::uint8_t { sends, receives, member };
  struct Line {
    Side side{};
    graph::EndpointId endpoint;
    std::string what;  // "the channel from rank 0 to rank 1"
    std::unique_ptr<Communicator> communicator;
    std::uint32_t members = 2, index = 0;
  };
  Line& line(graph::EndpointId endpoint) { return lines_[line_of_[endpoint.index()]]; }
  Communicator& at(graph::EndpointId endpoint) { return *line(endpoint).communicator; }
  void step_by_step(const Operation& operation, const collective::Execution& by, const Member& mine);

  RankId rank_;
  Device& device_;
  Communicators& communicators_;
  const bool by_steps_;
  StreamId setup_;
  EventId set_up_;
  PoolId pool_;
  std::map<graph::EndpointId, GroupMemory> groups_;
  std::map<graph::EndpointId, Slots> inboxes_;  // by receive endpoint
  std::vector<Line> lines_;                     // in creation order, the same on all ranks
  std::vector<std::size_t> line_of_;            // by endpoint
  Address token_ = nullptr;                     // dummy payload of connect()
};

}  // namespace rehearsal::gpu
