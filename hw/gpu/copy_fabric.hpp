// Virtual stages: the ranks share one GPU, and copies within its memory stand in for links. Order, waiting and overlap
// are real; bandwidths are those of the memory, so results are labelled as emulated.
//
// Collectives are the steps of their algorithm (stream_steps.hpp), of rings in one piece unless another one is given.
#pragma once
#include <map>
#include <queue>
#include <vector>

#include "gpu/fabric.hpp"
#include "gpu/slots.hpp"
#include "gpu/stream_steps.hpp"

namespace rehearsal::gpu {

class CopyFabric : public Fabric {
 public:
  // `depth`: slots.hpp.
  CopyFabric(const graph::TaskGraph& graph, Device& device, std::size_t depth);
  ~CopyFabric() override;
  void begin_iteration() override;
  void send(RankId rank, graph::EndpointId to, const std::byte* from, Bytes size, StreamId stream) override;
  Address receive(RankId rank, graph::EndpointId from, Bytes size, StreamId stream) override;
  void release(RankId rank, graph::EndpointId from, Address message, StreamId last_user) override;
  void collective(const Operation& operation, std::span<const Member> members) override;

 private:
  struct Delivered {
    Address message = nullptr;
    EventId arrived;
  };
  struct Inbox {
    Slots slots;
    std::queue<Delivered> messages = {};
  };
  // Events used only within an iteration; the next iteration reuses them.
  EventId fresh_event();
  Inbox& inbox(RankId rank, graph::EndpointId from);
  GroupMemory& memory_of(const Member& member);
  void carry(std::span<StreamSteps> steps, std::uint32_t tick, std::span<const Member> members);

  const graph::TaskGraph& graph_;
  Device& device_;
  std::size_t depth_;
  PoolId pool_;
  StreamId last_;                                                  // on which memory is freed at the end
  std::map<std::pair<RankId, graph::EndpointId>, Inbox> inboxes_;  // by receive endpoint
  std::map<GroupId, GroupMemory> groups_;
  std::vector<EventId> events_;
  std::size_t used_events_ = 0;
};

}  // namespace rehearsal::gpu
