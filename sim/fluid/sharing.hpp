// The rates of demands on shared resources at one instant: weighted max-min fair, in integers. Independent of time.
//
// A demand that runs at rate x takes weight * x of each resource that it uses, beside what it holds outright. All rates
// rise together from zero; a rate stops at the demand's own full speed, or when a resource that it uses is full. Rates
// are compared as they are, so the unit of a demand's progress says what is fair (`sim/design/sharing.md`).
//
// Rates are whole multiples of 2^-12 units/s, everything else is whole, and the arithmetic is exact:
//   level of a resource = floor((capacity - held - sum of weight * rate of the stopped) / sum of weight of the rising)
// Filling goes in rounds: all resources that stand at the lowest level when a round begins are full in that round.
// A resource on which all demands fit at full speed is slack: it limits none. The rates are a function of the set of
// demands alone, whatever came first and however the ids are dealt.
//
// Bounds: capacity, hold and weight * full speed are below 2^80 units/s, hence 2^92 here, and 2^35 demands fit into 127
// bits.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/wide.hpp"

namespace rehearsal::fluid {

using Rate = std::int64_t;  // 2^-12 units/s
constexpr int kRateBits = 12;
constexpr Wide kLargest = Wide{1} << 80;  // of capacities, holds, weight * full speed; units/s
constexpr std::uint32_t kNobody = UINT32_MAX;

struct Use {
  std::uint32_t resource = 0;
  std::int64_t weight = 0;  // units of capacity per unit of progress
  Wide hold = 0;            // units/s of the capacity that are gone while this runs, however fast
  friend bool operator==(const Use&, const Use&) = default;
};

class Sharing {
 public:
  // Capacities in units/s. `whole` solves everything anew each time: for tests and for measuring what that costs.
  explicit Sharing(std::span<const Wide> capacities, bool whole = false);

  // One use per resource at most; they are there until the solve after `detach`. The rate is 0 until the next solve.
  std::uint32_t attach(Rate full_speed, std::span<const Use> uses);
  // Reuses an equal demand that left since the last solve, with its place, rate and number: so consecutive steps of a
  // collective change nothing for others. kNobody if there is none.
  std::uint32_t take_over(Rate full_speed, std::span<const Use> uses);
  void detach(std::uint32_t demand);

  // Computes all rates. Returns the demands whose rate or bottleneck has changed, in any order.
  std::span<const std::uint32_t> solve();

  Rate full_speed(std::uint32_t demand) const { return demands_[demand].full_speed; }
  bool attached(std::uint32_t demand) const { return demands_[demand].attached; }
  Rate rate(std::uint32_t demand) const { return demands_[demand].rate; }
  // The resource that stopped it, the lowest of those that did; kNobody when it runs at full speed.
  std::uint32_t bottleneck(std::uint32_t demand) const { return demands_[demand].bottleneck; }

  std::size_t resources() const { return resources_.size(); }
  Wide capacity(std::uint32_t resource) const { return resources_[resource].capacity; }  // 2^-12 units/s, like `asked`
  // What all attached demands would take at full speed, holds included.
  Wide asked(std::uint32_t resource) const { return resources_[resource].asked; }

  struct Counts {
    std::uint64_t solves = 0, opened = 0, activated = 0, changes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr Rate kNever = INT64_MAX;  // level of a resource that is no limit

  // Where a demand stands during a solve. `keeps` its rate of the last solve unless something lower stops it;
  // `open`: what stopped it has changed, so it may also rise; `stopped`: has its new rate.
  enum class State : std::uint8_t { keeps, open, stopped };

  struct Demand {
    std::span<const Use> uses;
    Rate full_speed = 0, rate = 0;
    std::uint32_t bottleneck = kNobody;
    std::uint64_t solve = 0;  // in which `state` was set; `keeps` in any other
    State state = State::keeps;
    bool attached = false, leaving = false;  // leaving: detached, but still among the members until the next solve
    std::vector<std::uint32_t> position;     // among the members of each used resource
  };
  struct Member {
    std::uint32_t demand, place;  // place: which of the demand's uses
    std::int64_t weight;
  };
  struct Resource {
    Wide capacity = 0, asked = 0, held = 0;
    std::vector<Member> members;
    Rate level = kNever;  // at which it was full in the last solve
    bool tight = false, touched = false, released = false;
    std::uint32_t leaving = kNobody;  // the last leaving demand of those that name this resource first
    // Of one solve:
    std::uint64_t active = 0;  // the solve in which the rest is valid
    bool full = false;
    Wide left = 0, weight = 0;      // of the capacity; of the members that still rise
    std::size_t next = 0, end = 0;  // its part of `kept_`
  };
  struct Kept {  // a member that keeps its rate unless the resource is full below it
    Rate rate;
    std::uint32_t demand;
    std::int64_t weight;
  };
  struct Candidate {  // the next to stop: a resource (its level as a lower bound) or an open demand (its full speed)
    Rate level;
    std::uint32_t id;
    bool is_resource;
    friend bool operator<(const Candidate& a, const Candidate& b) { return a.level > b.level; }
  };

  State state(const Demand& d) const { return d.solve == solve_ ? d.state : State::keeps; }
  void set_state(Demand& d, State s) { d.solve = solve_, d.state = s; }
  void touch(std::uint32_t r);
  void push(Candidate candidate);
  Candidate pop();
  void ask(const Demand& d, int sign);
  void remove_leaving();
  void take_in_changes();
  void open(std::uint32_t demand);
  void release(std::uint32_t resource);
  void activate(std::uint32_t resource);
  bool stands_at(Resource& resource, Candidate& candidate);
  Rate lowest_round();
  void stop(std::uint32_t demand, Rate rate, std::uint32_t by);
  void record(Demand& d, std::uint32_t demand, Rate rate, std::uint32_t bottleneck);

  std::vector<Resource> resources_;
  std::vector<Demand> demands_;
  std::vector<std::uint32_t> free_, fresh_, leaving_, touched_, active_, full_, capped_, changed_;
  std::vector<Kept> kept_;
  std::vector<Candidate> candidates_;  // heap
  Rate reached_ = 0;                   // level of the current round
  std::uint64_t solve_ = 0;
  bool whole_ = false;
  Counts counts_;
};

}  // namespace rehearsal::fluid
