// What every number of the machine, and every factor of the framework, is worth: a tenth more or less of each, as --set
// would change it, and the step that follows (sim/design/explain.md).
//
// A resource is a number whose unit holds time: a rate, a latency, a fixed cost; measured times count as one, turned as
// a whole. Where all of them together are slower by a factor the step is longer by that factor (Euler: it is
// homogeneous of degree one), so that the shares of all resources sum to one.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::explore {

// One number with another value, and the step that it makes.
struct Turn {
  std::string set;    // "cluster.gpu.sustained_clock=0.869", as --set takes it
  double change = 0;  // of the value, relative
  Time iteration;
};

struct Sensitivity {
  // factor: a number without a unit, which says how a resource is used and is none itself.
  enum class Kind : std::uint8_t { rate, time, measured, factor };
  std::string key, value, help;
  Kind kind = Kind::factor;
  bool assumed = false;   // nobody measured the value
  double width = 0;       // how far a value that was fitted to training runs may be off, relative (published room)
  std::string follows;    // another key that this one goes with unless it is given; its share is counted there
  Turn better, worse;     // a tenth, the way that shortens the step and the other one; a bound may allow less, or none
  double elasticity = 0;  // d ln iteration / d ln value, at steps of kSmallStep
  bool counted() const { return kind != Kind::factor && follows.empty(); }
  // Of the step, that goes by this resource.
  double share() const { return kind == Kind::rate ? -elasticity : elasticity; }
};
inline constexpr double kTenth = .1, kSmallStep = 1e-2;
const char* name(Sensitivity::Kind kind);

struct Sensitivities {
  std::vector<Sensitivity> all;  // those that move the step, by how much the better turn gains
  std::size_t idle = 0;          // numbers that were turned and moved nothing
  double sum = 0;                // of the shares of those that count
  // The same from one turn of all resources at once: apart from `sum` where the step is bent, as at a tie between two
  // chains or two algorithms. What is missing to 1 is time that no key reaches.
  double together = 0;
  std::vector<std::string> missing;  // in sentences, why `sum` is not 1
};

// A scenario that may be read again, with the --set that it was read with, and its prediction.
struct Asked {
  std::string path;
  std::vector<std::string> sets;
  const answer::Result* prediction = nullptr;
  // The same file with a few more of them; throws UserError.
  scenario::Scenario with(const std::vector<std::string>& more) const;
};

// `done` is called after each number, of so many, from any thread, one call at a time.
using Done = std::function<void(std::size_t done, std::size_t of)>;
Sensitivities sensitivities(const Asked& asked, unsigned jobs, const Done& done = {});

}  // namespace rehearsal::explore
