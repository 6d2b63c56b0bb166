// The loaders behind scenario::load, one per part of the file. Each reports what is wrong and returns nothing (or its
// defaults) then; the parts are checked against each other only where both could be read.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenario/reader.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::reshard {
struct Question;
}

namespace rehearsal::scenario {

struct Context {
  explicit Context(const Files& from) : files(from), documents(problems, from), home(from.home()) {}

  const Files& files;
  Diagnostics problems;
  Documents documents;
  std::string home;
  std::string backend;  // whose profile of this machine counts; empty: any
  std::vector<std::string> assumptions;

  void assume(std::string text) { assumptions.push_back(std::move(text)); }
};

// The place of root.a.b, or of the last part of that path that is given.
Location place_of(const Node& root, std::string_view path);
// A file that is named at `node`: relative to the file that says so, from the command line to where the program runs.
std::string beside(const Node& node, const std::string& name);

// A part that may be a name, a mapping with `use: NAME` (the named file with some keys replaced) or an inline mapping.
struct Part {
  const Node* node = nullptr;  // the mapping to read; nullptr = an error was reported
  std::string name;            // "inline" for an inline mapping
  const Node* base = nullptr;  // the named file where some of its keys are replaced
};
// Keys of every such mapping that say what it is; read before the others.
inline constexpr const char* kAbout[] = {"use", "name", "summary", "source"};
// `folder` below home, such as "configs/gpus"; `what` for messages, such as "GPU".
Part resolve(Context& context, const Node& node, const std::string& folder, const std::string& what);
// The names of the files in a folder below home, sorted.
std::vector<std::string> names_in(const Context& context, const std::string& folder);

std::optional<models::Transformer> load_model(Context& context, const Node& node);

struct GpuChoice {
  cluster::Gpu gpu;
  std::string flash_framework;  // where a scenario names none; empty: by configs/default_frameworks.yaml
};
std::optional<GpuChoice> load_gpu(Context& context, const Node& node);

// What the links of a node are: a name in configs/interconnects, that with some keys replaced, or a mapping whose `kind`
// gives what it leaves out.
std::optional<cluster::Interconnect> load_interconnect(Context& context, const Node& node);
// What `links` says of that: its `interconnect`, or `generation: N` of older files for nvlink-N; null: nothing.
// `asked`: who reads the other keys of that mapping.
const Node* said_interconnect(Context& context, const Node* links, MapReader* asked = nullptr);
// That of links of which nothing more is known.
std::optional<cluster::Interconnect> assumed_interconnect(Context& context, cluster::LinkKind kind, const Node& place);
std::optional<cluster::Library> load_library(Context& context, const Node& node);
std::optional<cluster::Library> library_of(Context& context, const cluster::Interconnect& links, const Node& place);

struct ClusterChoice {
  cluster::ClusterSpec spec;  // nodes and topology are settled by size_cluster
  collective::SizeCurves curves;
  std::shared_ptr<const cost::Profile> profile;
  std::string flash_framework;
  std::optional<std::int64_t> nodes, gpus;  // as the user asked
  const Node* node = nullptr;
};
std::optional<ClusterChoice> load_cluster(Context& context, const Node& node);
// `here`: the cluster that they are for. A profile was measured on the machine itself and names no links.
std::optional<collective::SizeCurves> load_curves(Context& context, const Node& node,
                                                  const cluster::ClusterSpec* here = nullptr,
                                                  bool of_profile = false);
std::optional<cost::Profile> load_profile(Context& context, const Node& root, const std::string& name);
// The profile of a cluster: `node` = its key `profile` (a file, or a name in configs/profiles) or nullptr; `cluster` =
// its name. Null when there is none, or an error was reported.
std::shared_ptr<const cost::Profile> find_profile(Context& context, const Node* node, const std::string& cluster);

// Constants of profiles in configs/profiles that were measured on a GPU of this type, for lists.
std::vector<Constant> measured_constants(Context& context, const std::string& gpu);

std::optional<models::Framework> load_framework(Context& context, const Node& node);
// The framework: the one that `given` names, else the first that may be meant (configs/default_frameworks.yaml), and then what
// else may be.
struct ParallelismChoice;
struct TrainingChoice;
struct FrameworkChoice {
  std::optional<models::Framework> framework;  // none after an error
  Precision gradient_precision{};
  bool named = false;
  std::vector<OtherFramework> others;
};
FrameworkChoice choose_framework(Context& context, const Node* given, const Node& root, const TrainingChoice& training,
                               const Node* training_node, const ParallelismChoice& parallelism,
                               const std::optional<ClusterChoice>& cluster);

// `cluster`: of the right size, so that parts can be looked for; null where it could not be read.
std::vector<cluster::Fault> load_faults(Context& context, const Node& node, const cluster::ClusterSpec* cluster);

std::optional<job::Job> load_job(Context& context, const Node& node);

struct TrainingChoice {
  models::Training training;
  // What wins over the framework profile.
  std::optional<bool> overlap_gradients, overlap_pipeline, overlap_tensor, early_stop;
  OptimizerSync optimizer_sync;
};
TrainingChoice load_training(Context& context, const Node* node, const Node& root);
// What of `training` has a meaning where times are given.
OptimizerSync load_given_training(Context& context, const Node* node, const Node& root);

struct ParallelismChoice {
  plan::Parallelism value;
  std::int64_t copies = 1;  // of the model; schedules in both directions train two
  std::int64_t stages() const { return value.stages() / copies; }  // of one of them
  bool data_given = false;
  MapReader reader;   // for the places of its keys
  bool sound = true;  // else checks that build on the degrees would only repeat what was said
};
ParallelismChoice load_parallelism(Context& context, const Node* node, const Node& root);
// Layouts of their own for the stages, into the degrees that were read.
void load_stages(Context& context, const Node& node, ParallelismChoice& parallelism);
// The entry of a stage, and what these make of a micro-batch.
Location place_of_stage(const Node& root, std::size_t stage);
void check_layouts(Context& context, const Node& root, const Scenario& scenario, const ParallelismChoice& parallelism);
plan::Resharding load_resharding(Context& context, const Node* node, const Node& root);
plan::DataParallel load_data_parallel(Context& context, const Node* node, const Node& root);

// How tokens are routed to the experts of a model; `node` may be null.
models::ExpertSettings load_experts(Context& context, const Node* node, const Node& root,
                                    const std::optional<models::Transformer>& model);
// Loads of experts, layer by layer; empty after an error.
std::vector<std::vector<double>> read_loads(Diagnostics& problems, const Node* node, const std::string& what);

ScheduleChoice load_schedule(Context& context, const Node* node, bool abstract);
// Whether the schedule takes these ranks, chunks and micro-batches; reported at `schedule` or at the degree.
void check_schedule(Context& context, const ScheduleChoice& choice, const Node* node,
                    const ParallelismChoice& parallelism, std::int64_t microbatches);
plan::Partition load_partition(Context& context, const Node* node, std::int64_t stages,
                               const std::optional<models::Transformer>& model);
// `iterations`: the default.
Simulate load_simulate(Context& context, const Node* node, const Node& root, int iterations);
AbstractCosts load_costs(Context& context, const Node& costs, const Node* memory, std::size_t stages,
                         ScheduleChoice& schedule);

// What this program's own kernels can do (framework with `native_kernels`), and what nothing else can. `root` is the whole
// file, for places.
void check_kernels(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                   const TrainingChoice& training, const models::Framework& framework,
                   const ParallelismChoice& parallelism, const models::ExpertSettings& experts);

// Settles nodes, GPUs and the data-parallel degree against each other. `more_nodes`: beside those of the job's mesh,
// for servers; of a cluster without NICs, which has one node, so many GPUs.
void size_cluster(Context& context, ClusterChoice& cluster, ParallelismChoice& parallelism, std::int64_t more_nodes);

// What published runs say about predictions like this one (configs/error_bands.yaml).
void load_error_band(Context& context, Scenario& scenario);

std::string digest(const Scenario& scenario);

// A question of resharding (reshard_file.hpp) is known by its keys: it has no `version`, but tasks or meshes.
bool is_reshard(const Node& root);
reshard::Question read_reshard(Context& context, const std::string& path, const Node& root);

// The name of a file, and what --set has changed of it, so that no report says what is not so any more.
std::string title(const std::string& name, const std::vector<std::string>& sets);

// The whole file; what is wrong is left in context.problems. `path` names the scenario.
Scenario read_scenario(Context& context, const std::string& path, const Node& root);

}  // namespace rehearsal::scenario
