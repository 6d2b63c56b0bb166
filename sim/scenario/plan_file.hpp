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

class Diagnostics;
struct Context;
struct Node;

// The values allowed in each dimension, ascending and without repetition, so that the order of a list is irrelevant;
// nothing: all divisors that model, schedule, framework and cluster allow.
struct PlanSpace {
  using Degrees = std::optional<std::vector<std::int64_t>>;
  // A machine that can be bought or rented.
  struct Cluster {
    std::string name;     // for answers: "b200-sxm"
    std::string text;     // the section `cluster` without a size, as one line of YAML
    Degrees nodes, gpus;  // at most one of them; nothing: whole nodes that some layout divides evenly
    std::optional<double> gpu_hour;
    std::string currency;
    std::optional<std::vector<std::string>> framework;
    bool parts = false;  // `gpus: auto`: also sizes that leave GPUs of a node idle
    std::int64_t gpus_per_node = 1;
    Location where;
  };
  std::vector<Cluster> clusters;  // by name; empty: the one of the file
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
  enum class Objective : std::uint8_t { time, gpus, cost, energy };
  Objective objective = Objective::time;
  // Of the whole training; taken from `job` if `plan` gives none.
  std::optional<Duration> deadline;
  std::optional<Count> budget;  // in the currency of `job`
  double margin = 0;            // share of a GPU's memory that must stay free
};
const char* name(models::Recompute recompute);

// `root`: the file, whose `job` has length and price of the training. Errors are left in context.problems.
PlanSpace read_plan_space(Context& context, const Node& node, const Node& root);

// A scenario whose layout is to be found, on one cluster of one size and with one framework. Its own layout, a single
// stage on one GPU with data parallelism over all others, is a placeholder. `sets`: the settings of this cluster, size
// and framework.
struct PlanBase {
  Scenario scenario;
  std::vector<std::string> sets;
  std::size_t cluster = 0;  // index into PlanSpace::clusters, if there are any
  Support support;          // plus what the plan lists
};
struct PlanFile {
  const Files* files = nullptr;  // where it was read from
  std::string path;
  std::vector<std::string> sets;  // KEY=VALUE, as given
  PlanSpace space;
  std::vector<PlanBase> bases;     // by number of GPUs, ascending, then by cluster and framework
  std::vector<std::string> notes;  // what is searched otherwise than the file says, or not at all
  std::size_t unread = 0;          // bases that are missing, since somebody asked to stop

  std::string cluster_of(const PlanBase& base) const {
    return space.clusters.empty() ? base.scenario.concrete->cluster.name : space.clusters[base.cluster].name;
  }
};
// Up to `most`, ascending.
std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most);
// Names the file at a key from anywhere, if there is one: sections move away from the file that they are relative to.
const Node* with_whole_path(Context& context, const Node* root, std::string_view key);
// The clusters of `plan.clusters`. Errors are left in context.problems.
std::vector<PlanSpace::Cluster> read_plan_clusters(Context& context, const Node& list);
// Gives a profile to the clusters that have the GPU that it was measured on.
void give_profile(Context& context, std::vector<PlanSpace::Cluster>& clusters, const std::string& path);
// Framework profiles, by name or as mappings; each as one line of YAML. Nothing: auto.
std::optional<std::vector<std::string>> read_plan_framework(Context& context, const Node* node);
// Lets each base search what the plan lists and its framework lacks; notes say so.
void allow_listed(PlanFile& file);
// The sizes that `auto` means, in GPUs, ascending: those that some product of degrees of the space is, with stages of
// equally many layers, and at most one node for each sequence of the batch. `base`: a scenario on that cluster.
std::vector<std::int64_t> sizes_that_divide(const PlanSpace& space, const PlanSpace::Cluster& cluster,
                                            const Scenario& base, std::int64_t sequences);

// Throws UserError with all errors at once, including settings under which no layout can be changed. `profiles`: files
// of what was measured, for the clusters that have such GPUs. Work that is asked to stop (base/stopping.hpp) ends with
// the bases that it has, at least one.
PlanFile load_plan(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk(),
                   const std::vector<std::string>& profiles = {});

// The text of a scenario: the file with these keys set, without its section `plan` and with absolute file names, so
// that it can be read from anywhere.
std::string standalone(const std::string& path, const std::vector<std::string>& sets, const Files& files = disk());

}  // namespace rehearsal::scenario
