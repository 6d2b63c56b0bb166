#include "scenario/fields.hpp"

#include "cluster/fields.hpp"
#include "collective/fields.hpp"
#include "models/fields.hpp"
#include "plan/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::scenario {

using namespace fields;

constexpr double kMost = 1e9;

const Description& schedule_fields() {
  using S = ScheduleChoice;
  static const Description all = describe<S>(
      {}, field<&S::name>("name", name_of("schedule"), kDefault, ""),
      field<&S::group>("group", whole(1, kMost), std::nullopt,
                       "micro-batches per group of an interleaved schedule (pipeline)"),
      absence_means(field<&S::extra_warmup>("extra_warmup", whole(0, kMost), std::nullopt,
                                            "additional warm-up forwards per rank (0)"),
                    std::int64_t{0}),
      field<&S::pieces>("pieces", whole(1, kMost), std::nullopt, "pieces per sequence, for seq1f1b"),
      field<&S::waves>("waves", whole(1, kMost), std::nullopt, "waves, for hanayo"),
      or_null(field<&S::time_limit>("time_limit", time(), std::nullopt, "for schedules that are searched")),
      or_null(
          or_also(field<&S::memory_limit>(
                      "memory_limit", positive(), std::nullopt,
                      "limit on a rank's activations, such as 60GB; with `costs`, a number in the unit of `memory`"),
                  {size()})),
      aside<&S::imported>("its digest counts"), settled(field<&S::imported_sha256>("order", text(), kDefault, "")));
  return all;
}

const Description& optimizer_sync_fields() {
  using O = OptimizerSync;
  static const Description all = describe<O>(
      {},
      choice<&O::post_validation>(
          "optimizer_sync", {{"barrier", false}, {"post-validation", true}}, kDefault,
          "barrier: all ranks agree on the gradient norm before any of them steps; post-validation: they step at once "
          "and check during the next warm-up (Zero Bubble), so iterations overlap"),
      field<&O::rollback_probability>("rollback_probability", number(0, 1), kDefault,
                                      "with post-validation: probability that a step is rolled back, priced as "
                                      "expected time; when performed, 1 rolls every step back and 0 none"),
      aside<&O::performed>("said by who performs"));
  return all;
}

const Description& simulate_fields() {
  using S = Simulate;
  static const Description all = describe<S>(
      {},
      choice<&S::detail>(
          "detail",
          {{"stage", graph::Detail::stage}, {"layer", graph::Detail::layer}, {"operator", graph::Detail::operators}},
          kDefault, "what one task is; operator if the GPUs of a tensor group differ"),
      choice<&S::contention>(
          "contention", {{"auto", Contention::automatic}, {"off", Contention::off}, {"on", Contention::on}}, kDefault,
          "auto: links, processors and memory are shared where demand exceeds them; off: never"),
      choice<&S::symmetry>("symmetry", {{"auto", true}, {"off", false}}, kDefault,
                           "auto: ranks that behave alike are simulated once; off: every rank"),
      field<&S::iterations>("iterations", whole(1, 1000),
                            {[](const S& s) { return s.iterations; },
                             "1; 3 with post-validation; more with parameter servers that let workers be ahead"},
                            "steps to simulate; the last one is reported"),
      field<&S::seed>("seed", whole(0, 9.3e18), kDefault, "seed of everything random"));
  return all;
}

const Description& cost_fields() {
  using C = AbstractCosts;
  using E = schedule::Edge;
  static const Description edge =
      describe<E>({}, field<&E::from>("from", whole(0, 65'535), kRequired, "a stage"),
                  field<&E::to>("to", whole(0, 65'535), kRequired, "a later one"),
                  field<&E::transfer>("time", time(), {[](const E& e) { return e.transfer; }, "`transfer`"},
                                      "from one to the other"),
                  aside<&E::held>("of lowered graphs"), aside<&E::wire>("of lowered graphs"),
                  aside<&E::turns>("of lowered graphs"));
  static const auto times = [](auto member) { return or_also(std::move(member), {list_of(time())}); };
  static const auto sizes = [](auto member) {
    return or_also(std::move(member), {size(), list_of(number(0, 1e18)), list_of(size())});
  };
  static const Description all = describe<C>(
      {.groups = {{.key = "costs", .help = "given times, in place of model and cluster; one value, or one per stage"},
                  {.key = "memory",
                   .help = "with `costs`: sizes, all in one unit or in bytes; one value, or one per stage"}}},
      times(field<&C::forward>("costs.forward", time(), kRequired, "forward of a stage")),
      times(field<&C::backward>("costs.backward", time(), kRequired, "input gradient of a stage")),
      times(field<&C::weight>("costs.weight", time(), kRequired, "weight gradient of a stage")),
      field<&C::transfer>("costs.transfer", time(), kDefault, "transfer from a stage to the next"),
      list_of<&C::edges>(
          "costs.edges",
          entries<schedule::Edge>(edge, "[from, to] or [from, to, time], such as [[0, 1], [1, 2], [0, 2, 3ms]]", true),
          "which stage feeds which, if stages form no chain; an edge without a time takes `transfer`"),
      sizes(field<&C::activation>("memory.activation", number(0, 1e18), kRequired,
                                  "memory from a forward to its input gradient (M_B)")),
      sizes(field<&C::weight_hold>("memory.weight_hold", number(0, 1e18), kDefault,
                                   "part of it that stays until the weight gradient (M_W)")));
  return all;
}

namespace {

// What `rehearse plan` chooses from: auto, one value or several.
template <auto M>
Member<M> dimension(const char* key, Form one, const char* help) {
  return any_of(
      field<M>(key, std::move(one), {[](const detail::StructOf<M>&) { return detail::TypeOf<M>(); }, "auto"}, help),
      "auto");
}

}  // namespace

const Description& plan_fields() {
  using P = PlanSpace;
  using models::Recompute;
  constexpr const char* kDegrees = "values to try; auto: all divisors";
  const auto degree = whole(1, 1e6);
  static const Description all = describe<P>(
      {}, dimension<&P::tensor>("tensor", degree, kDegrees), dimension<&P::context>("context", degree, kDegrees),
      dimension<&P::pipeline>("pipeline", degree, kDegrees), dimension<&P::data>("data", degree, kDegrees),
      dimension<&P::expert>("expert", degree, kDegrees),
      dimension<&P::chunks>("chunks", degree, "stages per rank to try; auto: all that split the layers evenly"),
      dimension<&P::micro>("micro", degree, "micro-batch sizes to try; auto: all that divide a replica's sequences"),
      dimension<&P::zero>("zero", whole(0, 3), "ZeRO stages to try; auto: all that the framework supports"),
      dimension<&P::sequence>("sequence", boolean(),
                              "with or without sequence parallelism; auto: both, if the framework supports it"),
      any_of(
          choice<&P::recompute>(
              "recompute", {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
              {[](const P&) { return decltype(P::recompute)(); }, "auto"},
              "recomputation modes to try; auto: all that the framework supports"),
          "auto"),
      dimension<&P::schedules>("schedules", name_of("schedule"),
                               "schedules to try; auto: all that the framework supports, except those that are "
                               "searched, never flush, or split sequences"),
      aside<&P::offload>("mappings, kept as their text"), aside<&P::framework>("likewise"),
      aside<&P::clusters>("likewise"),
      dimension<&P::gpus>("gpus", degree, "cluster sizes in GPUs; auto: that of `cluster`"),
      dimension<&P::nodes>("nodes", degree, "cluster sizes in nodes"),
      choice<&P::objective>("objective",
                            {{"time", P::Objective::time},
                             {"gpus", P::Objective::gpus},
                             {"cost", P::Objective::cost},
                             {"energy", P::Objective::energy}},
                            kDefault,
                            "the shortest iteration, the fewest GPUs, or the training run (`job`) that is cheapest or "
                            "needs the least energy, "
                            "and so emits the least"),
      field<&P::deadline>("deadline", duration(), {[](const P&) { return decltype(P::deadline)(); }, "that of `job`"},
                          "for the training run of `job`, such as 30d"),
      field<&P::budget>("budget", count(), {[](const P&) { return decltype(P::budget)(); }, "that of `job`"},
                        "for the training run, in the currency of `job`"),
      field<&P::margin>("margin", share_or_none(), kDefault, "share of a GPU's memory to leave free, such as 5%"));
  return all;
}

const Description& plan_cluster_fields() {
  using C = PlanSpace::Cluster;
  const auto size = whole(1, 1e6);
  static const Description all = describe<C>(
      {}, dimension<&C::nodes>("nodes", size, "sizes; auto: all that some layout divides evenly"),
      dimension<&C::gpus>("gpus", size, "likewise in GPUs, also parts of nodes"),
      field<&C::gpu_hour>("gpu_hour", positive(), std::nullopt, "price of a GPU for an hour (that of `job`)"),
      field<&C::currency>("currency", text(), kDefault, "of it (that of `job`)"),
      aside<&C::name>("that of the cluster"), aside<&C::text>("the other keys, as of `cluster`"),
      aside<&C::framework>("mappings, kept as their text"), aside<&C::parts>("of `gpus`"),
      aside<&C::gpus_per_node>("that of the cluster"), aside<&C::where>("where it was read"));
  return all;
}

const Description& gpu_choice_fields() {
  using G = GpuChoice;
  static const Description all = describe<G>(
      {}, nested<&G::gpu>("", cluster::gpu_fields()),
      field<&G::flash_framework>("framework", name_of("framework profile"),
                                 {[](const G&) -> std::string { return ""; }, "by configs/default_frameworks.yaml"},
                                 "framework of a scenario with flash attention that names none"),
      field<&G::like>("like", name_of("GPU"), {[](const G&) -> std::string { return ""; }, "the nearest by data sheet"},
                      "a similar GPU, whose values replace missing ones, except peak, sms, memory and "
                      "memory_bandwidth; they are marked as assumed"));
  return all;
}

const Description& cluster_choice_fields() {
  using C = ClusterChoice;
  static const Description all = describe<C>(
      {}, field<&C::nodes>("nodes", whole(1, 1'000'000), std::nullopt, "number of nodes"),
      field<&C::gpus>("gpus", whole(1, 1'000'000), std::nullopt,
                      "number of GPUs, instead of nodes: an equal share of the fewest nodes that hold them"),
      nested<&C::spec>("", cluster::cluster_fields()), nested<&C::curves>("collectives", collective::curve_fields()),
      aside<&C::profile>("named by its own key"), aside<&C::flash_framework>("of the GPU"),
      aside<&C::node>("the file itself"));
  return all;
}

const Description& training_choice_fields() {
  using T = TrainingChoice;
  static const Description all = describe<T>(
      {}, nested<&T::training>("", models::training_fields()),
      field<&T::early_stop>("recompute.early_stop", boolean(), std::nullopt, "overrides `framework`"),
      field<&T::overlap_gradients>("overlap.gradients", boolean(), std::nullopt,
                                   "gradient reductions overlap the backward pass"),
      field<&T::overlap_pipeline>("overlap.pipeline", boolean(), std::nullopt, "pipeline sends do not block"),
      field<&T::overlap_tensor>("overlap.tensor", boolean(), std::nullopt,
                                "tensor-parallel gathers and scatters overlap their matrix product (needs `sequence`)"),
      nested<&T::optimizer_sync>("", optimizer_sync_fields()));
  return all;
}

namespace {

const Description& concrete_fields() {
  using C = Concrete;
  static const Description all = describe<C>(
      {}, nested<&C::model>("model", models::model_fields()),
      nested<&C::training>("training", models::training_fields()),
      nested<&C::framework>("framework", models::framework_fields()),
      nested<&C::cluster>("cluster", cluster::cluster_fields()),
      nested<&C::curves>("cluster.collectives", collective::curve_fields()),
      opaque<&C::profile>(
          "cluster.profile", "a profile", [](const auto& profile) { return profile ? profile->digest : std::string(); },
          "measurements of the machine or of its GPU: a file, or a name in `configs/profiles`"),
      nested<&C::partition>("partition", plan::partition_fields()),
      nested<&C::experts>(
          "experts", models::expert_fields(),
          {.help = "for models with experts: how tokens are routed, and which GPU holds which expert"}));
  return all;
}

// Digests hold the micro-batches too: they did before these followed from the others.
Member<&Scenario::batch> batch() {
  using S = Scenario;
  auto member = nested<&S::batch>("batch", plan::batch_fields(), {.help = "sequences per step", .required = true});
  Field many{.key = "batch.microbatches", .form = whole(1, kMost), .help = "", .key_of_files = false};
  many.get = [](const void* s) { return Value(static_cast<const S*>(s)->microbatches()); };
  member.adds.fields.push_back(std::move(many));
  return member;
}

}  // namespace

const Description& scenario_fields() {
  using S = Scenario;
  static const Description all = describe<S>(
      {}, label(field<&S::name>("name", text(), kDefault, "a title for reports"), "a title"),
      aside<&S::file>("where it was read"), aside<&S::places>("where it was read"),
      aside<&S::digest>("follows from the others"),
      nested<&S::parallelism>("parallelism", plan::parallelism_fields(),
                              {.help = "how the job is split; GPUs = tensor x context x pipeline x data"}),
      nested<&S::resharding>("resharding", plan::resharding_fields(),
                             {.help = "transfers between stages that are split differently"}),
      nested<&S::data_parallel>(
          "data_parallel", plan::data_parallel_fields(),
          {.help = "how replicas keep the same parameters: a kind or a mapping", .short_for = "kind"}),
      order<&S::placement>("placement",
                           {{"tensor", Axis::tensor},
                            {"context", Axis::context},
                            {"expert", Axis::expert},
                            {"data", Axis::data},
                            {"pipeline", Axis::pipeline}},
                           "order of the axes, innermost first; ranks of the innermost axis are neighboring GPUs"),
      list_of<&S::faults>("faults", cluster::fault_list(),
                          "defects of the machine: slow GPUs, NICs and links below their rate, jitter",
                          [](const cluster::Fault& fault) { return cluster::describe(fault) + ";"; }),
      aside<&S::on>("where, not what"), batch(), nested<&S::schedule>("schedule", schedule_fields()),
      nested<&S::optimizer_sync>("training", optimizer_sync_fields()),
      nested<&S::simulate>("simulate", simulate_fields(), {.help = "level of detail of the simulation"}),
      nested<&S::concrete>("", concrete_fields()), nested<&S::abstract>("", cost_fields()),
      nested<&S::job>("job", job::job_fields(),
                      {.help = "the whole training run: how long it takes, what it costs, what interrupts it"}),
      aside<&S::phases>("the job holds their digests"), aside<&S::bands>("follows from the others"),
      aside<&S::given>("the values count"), aside<&S::framework_named>("the profile counts"),
      aside<&S::other_framework>("follows from the others"), aside<&S::assumptions>("follows from the others"),
      aside<&S::warnings>("follows from the others"));
  return all;
}

}  // namespace rehearsal::scenario
