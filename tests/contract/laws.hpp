// Laws that every whole answer obeys, for any model, machine and layout: tested on random scenarios
// (random_scenario.hpp), each law in its own test case with its reason, its bound and its exceptions.
//
// A case is a scenario and one question about it. By default each law tries a hundred or so; REHEARSAL_LAW_CASES=N
// tries N of all laws together, REHEARSAL_LAW_SEED=S others. A broken law prints the scenario and the commands that
// show it.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "predicted.hpp"

namespace rehearsal::contract {

// Where a law may be broken, the reason, and the largest excess.
struct Allowed {
  const char* why;
  double bound;
};

// A random scenario, and its answers with some of its keys set.
class Trial {
 public:
  Trial(std::string text, std::uint64_t seed, bool memory);

  const std::string& text() const { return text_; }
  const scenario::Scenario& scenario() const { return scenario_; }
  const scenario::Concrete& concrete() const { return *scenario_.concrete; }
  const plan::Parallelism& parallelism() const { return scenario_.parallelism; }
  const models::Transformer& model() const { return concrete().model; }

  Random random;  // of the law
  bool chance(int percent) { return random.below(100) < std::uint64_t(percent); }

  // Sets keys for all answers of this trial; false if the scenario is refused with them.
  bool settle(const Sets& sets);
  // Nothing if the scenario is refused.
  std::optional<answer::Result> ask(const Sets& sets = {});

  // Counts a case, which fails unless `holds`. `what`: the question asked.
  void hold(bool holds, const Sets& sets, const std::string& what);
  // value in [low, high]; with an exception in [low / (1 + bound), high (1 + bound)].
  void within(double value, double low, double high, const Sets& sets, const std::string& what,
              const Allowed* allowed = nullptr);

  int cases = 0;
  std::vector<std::string> broken;
  std::map<std::string, int> exceptions;  // that were needed
  double worst = 1;                       // of `within` without exceptions, times beyond the bound or inside of it

 private:
  std::string text_;
  Sets settled_;
  scenario::Scenario scenario_;
  bool memory_;
};

inline double step(const answer::Result& answer) { return to_seconds(answer.summary.iteration); }
inline double percent(double ratio) { return (ratio - 1) * 100; }

struct Law {
  const char* name;
  int cases;            // by default
  bool memory = false;  // whether peaks are asked for
};
// Tests the law on random scenarios until it has its number of cases.
void keeps(const Law& law, const std::function<void(Trial&)>& question);

}  // namespace rehearsal::contract
