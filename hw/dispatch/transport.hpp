// One rank's connections to the others, as its thread or process sees them. Implemented by each backend; not
// thread-safe.
//
// Messages of an endpoint arrive in the order in which they were posted (no tags). Bytes between post() and take()
// belong to the transport, not to the rank.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

class Transport {
 public:
  virtual ~Transport() = default;

  // Sends the next message of a send endpoint: copies `message` and returns. `lasts`: the predicted time on the way,
  // which transports without a wire (loopback, timed) wait out, and real ones ignore.
  virtual void post(graph::EndpointId to, std::span<const std::byte> message, Time lasts) = 0;

  // When the k-th message of a receive endpoint arrived (clock.hpp), or nothing yet. Makes progress; k counts from 0
  // within the iteration and never goes back.
  virtual std::optional<Time> arrived(graph::EndpointId from, std::uint32_t k) = 0;
  // Copies out the next message that was not taken; it has arrived. `into` has the size of the message.
  virtual void take(graph::EndpointId from, std::span<std::byte> into) = 0;

  // Joins the next collective of a group endpoint; returns at once. The spans stay valid until joined() says so. `in`
  // and `out` as in NCCL: all-gather: own part in, all parts out; reduce-scatter: all parts in, own sum out;
  // all-reduce: the same length. In place: `in` and `out` overlap exactly as NCCL allows. Sums of float, in an order
  // that is the same on every member. Timed compute passes empty spans where a transport needs no bytes.
  virtual void join(graph::EndpointId group, CollectiveKind kind, std::span<const float> in, std::span<float> out) = 0;
  // The instant at which all members had joined and (real bytes) the result is there, or nothing yet.
  struct Meeting {
    Time together, done;
  };
  virtual std::optional<Meeting> joined(graph::EndpointId group) = 0;

  // Sleeps until something may have changed for this rank, at most until `deadline` (clock.hpp).
  virtual void wait(Time deadline) = 0;

  // All ranks agree on an instant a little ahead, at which the iteration starts. A barrier.
  virtual Time agree_on_start() = 0;
};

}  // namespace rehearsal::dispatch
