// A task graph laid out for evaluation: one compact step per task of a program, and the far ends of every rank
// resolved. 24 bytes per task of a program (shared by its ranks), 24 per endpoint of a rank. Borrows the graph.
//
// Lanes are slots here: those of messages, then the serial ones that a program uses as they appear, so that the state
// of a rank does not grow with lanes that it does not use.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/resource_table.hpp"
#include "graph/task_graph.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::fluid {
struct Usage;
}

namespace rehearsal::engine {

using graph::Lane;
using timeline::Timeline;

// End of a task that has not been evaluated: later than everything, so `end <= now` means "has ended".
inline constexpr Time kNever{INT64_MAX};
inline constexpr std::uint32_t kNone = 0xffffffff;
// Tasks of a program and channels of a graph; the bit and a few values above are free for evaluators.
inline constexpr std::uint32_t kMaxCount = 0x7ffffff0;

enum class Kind : std::uint8_t { plain, send, receive, group };
inline constexpr std::uint32_t kMany = kNone - 1;  // dependencies

// Lanes of messages have the first slots, so that a number says what a lane is.
inline constexpr std::uint8_t kReceives = 0, kFirstWire = 1, kFirstSerial = kFirstWire + graph::kWires;
constexpr bool is_serial(std::uint8_t slot) { return slot >= kFirstSerial; }
constexpr bool is_send(std::uint8_t slot) { return slot != kReceives && slot < kFirstSerial; }

struct Step {  // 24 bytes
  std::uint32_t work = 0;
  std::uint32_t next = kNone;        // the next task on its lane
  std::uint32_t dependency = kNone;  // that lane order does not imply; kMany: those of the program
  std::uint32_t endpoint = kNone;
  std::uint32_t sequence = 0;
  std::uint8_t slot = 0;
  Kind kind = Kind::plain;
  std::uint16_t awaited_on = 0;  // bit s: some task in slot s lists this one as a dependency
};
static_assert(sizeof(Step) == 24);

// The far end of an endpoint.
struct FarEnd {
  std::uint32_t peer = 0;   // the rank at the other end of the channel, or the group
  std::uint32_t slots = 0;  // of a send: bit s set if the channel has receives in slot s
  std::uint64_t first = 0;  // number of the channel, the same at both ends; or the round that is use 0 of the group
};

// The lanes of a program.
struct Slots {
  std::array<std::uint8_t, graph::kLanes> of_lane{};
  std::vector<std::uint32_t> first = std::vector<std::uint32_t>(kFirstSerial, kNone);  // task, of each slot
};

struct RankView {
  const graph::Program* program = nullptr;
  std::span<const Step> steps;
  std::span<const FarEnd> ends;  // indexed by EndpointId
  std::uint64_t first_task = 0;
  std::span<const std::uint32_t> first_of_slot;  // kNone: no task
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
  std::size_t slots() const { return slots_; }  // of the program with most lanes

 private:
  const graph::TaskGraph& graph_;
  std::vector<Step> steps_;  // program after program
  std::vector<FarEnd> ends_;
  std::vector<RankView> ranks_;
  std::vector<Slots> slots_of_;  // of each program
  std::size_t rounds_ = 0, channels_ = 0, slots_ = 0;
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

// The loads of the works, and the resources that they share.
struct Contended {
  const graph::ResourceTable& places;
  std::span<const graph::Footprint> footprints;  // one per WorkId
};

// All fill `start` and `end` of the timeline.
Outcome replay(const Prepared& graph, Prices prices, Timeline& timeline);
Outcome simulate_events(const Prepared& graph, Prices prices, Timeline& timeline);
// With the state of graphs that use many lanes, whatever this one uses.
Outcome simulate_events_wide(const Prepared& graph, Prices prices, Timeline& timeline);
class Demands;
// `usage`: of every resource of the places, where it is wanted.
Outcome simulate_shared(const Prepared& graph, const Demands& demands, Timeline& timeline,
                        std::vector<fluid::Usage>* usage = nullptr);

}  // namespace rehearsal::engine
