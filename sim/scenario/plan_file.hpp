// The section `plan` of a scenario: which layouts `rehearse plan` may choose from, for the model, the machine and the
// batch that the rest of the file names.
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

// Values of each dimension, ascending and each once, so that the order of a list means nothing; nothing: all that
// divide and that model, schedule, framework and cluster allow.
struct PlanSpace {
  using Degrees = std::optional<std::vector<std::int64_t>>;
  Degrees tensor, context, pipeline, data, expert, chunks, micro, zero;
  Degrees gpus, nodes;  // at most one of them; nothing: as `cluster` says
  std::optional<std::vector<bool>> sequence;
  std::optional<std::vector<models::Recompute>> recompute;
  std::optional<std::vector<std::string>> schedules;
  struct Offload {
    std::string text;  // as one line of YAML: "{optimizer: host}"
    models::Offload states;
  };
  std::vector<Offload> offload;                      // empty: as `training` says
  std::optional<std::vector<std::string>> framework;  // each as one line of YAML; nothing: as the file says
  enum class Objective : std::uint8_t { time, gpus, cost };
  Objective objective = Objective::time;
  // Of the whole training; where `plan` names none, those of `job`.
  std::optional<Duration> deadline;
  std::optional<Count> budget;  // in the currency of `job`
  double margin = 0;            // share of a GPU's memory that stays free
};
const char* name(models::Recompute recompute);

// `root`: the file, whose `job` says what is trained and at what price. What is wrong is left in context.problems.
PlanSpace read_plan_space(Context& context, const Node& node, const Node& root);

// A scenario whose layout is the question, on one size of the cluster: of one stage on one GPU with all others as its
// replicas, which stands for any. `sets`: what makes the file say so of this size and this framework.
struct PlanBase {
  Scenario scenario;
  std::vector<std::string> sets;
  Support support;  // and what is listed though no framework of the plan has it
};
struct PlanFile {
  std::string path;
  std::vector<std::string> sets;  // KEY=VALUE, as given
  PlanSpace space;
  std::vector<PlanBase> bases;     // by number of GPUs, ascending, then by framework
  std::vector<std::string> notes;  // what is listed though no framework of the plan has it
};
// Throws UserError with every error at once; also where the file says something that no layout can be changed under.
PlanFile load_plan(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk());

// The file with these keys set, its section `plan` left out and the files that it names found from anywhere: the text
// of a scenario.
std::string standalone(const std::string& path, const std::vector<std::string>& sets, const Files& files = disk());

}  // namespace rehearsal::scenario
