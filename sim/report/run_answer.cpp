// What `run` and `measure` answer, described once. A new figure is a line here.
#include <algorithm>

#include "base/program.hpp"
#include "report/figures.hpp"
#include "report/job_report.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

using answer::Summary;

// Pairs of name and amount, for each category.
template <class Category, class Parts>
auto by_category(const Parts& parts) {
  std::vector<std::pair<const char*, std::remove_cvref_t<decltype(parts[0])>>> all;
  for (std::size_t c = 0; c < parts.size(); c++) all.emplace_back(graph::name(static_cast<Category>(c)), parts[c]);
  return all;
}
auto held(const timeline::MemoryByCategory& memory, double unit = 1) {
  std::vector<std::pair<const char*, double>> all;
  for (const auto& [name, size] : by_category<graph::MemoryCategory>(memory))
    all.emplace_back(name, double(size.count()) / unit);
  return all;
}
auto by_axis(const answer::AxisBytes& bytes) {
  std::vector<std::pair<const char*, double>> all;
  for (const auto& [name, part] : answer::AxisBytes::parts()) all.emplace_back(name, bytes.*part);
  return all;
}

Shown<answer::MemoryFigures> memory_figures() {
  using answer::MemoryFigures;
  return Shown<MemoryFigures>("The largest over the ranks; null where it is not modelled.")
      .figure("allocated", Unit::bytes, "allocated", "live buffers", &MemoryFigures::allocated)
      .figure("reserved", Unit::bytes, "reserved", "what the allocator holds for them", &MemoryFigures::reserved)
      .figure("device", Unit::bytes, "memory of a GPU", "with context and communicators", &MemoryFigures::device);
}

struct RankOf {
  const answer::RankSummary& rank;
  bool abstract;
};
std::vector<RankOf> ranks_of(const Summary& s) {
  std::vector<RankOf> all;
  for (const auto& rank : s.ranks) all.push_back({rank, s.abstract});
  return all;
}
Shown<RankOf> rank() {
  const auto of_rank = [](auto member) {
    return [member](const RankOf& r) -> decltype(auto) { return std::invoke(member, r.rank); };
  };
  using answer::RankSummary;
  return Shown<RankOf>("Ranks of the graph; each may stand for others that do the same.")
      .figure("rank", "rank", "rank of the job", of_rank(&RankSummary::rank))
      .figure("count", "count", "ranks that do the same, this one included", of_rank(&RankSummary::count))
      .figure("stages", "stages", "of the pipeline that it holds", of_rank(&RankSummary::stages))
      .figure("node", "node", "where it is", of_rank(&RankSummary::node))
      .figure("busy_s", Unit::seconds, "busy", "time in which it computes", of_rank(&RankSummary::busy))
      .group("peak_memory_bytes", memory_figures(), of_rank(&RankSummary::peak))
      .named("memory_bytes", Unit::bytes, "memory", "at the peak, by what it holds (given pipelines: their unit)",
             [](const RankOf& r) { return held(r.rank.memory, r.abstract ? scenario::kMemoryUnit : 1.); })
      .figure("allocator_retries", "retries", "times an iteration that the allocator gives cached memory back",
              of_rank(&RankSummary::allocator_retries));
}

// The device per GPU; other tiers per node, since its GPUs share them.
struct TierOf {
  const Summary& summary;
  const answer::TierSummary* beyond = nullptr;  // null: the device
};
std::optional<std::vector<std::pair<const char*, TierOf>>> tiers_of(const Summary& s) {
  if (s.abstract) return std::nullopt;
  std::vector<std::pair<const char*, TierOf>> all{{name(Tier::device), {s}}};
  for (const auto& t : s.tiers) all.push_back({name(t.tier), {s, &t}});
  return all;
}
Shown<TierOf> tier() {
  using answer::TierSummary;
  const auto either = [](auto device, auto beyond) {
    return [device, beyond](const TierOf& t) {
      return t.beyond ? shown::json_of(std::invoke(beyond, *t.beyond), Unit::bytes)
                      : shown::json_of(std::invoke(device, t.summary), Unit::bytes);
    };
  };
  const auto beyond = [](auto get) { return [get](const TierOf& t) { return t.beyond ? get(*t.beyond) : Json(); }; };
  return Shown<TierOf>("Memory by tier: the device of a GPU; host and disks of a node.")
      .figure("peak_bytes", Unit::bytes, "a node", "at the peak",
              either([](auto& s) { return s.peak.device; }, &TierSummary::per_node))
      .figure("peak_per_gpu_bytes", Unit::bytes, "a GPU", "beyond the device: of the GPU that uses the tier most",
              beyond([](const TierSummary& t) { return number(t.per_gpu); }))
      .or_left_out()
      .figure("capacity_bytes", Unit::bytes, "capacity of a node", "null: not given",
              either(&Summary::capacity, &TierSummary::capacity))
      .figure("fits", "fits", "whether the peak is within it", either(&Summary::fits_device, &TierSummary::fits))
      .figure("narrow", "narrowly", "of the device: so near that published runs went either way",
              [](const TierOf& t) { return !t.beyond && t.summary.fits_device ? Json(t.summary.narrow()) : Json(); })
      .or_left_out()
      .figure("memory_bytes", Unit::bytes, "memory", "beyond the device: what it holds at the peak",
              beyond([](const TierSummary& t) {
                auto parts = Json::object();
                for (const auto& [name, amount] : held(t.at_peak)) parts.append(name, number(amount));
                return parts;
              }))
      .or_left_out();
}

Shown<answer::OffloadEfficiency> efficiency() {
  using answer::OffloadEfficiency;
  return Shown<OffloadEfficiency>("The share of the step that computes, where states have left the device.")
      .figure("simulated", Unit::share, "computes", "as predicted", &OffloadEfficiency::simulated)
      .group(
          "closed_form",
          Shown<OffloadEfficiency>("Without overlap, for each state alone (ZeRO-Infinity, eq. 6) and together.")
              .figure("parameters", Unit::share, "parameters", "alone", [](auto& e) { return number(e.parameters); })
              .figure("optimizer", Unit::share, "optimizer", "alone", [](auto& e) { return number(e.optimizer); })
              .figure("activations", Unit::share, "activations", "alone", [](auto& e) { return number(e.activations); })
              .figure("together", Unit::share, "together", "", &OffloadEfficiency::together),
          [](const OffloadEfficiency& e) -> const OffloadEfficiency& { return e; });
}

Shown<answer::Served> served() {
  using answer::Served;
  return Shown<Served>("Parameter servers.")
      .figure("count", "servers", "", &Served::servers)
      .figure("steps_per_s", "steps a second", "iterations of all workers", &Served::steps_per_s)
      .group("staleness",
             Shown<Served>("Age of the parameters that gradients were computed from, when these are added.")
                 .figure("mean", "mean", "", &Served::staleness_mean)
                 .figure("max", "most", "", &Served::staleness_max)
                 .figure("unit", "unit", "", [](auto&) { return "steps of all workers"; })
                 .figure("update", "update", "",
                         [](auto& s) {
                           return s.by_worker ? "one worker's gradients" : "the sum of all workers' gradients";
                         }),
             [](const Served& s) -> const Served& { return s; })
      .figure("versions", "versions", "of the parameters in use at once", &Served::versions)
      .figure("updates_per_sample", "updates a sample", "", &Served::updates_per_sample);
}

Shown<answer::LinkTraffic> link() {
  using answer::LinkTraffic;
  return Shown<LinkTraffic>("The busiest links, one of each class of equal ones.")
      .figure("name", "busiest links", "of the first of its class", &LinkTraffic::name)
      .figure("count", "alike", "each direction of a cable is a link", &LinkTraffic::count)
      .figure("bytes", Unit::bytes, "bytes over each", "in an iteration", &LinkTraffic::bytes)
      .figure("busy_share", Unit::share, "busy", "bytes / (rate x iteration)", &LinkTraffic::busy_share);
}

Shown<answer::TrafficSummary> traffic() {
  using answer::TrafficSummary, answer::DataParallelTraffic;
  return Shown<TrafficSummary>("What leaves a GPU's memory for another GPU in an iteration.")
      .named("per_gpu_bytes", Unit::bytes, "a GPU sends", "the most of a GPU, by axis",
             [](auto& t) { return by_axis(t.per_gpu); })
      .named("all_gpus_bytes", Unit::bytes, "all GPUs send", "the sum, by axis",
             [](auto& t) { return by_axis(t.all_gpus); })
      .group("data_parallel",
             Shown<DataParallelTraffic>("Of the GPU that sends most over the data axis.")
                 .figure("bytes", Unit::bytes, "data", "", &DataParallelTraffic::bytes)
                 .figure("closed_form_bytes", Unit::bytes, "in theory", "", &DataParallelTraffic::closed_form_bytes)
                 .figure("form", "form", "of the theory: 2 Psi", &DataParallelTraffic::form)
                 .figure("parameters", Unit::bytes, "Psi", "parameters", &DataParallelTraffic::parameters),
             &TrafficSummary::data_parallel)
      .rows("links", link(), &TrafficSummary::links);
}

Shown<lower::StageTransfers::Volume> volume() {
  using Volume = lower::StageTransfers::Volume;
  return Shown<Volume>("For each micro-batch.")
      .figures(Unit::none, "messages", &Volume::messages, "bytes", &Volume::bytes)
      .figure("nic_bytes", "over NICs", "", &Volume::out_of_domains);
}

using StageEdge = answer::LoweredJob::StageEdge;
Shown<StageEdge> stage_edge() {
  return Shown<StageEdge>("Messages between stages with layouts of their own, or with inputs from stages further off.")
      .figure("from", "from", "stage", &StageEdge::from)
      .figure("to", "to", "stage", &StageEdge::to)
      .figure("values", "values", "", &StageEdge::values)
      .group("forward", volume(), &StageEdge::forward)
      .group("backward", volume(), &StageEdge::backward)
      .figure("transfer_s", Unit::seconds, "alone", "time of a transfer that nothing disturbs", &StageEdge::transfer);
}

Shown<Result> faults() {
  using answer::Faulted;
  const auto faulted = [](auto member) {
    return [member](const Result& r) -> decltype(auto) { return std::invoke(member, *r.faulted); };
  };
  return Shown<Result>("What the faults of the machine cost.")
      .figure("without_s", Unit::seconds, "on a sound machine", "", faulted(&Faulted::without))
      .figure("cost_s", Unit::seconds, "cost", "", [](auto& r) { return r.summary.iteration - r.faulted->without; })
      .figure("anomaly", "anomaly", "with a fault the iteration is shorter", faulted(&Faulted::anomaly))
      .rows("each",
            Shown<Faulted::Cost>("By which the iteration would be shorter if only this were repaired.")
                .figure("fault", "fault", "", &Faulted::Cost::fault)
                .figure("cost_s", Unit::seconds, "cost", "", &Faulted::Cost::cost),
            faulted(&Faulted::each))
      .rows("waits",
            Shown<Faulted::Waits>("GPUs that wait for a group with a slow GPU.")
                .figures(Unit::none, "for_rank", &Faulted::Waits::awaited, "node", &Faulted::Waits::node)
                .figure("group", "group", "", [](auto& w) { return name(w.axes); })
                .figure("gpus", "GPUs", "that wait", &Faulted::Waits::gpus)
                .figure("mean_s", Unit::seconds, "mean", "of a waiting GPU", &Faulted::Waits::mean)
                .figure("most_s", Unit::seconds, "most", "of a waiting GPU", &Faulted::Waits::most),
            faulted(&Faulted::waits));
}

Shown<Result> error_band() {
  const auto end = [](auto member) {
    return [member](const Result& r) -> std::optional<double> {
      const auto& at = r.summary.error_band.*member;
      if (r.measured || !at) return std::nullopt;
      return *at * to_seconds(r.summary.iteration);
    };
  };
  return Shown<Result>("Where 80 % of the runs that are like this one were measured.")
      .figure("low_s", Unit::seconds, "from", "", end(&scenario::ErrorBand::low))
      .figure("high_s", Unit::seconds, "to", "", end(&scenario::ErrorBand::high))
      .figure("comparable", "comparable", "whether any published run is like this one",
              [](auto& r) {
                return r.measured || !r.summary.error_band.low ? Json() : Json(r.summary.error_band.comparable);
              })
      .figure("basis", "basis", "in words",
              [](auto& r) { return r.measured ? std::string("measured, not predicted") : r.summary.error_band.basis; });
}

Shown<Summary::Model> model() {
  using Model = Summary::Model;
  return Shown<Model>("The model; null for a pipeline with given times.")
      .figure("name", "model", "", &Model::name)
      .figure("parameters", "parameters", "all of them", [](auto& m) { return number(m.parameters); })
      .figure("active_parameters", "active", "those that a token meets", [](auto& m) { return number(m.active); })
      .figure("layers", "layers", "", &Model::layers)
      .figure("hidden", "hidden", "width of a layer", &Model::hidden)
      .figure("sequence", "sequence", "tokens", &Model::sequence);
}

Shown<Summary> headline() {
  using answer::Contended;
  using Useful = Summary::Useful;
  return Shown<Summary>()
      .group("model", model(), &Summary::model)
      .figure("parameters", "parameters", "of the model",
              [](auto& s) { return s.model ? number(s.model->parameters) : Json(); })
      .figure("iteration_s", Unit::seconds, "iteration", "time of an iteration", &Summary::iteration)
      .figure("samples_per_s", "sequences a second", "", &Summary::samples_per_s)
      .figure("tokens_per_s", "tokens a second", "", &Summary::tokens_per_s)
      .figure("model_tflops_per_gpu", "TFLOP/s of a GPU", "of the model's own operations",
              &Summary::model_tflops_per_gpu)
      .figure("hardware_tflops_per_gpu", "with recomputation", "TFLOP/s of all operations",
              &Summary::hardware_tflops_per_gpu)
      .figure("mfu", Unit::share, "MFU", "share of the peak that the model uses", &Summary::mfu)
      .figure("hfu", Unit::share, "HFU", "the same with recomputation", &Summary::hfu)
      .figure("bubble_rate", Unit::share, "idle", "share of the step in which the busiest rank waits",
              &Summary::bubble_rate)
      .group("useful",
             Shown<Useful>("With loss scaling, of which some steps overflow and train nothing.")
                 .figure("overflow_rate", Unit::share, "overflow", "share of the steps", &Useful::overflow_rate)
                 .figure("skipped_step_s", Unit::seconds, "skipped step", "", &Useful::skipped)
                 .figure("step_s", Unit::seconds, "useful", "of a step that trains, with its share of others",
                         &Useful::step),
             &Summary::useful)
      .group("peak_memory_bytes", memory_figures(), &Summary::peak)
      .figure("model_states_bytes", Unit::bytes, "model states",
              "parameters, gradients and optimizer states of the GPU that holds most", answer::model_states)
      .figure("fits", "fits", "whether the memory suffices on every tier", &Summary::fits)
      .named_rows("tiers", tier(), tiers_of)
      .group("offload_efficiency", efficiency(), &Summary::offload_efficiency)
      .figure("gpus", "GPUs", "given pipelines: ranks", &Summary::gpus)
      .figure("microbatches", "micro-batches", "of a pipeline", &Summary::microbatches)
      .named("breakdown_s", Unit::seconds, "time", "where the time goes on the rank that ends last",
             [](auto& s) { return by_category<graph::Category>(s.breakdown); })
      .figure("contention_s", Unit::seconds, "contention", "by which it lengthens the iteration", &Summary::contention)
      .rows("contention",
            Shown<Contended>("The most contended resources.")
                .figure("resource", "resource", "", &Contended::name)
                .figure("count", "alike", "", &Contended::count)
                .figure("slowed_s", Unit::seconds, "slowed", "of each", &Contended::slowed)
                .figure("busy_share", Unit::share, "busy", "", &Contended::busy),
            &Summary::contended);
}

Shown<Summary> provenance() {
  return Shown<Summary>("Who answers.")
      .figure("version", "version", "", [](auto&) { return program_version(); })
      .figure("backend", "backend", "", &Summary::backend)
      .figure("fidelity", "fidelity", "simulated or measured", [](auto& s) { return timeline::name(s.fidelity); })
      .figure("engine", "engine", "", &Summary::engine);
}
Shown<Summary> scenario_named() {
  return Shown<Summary>("What was asked.")
      .figure("name", "scenario", "", &Summary::name)
      .figure("file", "file", "", &Summary::file)
      .figure("digest", "digest", "of all settings", &Summary::digest);
}

struct Other {
  const answer::FrameworkTime& time;
  Time iteration;
};
std::vector<Other> others(const Result& r) {
  std::vector<Other> all;
  for (const auto& time : r.other_framework) all.push_back({time, r.summary.iteration});
  return all;
}

}  // namespace

Shown<answer::Contended> contended_resource() {
  using answer::Contended;
  return Shown<Contended>("The most contended resources.")
      .figure("resource", &Contended::name)
      .figure("count", Unit::none, "alike", "", &Contended::count)
      .figure("slowed_s", Unit::seconds, "slowed", "of each", &Contended::slowed)
      .figure("busy_share", Unit::share, "busy", "", &Contended::busy);
}

Shown<Summary> who_and_what() {
  const auto itself = [](const Summary& s) -> const Summary& { return s; };
  return Shown<Summary>().group("rehearsal", provenance(), itself).group("scenario", scenario_named(), itself);
}

const Shown<Result>& run_answer() {
  using answer::PathSegment;
  static const Shown<Result> kAnswer =
      Shown<Result>("A step: predicted (run) or performed (measure).")
          .also(who_and_what(), &Result::summary)
          .also(headline(), &Result::summary)
          .group("faults", faults(), [](auto& r) { return r.faulted ? &r : nullptr; })
          .also(Shown<Summary>()
                    .group("servers", served(), &Summary::served)
                    .rows("ranks", rank(), ranks_of)
                    .group("traffic", traffic(), &Summary::traffic),
                &Result::summary)
          .rows("stage_edges", stage_edge(), [](auto& r) { return r.lowered ? &r.lowered->edges : nullptr; })
          .group("error_band", error_band(), [](auto& r) { return &r; })
          .figure("software", "framework", "its profile",
                  [](auto& r) { return r.summary.abstract ? Json() : Json(r.summary.framework); })
          .figure("software_named", "named", "whether the scenario names it",
                  [](auto& r) { return r.summary.abstract ? Json() : Json(r.summary.framework_named); })
          .rows("other_software",
                Shown<Other>("If the scenario names none: the same step with each framework that may be meant.")
                    .figure("software", "framework", "", [](auto& o) { return o.time.framework; })
                    .figure("iteration_s", Unit::seconds, "iteration", "", [](auto& o) { return o.time.iteration; })
                    .figure("iteration_change", Unit::share, "longer", "than with the one that is assumed",
                            [](auto& o) { return o.time.iteration / o.iteration - 1; })
                    .figure("contention", "contention", "whether it counts", [](auto& o) { return o.time.contention; }),
                others)
          .rows("critical_path",
                Shown<PathSegment>("The chain of tasks that the end waits for.")
                    .figure("rank", "rank", "", &PathSegment::rank)
                    .figure("what", "task", "", &PathSegment::what)
                    .figure("start_s", Unit::seconds, "from", "", &PathSegment::start)
                    .figure("end_s", Unit::seconds, "to", "", &PathSegment::end)
                    .figure("tasks", "tasks", "", &PathSegment::tasks),
                [](auto& r) { return &r.summary.critical_path; })
          .figure("assumptions", "assumptions", "those that move the answer most come first", &Result::assumptions)
          .figure("warnings", "warnings", "", &Result::warnings)
          .group(
              "job", job_answer(), [](auto& r) -> auto& { return r.summary.job; })
          .or_left_out()
          .also(measured_answer());
  return kAnswer;
}

Json to_json(const Result& run) { return run_answer().json(run); }

std::string run_json(std::span<const Result> answers) {
  Json json = Json::array();
  for (const auto& answer : answers) json.push_back(to_json(answer));
  return (answers.size() == 1 ? json.items().front() : json).dump(2) + "\n";
}

std::string run_csv(std::span<const Result> answers) {
  // The last are of the rank with the highest peak, at that time.
  static const auto kColumns = csv_columns(
      "name=/scenario/name file=/scenario/file gpus microbatches iteration_s samples_per_s tokens_per_s "
      "model_tflops_per_gpu hardware_tflops_per_gpu mfu hfu bubble_rate allocated_bytes=/peak_memory_bytes/allocated "
      "reserved_bytes=/peak_memory_bytes/reserved device_bytes=/peak_memory_bytes/device fits *_s=/breakdown_s "
      "*_bytes_per_gpu=/traffic/per_gpu_bytes data_closed_form_bytes=/traffic/data_parallel/closed_form_bytes "
      "busiest_link=/traffic/links/0/name busiest_link_share=/traffic/links/0/busy_share "
      "*_memory_bytes=/fullest/memory_bytes");
  std::vector<Json> rows;
  for (const auto& answer : answers) {
    auto& row = rows.emplace_back(to_json(answer));
    const auto& ranks = row.find("ranks")->items();
    const auto fullest = std::max_element(ranks.begin(), ranks.end(), [](const Json& a, const Json& b) {
      return find(a, "/peak_memory_bytes/allocated")->real() < find(b, "/peak_memory_bytes/allocated")->real();
    });
    if (fullest != ranks.end()) row.append("fullest", *fullest);
  }
  return csv(kColumns, rows);
}

}  // namespace rehearsal::report
