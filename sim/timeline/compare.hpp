// A prediction against what was measured: two timelines of one graph, task by task, over all measured iterations.
//
// A relative error is predicted / measured - 1: negative where the real run took longer than predicted, which is the
// usual direction. Quantiles are of nearest rank, so that each is a value that occurred.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

// The q-quantile (0 < q <= 1) of nearest rank: the smallest value that at least a share q of all values do not exceed.
// Nothing in it = 0.
double quantile(std::vector<double> values, double q);

// The lengths of the measured iterations.
struct Spread {
  std::size_t iterations = 0;
  Time median;  // that of the iteration whose spans the timeline shows
  Time p10, p90, minimum;
};
Spread spread(const Timeline& timeline);

// Whether a work's price was measured for this very shape, or derived from others.
enum class Sampling : std::uint8_t { unknown, in_sample, out_of_sample };

struct Difference {
  Time predicted, measured;    // measured: the median over the iterations
  double median_error = 0;     // signed relative error: median over all that was compared
  double p90_error = 0;        // of its absolute value
  std::uint64_t compared = 0;  // pairs of a prediction and a measurement
};

// Tasks of one kind of work and pass: "linear, forward". `predicted` and `measured` are their sums in one iteration;
// errors are those of single tasks.
struct ClassDifference {
  std::string name;
  Sampling sampling = Sampling::unknown;  // works of a class that differ in this are two entries
  std::uint64_t tasks = 0;                // in one iteration, over all ranks
  double sum_error = 0;                   // signed relative error of the sum
  Difference of_tasks;
};

struct Comparison {
  Difference iteration;
  Spread iterations;
  // Ends of tasks, from the start of the iteration, relative to the measured length of that iteration.
  double end_median_error = 0, end_p90_error = 0;
  std::vector<Time> measured_end;        // indexed by TaskId: median over the iterations
  std::vector<ClassDifference> classes;  // by measured time, longest first
};

// Both timelines are of `graph`. Receives are instants and belong to no class. `sampling`: one per work, or empty.
Comparison compare(const graph::TaskGraph& graph, const Timeline& predicted, const Timeline& measured,
                   std::span<const Sampling> sampling = {});

// The class of a task: the first word of its work and its pass; coarse tasks are named by the pass alone.
std::string task_class(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task);

}  // namespace rehearsal::timeline
