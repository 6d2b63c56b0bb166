// A scenario: the user's whole request, typed, checked and with all names resolved. No other folder reads YAML.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "cluster/faults.hpp"
#include "collective/size_curve.hpp"
#include "cost/profile.hpp"
#include "graph/detail.hpp"
#include "job/job.hpp"
#include "models/experts.hpp"
#include "models/transformer.hpp"
#include "plan/mesh.hpp"
#include "plan/parallelism.hpp"
#include "scenario/files.hpp"
#include "schedule/csv.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::scenario {

struct ScheduleChoice {
  std::string name = "1f1b";
  std::optional<std::uint32_t> group, extra_warmup, pieces, waves;
  std::optional<Time> time_limit;      // of searches
  std::optional<double> memory_limit;  // bytes of activations per rank (abstract scenarios: the unit of `memory`)
  // An order read from a file, named after that file, and its digest; null: the schedule `name`.
  std::shared_ptr<const schedule::Imported> imported;
  std::string imported_sha256;

  const schedule::Schedule& schedule() const { return imported ? imported->schedule : schedule::registry().at(name); }
  // Pieces that the schedule cuts each sequence into.
  std::uint32_t cut() const {
    return schedule().cuts_sequences ? (imported ? imported->pieces : pieces).value_or(schedule::kUsualPieces) : 1;
  }
  // Sets everything in a problem except sizes, times and memory.
  void set_knobs(schedule::Problem& problem) const {
    problem.group = group, problem.extra_warmup = extra_warmup, problem.pieces = pieces, problem.waves = waves;
    problem.time_limit = time_limit, problem.memory_limit = memory_limit;
    if (imported) problem.pieces = imported->pieces, problem.stage_ranks = imported->stage_ranks;
  }
};

// How the optimizer steps of the pipeline ranks agree on the gradient norm: behind a barrier, or afterwards while the
// next iteration is already running (Zero Bubble, arXiv 2401.10241, section 4).
struct OptimizerSync {
  bool post_validation = false;
  double rollback_probability = 0;  // that an iteration must be rolled back
  // Performed training: iterations in one graph, whose steps are all rolled back or none; 0 in predictions.
  int performed = 0;
};

// Contention between works. automatic: shared resources, wherever demand exceeds supply; off: every work has the
// machine to itself; on: always shared, with the same times as automatic.
enum class Contention : std::uint8_t { automatic, off, on };

struct Simulate {
  graph::Detail detail = graph::Detail::stage;
  Contention contention = Contention::automatic;
  bool symmetry = true;  // auto = true, off = every rank simulated
  int iterations = 1;
  std::uint64_t seed = 0;
};

// For teaching and for papers: a pipeline with given times and no model. Lists have one value per stage.
struct AbstractCosts {
  std::vector<Time> forward, backward, weight;
  Time transfer;
  std::vector<schedule::Edge> edges;            // ascending; empty: a chain
  std::vector<double> activation, weight_hold;  // empty = no `memory`
};

// Abstract memory may have any unit and fractions, but buffers are whole numbers: one unit is a million of them.
inline constexpr double kMemoryUnit = 1e6;
inline Bytes memory_units(double amount) { return bytes(amount * kMemoryUnit); }

struct Concrete {
  models::Transformer model;
  models::Training training;
  models::Framework framework;
  cluster::ClusterSpec cluster;
  collective::SizeCurves curves;
  std::shared_ptr<const cost::Profile> profile;  // of a machine that was measured; may be null
  plan::Partition partition;
  models::ExpertSettings experts;
};

// Measured over predicted time of published runs (error_band.hpp). Empty if none is relevant; `basis` begins by saying
// whether any is comparable.
struct ErrorBand {
  std::optional<double> low, high;
  bool comparable = false;
  std::string basis = "no published runs to compare with";
};
struct BandModel;

// Lines of the file to point at when a plan or a schedule is refused.
struct SourceLocations {
  Location layout, cluster, schedule;  // layout: `partition` if given, otherwise `parallelism`
  Location faults, data_parallel;
};

// A key given in the scenario file or by --set, not in the files that it names.
struct Given {
  std::string key;  // "cluster.links.scale_out.bandwidth"
  Location where;
};

// A framework that a scenario without one may mean, and the gradient precision that follows from it.
struct OtherFramework {
  models::Framework framework;
  Precision gradient_precision{};
};

struct Scenario {
  std::string name, file;
  SourceLocations places;
  std::string digest;  // SHA-256 of the resolved scenario, the same for YAML and JSON spellings
  plan::Parallelism parallelism;
  plan::Resharding resharding;
  plan::DataParallel data_parallel;
  plan::AxisOrder placement = plan::kUsualOrder;
  std::vector<cluster::Fault> faults;
  std::vector<std::uint32_t> on;  // the nodes used, on a cluster shared with other jobs (jobs_file.hpp); empty: all
  plan::Batch batch;
  ScheduleChoice schedule;
  OptimizerSync optimizer_sync;
  Simulate simulate;
  // Exactly one of the two.
  std::optional<Concrete> concrete;
  std::optional<AbstractCosts> abstract;
  std::optional<job::Job> job;                          // the training run that the step belongs to
  std::vector<std::shared_ptr<const Scenario>> phases;  // one for each of the job's, without a job
  std::shared_ptr<const BandModel> bands;               // what published runs say of predictions
  std::vector<Given> given;
  bool framework_named = false;
  std::vector<OtherFramework> other_framework;  // if it names none: the other candidates
  std::vector<std::string> assumptions, warnings;

  // Per pipeline and iteration.
  std::int64_t microbatches() const { return batch.global / (parallelism.data * batch.micro); }
};

// Reads one scenario file; `sets` are KEY=VALUE with dotted paths, applied before anything is checked. `backend`: whose
// profile of this machine is used if the scenario names none (profile.hpp).
// Throws UserError with all errors of the file, each with line and column.
Scenario load(const std::string& path, const std::vector<std::string>& sets = {}, const std::string& backend = "",
              const Files& files = disk());

// The same for a text; `origin` is its name in messages.
Scenario load_text(const std::string& text, const std::string& origin, const std::vector<std::string>& sets = {},
                   const Files& files = disk());

// A scenario that consists of settings alone, as a text with a line for each of its sections. Throws UserError.
std::string text_of(const std::vector<std::string>& sets, const std::string& origin, const Files& files = disk());

struct Named {
  std::string name, summary, source;
};
// The contents of configs/ and models/zoo/: kind = "models", "clusters", "gpus", "framework".
std::vector<Named> list(const std::string& kind, const Files& files = disk());

// A model of models/zoo.
models::Transformer named_model(const std::string& name, const Files& files = disk());

// One value of a configuration file as written there: "links.scale_up.bandwidth", "450GB/s". GPU and cluster files cite
// a source for every value except plain choices (a topology's name).
struct Constant {
  std::string key, value, source;
  bool assumed = false;  // not measured
};
// All values of one file of that kind, in file order; for a GPU also its measured constants (configs/profiles), under
// keys that begin with "measured".
std::vector<Constant> constants(const std::string& kind, const std::string& name, const Files& files = disk());

}  // namespace rehearsal::scenario
