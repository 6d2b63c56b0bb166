// The best layouts of a space by what `run` says of them, with proof: best first by a bound from below, so that nothing
// is priced that a bound, or the memory of a GPU, rules out (sim/design/planning-search.md).
//
// The answer depends on the space alone: items are taken in rounds whose size does not depend on the number of threads,
// and equals are ordered by the layouts themselves.
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
  std::uint64_t priced = 0;   // whose exact time is known, at least without contention
  // Never priced: known not to fit, refused by rules that only a plan or a graph knows, too late or too dear by a
  // bound, or with a bound above the last of the best. Most of them are cut as whole families.
  std::uint64_t cut_memory = 0, refused = 0, cut_limits = 0, cut_bound = 0;
  std::uint64_t simulated = 0;  // of those that were priced: in full, as `run` does
  std::uint64_t missed = 0;     // of these: too late or too dear
  std::uint64_t unfit = 0;      // of these: larger than their bound said, and than the GPU
  std::uint64_t anomalies = 0;  // of these: below what was taken for their bound, which ends the proof
  std::uint64_t stagings = 0;   // sets of stage times that were worked out; all else is shared
};

// All as `run` says it.
struct Found {
  Layout layout;
  Time iteration;
  Time alone{};                      // the same without contention
  Time step{};                       // that trains: the iteration with its share of those that are skipped
  double device = 0;                 // bytes on the fullest GPU
  std::optional<job::Totals> run{};  // what the job takes at that step
  answer::Result full{};         // brief, set for the best
};

struct Refusal {
  Layout layout;
  std::string why;
  std::uint64_t layouts = 0;  // for this reason
};

struct Outcome {
  Counts counts;
  std::vector<Found> top;    // the best of `found`
  std::vector<Found> found;  // all that fit of those priced in full, in order: what a front is drawn from
  bool stopped = false;      // before all that it was asked for was known
  bool proven = false;       // that the best is
  std::size_t places = 0;    // of `top`, from the first: nothing of the space comes between
  double gap = 0;            // the best may be above the optimum, in what was asked for, by this share of its own
  // Where nothing fits: the layout that lacks least, and how much.
  struct Nearest {
    Layout layout;
    double device = 0, capacity = 0;
  };
  std::optional<Nearest> nearest;
  // Where nothing that fits meets the limits: what misses one by least. The other, if any, it meets, or none can.
  std::optional<Found> closest;
  // What the rules say that refuse layouts, the one that refuses most first; each of the first layout that meets it.
  std::vector<Refusal> refusals;
};

struct Options {
  unsigned threads = 1;
  std::size_t best = 10;
  std::size_t proven = 10;  // places that must be
  bool predict = true;      // the best once more with all that `run` says of them
  // Asked between rounds: false ends the search with what is known.
  std::function<bool(const Counts&, std::optional<Time> best)> go_on = {};
};

Outcome search(const Space& space, const Options& options = {});

// Of all that was found to fit: those that nothing else beats in time, memory, GPUs or cost without being worse in
// another.
std::vector<Found> front(const Space& space, const std::vector<Found>& found);

// The exact value of one layout, which the search compares. Nothing where it is refused, for the reason `why`.
std::optional<Found> evaluate(const Space& space, const Layout& layout, std::string* why = nullptr);
// Bytes of a GPU that a plan may fill.
double capacity(const Space& space, const Layout& layout);

}  // namespace rehearsal::search
