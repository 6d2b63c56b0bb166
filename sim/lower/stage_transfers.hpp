// Messages between the ranks of two stages, in both directions, for each micro-batch: from each rank to its counterpart
// if both stages have the same layout, else as planned by sim/reshard.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "graph/builder.hpp"
#include "plan/plan.hpp"
#include "reshard/routes.hpp"

namespace rehearsal::lower {

enum class MessageKind : std::uint8_t { activation, gradient };

// Values sent from one stage to another for a micro-batch; gradients go back. Each is as large as the activation: the
// activation itself, or a skip connection, by its number.
inline constexpr std::uint32_t kChainValue = 0xffffffff;
struct StageEdge {
  std::uint32_t from = 0, to = 0;
  std::vector<std::uint32_t> values{kChainValue};
};
// Edges from stage s to s + 1, and the skip connections of a model; `plan`: null for none.
std::vector<StageEdge> stage_edges(std::uint32_t stages, const plan::Plan* plan);
// Whether the edges form something else than a chain.
bool is_graph(const std::vector<StageEdge>& edges);

// A message as one of its ends sees it.
struct P2POp {
  // Relay: a send of what was received. Drop: no message, as other ranks already send this value.
  enum class What : std::uint8_t { send, receive, relay, drop } what = What::send;
  WorkId message{};            // if it sends
  bool leaves_domain = false;  // over the NIC; else over the scale-up port
  // The other end: a pipeline rank, and which of its ranks, numbered in the order in which this one meets them.
  std::uint32_t peer = 0, number = 0;
  std::optional<std::uint32_t> after;  // relay: index, in this list, of the receive that it forwards
  std::uint32_t value = kChainValue;   // one of the edge's values
  bool first = true, last = true;      // among the receives, or sends, of this value in its list
  // The elements of the boundary tensor that it carries, if performed; none: all of them.
  std::optional<graph::Region> region = {};
  friend auto operator<=>(const P2POp&, const P2POp&) = default;
};

// The messages of a rank at one edge, in the order in which it posts them. Activations leave through `out` of the stage
// that makes them and enter through `in` of the next; gradients the other way.
struct StageP2P {
  std::array<std::vector<P2POp>, 2> out, in;  // by MessageKind
  friend auto operator<=>(const StageP2P&, const StageP2P&) = default;
};

// Ranks of a stage with the same messages at all its edges.
struct RankClass {
  std::uint32_t stage = 0;
  std::map<std::uint32_t, StageP2P> edges;  // by number
  friend auto operator<=>(const RankClass&, const RankClass&) = default;
};

// One end of a channel: a rank, and the peer as numbered by its class.
struct ChannelEnd {
  std::uint32_t rank = 0, peer = 0, number = 0;
};

class StageTransfers {
 public:
  StageTransfers() = default;
  // Every rank of a stage sends to its counterpart: `message` for each edge.
  struct Straight {
    WorkId message{};
    bool leaves_domain = false;
    std::int64_t bytes = 0;      // of one message
    std::uint32_t replicas = 1;  // that send one each
  };
  StageTransfers(std::vector<StageEdge> edges, const std::vector<Straight>& messages);
  // Places the stages on these pipeline ranks.
  void seat(const std::vector<std::uint32_t>& stage_ranks);
  // For stages with different layouts. Throws UserError if a planner refuses.
  StageTransfers(std::vector<StageEdge> edges, const plan::Plan& plan, graph::GraphBuilder& builder);

  const std::vector<StageEdge>& edges() const { return edges_; }
  // One per pipeline rank; with different layouts, one per class of ranks.
  const std::vector<RankClass>& roles() const { return roles_; }
  // With different layouts, else empty: the class of each rank, and all channels.
  const std::vector<std::uint32_t>& role_of() const { return role_of_; }
  struct Channel {
    MessageKind kind{};
    ChannelEnd from, to;
  };
  const std::vector<Channel>& channels() const { return channels_; }

  // From the end of the sending stage until the last rank has all that an edge brings it, without other traffic, in the
  // slower direction; and how long the busiest wire is occupied. `held`: by each message; may be empty.
  struct Times {
    Time transfer, held;
    bool leaves_domain = false;
  };
  Times times(std::size_t edge, std::span<const Time> durations, std::span<const Time> held) const;
  // Traffic over an edge in one direction for a micro-batch: number of messages, and bytes of all of them.
  struct Volume {
    std::size_t messages = 0;
    std::int64_t bytes = 0, out_of_domains = 0;
  };
  Volume volume(std::size_t edge, MessageKind kind) const;

 private:
  // One message between two ranks of the job.
  struct Sent {
    std::uint32_t from = 0, to = 0;
    WorkId message{};
    bool relayed = false, leaves_domain = false;
    std::optional<std::uint32_t> after;  // in the same list: the message that it relays
    std::uint32_t value = kChainValue;
    std::int64_t bytes = 0;
    std::uint32_t replicas = 1;  // equal messages, side by side
    std::optional<graph::Region> taken, put;
  };
  class Planner;

  void assign(const plan::Plan& plan);

  std::vector<StageEdge> edges_;
  std::vector<std::array<std::vector<Sent>, 2>> sent_;  // of each edge, by MessageKind
  std::vector<RankClass> roles_;
  std::vector<std::uint32_t> role_of_;
  std::vector<Channel> channels_;
};

}  // namespace rehearsal::lower
