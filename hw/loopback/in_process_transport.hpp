// Connects ranks inside one process: a mailbox per rank, a meeting place per group, a common start.
//
// No wire: a message arrives at once, or after the time that its sender gives (timed compute). The sender copies the
// bytes into a transport buffer and the receiver copies them out. So do the steps of a collective; one without steps is
// computed for all members by the one that joins last, in the order of the members.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <queue>
#include <vector>

#include "dispatch/transport.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::loopback {

class InProcessTransport {
 public:
  explicit InProcessTransport(const graph::TaskGraph& graph);
  ~InProcessTransport();

  // The connections of one rank, for use by one thread; lives as long as this object.
  dispatch::Transport& transport(RankId rank);

  // Wakes all ranks; agree_on_start() throws dispatch::Stopped from now on.
  void stop();
  const std::atomic<bool>& stopped() const { return stopped_; }

 private:
  class RankTransport;
  class StepMessages;
  struct Message {
    Time arrival;
    std::vector<std::byte> bytes;
  };
  struct Inbound {
    std::vector<Message> messages;  // of this iteration, in channel order
    std::size_t taken = 0;
    std::vector<std::vector<std::byte>> spare;  // buffers for reuse
  };
  // A message of a step, to the endpoint of a group.
  struct StepMessage {
    graph::EndpointId to;
    std::uint32_t from = 0, number = 0;  // member, and which of its messages
    std::vector<std::byte> bytes;
  };
  struct Mailbox {
    std::mutex mutex;  // guards the whole mailbox
    std::condition_variable changed;
    bool news = false;
    std::vector<Inbound> inbound;                                               // indexed by EndpointId
    std::priority_queue<Time, std::vector<Time>, std::greater<Time>> arrivals;  // in the future
    std::vector<StepMessage> steps;                                             // not looked at yet
  };
  // One collective at a time: the next cannot complete before every member has seen this one.
  struct Meetings {
    std::mutex mutex;
    std::vector<dispatch::Operands> operands;  // by member
    std::size_t present = 0;
    dispatch::Transport::Meeting last;        // written before `completed` is incremented
    std::atomic<std::uint64_t> completed{0};  // number of collectives
  };

  void wake(RankId rank);
  Time start_together();

  const graph::TaskGraph& graph_;
  std::vector<Mailbox> mailboxes_;  // per rank
  std::vector<Meetings> meetings_;  // per group
  std::vector<std::unique_ptr<RankTransport>> transports_;
  std::atomic<bool> stopped_{false};

  std::mutex start_;  // guards the three members below
  std::condition_variable started_;
  std::size_t ready_ = 0;
  std::uint64_t iteration_ = 0;
  Time origin_;
};

}  // namespace rehearsal::loopback
