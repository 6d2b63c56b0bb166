// One rank's connections to the other ranks, used by its thread or process. Implemented by each backend; not
// thread-safe.
//
// Messages of an endpoint arrive in posting order (there are no tags). Between post() and take() a message's bytes
// belong to the transport, not to the rank.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collective/routine.hpp"
#include "dispatch/operands.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Thrown to unwind a rank whose run was stopped elsewhere; not an error of this rank.
struct Stopped {};

class Transport {
 public:
  virtual ~Transport() = default;

  // Whether bytes are really transferred even in timed compute. Without a wire (loopback) timed compute passes empty
  // spans, and messages and collectives take their predicted time; with a wire it passes dummies of the right size, and
  // they take as long as the wire needs.
  virtual bool has_wire() const = 0;

  // Sends the next message of a send endpoint: copies `message` and returns. `lasts`: the predicted transfer time,
  // which a transport without a wire waits out (zero in real compute) and others ignore.
  struct Posted {
    Time at;                      // when the copy was made; the receiver cannot have seen it yet
    std::optional<Time> arrives;  // if this end knows it; otherwise the receiver tells
  };
  virtual Posted post(graph::EndpointId to, std::span<const std::byte> message, Time lasts) = 0;

  // When the k-th message of a receive endpoint arrived (clock.hpp), or nothing yet. Makes progress; k counts from 0
  // within the iteration and never goes back.
  virtual std::optional<Time> arrived(graph::EndpointId from, std::uint32_t k) = 0;
  // Copies out the next message not taken yet, which must have arrived. `into` has the size of the message. Messages
  // posted empty are not taken.
  virtual void take(graph::EndpointId from, std::span<std::byte> into) = 0;

  // Joins the next collective of a group endpoint and returns at once. The operands must stay valid until joined()
  // reports it done. Sums have `precision`, fp32 or bf16 (added as floats), in an order that gives every member the
  // same bits. Spans hold whole elements. One collective of an endpoint at a time. `by`: the algorithm whose steps are
  // sent (steps.hpp); null: the transport performs it as its library does. The same for all members.
  virtual void join(graph::EndpointId group, CollectiveKind kind, Precision precision, const Operands& operands,
                    const collective::Execution* by) = 0;
  // The instant at which all members had joined and (with real bytes) that of the result; nothing yet before that.
  struct Meeting {
    Time together, done;
  };
  virtual std::optional<Meeting> joined(graph::EndpointId group) = 0;

  // Sleeps until something may have changed for this rank since the last call, or until `deadline` (clock.hpp).
  virtual void wait(Time deadline) = 0;

  // All ranks agree on a start of the iteration slightly in the future; k restarts at 0. Acts as a barrier. Throws
  // Stopped when the run is stopped.
  virtual Time agree_on_start() = 0;
};

}  // namespace rehearsal::dispatch
