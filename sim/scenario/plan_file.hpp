// The section `plan` of a scenario: the layouts that `rehearse plan` may choose from, for the model, machine and batch
// of the rest of the file.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {

struct Context;
struct Node;

// The values allowed in each dimension, ascending and without repetition, so that the order of a list is irrelevant;
// nothing: all divisors that model, schedule, framework and cluster allow.
struct PlanSpace {
  using Degrees = std::optional<std::vector<std::int64_t>>;
  Degrees tensor, context, pipeline, data, expert, chunks, micro, zero;
  Degrees gpus, nodes;  // at most one of them; nothing: as in `cluster`
  std::optional<std::vector<bool>> sequence;
  std::optional<std::vector<models::Recompute>> recompute;
  std::optional<std::vector<std::string>> schedules;
  struct Offload {
    std::string text;  // as one line of YAML: "{optimizer: host}"
    models::Offload states;
  };
  std::vector<Offload> offload;                       // empty: as in `training`
  std::optional<std::vector<std::string>> framework;  // each as one line of YAML; nothing: as in the file
  enum class Objective : std::uint8_t { time, gpus, cost };
  Objective objective = Objective::time;
  // Of the whole training; taken from `job` if `plan` gives none.
  std::optional<Duration> deadline;
  std::optional<Count> budget;  // in the currency of `job`
  double margin = 0;            // share of a GPU's memory that must stay free
};
const char* name(models::Recompute recompute);

// `root`: the file, whose `job` has length and price of the training. Errors are left in context.problems.
PlanSpace read_plan_space(Context& context, const Node& node, const Node& root);

// A scenario whose layout is to be found, on one cluster size and with one framework. Its own layout, a single stage on
// one GPU with data parallelism over all others, is a placeholder. `sets`: the settings of this size and framework.
struct PlanBase {
  Scenario scenario;
  std::vector<std::string> sets;
  Support support;  // plus listed values that no framework of the plan supports
};
struct PlanFile {
  const Files* files = nullptr;  // where it was read from
  std::string path;
  std::vector<std::string> sets;  // KEY=VALUE, as given
  PlanSpace space;
  std::vector<PlanBase> bases;     // by number of GPUs, ascending, then by framework
  std::vector<std::string> notes;  // listed values that no framework of the plan supports
};
// Throws UserError with all errors at once, including settings under which no layout can be changed.
PlanFile load_plan(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk());

// The text of a scenario: the file with these keys set, without its section `plan` and with absolute file names, so
// that it can be read from anywhere.
std::string standalone(const std::string& path, const std::vector<std::string>& sets, const Files& files = disk());

}  // namespace rehearsal::scenario
