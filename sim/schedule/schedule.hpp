// A pipeline schedule: for every rank, the order of its forwards (F), input gradients (I), weight gradients (W) and
// full backwards (B = I and W in one). An order holds no times; replay.hpp gives it times, lower/ turns it into tasks.
//
// Notation (Zero Bubble, arXiv 2401.10241): p ranks, m micro-batches, v chunks per rank, stages = p*v.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/generator.hpp"
#include "base/units.hpp"

namespace rehearsal::schedule {

enum class Op : std::uint8_t { forward, input_gradient, weight_gradient, backward };

// One cell of a schedule: 8 bytes, because orders of 16 M actions are generated, replayed and hashed.
struct Action {
  std::uint32_t microbatch = 0;
  std::uint16_t stage = 0;
  Op op = Op::forward;

  friend bool operator==(const Action&, const Action&) = default;
};

inline constexpr std::uint32_t kMaxStages = 65535;

// What a pipeline step costs and how large it is: the numbers a schedule may look at. One entry per stage; memory is in
// any one unit (bytes, or the M_B and M_W of the paper).
struct Problem {
  std::uint32_t ranks = 1;
  std::uint32_t microbatches = 1;
  std::uint32_t chunks = 1;  // stages per rank
  std::vector<Time> forward, input_gradient, weight_gradient;
  // A full backward where it differs from input plus weight gradient (one launch stream instead of two); empty = the
  // sum.
  std::vector<Time> backward;
  // transfer[s], stages - 1 entries: latency from stage s to stage s+1, and of the gradient the other way. Two stages
  // of one rank hand over in no time, whatever the entry says.
  std::vector<Time> transfer;
  // Memory that a forward takes until its input gradient (activation) and that stays until its weight gradient
  // (weight_hold).
  std::vector<double> activation, weight_hold;
  std::optional<double> memory_limit;  // per rank; empty = none

  // Knobs of some schedules; empty = the schedule's default.
  std::optional<std::uint32_t> group;         // interleaved: micro-batches per group (default p)
  std::optional<std::uint32_t> extra_warmup;  // interleaved: additional warm-up forwards per rank

  std::uint32_t stages() const { return ranks * chunks; }
  Time time(Action a) const {
    switch (a.op) {
      case Op::forward:
        return forward[a.stage];
      case Op::input_gradient:
        return input_gradient[a.stage];
      case Op::weight_gradient:
        return weight_gradient[a.stage];
      case Op::backward:
        return backward.empty() ? input_gradient[a.stage] + weight_gradient[a.stage] : backward[a.stage];
    }
    return {};
  }
};

// All stages alike: the usual case of papers and tests. A forward takes 1 unit of memory until its input gradient.
Problem uniform_problem(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t chunks, Time forward,
                        Time input_gradient, Time weight_gradient, Time transfer);

// Which stages a rank holds.
enum class Placement : std::uint8_t {
  loop,  // stage s on rank s mod p (with one chunk: stage = rank)
  vee    // rank r holds stages r and 2p-1-r
};
std::uint32_t rank_of(Placement placement, const Problem& problem, std::uint32_t stage);
// The stage of a rank's chunk c.
std::uint32_t stage_of(Placement placement, const Problem& problem, std::uint32_t rank, std::uint32_t chunk);

// The times of a problem whose stages are all alike and whose ranks are all equally far apart; else nothing. Formulas
// of papers speak of such problems only. `transfer` is 0 when no two neighbouring stages lie on different ranks.
struct UniformTimes {
  Time forward, input_gradient, weight_gradient, backward, transfer;
  Time combined() const { return forward + backward; }                       // one micro-batch on one stage, F and B
  Time split() const { return forward + input_gradient + weight_gradient; }  // the same, F, I and W
};
std::optional<UniformTimes> uniform_times(Placement placement, const Problem& problem);

using Order = Generator<Action>;  // the program of one rank, lazily

// What a paper promises about a schedule, checked by tests over random problems wherever closed_form returns one.
struct ClosedForm {
  Time cost;                      // max over ranks of (last end - first start)
  std::vector<double> in_flight;  // per rank: peak of (forwards - input gradients), in chunks; empty = no formula
};

// The order that a search found, with what it can prove about it.
struct Planned {
  std::vector<std::vector<Action>> ranks;  // the program of each rank
  std::optional<bool> optimal;             // proven the cheapest; empty = the search proves nothing
  std::optional<Time> lower_bound;         // no legal order of this problem within its limits costs less
};

// One schedule = one plug-in = one file in all/. It has an `order` (a rule) or a `plan` (a search), not both.
struct Schedule {
  std::string name;
  std::string summary;  // one honest sentence, with the source
  Placement placement = Placement::loop;
  std::uint32_t min_chunks = 1, max_chunks = 1;
  bool splits_backward = false;  // uses I and W instead of B

  // Throws UserError with the rule that is broken and the nearest legal value. Empty = everything is legal.
  std::function<void(const Problem&)> check = {};
  // The program of a rank. `problem` outlives the sequence.
  std::function<Order(const Problem& problem, std::uint32_t rank)> order = {};
  // All programs at once, where they come out of a search over the times: the same problem gives the same order. Only
  // planned() calls it; the problem has passed check().
  std::function<Planned(const Problem&)> plan = {};
  // The paper's formula where it holds for this problem, else nothing.
  std::function<std::optional<ClosedForm>(const Problem&)> closed_form = {};
  // Of a schedule that planned() returned: what its plan proved. Empty in the registry.
  std::optional<bool> optimal = {};
  std::optional<Time> lower_bound = {};
};

// The schedule with its `order` for this problem: a rule as it is; a search is run once, and `order` then walks what it
// found (shared by all copies; whatever problem it is given). Whoever asks more than one question about an order plans
// it first: replay, lowering and the texts plan for themselves what comes to them unplanned. Throws what check throws.
Schedule planned(const Schedule& schedule, const Problem& problem);

// Checks that every field of a problem is there and fits the schedule (chunks, sizes, limits), then `check`.
void check(const Schedule& schedule, const Problem& problem);

}  // namespace rehearsal::schedule
