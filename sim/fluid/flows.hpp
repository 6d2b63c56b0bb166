// The clock for shared resources: runs of profiles go through their phases, each flow at the rate that its share of the
// resources allows, and timers fire. The caller asks for the next instant and starts what can start then.
//
//   Flows flows(capacities);
//   const auto kernel = flows.profile({{.flows = {{.moving = ..., .rate = ..., .uses = {...}}}, .trailing = ...}});
//   flows.start(tag, kernel);
//   while (!flows.empty()) { const Time now = flows.pop_instant(events); ... }
//
// Remaining work is exact and an end is rounded up to a whole picosecond, so it does not matter how often a flow is
// updated, whether phases are evaluated one by one or a run coasts through them (reservations.hpp), or in which order
// runs of an instant were started: times are equal to the picosecond.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/radix_heap.hpp"
#include "base/units.hpp"
#include "base/wide.hpp"
#include "fluid/profile.hpp"
#include "fluid/reservations.hpp"
#include "fluid/sharing.hpp"

namespace rehearsal::fluid {

struct Event {
  // moved: the last flow of the last phase has ended. ended: its trailing time is over too. Without trailing time both
  // come in one instant.
  enum class Kind : std::uint8_t { moved, ended, timer };
  std::uint64_t tag = 0;
  Kind kind = Kind::ended;
  friend auto operator<=>(const Event&, const Event&) = default;
};

// The use of a resource by runs that have ended.
struct Usage {
  // Contention: for each flow that stopped rising at this resource, the time that it lost against full speed.
  Time slowed;
  Wide carried = 0;  // units
  Time held;         // as if the whole resource were held: half of it for 2 s is 1 s
  double busy = 0;   // share of the capacity that was carried or held, from the start until now
};

class Flows {
 public:
  // Slower methods with the same result, for tests and for comparison.
  struct Method {
    bool coast = true;   // no events within undisturbed runs
    bool whole = false;  // recompute all rates after every change
  };

  explicit Flows(std::span<const Wide> capacities) : Flows(capacities, Method{}) {}
  Flows(std::span<const Wide> capacities, Method method);

  // Registers what a task does; to be started as often as wanted. Resources are numbered as the capacities were.
  std::uint32_t profile(const Row& row);
  std::uint32_t profile(std::vector<Phase> phases) { return profile(Row(std::move(phases))); }
  // The time of a run while no other one is active, contention among its own flows included.
  Time alone(std::uint32_t profile) const { return profiles_[profile].length(); }

  Time now() const { return now_; }
  // Starts a run now. The tag comes back with its events; it need not be unique.
  void start(std::uint64_t tag, std::uint32_t profile);
  // A timer, not before now.
  void at(Time time, std::uint64_t tag);

  // Neither runs nor timers are left.
  bool empty() const { return under_way_ == 0; }
  // Goes to the next instant at which something happens and says what, sorted by tag. What is started then may make
  // the same instant come again. No event: the remaining runs are blocked for good, by what is held.
  Time pop_instant(std::vector<Event>& events);

  std::vector<Usage> usage() const;  // of every resource

  // For tests: what moves right now, at which rate. Runs that coast are not listed.
  struct Moving {
    std::uint64_t tag;
    Rate rate, full_speed;
    std::span<const Use> uses;
  };
  std::vector<Moving> moving();

  struct Counts {
    std::uint64_t instants = 0, items = 0, stale = 0, attached = 0, coasted = 0, woken = 0;
    Sharing::Counts sharing;
  };
  Counts counts() const;

 private:
  struct Item {  // of the queue
    enum class Kind : std::uint8_t { flow, coasted, trailed, timer };
    std::uint64_t id;  // of the flow or run; the tag of a timer
    std::uint32_t version;
    Kind kind;
  };
  struct Running {  // a flow; its number is that of its demand
    std::uint32_t run = 0, flow = 0;
    std::uint32_t version = 0;  // of its item in the queue
    Rate rate = 0;
    std::uint32_t bottleneck = kNobody;
    bool holds = false;
    Wide left = 0;
    Time began, since;  // since: `left`, rate and bottleneck are those of this time
    Time ends, queued;  // its item may come too early, and is then put back
  };
  struct Run {
    std::uint64_t tag = 0;
    std::uint32_t profile = 0, version = 0;
    Profile::Position at;       // while it coasts: where that began
    std::uint32_t running = 0;  // flows
    bool coasts = false;
    Time origin;              // while it coasts: when it would have started had it always been alone
    std::size_t blocked = 0;  // the need that prevented coasting the last time
    Reservations::Places claims;
  };

  const Profile& profile_of(const Run& run) const { return profiles_[run.profile]; }
  const Profile::Moving& moving_of(const Running& flow) const {
    const Run& run = runs_[flow.run];
    return profile_of(run).phase(run.at).flows[flow.flow];
  }
  void settle_shares();
  void handle(const Item& item);
  void attach(std::uint32_t run, std::uint32_t flow, const Running& state);
  void enter(std::uint32_t run);
  bool begin_phase(std::uint32_t run);
  bool after_strands(std::uint32_t run);
  bool after_trailing(std::uint32_t run);
  void end_strand(std::uint32_t flow);
  void settle(Running& flow, Rate full_speed, Time time);
  void enqueue(std::uint32_t flow);
  void finish(std::uint32_t run);

  // coasting.cpp
  bool coast(std::uint32_t run);
  void end_coast(std::uint32_t run);
  void stop_coasting(Run& run, Profile::Position until);
  void wake_crowded();
  void wake(std::uint32_t run);

  Method method_;
  Sharing sharing_;
  Reservations claims_;
  std::vector<Profile> profiles_;        // what moves keeps spans of its uses, which stay when a profile is moved
  std::vector<std::uint64_t> finished_;  // runs of each profile
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::vector<Running> strands_;
  RadixHeap<Item> queue_;
  std::vector<Item> batch_;
  std::vector<Event> out_;
  std::vector<std::uint32_t> crowded_;  // resources to look at
  struct Account {
    Time slowed;
    Wide held_longer = 0;  // than alone; 2^-32 ps of the whole
  };
  std::vector<Account> accounts_;
  std::size_t under_way_ = 0;
  Time now_;
  Counts counts_;
};

}  // namespace rehearsal::fluid
