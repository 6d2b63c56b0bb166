// Best-first search for the best layouts of a space, as `run` evaluates them, with proof. Lower bounds and GPU memory
// rule out layouts before they are priced (sim/design/planning-search.md).
//
// The result depends on the space alone: items are taken in rounds whose size does not depend on the number of threads,
// and ties are broken by the order of layouts.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "search/space.hpp"

namespace rehearsal::search {

struct Counts {
  std::uint64_t layouts = 0;  // in the space; the sum of the next five
  std::uint64_t priced = 0;   // exact time is known, at least without contention
  // Never priced: does not fit, refused by a rule that needs a plan or a graph, beyond a limit by a lower bound, or
  // with a bound above the last of the best. Most are eliminated as whole families.
  std::uint64_t cut_memory = 0, refused = 0, cut_limits = 0, cut_bound = 0;
  std::uint64_t simulated = 0;  // priced layouts that were fully simulated, as in `run`
  std::uint64_t missed = 0;     // of these: took too long or cost too much
  std::uint64_t unfit = 0;      // of these: exceeded their memory bound and the GPU
  std::uint64_t anomalies = 0;  // of these: faster than their supposed lower bound, which voids the proof
  std::uint64_t stagings = 0;   // computed sets of stage times; everything else is shared
};

// All values as `run` reports them.
struct Found {
  Layout layout;
  Time iteration;
  Time alone{};                      // the same without contention
  Time step{};                       // a training step: the iteration plus its share of skipped ones
  double device = 0;                 // bytes on the fullest GPU
  std::optional<job::Totals> run{};  // totals of the job with that step
  answer::Result full{};             // brief; set for the best
};

struct Refusal {
  Layout layout;
  std::string why;
  std::uint64_t layouts = 0;  // refused for this reason
};

struct Outcome {
  Counts counts;
  std::vector<Found> top;    // the best of `found`
  std::vector<Found> found;  // all simulated layouts that fit, sorted; the basis of the Pareto front
  bool stopped = false;      // before everything requested was known
  bool proven = false;       // that the best layout is optimal
  std::size_t places = 0;    // leading entries of `top` that are final: no other layout comes between
  double gap = 0;            // the best may exceed the optimum of the objective by this share of its own value
  // If nothing fits: the layout that lacks least memory, and how much.
  struct Nearest {
    Layout layout;
    double device = 0, capacity = 0;
  };
  std::optional<Nearest> nearest;
  // If no layout that fits meets the limits: the one closest to one limit, meeting the other if possible.
  std::optional<Found> closest;
  // Of each cluster, where there are several, in their order: its best or, if it has none, what misses by least. All
  // are empty if the search was stopped before.
  struct OfCluster {
    std::optional<Found> best, closest;
    std::optional<Nearest> nearest;
  };
  std::vector<OfCluster> clusters;
  // Refusals by rule, most frequent first; each with the first layout that it applies to.
  std::vector<Refusal> refusals;
};

// Where the search is between two rounds. First all kin of families get a bound, then the best are found.
struct Standing {
  Counts counts;
  std::size_t kins = 0, bounded_kins = 0;
  std::uint64_t bounded = 0;  // layouts of which a bound is known and no more
  std::optional<Time> best = {};
  std::optional<double> gap = {};  // of the best, as in Outcome

  std::uint64_t ruled_out() const { return counts.cut_memory + counts.refused + counts.cut_limits; }
};

struct Options {
  unsigned threads = 1;
  std::size_t best = 10;
  std::size_t proven = 10;  // number of places to prove
  bool predict = true;      // predict the best ones again with all of `run`
  // Called between rounds: false ends the search with what is known.
  std::function<bool(const Standing&)> go_on = {};
};

Outcome search(const Space& space, const Options& options = {});

// The Pareto front of all layouts found to fit: those that no other one beats in time, memory, GPUs, cost or what is
// minimised without being worse in another of these.
std::vector<Found> front(const Space& space, const std::vector<Found>& found);

// The exact value of one layout, as the search compares it. Nothing if it is refused, with the reason in `why`.
std::optional<Found> evaluate(const Space& space, const Layout& layout, std::string* why = nullptr);
// Usable bytes of a GPU.
double capacity(const Space& space, const Layout& layout);

}  // namespace rehearsal::search
