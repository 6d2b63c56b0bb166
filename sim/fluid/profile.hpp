// What a task does, from its start to its end: phases one after the other, each of flows that start together.
//
// A flow moves rate * moving units, and its uses say what that takes of which resources. Alone it lasts `moving`;
// with others it lasts as long as its share says. A phase ends `trailing` (latency, a launch, anything that takes
// nothing) after its last flow.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "fluid/sharing.hpp"

namespace rehearsal::fluid {

struct Flow {
  Time moving;
  std::int64_t rate = 0;  // units/s at full speed, below 2^51
  std::vector<Use> uses;  // those of one resource add up
};

struct Phase {
  std::vector<Flow> flows;
  Time trailing;
  std::uint32_t count = 1;  // repetitions in a row
};

// Phases one after the other. Layers are alike, so the same phase comes again and again: it is described once.
struct Row {
  std::vector<Phase> phases;         // those that differ
  std::vector<std::uint32_t> order;  // by number

  Row() = default;
  explicit Row(std::vector<Phase> each_once) : phases(std::move(each_once)) {
    for (std::uint32_t i = 0; i < phases.size(); ++i) order.push_back(i);
  }
  bool empty() const { return order.empty(); }
};

// Phases prepared to run: uses in flat arrays, and the undisturbed run computed beforehand.
class Profile {
 public:
  // `sharing` is asked for capacities only.
  Profile(const Row& row, const Sharing& sharing);

  // A span of constant rate. Rates change within a phase only if flows of that phase contend with each other.
  struct Piece {
    Time from;  // of the phase
    Rate rate;
    std::uint32_t bottleneck;
  };
  struct Moving {  // a flow
    Rate rate = 0;
    Wide work = 0;  // 2^-12 units/s * ps
    Time ends;      // alone, from the start of its phase; Time{} where there is nothing to move
    std::vector<Use> uses;
    std::vector<std::int64_t> hold_share;  // hold / capacity in 2^-kHoldShareBits, by use; empty where nothing is held
    std::vector<Piece> alone;              // empty where it moves at full speed throughout
  };
  struct Slowed {
    std::uint32_t resource;
    Time time;
  };
  struct Ready {         // a phase
    Time moved, length;  // alone: until its last flow has ended; with what trails
    std::vector<Moving> flows;
    std::vector<Slowed> slowed;  // by its own flows
  };
  struct Step {  // the same phase `count` times
    std::uint32_t count, phase;
    Time start;  // alone, from the start of the profile
  };
  // What the profile wants of one resource; `last` is the last step that uses it.
  struct Need {
    std::uint32_t resource = 0, last = 0;
    Wide most = 0;  // asked by any phase at full speed, 2^-12 units/s
  };
  struct Total {  // of one resource, by the whole profile
    std::uint32_t resource = 0;
    Wide carried = 0;  // units
    Wide held = 0;     // 2^-kHoldShareBits ps of the whole resource, alone
  };
  struct Position {
    std::uint32_t step = 0, repeat = 0;
    friend bool operator==(Position, Position) = default;
  };

  const Ready& phase(Position at) const { return phases_[steps_[at.step].phase]; }
  std::uint32_t count(Position at) const { return steps_[at.step].count; }
  Position last() const { return last_; }
  Position after(Position at) const;
  Time start(Position at) const {
    return at == Position{} ? Time{} : steps_[at.step].start + at.repeat * phase(at).length;
  }
  // The last phase that has begun at `elapsed`, alone.
  Position at(Time elapsed) const;
  bool empty() const { return steps_.empty(); }
  Time length() const { return length_; }  // alone
  Time moved() const { return moved_; }    // alone, without what trails the last phase
  // Those used from a step on come first: they are needs()[0, remaining(step)).
  const std::vector<Need>& needs() const { return needs_; }
  std::size_t remaining(std::uint32_t step) const;
  const std::vector<Total>& totals() const { return totals_; }
  bool crowds_itself() const { return crowds_itself_; }

 private:
  // `asked`: of each resource, by all flows at full speed.
  void run_alone(Ready& phase, const std::vector<std::pair<std::uint32_t, Wide>>& asked, const Sharing& sharing);

  // First what a run needs that is never disturbed.
  std::vector<Need> needs_;
  Time length_, moved_;
  Position last_;
  bool crowds_itself_ = false;
  std::vector<Ready> phases_;
  std::vector<Step> steps_;
  std::vector<Total> totals_;
};

constexpr int kHoldShareBits = 32;

// When work that is left ends at a rate: at the first whole picosecond; kNoEnd when it stands still.
constexpr Time kNoEnd = Time(INT64_MAX);
Time end_of(Wide left, Rate rate, Time now);
// How much longer `dt` at a rate took than it had to: the time that was lost against full speed.
Time lost(Rate rate, Rate full_speed, Time dt);

}  // namespace rehearsal::fluid
