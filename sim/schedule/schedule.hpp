// A pipeline schedule: for every rank, the order of its forwards (F), input gradients (I), weight gradients (W) and
// full backwards (B = I and W in one). An order holds no times; replay.hpp gives it times, lower/ turns it into tasks.
//
// Notation (Zero Bubble, arXiv 2401.10241): p ranks, m micro-batches, v chunks per rank, stages = p*v. The stages form
// one chain, or two where a model is trained in both directions at once (Placement::bidirectional), or any graph whose
// edges ascend (Problem::edges).
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
  std::uint32_t microbatch = 0;  // or, where micro-batches are cut: microbatch * pieces + piece
  std::uint16_t stage = 0;
  Op op = Op::forward;
  // This forward and the backward that follows it in the program run as one block: it starts when both can, both end
  // with it, and nothing comes in between (DualPipe hides the communication of one behind the other).
  bool overlaps_next = false;

  friend bool operator==(const Action&, const Action&) = default;
};

static_assert(sizeof(Action) == 8);

inline constexpr std::uint32_t kMaxStages = 65535;
inline constexpr std::uint32_t kUsualPieces = 2;  // that a schedule cuts micro-batches into, unless told

// From a stage to one that it feeds, and for gradients back: as Problem::transfer, held and wire say of a chain.
struct Edge {
  std::uint32_t from = 0, to = 0;
  Time transfer = {}, held = {};
  std::uint8_t wire = 0;
  // It turns: the gradient of `to` waits for the forward of `from`, which may be any other stage. Nothing goes back.
  bool turns = false;
};

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
  // An overlapped block, by the stage of its forward; empty = its forward and its backward one after the other.
  std::vector<Time> overlapped;
  // transfer[s], stages - 1 entries: latency from stage s to stage s+1, and of the gradient the other way. Two stages
  // of one rank hand over in no time, and two chains hand over nothing, whatever the entry says.
  std::vector<Time> transfer;
  // How long a message between stages s and s+1 holds the wire that it leaves its rank by, of its transfer, and which
  // of the rank's two wires that is (0 or 1). The next message over the wire starts when it is free. Empty: nothing is
  // held, any number is in flight at once (the evaluator of the papers). Rules do not look at it.
  std::vector<Time> held;
  std::vector<std::uint8_t> wire;
  // All edges, where stages are no chain (StageGraph): a forward waits for those of all stages that feed it, a gradient
  // for those of all that it feeds. They ascend, and `transfer`, `held` and `wire` then say nothing. Empty: a chain.
  std::vector<Edge> edges;
  // Memory that a forward takes until its input gradient (activation) and that stays until its weight gradient
  // (weight_hold).
  std::vector<double> activation, weight_hold;
  std::optional<double> memory_limit;  // per rank; empty = none

  // Knobs of some schedules; empty = the schedule's default.
  std::optional<std::uint32_t> group;         // interleaved: micro-batches per group (default p)
  std::optional<std::uint32_t> extra_warmup;  // interleaved: additional warm-up forwards per rank
  std::optional<std::uint32_t> pieces;        // seq1f1b: pieces that each micro-batch is cut into (default 2)
  std::optional<std::uint32_t> waves;         // hanayo: must be chunks / 2 where it is given
  std::optional<Time> time_limit;             // searches: how long they may look, in time of this machine

  // Placement::listed: the rank of every stage, each rank equally often. Else empty.
  std::vector<std::uint32_t> stage_ranks;

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
  // An overlapped block of this forward and this backward.
  Time time(Action forward_action, Action backward_action) const {
    return overlapped.empty() ? time(forward_action) + time(backward_action) : overlapped[forward_action.stage];
  }
};

// All stages alike: the usual case of papers and tests. A forward takes 1 unit of memory until its input gradient.
Problem uniform_problem(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t chunks, Time forward,
                        Time input_gradient, Time weight_gradient, Time transfer);

// Which stages a rank holds.
enum class Placement : std::uint8_t {
  loop,  // stage s on rank s mod p (with one chunk: stage = rank)
  vee,   // rank r holds stages r and 2p-1-r
  wave,  // chunks go down and up the ranks in turn; two of them are a vee
  // Two copies of a model of p stages run in opposite directions: stages 0..p-1 are the chain of direction 0, on rank =
  // stage; stages p..2p-1 that of direction 1, on rank 2p-1-stage. m counts the micro-batches of both, half each, and
  // each direction numbers its own from 0.
  bidirectional,
  // Stages 0..p-1 are a chain, on rank = stage; stages p..2p-1 are the parts of a vocabulary, one on each rank, which
  // the last stage of the chain feeds (Balancing Pipeline Parallelism with Vocabulary Parallelism, arXiv 2411.05288).
  // Where their backward is not split, the gradient of a part waits for the forwards of all.
  vocabulary,
  listed  // stage s on rank Problem::stage_ranks[s], one chain: orders from files
};
// Stages 0 .. length-1 are one chain, the next `length` another. A stage hands its activations to the next one of its
// chain and its gradients to the one before.
std::uint32_t chain_length(Placement placement, const Problem& problem);
bool first_of_chain(Placement placement, const Problem& problem, std::uint32_t stage);
bool last_of_chain(Placement placement, const Problem& problem, std::uint32_t stage);
std::uint32_t rank_of(Placement placement, const Problem& problem, std::uint32_t stage);
// The stage of a rank's chunk c.
std::uint32_t stage_of(Placement placement, const Problem& problem, std::uint32_t rank, std::uint32_t chunk);

// What Placement::vocabulary says of a problem without edges: the chain, from its end to each part of the vocabulary
// (transfer[part - 1]), and, with `barrier`, from each part to the gradient of every other one.
std::vector<Edge> vocabulary_edges(const Problem& problem, bool barrier);

// Whether messages queue for the wires of their ranks.
bool holds_wires(const Problem& problem);

// The times of a problem whose stages are all alike, whose ranks are all equally far apart and whose messages hold no
// wire; else nothing. Formulas of papers speak of such problems only. `transfer` is 0 when no two neighbouring stages
// lie on different ranks.
struct UniformTimes {
  Time forward, input_gradient, weight_gradient, backward, transfer;
  Time combined() const { return forward + backward; }                       // one micro-batch on one stage, F and B
  Time split() const { return forward + input_gradient + weight_gradient; }  // the same, F, I and W
};
std::optional<UniformTimes> uniform_times(Placement placement, const Problem& problem);

// When the weights change. At a flush: once all gradients of the step are there. After every backward: each micro-batch
// updates on its own, and runs backward with the weights of its forward. Late: once per step, with gradients of the
// weights before the last update, so that no flush is needed.
enum class Updates : std::uint8_t { at_flush, every_backward, late };

using Order = Generator<Action>;  // the program of one rank, lazily

// A paper's formula for a schedule, checked by tests over random problems wherever closed_form returns one.
struct ClosedForm {
  Time cost;                      // max over ranks of (last end - first start)
  std::vector<double> in_flight;  // per rank: peak of (forwards - input gradients), in chunks; empty = no formula
};

// What a schedule without a flush does to the weights. An update late by k: it is computed from weights that have
// changed k times since.
struct Asynchrony {
  std::vector<std::uint32_t> weight_versions;  // per rank: kept at once
  std::vector<std::uint32_t> staleness;        // per rank: by how many updates a gradient is late
  Time steady_state;                           // time per micro-batch once the pipeline is full
};

// The order that a search found, with what it can prove about it.
struct Planned {
  std::vector<std::vector<Action>> ranks;   // the program of each rank
  std::optional<bool> optimal;              // proven the cheapest; empty = the search proves nothing
  std::optional<Time> lower_bound;          // no legal order of this problem within its limits costs less
  std::optional<Placement> placement = {};  // where the search chooses it; empty = the schedule's
};

// One schedule = one plug-in = one file in all/. It has an `order` (a rule) or a `plan` (a search), not both.
struct Schedule {
  std::string name;
  std::string summary;  // one honest sentence, with the source
  Placement placement = Placement::loop;
  std::uint32_t min_chunks = 1, max_chunks = 1;
  bool splits_backward = false;  // uses I and W instead of B, always or sometimes
  std::string one_chunk = {};    // for several chunks per rank: the schedule that it is with one
  bool cuts_sequences = false;   // takes Problem::pieces
  bool any_graph = false;        // its order is legal for any graph of stages (Problem::edges), not for chains alone

  // Throws UserError with the rule that is broken and the nearest legal value. Empty = everything is legal.
  std::function<void(const Problem&)> check = {};
  // The program of a rank. `problem` outlives the sequence.
  std::function<Order(const Problem& problem, std::uint32_t rank)> order = {};
  // All programs at once, where they come out of a search over the times: the same problem gives the same order. Only
  // planned() calls it; the problem has passed check().
  std::function<Planned(const Problem&)> plan = {};
  // The paper's formula where it holds for this problem, else nothing.
  std::function<std::optional<ClosedForm>(const Problem&)> closed_form = {};
  Updates updates = Updates::at_flush;
  // With updates after every backward: the version of its weights that a stage uses for a micro-batch, as a number of
  // updates. Empty = the newest one at the forward. For references that compute serially what a pipeline computes with
  // old weights.
  std::function<std::uint32_t(std::uint32_t stage, std::uint32_t microbatch)> weight_version = {};
  // Only for schedules without a flush, which use old weights in return: what they hold and how fast they become.
  std::function<Asynchrony(const Problem&)> asynchrony = {};
  // Of a schedule that planned() returned: what its plan proved. Empty in the registry.
  std::optional<bool> optimal = {};
  std::optional<Time> lower_bound = {};
};

// The schedule with its `order` for this problem: a rule as it is; a search is run once, and `order` then walks what it
// found (shared by all copies; whatever problem it is given). Callers with several questions about an order plan it
// first: replay, lowering and the texts plan unplanned schedules themselves. Throws what check throws.
Schedule planned(const Schedule& schedule, const Problem& problem);

// Pieces that each micro-batch is cut into (1 unless the schedule cuts them), and how many numbers of micro-batches, or
// of pieces of them, every stage of this problem sees: 0 .. units-1.
std::uint32_t pieces(const Schedule& schedule, const Problem& problem);
std::uint32_t units(const Schedule& schedule, const Problem& problem);
// `whole` is what a micro-batch takes: the share of the unit, which sum up to it exactly.
Time share(Time whole, std::uint32_t pieces, std::uint32_t unit);

// Checks that every field of a problem is there and fits the schedule (chunks, sizes, limits), then `check`.
void check(const Schedule& schedule, const Problem& problem);

}  // namespace rehearsal::schedule
