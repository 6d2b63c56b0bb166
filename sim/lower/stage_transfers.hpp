// What goes from the ranks of one stage to those of another, and back, for each micro-batch: from each to its like
// where both stages are cut alike, else as sim/reshard plans it.
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

// What goes from one stage to another for a micro-batch; gradients go back. Each value is as large as the activation:
// that itself, or a skip connection, by its number.
inline constexpr std::uint32_t kChainValue = 0xffffffff;
struct StageEdge {
  std::uint32_t from = 0, to = 0;
  std::vector<std::uint32_t> values{kChainValue};
};
// Stage s to s + 1, and the skip connections of a model; `plan`: null for none.
std::vector<StageEdge> stage_edges(std::uint32_t stages, const plan::Plan* plan);
// Whether they are no chain.
bool is_graph(const std::vector<StageEdge>& edges);

// A message as one of its ends sees it.
struct P2POp {
  // Relay: a send of what was received. Drop: no message; nobody needs this value from here, because others have it
  // too.
  enum class What : std::uint8_t { send, receive, relay, drop } what = What::send;
  WorkId message{};            // of those that send
  bool leaves_domain = false;  // over the NIC; else over the port to the GPUs beside it
  // Who is at the other end: a pipeline rank, and which of its ranks, counted as this one meets them.
  std::uint32_t peer = 0, number = 0;
  std::optional<std::uint32_t> after;  // relay: of the same list, the receive that brings it
  std::uint32_t value = kChainValue;   // of the edge's
  bool first = true, last = true;      // of those of its list that receive, or send, some of this value
  // The elements of the border that it carries, where it is performed; none: all of it.
  std::optional<graph::Region> region = {};
  friend auto operator<=>(const P2POp&, const P2POp&) = default;
};

// Of a rank at one edge, in the order in which it posts them. Activations leave with `out` of the stage that makes them
// and enter with `in` of the next; gradients the other way.
struct StageP2P {
  std::array<std::vector<P2POp>, 2> out, in;  // by MessageKind
  friend auto operator<=>(const StageP2P&, const StageP2P&) = default;
};

// Ranks of a stage that do the same at all its edges.
struct RankClass {
  std::uint32_t stage = 0;
  std::map<std::uint32_t, StageP2P> edges;  // by number
  friend auto operator<=>(const RankClass&, const RankClass&) = default;
};

// One end of a channel: of a rank, by its role's count of whom it meets.
struct ChannelEnd {
  std::uint32_t rank = 0, peer = 0, number = 0;
};

class StageTransfers {
 public:
  StageTransfers() = default;
  // Every rank of a stage speaks to its like: `message` of each edge.
  struct Straight {
    WorkId message{};
    bool leaves_domain = false;
    std::int64_t bytes = 0;       // of one of them
    std::uint32_t replicas = 1;   // that send one each
  };
  StageTransfers(std::vector<StageEdge> edges, const std::vector<Straight>& messages);
  // On these pipeline ranks, stage by stage.
  void seat(const std::vector<std::uint32_t>& stage_ranks);
  // Of stages with layouts of their own. Throws UserError where a planner refuses.
  StageTransfers(std::vector<StageEdge> edges, const plan::Plan& plan, graph::GraphBuilder& builder);

  const std::vector<StageEdge>& edges() const { return edges_; }
  // Of each pipeline rank one; of stages with layouts of their own as many as there are unlike ranks.
  const std::vector<RankClass>& roles() const { return roles_; }
  // Of layouts of their own, else empty: the role of each rank, and all channels.
  const std::vector<std::uint32_t>& role_of() const { return role_of_; }
  struct Channel {
    MessageKind kind{};
    ChannelEnd from, to;
  };
  const std::vector<Channel>& channels() const { return channels_; }

  // From the end of the stage that sends until the last rank has what an edge brings it, nobody else being on the way,
  // in the slower direction; and how long the busiest wire is held. `held`: of messages; may be empty.
  struct Times {
    Time transfer, held;
    bool leaves_domain = false;
  };
  Times times(std::size_t edge, std::span<const Time> durations, std::span<const Time> held) const;
  // What travels over an edge in one direction for a micro-batch: messages, and bytes of all of them.
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
    std::optional<std::uint32_t> after;  // of the same list: what brings that which it relays
    std::uint32_t value = kChainValue;
    std::int64_t bytes = 0;
    std::uint32_t replicas = 1;  // so many of it, side by side
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
