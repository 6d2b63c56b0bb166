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

enum class Kind : std::uint8_t { plain, send, receive, group };
enum class Waits : std::uint8_t { none, one, many };  // dependencies that lane order does not imply

struct Step {
  std::uint32_t work = 0;
  std::uint32_t next = kNone;        // the next task on its lane
  std::uint32_t dependency = kNone;  // when Waits::one
  std::uint32_t endpoint = kNone;
  std::uint32_t sequence = 0;
  Lane lane = Lane::compute;
  Kind kind = Kind::plain;
  Waits waits = Waits::none;
};

// The far end of an endpoint. Channel: use k is task base + tasks[k] of rank `peer`. Group: number `peer`, whose
// use k is round base + k.
struct FarEnd {
  std::uint64_t base = 0;
  const LocalTask* tasks = nullptr;
  std::uint32_t peer = 0;
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

  // The task with which a member takes part in use k of its group.
  LocalTask member_task(const graph::GroupMember& member, std::uint32_t k) const {
    return ranks_[member.rank.index()].program->endpoint_tasks[member.endpoint.index()][k];
  }

 private:
  const graph::TaskGraph& graph_;
  std::vector<std::vector<Step>> steps_;  // indexed by ProgramId
  std::vector<FarEnd> ends_;
  std::vector<RankView> ranks_;
  std::size_t rounds_ = 0;
};

// What an evaluator could do: everything, or the tasks at which the ranks are stuck.
struct Outcome {
  Time makespan;
  std::vector<TaskId> stuck;  // empty when every task has its times
};

// Both fill `start` and `end` of the timeline. Durations: one per WorkId, none negative.
Outcome replay(const Prepared& graph, std::span<const Time> durations, Timeline& timeline);
Outcome simulate_events(const Prepared& graph, std::span<const Time> durations, Timeline& timeline);

}  // namespace rehearsal::engine
