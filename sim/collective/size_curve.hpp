// Time of a collective by message size, as measured: log-log interpolation between points (exact at the points), or a
// three-parameter curve T = a + S/B (1 + sqrt(Sg/S)) where there is no table (spec: models/README.md).
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"
#include "base/version.hpp"

namespace rehearsal::collective {

struct Point {
  Bytes size;
  Time time;
};

// Seconds, by log-log interpolation in a table of ascending sizes that is not empty: exact at its points, the last
// segment's slope above, and below the first point a slow fall towards the latency floor (half of the first time at the
// least), since tables of collectives start at about 1 MB.
double interpolate(const std::vector<Point>& table, Bytes size);

struct FittedCurve {
  Time fixed;                     // a
  Bandwidth rate;                 // B, algorithm bandwidth
  Bytes half_size;                // Sg
  double time(Bytes size) const;  // seconds
};

// The node that curves were measured on: on other links they are corrections, not answers (sim/cost/communication.hpp).
struct MeasuredOn {
  std::string topology = "nvswitch";  // inside the node
  std::int64_t gpus = 8;
  Bandwidth nvlink;  // one GPU, one way; 0 = the machine itself, as a profile has it
  Time latency;
  int generation = 0;
  Version nccl = kNewestNccl;
};

// Curves of one system inside a node, by kind and number of ranks (configs/collectives/*.yaml).
struct SizeCurves {
  std::string name;
  std::map<std::pair<CollectiveKind, std::uint32_t>, std::vector<Point>> measured;  // ascending sizes
  std::map<CollectiveKind, FittedCurve>
      fitted;  // for group sizes without a table, scaled by (n-1)/n against `fitted_ranks`
  std::uint32_t fitted_ranks = 8;
  // Of everything measured, as a whole: 1.1 is a system on which all that the curves hold, and the links that they were
  // measured on, are a tenth slower. What `explain` turns to find out how much rests on them.
  double time_factor = 1;
  std::string source;
  MeasuredOn measured_on;

  bool empty() const { return measured.empty() && fitted.empty(); }
  bool holds(CollectiveKind kind) const;  // itself, or what it is made of
  // Seconds; 0 for one rank or nothing to move. `measured_used` (if given) tells whether a table answered.
  double time(CollectiveKind kind, std::uint32_t ranks, Bytes size, bool* measured_used = nullptr) const;
  double as_measured(CollectiveKind kind, std::uint32_t ranks, Bytes size,
                     bool* measured_used) const;  // of two or more
};

}  // namespace rehearsal::collective
