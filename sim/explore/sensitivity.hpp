// The effect of every number of the machine and every factor of the framework: each is raised and lowered by a tenth,
// as with --set, and the step is predicted (sim/design/explain.md).
//
// A resource is a number whose unit contains time: a rate, a latency, a fixed cost; measured times count as one,
// scaled together. If all resources are slower by a factor, the step is longer by the same factor (Euler: it is
// homogeneous of degree one), so the shares of all resources sum to one.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "base/parallel.hpp"

namespace rehearsal::explore {

// A number with another value, and the resulting step.
struct Turn {
  std::string set;    // "cluster.gpu.sustained_clock=0.869", as --set takes it
  double change = 0;  // of the value, relative
  Time iteration;
};

struct Sensitivity {
  // factor: a number without unit, which states how a resource is used and is not one itself.
  enum class Kind : std::uint8_t { rate, time, measured, factor };
  std::string key, value, help;
  Kind kind = Kind::factor;
  bool assumed = false;   // the value was not measured
  double width = 0;       // relative uncertainty of a value fitted to training runs (published room)
  std::string follows;    // another key from which this one is derived unless given; its share is counted there
  Turn better, worse;     // a tenth towards a shorter step, and towards a longer one; bounds may allow less, or none
  double elasticity = 0;  // d ln iteration / d ln value, at steps of kSmallStep
  bool counted() const { return kind != Kind::factor && follows.empty(); }
  // The share of the step that is due to this resource.
  double share() const { return kind == Kind::rate ? -elasticity : elasticity; }
};
inline constexpr double kTenth = .1, kSmallStep = 1e-2;
const char* name(Sensitivity::Kind kind);

struct Sensitivities {
  std::vector<Sensitivity> all;  // those with an effect, sorted by gain of the better turn
  std::size_t idle = 0;          // numbers without effect
  double sum = 0;                // of the shares that count
  // The same from scaling all resources at once: differs from `sum` if the step is not smooth, as at a tie between two
  // chains or two algorithms. The difference to 1 is time that no key affects.
  double together = 0;
  std::vector<std::string> missing;  // sentences that explain why `sum` is not 1
};

// A scenario that can be read again, the --set options it was read with, and its prediction.
struct Asked {
  std::string path;
  std::vector<std::string> sets;
  const answer::Result* prediction = nullptr;
  const scenario::Files* files = &scenario::disk();
  // The same file with further settings; throws UserError.
  scenario::Scenario with(const std::vector<std::string>& more) const;
};

// A number that was not measured on the machine, and the step at both ends of what it may be.
struct Uncertain {
  std::string key, value, help;
  double width = 0;      // relative, up and down
  bool assumed = false;  // else fitted to training runs
  Turn low{}, high{};    // of the number; bounds may allow less
};
// The relative uncertainty of a number that was fitted to training runs; 0 of others.
using Width = std::function<double(const std::string& key)>;
// Those that are assumed, by a tenth, or fitted, by their width, and have an effect.
std::vector<Uncertain> uncertain(const Asked& asked, const Width& width, unsigned jobs);

// `done` counts numbers.
Sensitivities sensitivities(const Asked& asked, unsigned jobs, const Done& done = {});

}  // namespace rehearsal::explore
