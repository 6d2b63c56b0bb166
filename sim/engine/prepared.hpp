// A task graph laid out for evaluation: one compact step per task of a program, and the far ends of every rank
// resolved. 24 bytes per task of a program (shared by its ranks), 24 per endpoint of a rank. Borrows the graph.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/task_graph.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::engine {

using graph::Lane;
using timeline::Timeline;

// End of a task that has not been evaluated: later than everything, so `end <= now` means "has ended".
inline constexpr Time kNever{INT64_MAX};
inline constexpr std::uint32_t kNone = 0xffffffff;
// Tasks of a program and channels of a graph; the bit and a few values above are free for evaluators.
inline constexpr std::uint32_t kMaxCount = 0x7ffffff0;

enum class Kind : std::uint8_t { plain, send, receive, group };
enum class Waits : std::uint8_t { none, one, many };  // dependencies that lane order does not imply

struct Step {  // 24 bytes
  std::uint32_t work = 0;
  std::uint32_t next = kNone;        // the next task on its lane
  std::uint32_t dependency = kNone;  // when Waits::one
  std::uint32_t endpoint = kNone;
  std::uint32_t sequence = 0;
  Lane lane = Lane::compute;
  Kind kind = Kind::plain;
  Waits waits = Waits::none;
  std::uint8_t awaited_on = 0;  // bit l: some task of lane l lists this one as a dependency
};

// The far end of an endpoint.
struct FarEnd {
  std::uint32_t peer = 0;   // the rank at the other end of the channel, or the group
  std::uint32_t lanes = 0;  // of a send: bit l set if the channel has receives on lane l
  std::uint64_t first = 0;  // number of the channel, the same at both ends; or the round that is use 0 of the group
};

struct RankView {
  const graph::Program* program = nullptr;
  std::span<const Step> steps;
  std::span<const FarEnd> ends;  // indexed by EndpointId
  std::uint64_t first_task = 0;
  std::array<std::uint32_t, graph::kLanes> first_of_lane{};
};

class Prepared {
 public:
  explicit Prepared(const graph::TaskGraph& graph);
  // Views point into this object.
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const graph::TaskGraph& graph() const { return graph_; }
  std::span<const RankView> ranks() const { return ranks_; }
  std::size_t rounds() const { return rounds_; }  // uses of groups, all together
  std::size_t channels() const { return channels_; }

 private:
  const graph::TaskGraph& graph_;
  std::vector<Step> steps_;  // program after program
  std::vector<FarEnd> ends_;
  std::vector<RankView> ranks_;
  std::size_t rounds_ = 0, channels_ = 0;
};

// What an evaluator could do: everything, or the tasks at which the ranks are stuck.
struct Outcome {
  Time makespan;
  std::vector<TaskId> stuck;  // empty when every task has its times
};

// One entry per WorkId, none negative.
struct Prices {
  std::span<const Time> durations;
  std::span<const Time> held;  // of a message, by the wire that it leaves by; no longer than it takes
};

// Both fill `start` and `end` of the timeline.
Outcome replay(const Prepared& graph, Prices prices, Timeline& timeline);
Outcome simulate_events(const Prepared& graph, Prices prices, Timeline& timeline);

}  // namespace rehearsal::engine
