// The loaders behind scenario::load, one per part of the file. Each reports errors and then returns nothing (or its
// defaults); parts are checked against each other only when both could be read.
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
  std::string backend;  // the backend whose profile of this machine is used; empty: any
  std::vector<std::string> assumptions;

  void assume(std::string text) { assumptions.push_back(std::move(text)); }
};

// The location of root.a.b, or of the last part of that path that exists.
Location place_of(const Node& root, std::string_view path);
// Resolves a file name given at `node`: relative to the file that contains it; from the command line, to the working
// directory.
std::string beside(const Node& node, const std::string& name);

// A part that may be a name, a mapping with `use: NAME` (the named file with some keys replaced) or an inline mapping.
struct Part {
  const Node* node = nullptr;  // the mapping to read; nullptr = an error was reported
  std::string name;            // "inline" for an inline mapping
  const Node* base = nullptr;  // the named file, if some of its keys are replaced
};
// Keys of every such mapping that identify it; read before the others.
inline constexpr const char* kAbout[] = {"use", "name", "summary", "source"};
// `folder`: below home, such as "configs/gpus"; `what`: for messages, such as "GPU".
Part resolve(Context& context, const Node& node, const std::string& folder, const std::string& what);
// A node that names a part, as if it were written at `place`.
const Node* name_at(Context& context, const Node& place, std::string name);
// The names of the files in a folder below home, sorted.
std::vector<std::string> names_in(const Context& context, const std::string& folder);

std::optional<models::Transformer> load_model(Context& context, const Node& node);
// Layers that are listed, into a model that says all else.
void load_layers(Diagnostics& problems, const Node& list, models::Transformer& model);
// Likewise from a pattern such as M-M*-, a letter for each half of a layer.
void load_pattern(Diagnostics& problems, const Node& text, models::Transformer& model);

struct GpuChoice {
  cluster::Gpu gpu;
  std::string flash_framework;  // if the scenario names none; empty: by configs/default_frameworks.yaml
  std::string like;             // a GPU of the files, of which it has what its data sheet does not say
};
std::optional<GpuChoice> load_gpu(Context& context, const Node& node);

// The links of a node: a name in configs/interconnects, such a file with some keys replaced, or a mapping that takes
// missing values from its `kind`.
std::optional<cluster::Interconnect> load_interconnect(Context& context, const Node& node);
// The value of `interconnect` in `links`, or nvlink-N for `generation: N` of older files; null if neither is given.
// `asked`: the reader of the other keys of that mapping.
const Node* said_interconnect(Context& context, const Node* links, MapReader* asked = nullptr);
// The default interconnect of a link kind, when nothing else is known.
std::optional<cluster::Interconnect> assumed_interconnect(Context& context, cluster::LinkKind kind, const Node& place);
std::optional<cluster::Library> load_library(Context& context, const Node& node);
std::optional<cluster::Library> library_of(Context& context, const cluster::Interconnect& links, const Node& place);

struct ClusterChoice {
  cluster::ClusterSpec spec;  // size_cluster sets nodes and topology
  collective::SizeCurves curves;
  std::shared_ptr<const cost::Profile> profile;
  std::string flash_framework;
  std::optional<std::int64_t> nodes, gpus;  // as the user asked
  const Node* node = nullptr;
};
std::optional<ClusterChoice> load_cluster(Context& context, const Node& node);
// `here`: the cluster that they are used on. A profile was measured on the machine itself and names no links.
std::optional<collective::SizeCurves> load_curves(Context& context, const Node& node,
                                                  const cluster::ClusterSpec* here = nullptr, bool of_profile = false);
std::optional<cost::Profile> load_profile(Context& context, const Node& root, const std::string& name);
// The profile of a cluster: `node` = its key `profile` (a file, or a name in configs/profiles) or nullptr; `cluster` =
// its name. Null if there is none or an error was reported.
std::shared_ptr<const cost::Profile> find_profile(Context& context, const Node* node, const std::string& cluster);

// For lists: constants in configs/profiles that were measured on a GPU of this type.
std::vector<Constant> measured_constants(Context& context, const std::string& gpu);

std::optional<models::Framework> load_framework(Context& context, const Node& node);
// The framework that `given` names, otherwise the first candidate of configs/default_frameworks.yaml; then the other
// candidates.
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

// `cluster`: already sized, so that faulty parts can be found in it; null if it could not be read.
std::vector<cluster::Fault> load_faults(Context& context, const Node& node, const cluster::ClusterSpec* cluster);

struct TrainingChoice {
  models::Training training;
  // Overrides of the framework profile.
  std::optional<bool> overlap_gradients, overlap_pipeline, overlap_tensor, early_stop;
  OptimizerSync optimizer_sync;
};
TrainingChoice load_training(Context& context, const Node* node, const Node& root);
// The keys of `training` that apply when stage times are given.
OptimizerSync load_given_training(Context& context, const Node* node, const Node& root);

struct ParallelismChoice {
  plan::Parallelism value;
  std::int64_t copies = 1;  // of the model; schedules in both directions train two
  bool vocabulary = false;  // both ends have stages of their own (schedule::Placement::vocabulary)
  std::int64_t stages() const { return value.stages() / (vocabulary ? 2 : copies); }  // of the layers of one copy
  bool data_given = false;
  MapReader reader;   // for the locations of its keys
  bool sound = true;  // if false, checks that build on the degrees would repeat errors already reported
};
ParallelismChoice load_parallelism(Context& context, const Node* node, const Node& root);
// Adds per-stage layouts to the degrees already read.
void load_stages(Context& context, const Node& node, ParallelismChoice& parallelism);
// The location of a stage's entry, and the samples that the layouts give a micro-batch.
Location place_of_stage(const Node& root, std::size_t stage);
void check_layouts(Context& context, const Node& root, const Scenario& scenario, const ParallelismChoice& parallelism);

// Lengths of documents, and what may be said with them alone; sequence and the other keys of `batch` are read.
void load_lengths(Context& context, MapReader& map, plan::Batch& batch);

// How tokens are routed to the experts of a model; `node` may be null.
models::ExpertSettings load_experts(Context& context, const Node* node, const Node& root,
                                    const std::optional<models::Transformer>& model);
// Expert loads, layer by layer; empty after an error.
std::vector<std::vector<double>> read_loads(Context& context, const Node* node, const std::string& what);

ScheduleChoice load_schedule(Context& context, const Node* node, bool abstract);
// Checks that the schedule supports these ranks, chunks and micro-batches; errors point at `schedule` or the degree.
void check_schedule(Context& context, const ScheduleChoice& choice, const Node* node,
                    const ParallelismChoice& parallelism, std::int64_t microbatches);
plan::Partition load_partition(Context& context, const Node* node, std::int64_t stages,
                               const std::optional<models::Transformer>& model);
AbstractCosts load_costs(Context& context, const Node& costs, const Node* memory, std::size_t stages,
                         ScheduleChoice& schedule);

// Refuses what native kernels (framework with `native_kernels`) cannot do, and, for other frameworks, what only they
// can. `root` is the whole file, for locations.
void check_kept(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                const models::Training& training, const models::Framework& framework, std::int64_t tensor);
void check_kernels(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                   const TrainingChoice& training, const models::Framework& framework,
                   const ParallelismChoice& parallelism, const models::ExpertSettings& experts);

// Reconciles nodes, GPUs and the data-parallel degree. `more_nodes`: parameter-server nodes besides those of the job's
// mesh; on a cluster without NICs, which has a single node, a number of GPUs.
void size_cluster(Context& context, ClusterChoice& cluster, ParallelismChoice& parallelism, std::int64_t more_nodes);

// How far published runs were from their predictions (error_band.hpp); nullptr after an error.
std::shared_ptr<const BandModel> read_band_model(Context& context);

std::string digest(const Scenario& scenario);

// A resharding question (reshard_file.hpp) is recognised by its keys: no `version`, but tasks or meshes.
bool is_reshard(const Node& root);
reshard::Question read_reshard(Context& context, const std::string& path, const Node& root);

// The name of a file with the changes of --set, so that no report shows outdated values.
std::string title(const std::string& name, const std::vector<std::string>& sets);

// The phases of the job, if it has some; after all else that a phase may change.
void load_phases(Context& context, const std::string& path, const Node& root, Scenario& scenario);

// Reads the whole file; errors are left in context.problems. `path` names the scenario.
Scenario read_scenario(Context& context, const std::string& path, const Node& root);

}  // namespace rehearsal::scenario
