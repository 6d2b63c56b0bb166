// Messages and collectives of one rank over MPI, all nonblocking. Single-threaded.
//
// MPI moves data only while a thread is inside it, so everything that waits calls it repeatedly. A message is copied
// into a transport buffer and sent from there; two receives per endpoint are posted ahead into such buffers, so that a
// message can arrive before its receiver looks. A channel is the pair of its sender and the sender's endpoint, which is
// its tag: MPI keeps the order of messages with the same sender and tag. Steps of collectives travel in the
// communicator of their group, and their number is the tag.
#pragma once
#include <mpi.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "dispatch/buffer_pool.hpp"
#include "dispatch/routines.hpp"
#include "dispatch/steps.hpp"
#include "dispatch/transport.hpp"
#include "mpi/clock_offset.hpp"

namespace rehearsal::mpi {

class MpiTransport : public dispatch::Transport {
 public:
  struct Manner {
    bool spin = false;                // while waiting: keep the core (real compute, a core per rank) or sleep in slices
    std::int64_t ranks_per_core = 1;  // of this machine
    ClockOffset clock;
    const std::atomic<bool>* stop = nullptr;
  };
  // Makes the communicators: collective over all ranks. Throws MachineError. The graph must outlive the transport.
  MpiTransport(const graph::TaskGraph& graph, RankId rank, Manner manner);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  bool has_wire() const override { return true; }
  Posted post(graph::EndpointId to, std::span<const std::byte> message, Time lasts) override;
  std::optional<Time> arrived(graph::EndpointId from, std::uint32_t k) override;
  void take(graph::EndpointId from, std::span<std::byte> into) override;
  void join(graph::EndpointId group, CollectiveKind kind, Precision precision, const dispatch::Operands& operands,
            const collective::Execution* by) override;
  // `together` is when this rank joined: the joins of others are known once all results are merged
  // (dispatch::assemble).
  std::optional<Meeting> joined(graph::EndpointId group) override;
  void wait(Time deadline) override;
  Time agree_on_start() override;

 private:
  class Messages;  // between the members of a group
  struct Arrival {
    dispatch::BufferPool::Buffer bytes;
    std::size_t length = 0;
    std::optional<Time> at;
  };
  struct Inbox {
    int source = 0, tag = 0;
    std::size_t longest = 0;       // largest message of the endpoint
    std::deque<Arrival> arrivals;  // front: the next to be taken; includes those still expected
    std::uint64_t taken = 0;       // since the start of the run: number of the front
    std::uint32_t first = 0;       // number of the front within the iteration
    std::size_t expected = 0;      // arrivals without a time
  };
  struct Counts {  // elements, by member
    std::vector<int> sizes, starts;
  };
  struct Room {
    MPI_Comm members = MPI_COMM_NULL;
    int index = 0, size = 1;
    bool joined = false;
    int pending = 0;  // pending requests of the collective
    Meeting meeting{};
    std::optional<Time> done;
    std::span<std::byte> out;  // destination of a result in `scratch`
    dispatch::BufferPool::Buffer scratch;
    std::size_t scratch_size = 0;
    Counts to, from;                     // of an all-to-all whose blocks differ
    std::unique_ptr<Messages> messages;  // of its steps
    std::unique_ptr<dispatch::Steps> steps;
    dispatch::Routines routines;
  };
  enum class Operation : std::uint8_t { send, receive, collective, step };
  struct Active {
    Operation operation{};
    std::uint32_t endpoint = 0;
    std::uint64_t number = 0;            // for a receive; the id of a step's message
    dispatch::BufferPool::Buffer bytes;  // for a send
    std::size_t size = 0;
  };

  // To one rank. MPI sends a message above its eager limit after an answer to a question, and what was posted later
  // overtakes it meanwhile; on a wire messages arrive in their order, so a message waits for the one before.
  struct Outbox {
    bool busy = false;
    std::deque<Active> waiting;
  };

  void connect();
  void send_next(Outbox& outbox);
  void expect(std::uint32_t endpoint);
  void add(MPI_Request request, Active active);
  void call_library(Room& room, std::uint32_t endpoint, CollectiveKind kind, Precision precision,
                    const dispatch::Operands& operands);
  static Counts counts(std::span<const std::size_t> blocks, std::size_t width);
  bool progress();  // whether anything moved
  bool advance_steps();
  void complete(Active& active, int length, Time at);
  void finish(MPI_Request& request);  // drives all requests meanwhile; throws Stopped
  void pause(Time deadline, Time since) const;

  const graph::TaskGraph& graph_;
  const RankId rank_;
  const Manner manner_;
  dispatch::BufferPool pool_;
  MPI_Comm messages_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL;
  MPI_Op add_bf16_ = MPI_OP_NULL;
  std::vector<Inbox> inboxes_;      // by endpoint, as rooms_
  std::map<int, Outbox> outboxes_;  // by rank
  std::vector<Room> rooms_;
  std::vector<std::uint32_t> stepping_;  // rooms with steps that are not done
  int highest_tag_ = 0;
  std::vector<MPI_Request> requests_;  // pending; active_ has the same order
  std::vector<Active> active_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  bool changed_ = false;
};

}  // namespace rehearsal::mpi
