// A scenario: everything a user asked, typed, checked and with every name resolved. YAML ends in this room.
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
  // An order read from a file, named after it, and the digest of that order; else the schedule of this name.
  std::shared_ptr<const schedule::Imported> imported;
  std::string imported_sha256;

  const schedule::Schedule& schedule() const { return imported ? imported->schedule : schedule::registry().at(name); }
  // Pieces that it cuts each sequence into.
  std::uint32_t cut() const {
    return schedule().cuts_sequences ? (imported ? imported->pieces : pieces).value_or(schedule::kUsualPieces) : 1;
  }
  // What a problem must hold besides sizes, times and memory.
  void set_knobs(schedule::Problem& problem) const {
    problem.group = group, problem.extra_warmup = extra_warmup, problem.pieces = pieces, problem.waves = waves;
    problem.time_limit = time_limit, problem.memory_limit = memory_limit;
    if (imported) problem.pieces = imported->pieces, problem.stage_ranks = imported->stage_ranks;
  }
};

// How the steps of the pipeline ranks agree on the norm of the gradient: behind a barrier, or afterwards, while the
// next iteration already runs (Zero Bubble, arXiv 2401.10241, section 4).
struct OptimizerSync {
  bool post_validation = false;
  double rollback_probability = 0;  // of an iteration whose steps must be taken back
  // Of training that is performed: so many iterations are one graph, whose steps are all taken back or none; 0 where
  // it is predicted.
  int performed = 0;
};

// What works take from each other: automatic shares wherever something is asked for more than it has; off: every work
// has the machine to itself; on: always shares, which gives the same times as automatic.
enum class Contention : std::uint8_t { automatic, off, on };

struct Simulate {
  graph::Detail detail = graph::Detail::stage;
  Contention contention = Contention::automatic;
  bool symmetry = true;  // auto = true, off = every rank simulated
  int iterations = 1;
  std::uint64_t seed = 0;
};

// Teaching and papers: a pipeline with given times and no model. Lists have one value per stage.
struct AbstractCosts {
  std::vector<Time> forward, backward, weight;
  Time transfer;
  std::vector<schedule::Edge> edges;            // ascending; empty: a chain
  std::vector<double> activation, weight_hold;  // empty = no `memory`
};

// Abstract memory comes in any unit, fractions included; buffers are whole numbers: one unit is a million of them.
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

// What published runs say of a prediction: measured over predicted. Where none is comparable, how far runs less like it
// were off, which is wider (run_class.hpp). Empty where no run says anything; `basis` begins with whether any is
// comparable.
struct ErrorBand {
  std::optional<double> low, high;
  // Whose runs: like this one; on GPUs of its generation; all that were published.
  enum class Among : std::uint8_t { comparable, generation, all };
  Among among = Among::comparable;
  std::string basis = "no published runs to compare with";
};

// Where the file says what a plan or a schedule may be refused for.
struct SourceLocations {
  Location layout, cluster, schedule;  // layout: `partition`, or else `parallelism`
  Location faults, data_parallel;
};

// A key of the file that asks, or of --set: not those of the files that it names.
struct Given {
  std::string key;  // "cluster.links.scale_out.bandwidth"
  Location where;
};

// A framework that a scenario may mean which names none, and the precision of gradients that follows from it.
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
  std::vector<std::uint32_t> on;  // the nodes of a cluster that others share (jobs_file.hpp); empty: all
  plan::Batch batch;
  std::int64_t microbatches = 1;  // per pipeline and iteration
  ScheduleChoice schedule;
  OptimizerSync optimizer_sync;
  Simulate simulate;
  // Exactly one of the two.
  std::optional<Concrete> concrete;
  std::optional<AbstractCosts> abstract;
  std::optional<job::Job> job;  // the training that the step is one of
  ErrorBand error_band;
  std::vector<Given> given;
  bool framework_named = false;
  std::vector<OtherFramework> other_framework;  // where it is not: what else may be meant (configs/default_frameworks.yaml)
  std::vector<std::string> assumptions, warnings;
};

// Reads one scenario file; `sets` are KEY=VALUE with dotted paths, applied before anything is checked. `backend`: whose
// profile of this machine counts, where the scenario names none (profile.hpp).
// Throws UserError with every error of the file at once, each with line and column.
Scenario load(const std::string& path, const std::vector<std::string>& sets = {}, const std::string& backend = "",
              const Files& files = disk());

// The same from a text; `origin` is what messages call it.
Scenario load_text(const std::string& text, const std::string& origin, const std::vector<std::string>& sets = {},
                   const Files& files = disk());

struct Named {
  std::string name, summary, source;
};
// What configs/ and models/zoo/ hold: kind = "models", "clusters", "gpus", "framework".
std::vector<Named> list(const std::string& kind, const Files& files = disk());

// A model of models/zoo.
models::Transformer named_model(const std::string& name, const Files& files = disk());

// One value of a configuration file as it stands there: "links.scale_up.bandwidth", "450GB/s". No value without a source
// in GPU and cluster files, but some that are plain choices (a topology's name).
struct Constant {
  std::string key, value, source;
  bool assumed = false;  // nobody measured it
};
// Every value of one file of that kind, in its order; of a GPU then what was measured of one (configs/profiles), with
// keys that begin with "measured".
std::vector<Constant> constants(const std::string& kind, const std::string& name, const Files& files = disk());

}  // namespace rehearsal::scenario
