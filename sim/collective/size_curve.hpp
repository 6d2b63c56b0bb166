// Time of a collective by message size, as measured: log-log interpolation between points (exact at the points), or a
// three-parameter curve T = a + S/B (1 + sqrt(Sg/S)) where there is no table (spec: models/README.md).
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "cluster/interconnect.hpp"

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

// The machine that curves were measured on: for other links they only correct the formulas
// (sim/cost/communication.hpp).
struct MeasuredOn {
  std::string topology = "nvswitch";  // inside the node
  std::int64_t gpus = 8;              // of a node
  Bandwidth nvlink;                   // one GPU, one way; 0 = the machine itself, as a profile has it
  Time latency;
  cluster::Interconnect interconnect{};
  Version nccl = kNewestNccl;
  // Between nodes, for curves of more ranks than a node has; absent: as in the cluster that uses them.
  std::optional<std::int64_t> nics{};  // of a node
  std::optional<Bandwidth> nic{};      // one NIC, one way
  std::optional<Time> nic_latency{};
};

// Curves of one system by kind and number of ranks (configs/collectives/*.yaml): inside a node, or of whole nodes.
struct SizeCurves {
  std::string name;
  std::map<std::pair<CollectiveKind, std::uint32_t>, std::vector<Point>> measured;  // ascending sizes
  std::map<CollectiveKind, FittedCurve>
      fitted;  // for group sizes without a table, scaled by (n-1)/n against `fitted_ranks`
  std::uint32_t fitted_ranks = 8;
  // A factor on everything measured: with 1.1 all times of the curves, and the links that they were measured on, are a
  // tenth slower. `explain` varies it to find out how much depends on them.
  double time_factor = 1;
  std::string source;
  MeasuredOn measured_on;

  enum class Of : std::uint8_t { one_node, whole_nodes };

  bool empty() const { return measured.empty() && fitted.empty(); }
  bool holds(CollectiveKind kind, Of of = Of::one_node) const;  // the kind, or those that it is made of
  bool across_nodes() const;                                    // some are of more ranks than a node has
  std::uint32_t most_ranks() const;
  std::uint32_t least_ranks(CollectiveKind kind) const;  // inside a node, among the curves of the kind
  // Seconds of the closed form on the measured machine; must not fall with more ranks or bytes.
  using Form = std::function<double(std::uint32_t ranks, Bytes size)>;
  // Seconds on the measured machine; 0 for one rank or nothing to move. Exact where it was measured. Between two
  // numbers of ranks a power of both times, positioned by the closed form's own two; beyond the largest scaled like the
  // closed form, with no more bus bandwidth; below the smallest the closed form with its bytes corrected, as the start
  // of a call among many ranks differs from that among few.
  double time(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Form& form, Of of = Of::one_node) const;

 private:
  // Of one number of ranks: a table, or a fit.
  struct Curve {
    std::uint32_t ranks;
    double factor;
    const std::vector<Point>* table;
    const FittedCurve* fit;
    double time(Bytes size) const;
    double risen(Bytes size) const;  // above the least that it knows; never less for more bytes, whatever the noise
  };
  std::vector<Curve> curves(CollectiveKind kind, Of of) const;  // ascending ranks
};

}  // namespace rehearsal::collective
