// Reads the whole file, part by part, in an order in which each part can be checked against those before it.
#include <fmt/format.h>

#include <filesystem>

#include "models/shapes.hpp"
#include "plan/fields.hpp"
#include "plan/rules.hpp"
#include "scenario/balance_file.hpp"
#include "scenario/check.hpp"
#include "scenario/fields.hpp"
#include "scenario/jobs_file.hpp"
#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"
#include "scenario/reshard_file.hpp"

namespace rehearsal::scenario {
namespace {

// The engine is built for steps of up to 84 million tasks; more forwards than this are a typing error.
constexpr std::int64_t kMostForwards = 100'000'000;

// Reports violated rules of the plan at the lines of the file that caused them.
void report(Context& context, const Node& root, const std::vector<plan::Violation>& rules) {
  for (const auto& broken : rules) context.problems.error(place_of(root, broken.key), broken.rule);
}

// Sequences per step and micro-batches per pipeline.
void read_batch(Context& context, MapReader& top, const Node& root, Scenario& scenario,
                const ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Node* node = scenario.abstract ? top.require("batch", "a mapping such as {microbatches: 24}")
                                       : top.require("batch", "a mapping such as {global: 512, micro: 1}");
  if (!node) return;
  MapReader map(problems, node, "batch", root);
  auto& batch = scenario.batch;
  if (scenario.abstract) {
    batch = {map.integer("microbatches", kCount), 1, 0};
    for (const auto& field : plan::batch_fields().fields)
      if (map.find(field.key))
        problems.error(map.at(field.key),
                       fmt::format("'{}' does not apply to a scenario with 'costs'; give 'microbatches'", field.key));
  } else {
    batch.sequence = scenario.concrete ? scenario.concrete->model.sequence : 0;
    map.fill(plan::batch_fields(), &batch, {"lengths"});
    load_lengths(context, map, batch);
    if (map.find("microbatches"))
      problems.error(map.at("microbatches"),
                     "'microbatches' is for scenarios with 'costs'; give 'global' = microbatches x data x micro");
  }
  map.finish();
  if (problems.count() != before || !parallelism.sound) return;
  const auto& p = parallelism.value;
  if (!scenario.abstract) {
    const auto share = p.data * batch.micro;
    if (batch.global % share != 0) {
      const auto lower = batch.global / share * share;
      problems.error(
          map.at("global"),
          fmt::format("'global' {} is not a multiple of data x micro = {} x {} = {}; nearest: {}{}", batch.global,
                      p.data, batch.micro, share, lower ? fmt::format("{} or ", lower) : "", lower + share));
      return;
    }
    if (const auto& c = scenario.concrete; c && c->model.layers > 0) {
      if (p.layouts.empty())
        report(context, root,
               plan::broken_by_sequence(c->model, c->training, c->experts, p, batch, scenario.schedule.cut()));
      check_layouts(context, root, scenario, parallelism);
    }
  }
  if (scenario.microbatches() > kMostForwards / p.stages())
    problems.error(map.place().where(),
                   fmt::format("{} micro-batches x {} stages exceed the limit of {} forwards per step",
                               scenario.microbatches(), p.stages(), kMostForwards));
}

void check_degrees(Context& context, const Node& root, const models::Transformer& model,
                   const models::Training& training, const models::ExpertSettings& experts,
                   const ParallelismChoice& parallelism) {
  const auto& p = parallelism.value;
  if (p.layouts.empty()) report(context, root, plan::broken_by_degrees(model, training, experts, p));
  for (std::size_t s = 0; s < p.layouts.size(); ++s)
    for (const auto& broken : plan::broken_by_degrees(model, training, experts, p.as(p.layouts[s])))
      context.problems.error(place_of_stage(root, s), fmt::format("stage {}: {}", s, broken.rule));
  // Embedding and head may be stages of their own; an MLP has neither. In a list any stage may be empty.
  const Node* dealt = root.find("partition");
  if (dealt && dealt->kind != Node::Kind::scalar) return;
  const auto most = model.layers + (model.family == models::Family::mlp ? 0 : 2);
  if (parallelism.stages() > most)
    context.problems.error(
        parallelism.reader.at("pipeline"),
        fmt::format("pipeline {} x chunks {} = {} stages are too many for {} layers; at most {}", p.pipeline,
                    p.chunks / parallelism.copies, parallelism.stages(), model.layers, most));
}

void check_device(Context& context, const models::Training& training, bool native_kernels, const cluster::Gpu& gpu,
                  const Location& place) {
  // Native kernels choose their own compute precision; a CPU core with a rate for fp32 only computes narrower types by
  // widening them.
  const bool widens = native_kernels && std::all_of(gpu.peak.begin(), gpu.peak.end(),
                                                    [](const auto& rate) { return rate.first == Precision::fp32; });
  const bool known =
      gpu.peak.count(training.precision) || (training.precision == Precision::fp32 && gpu.peak.count(Precision::tf32));
  if (training.precision == Precision::fp32 && known && !gpu.peak.count(Precision::fp32))
    context.assume(fmt::format("GPU {}: fp32 matrix products run as tf32; no rate of fp32 is given", gpu.name));
  if (!widens && !known)
    context.problems.error(
        place, fmt::format("GPU '{}' does not compute in the precision that 'training.precision' asks for", gpu.name));
  if (training.attention == models::AttentionKind::flash && gpu.fused_attention_rate.value() <= 0)
    context.problems.error(
        place, fmt::format("GPU '{}' has no fused attention kernel; set training.attention to unfused", gpu.name));
}

// A ring sends keys past queries that do not see them (plan/rules.cpp): layers that see a part of the sequence gather.
models::ContextKind usual_context(const models::Transformer& model) {
  for (const auto& [layer, count] : models::layer_table(model).rows)
    if (layer.mixer.sees_part()) return models::ContextKind::all_gather;
  return models::Training{}.context;
}

// The model says both ways; training may not say otherwise.
void check_encoder(Context& context, const models::Transformer& model, const Node* training_node,
                   models::Training& training) {
  if (!model.encoder) return;
  const Node* given = training_node ? training_node->find("causal") : nullptr;
  if (given && training.causal)
    context.problems.error(given->where(), "'causal' masks later tokens, but an encoder attends to all; leave it out");
  training.causal = false;
}

void read_concrete(Context& context, MapReader& top, const Node& root, Scenario& scenario,
                   ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  const Node* model_node = top.require("model", "a name of 'rehearse list models', or a mapping");
  const Node* cluster_node = top.require("cluster", "a name of 'rehearse list clusters', or a mapping");
  top.section("data_parallel", scenario_fields(), &scenario);
  auto model = model_node ? load_model(context, *model_node) : std::nullopt;
  auto cluster = cluster_node ? load_cluster(context, *cluster_node) : std::nullopt;
  const Node* training_node = top.find("training");
  auto training = load_training(context, training_node, root);
  scenario.optimizer_sync = training.optimizer_sync;
  if (model && !(training_node && training_node->find("context"))) training.training.context = usual_context(*model);
  if (model) check_encoder(context, *model, training_node, training.training);
  auto chosen = choose_framework(context, top.find("framework"), root, training, training_node, parallelism, cluster);
  auto& framework = chosen.framework;
  if (framework) training.training.gradient_precision = chosen.gradient_precision;
  if (cluster) {
    const auto before = problems.count();
    if (parallelism.sound) size_cluster(context, *cluster, parallelism, scenario.data_parallel.own_nodes());
    auto& p = parallelism.value;
    if (scenario.resharding.asked && parallelism.sound && p.layouts.empty())  // all equal, but still planned
      p.layouts.assign(std::size_t(p.pipeline), {p.tensor, p.sequence, p.context, p.data, {}, {}});
    parallelism.sound = parallelism.sound && problems.count() == before;
    const auto where = training_node ? training_node->where() : cluster_node->where();
    check_device(context, training.training, framework && framework->native_kernels, cluster->spec.gpu, where);
    for (const auto& group : cluster->spec.groups)
      if (group.gpu)
        check_device(context, training.training, framework && framework->native_kernels, *group.gpu, where);
  }
  const auto before_experts = problems.count();
  const auto experts = load_experts(context, top.find("experts"), root, model);
  if (model && parallelism.sound && problems.count() == before_experts)
    check_degrees(context, root, *model, training.training, experts, parallelism);
  if (model && cluster && framework && parallelism.sound)
    report(context, root,
           plan::broken_by_offload(*model, training.training, *framework, parallelism.value, cluster->spec.host,
                                   parallelism.copies));
  if (framework && parallelism.sound)
    report(context, root,
           plan::broken_by_servers(training.training, *framework, parallelism.value, scenario.data_parallel));
  if (framework) check_kernels(context, root, model, training, *framework, parallelism, experts);
  const auto partition = load_partition(context, top.find("partition"), parallelism.stages(), model);
  if (top.find("memory"))
    problems.error(top.at("memory"),
                   "'memory' is for scenarios with 'costs'; here it follows from the model, so leave it out");
  scenario.concrete.emplace();
  auto& c = *scenario.concrete;
  if (model) c.model = std::move(*model);
  c.training = training.training;
  if (framework) c.framework = std::move(*framework);
  scenario.framework_named = chosen.named, scenario.other_framework = std::move(chosen.others);
  if (cluster)
    c.cluster = std::move(cluster->spec), c.curves = std::move(cluster->curves), c.profile = cluster->profile;
  c.partition = partition, c.experts = experts;
}

void read_abstract(Context& context, MapReader& top, const Node& root, const Node& costs, Scenario& scenario,
                   const ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  for (const char* key : {"model", "cluster", "framework", "partition", "placement", "faults", "experts",
                          "data_parallel", "stages", "resharding", "job"})
    if (top.find(key))
      problems.error(
          top.at(key),
          fmt::format("give either '{}' or 'costs', not both: without 'costs', times follow from model and cluster",
                      key));
  scenario.optimizer_sync = load_given_training(context, top.find("training"), root);
  const auto& p = parallelism.value;
  const std::pair<const char*, bool> factors[] = {{"tensor", p.tensor != 1},
                                                  {"context", p.context != 1},
                                                  {"data", p.data != 1},
                                                  {"expert", p.expert != 1},
                                                  {"expert_tensor", p.expert_tensor != 1},
                                                  {"zero", p.zero != 0},
                                                  {"sequence", p.sequence}};
  for (const auto& [key, set] : factors)
    if (set)
      problems.error(parallelism.reader.at(key),
                     fmt::format("'{}' does not apply to a scenario with 'costs'; leave it out", key));
  scenario.abstract =
      load_costs(context, costs, top.find("memory"), static_cast<std::size_t>(p.stages()), scenario.schedule);
}

// Iterations until workers with a delay are in steady state, plus as many again to measure.
int settled(const plan::DataParallel& data) { return 4 + 2 * static_cast<int>(std::max<std::int64_t>(1, data.delay)); }

// Overlapping iterations are simulated one by one: the third is already steady. With a barrier all are alike.
void read_simulate(Context& context, MapReader& top, const Node& root, Scenario& scenario) {
  auto& problems = context.problems;
  const bool overlap = scenario.optimizer_sync.post_validation;
  const auto before = problems.count();
  auto& data = scenario.data_parallel;
  const bool delayed = !overlap && !data.synchronous();
  // Native kernels perform the requested number and measure all of them; only optimizer updates must start counting.
  const bool own = scenario.concrete && scenario.concrete->framework.native_kernels;
  const int usual = settled(data) + (own ? 0 : 8), least = own ? static_cast<int>(data.delay) + 2 : settled(data);
  scenario.simulate.iterations = overlap ? 3 : delayed ? usual : 1;
  const bool given = top.section("simulate", scenario_fields(), &scenario);
  if (delayed && problems.count() == before && scenario.simulate.iterations < least)
    problems.error(place_of(root, "simulate.iterations"),
                   fmt::format("'iterations' is {}, too few for workers that run ahead of each other to settle; set at "
                               "least {}",
                               scenario.simulate.iterations, least));
  if (delayed && own) data.performed = scenario.simulate.iterations;
  if (!(overlap || delayed) || !given || problems.count() != before) return;
  const auto forwards = scenario.microbatches() * scenario.parallelism.stages();
  if (scenario.simulate.iterations > 1 && forwards > kMostForwards / scenario.simulate.iterations)
    problems.error(top.at("simulate"), fmt::format("{} iterations of {} forwards exceed the limit of {} forwards",
                                                   scenario.simulate.iterations, forwards, kMostForwards));
}

void list_given(const Node& node, const std::string& key, std::vector<Given>& all) {
  if (node.kind != Node::Kind::map || node.find("value")) return all.push_back({key, node.where()});
  for (const auto& e : node.entries) list_given(*e.value, key.empty() ? e.key->text : key + "." + e.key->text, all);
}

Scenario read(Context& context, const std::string& path, const Node& root) {
  auto& problems = context.problems;
  Scenario scenario;
  scenario.file = path;
  MapReader top(problems, root, "");
  if (!top.node()) return scenario;
  list_given(root, "", scenario.given);
  if (const Node* jobs = root.find("jobs")) {
    problems.error(jobs->where(),
                   "this file holds several jobs, which only 'run' and 'check' accept; give this command a file with "
                   "one scenario");
    for (const auto& entry : root.entries) top.find(entry.key->text);
    top.finish();
    return scenario;
  }
  if (const Node* node = top.require("version", "1, the format that this program reads")) {
    const auto version = read_integer(problems, *node, "'version'", {0, kCount.high});
    if (version && *version != 1)
      problems.error(node->where(), fmt::format("'version' {} is unknown; this program reads version 1", *version));
  }
  scenario.name = top.text("name", std::filesystem::path(path).stem().string());

  const Node* costs = top.find("costs");
  const auto place = [&](const char* key) { return root.find(key) ? root.find(key)->where() : Location{path, 0, 0}; };
  scenario.places = {place(root.find("partition") ? "partition"
                           : root.find("stages")  ? "stages"
                                                  : "parallelism"),
                     place("cluster"), place("schedule"), place("faults"), place("data_parallel")};
  auto parallelism = load_parallelism(context, top.find("parallelism"), root);
  if (const Node* stages = top.find("stages"); stages && !costs) load_stages(context, *stages, parallelism);
  scenario.resharding.asked = !costs && top.section("resharding", scenario_fields(), &scenario);
  if (scenario.resharding.asked && parallelism.sound && parallelism.value.pipeline == 1)
    problems.error(top.at("resharding"),
                   "'resharding' happens between pipeline stages, and there is only one; leave it out");
  const Node* schedule_node = top.find("schedule");
  const auto before_schedule = problems.count();
  scenario.schedule = load_schedule(context, schedule_node, costs != nullptr);
  const bool schedule_ok = problems.count() == before_schedule;
  // With one stage per direction and rank, 1 and 2 chunks mean the same.
  if (schedule_ok && !costs && scenario.schedule.schedule().placement == schedule::Placement::bidirectional)
    parallelism.copies = 2;
  const auto placement = schedule_ok ? scenario.schedule.schedule().placement : schedule::Placement::loop;
  parallelism.vocabulary = !costs && placement == schedule::Placement::vocabulary;
  if ((placement == schedule::Placement::bidirectional || placement == schedule::Placement::vocabulary) &&
      parallelism.value.chunks == 1)
    parallelism.value.chunks = 2;
  if (costs)
    read_abstract(context, top, root, *costs, scenario, parallelism);
  else
    read_concrete(context, top, root, scenario, parallelism);
  scenario.parallelism = parallelism.value;
  if (const Node* node = top.find("placement")) {
    const auto& field = scenario_fields().at("placement");
    if (const auto order = read_value(problems, *node, "'placement'", field.form)) field.set(&scenario, *order);
  }

  if (const Node* node = top.find("faults"); node && scenario.concrete)
    scenario.faults = load_faults(context, *node, problems.count() == 0 ? &scenario.concrete->cluster : nullptr);
  if (scenario.concrete) top.section("job", scenario_fields(), &scenario);
  const bool uneven = !scenario.faults.empty() || (scenario.concrete && !scenario.concrete->cluster.groups.empty());
  if (uneven && scenario.optimizer_sync.post_validation)
    problems.error(top.at(scenario.faults.empty() ? "cluster" : "faults"),
                   "'faults' and 'groups' of GPUs cannot be combined with 'optimizer_sync: post-validation', which is "
                   "simulated for one rank per stage, because they make replicas differ; set it to barrier");
  if (scenario.data_parallel.served() && scenario.optimizer_sync.post_validation)
    problems.error(place_of(root, "training.optimizer_sync"),
                   "'optimizer_sync: post-validation' is about a gradient norm that pipeline ranks agree on, and "
                   "parameter servers have none; set it to barrier");
  if (scenario.optimizer_sync.post_validation && (scenario.resharding.asked || !scenario.parallelism.layouts.empty()))
    problems.error(place_of(root, "training.optimizer_sync"),
                   fmt::format("'optimizer_sync: post-validation' is simulated for one rank per stage, but with '{}' "
                               "the ranks of a stage send different messages; set it to barrier",
                               scenario.resharding.asked ? "resharding" : "stages"));
  if (!scenario.data_parallel.synchronous() && std::any_of(scenario.faults.begin(), scenario.faults.end(),
                                                           [](const auto& fault) { return fault.jitter.has_value(); }))
    problems.error(place_of(root, "data_parallel.delay"),
                   "'delay' lets iterations overlap, but 'jitter' in 'faults' is drawn for a single iteration; leave "
                   "one of them out");
  const auto before_batch = problems.count();
  read_batch(context, top, root, scenario, parallelism);
  if (schedule_ok && parallelism.sound && problems.count() == before_batch)
    check_schedule(context, scenario.schedule, schedule_node, parallelism, scenario.microbatches());
  read_simulate(context, top, root, scenario);
  if (const Node* plan = top.find("plan")) read_plan_space(context, *plan, root);
  top.finish();
  if (scenario.concrete && problems.count() == 0) scenario.bands = read_band_model(context);
  load_phases(context, path, root, scenario);
  scenario.assumptions = context.assumptions;
  for (const auto& w : problems.warnings())
    scenario.warnings.push_back(
        w.where.line ? fmt::format("{}:{}:{}: {}", w.where.file, w.where.line, w.where.column, w.message) : w.message);
  return scenario;
}

// The kind of a part of configs/ or models/zoo/ follows from its folder.
bool check_part(Context& context, const std::string& folder, const Node& root) {
  if (folder == "profiles") return load_profile(context, root, "profile"), true;
  if (root.find("version")) return false;
  if (folder == "gpus") return load_gpu(context, root), true;
  if (folder == "clusters") return load_cluster(context, root), true;
  if (folder == "collectives") return load_curves(context, root), true;
  if (folder == "interconnects") return load_interconnect(context, root), true;
  if (folder == "libraries") return load_library(context, root), true;
  if (folder == "frameworks" || folder == "software") return load_framework(context, root), true;
  if (folder == "zoo") return load_model(context, root), true;
  return false;
}

}  // namespace

std::string title(const std::string& name, const std::vector<std::string>& sets) {
  constexpr std::size_t kNamed = 4, kLongest = 60;  // settings named, and characters of each
  // If a key is set several times, the last one holds.
  std::vector<std::string> last;
  for (const auto& set : sets) {
    const auto key = set.substr(0, set.find('=') + 1);
    if (key == "name=") return name;
    std::erase_if(last, [&](const auto& earlier) { return earlier.starts_with(key); });
    last.push_back(set);
  }
  std::string changed;
  for (std::size_t i = 0; i < last.size() && i < kNamed; ++i) {
    const auto set = printable(last[i]);
    changed += (i ? ", " : "") + (set.size() > kLongest ? set.substr(0, kLongest - 3) + "..." : set);
  }
  if (last.size() > kNamed) changed += fmt::format(" and {} more", last.size() - kNamed);
  return changed.empty() ? name : fmt::format("{} (with {})", name, changed);
}

Scenario read_scenario(Context& context, const std::string& path, const Node& root) {
  return read(context, path, root);
}

Scenario load(const std::string& path, const std::vector<std::string>& sets, const std::string& backend,
              const Files& files) {
  Context context(files);
  context.backend = backend;
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  Scenario scenario = root ? read(context, path, *root) : Scenario{};
  context.problems.throw_if_any();
  scenario.name = title(scenario.name, sets);
  scenario.digest = digest(scenario);
  return scenario;
}

Scenario load_text(const std::string& text, const std::string& origin, const std::vector<std::string>& sets,
                   const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_text(text, origin), sets);
  Scenario scenario = root ? read(context, origin, *root) : Scenario{};
  context.problems.throw_if_any();
  scenario.digest = digest(scenario);
  return scenario;
}

Checked check(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  std::optional<Scenario> scenario;
  const auto folder = std::filesystem::path(path).parent_path().filename().string();
  if (root && !check_part(context, folder, *root)) {
    if (folder == "balance" || is_balance(*root))
      read_balance(context, path, *root);
    else if (folder == "reshard" || is_reshard(*root))
      read_reshard(context, path, *root);
    else if (is_jobs(*root))
      read_jobs(context, path, *root);
    else
      scenario = read(context, path, *root);
  }
  if (context.problems.count() > 0) scenario.reset();
  return {context.problems.errors(), context.problems.warnings(), std::move(scenario)};
}

}  // namespace rehearsal::scenario
