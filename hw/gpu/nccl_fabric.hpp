// Messages and collectives between processes with a GPU each, over communicators of NCCL.
//
// NCCL has no tags, so every directed channel (a send endpoint and its receive) is a communicator of its own with a
// stream of its own on either side: the k-th send meets the k-th receive, and messages of different channels never wait
// for each other. Every group is a communicator. They are made one after the other in one order for all ranks, and used
// once, because NCCL connects at the first use and keeps the host waiting for the peer meanwhile.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "gpu/communicator.hpp"
#include "gpu/fabric.hpp"
#include "gpu/slots.hpp"

namespace rehearsal::gpu {

// How ranks hand each other the ids of communicators: each key is set by one rank and read by others, who wait for it.
struct Exchange {
  std::function<void(const std::string& key, const std::string& bytes)> set;
  std::function<std::string(const std::string& key)> get;
};

class NcclFabric : public Fabric {
 public:
  // All ranks at the same time. `depth`: slots.hpp. Throws MachineError.
  NcclFabric(const graph::TaskGraph& graph, RankId rank, Device& device, Communicators& communicators,
             const Exchange& exchange, Time patience, std::size_t depth);
  ~NcclFabric() override;

  // Uses every communicator once, all ranks at the same time, and waits for it; `check` as in Crew::finish(). In two
  // parts for ranks that take turns in one thread.
  void connect(const std::function<void()>& check);
  void begin_connecting();
  // An iteration is over: nobody waits for a peer to connect any more (Communicators::connected).
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
  };
  Communicator& at(graph::EndpointId endpoint) { return *lines_[line_of_[endpoint.index()]].communicator; }

  RankId rank_;
  Device& device_;
  Communicators& communicators_;
  StreamId setup_;
  EventId set_up_;
  PoolId pool_;
  Slots passing_;                               // what arrives in a shift that is asked for in place
  std::map<graph::EndpointId, Slots> inboxes_;  // by receive endpoint
  std::vector<Line> lines_;                     // in the order in which all ranks make them
  std::vector<std::size_t> line_of_;            // by endpoint
  Address token_ = nullptr;                     // what connect() sends around
};

}  // namespace rehearsal::gpu
