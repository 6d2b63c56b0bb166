#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <tuple>

#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::scenario {
namespace {

std::vector<PlanSpace::Offload> read_offload(Context& context, const Node& node) {
  std::vector<PlanSpace::Offload> all;
  std::vector<const Node*> items{&node};
  if (node.kind == Node::Kind::sequence) items = node.items;
  for (const Node* item : items) {
    // Checked by the reader of `training`.
    Node* key = context.documents.make(Node::Kind::scalar, *item);
    key->text = "offload";
    Node* training = context.documents.make(Node::Kind::map, *item);
    training->entries.push_back({key, item});
    MapReader map(context.problems, *training, "training");
    TrainingChoice choice;
    map.fill(training_choice_fields(), &choice);
    map.finish();
    all.push_back({flow_text(*item), choice.training.offload});
  }
  const auto less = [](const PlanSpace::Offload& a, const PlanSpace::Offload& b) {
    return std::tuple(a.states.any(), a.text) < std::tuple(b.states.any(), b.text);
  };
  std::sort(all.begin(), all.end(), less);
  return all;
}

// Deadline, budget and prices are of a whole training, whose length and price the rest of the file gives.
void check_limits(Diagnostics& problems, const MapReader& map, const Node& root, const PlanSpace& space) {
  const Node* job = root.find("job");
  if (job && job->kind != Node::Kind::map) job = nullptr;
  const auto unpriced =
      std::find_if(space.clusters.begin(), space.clusters.end(), [](const auto& cluster) { return !cluster.gpu_hour; });
  const bool each = !space.clusters.empty() && unpriced == space.clusters.end();
  const bool some = std::any_of(space.clusters.begin(), space.clusters.end(),
                                [](const auto& cluster) { return cluster.gpu_hour.has_value(); });
  const bool priced = job && (job->find("gpu_hour") || each);
  const char* price =
      "give what a GPU costs for an hour: job: {tokens: 2T, gpu_hour: 2.5, currency: USD}, 'tokens' being what is "
      "trained on";
  if (map.given("deadline") && !job)
    problems.error(map.at("deadline"),
                   "'deadline' is that of a training; say how much is trained: job: {tokens: 2T}, or steps, or "
                   "samples");
  if (map.given("budget") && !priced)
    problems.error(map.at("budget"), fmt::format("'budget' needs a price; {}", price));
  if (space.objective == PlanSpace::Objective::cost && !priced)
    problems.error(map.at("objective"), fmt::format("'objective' cost needs a price; {}", price));
  for (const auto& cluster : space.clusters) {
    if (!job && cluster.gpu_hour)
      problems.error(cluster.where,
                     "'gpu_hour' is the price of a training; say how much is trained: job: {tokens: 2T}");
    const bool none = cluster.currency.empty() && !(job && job->find("currency"));
    if (job && cluster.gpu_hour && none)
      problems.error(cluster.where, "'gpu_hour' has no unit; say in which 'currency' (currency: USD)");
    if (some && !cluster.gpu_hour && job && !job->find("gpu_hour"))
      problems.error(cluster.where, "'gpu_hour' is missing, and other clusters have one; give each its price");
  }
}

// Refuses sections that are incompatible with a search over layouts.
void refuse(Context& context, const Node& root) {
  const auto no = [&](const char* key, const char* why) {
    if (const Node* node = root.find(key)) context.problems.error(node->where(), fmt::format("'{}': {}", key, why));
  };
  no("costs", "stage times are given, and a search of layouts needs a model and a cluster");
  no("jobs", "a search is of one job; plan each scenario by itself");
  no("stages", "the search cuts all stages alike; leave it out");
  no("faults", "the search is of healthy machines; leave it out");
  no("data_parallel", "the search is of replicas that add up their gradients; leave it out");
  if (const Node* partition = root.find("partition"); partition && partition->kind != Node::Kind::scalar)
    context.problems.error(partition->where(),
                           "'partition' lists the layers of given stages; set it to uniform or balanced for a search");
}

// Parts of a training have steps of their own, and the search is of one kind of steps.
const Node* with_one_kind_of_steps(Context& context, const Node* root, PlanFile& file) {
  const Node* job = root->find("job");
  for (const char* key : {"phases", "ramp"}) {
    if (!job || !job->find(key)) continue;
    file.notes.push_back(
        fmt::format("job.{0} is set aside: every step has the batch of the file; add {0} to the layout "
                    "that is found, and `rehearse run` predicts the whole training",
                    key));
    root = context.documents.set(root, file.sets.emplace_back(fmt::format("job.{}=null", key)));
  }
  return root;
}

// The file's number of GPUs, which may follow from its layout if the cluster has no size.
std::optional<std::int64_t> gpus_of(Context& context, const Node& root, const ClusterChoice& cluster) {
  if (cluster.gpus) return *cluster.gpus;
  if (cluster.nodes) return *cluster.nodes * cluster.spec.gpus_per_node;
  auto layout = load_parallelism(context, root.find("parallelism"), root);
  if (root.find("parallelism")) return layout.value.gpus();
  context.problems.error(cluster.node->where(), "how many GPUs is a plan for? Set cluster.nodes, or plan.gpus");
  return std::nullopt;
}

// A cluster of one size: what `cluster` is to say.
struct Size {
  std::int64_t gpus = 0;
  std::string key, value;  // "nodes", "4"; empty: as the file says
};

// Sizes in nodes or, where they leave GPUs of nodes idle, in GPUs.
Size size_in(std::int64_t gpus, std::int64_t each) {
  return gpus % each == 0 ? Size{gpus, "nodes", fmt::format("{}", gpus / each)}
                          : Size{gpus, "gpus", fmt::format("{}", gpus)};
}
std::vector<Size> sizes_asked(Diagnostics& problems, const PlanSpace::Degrees& nodes, const PlanSpace::Degrees& gpus,
                              std::int64_t each, const Location& where) {
  std::vector<Size> sizes;
  for (const auto n : nodes.value_or(std::vector<std::int64_t>())) sizes.push_back(size_in(n * each, each));
  for (const auto n : gpus.value_or(std::vector<std::int64_t>())) {
    if (const auto most = (n + each - 1) / each; n % most != 0)
      problems.error(where, fmt::format("{} GPUs are no equal share of {} nodes of {}", n, most, each));
    sizes.push_back(size_in(n, each));
  }
  return sizes;
}

// Of the file's `cluster`.
std::vector<Size> sizes_of(Context& context, const Node& root, const PlanSpace& space) {
  const Node* node = root.find("cluster");
  const auto cluster = node ? load_cluster(context, *node) : std::nullopt;
  if (!cluster) return {};
  const auto each = cluster->spec.gpus_per_node;
  const auto at = place_of(root, "plan.gpus");
  if (space.nodes && space.gpus) context.problems.error(at, "'gpus' and 'nodes' say the same; leave one out");
  if ((space.nodes || space.gpus) && cluster->gpus)
    context.problems.error(cluster->node->where(), "'gpus' of 'cluster' are some of one node; leave it out");
  if (space.nodes || space.gpus) return sizes_asked(context.problems, space.nodes, space.gpus, each, at);
  const auto gpus = gpus_of(context, root, *cluster);
  if (!gpus) return {};
  const bool sized = cluster->gpus || cluster->nodes;
  return {sized ? Size{*gpus, "", ""} : size_in(*gpus, each)};
}

// A listed value is searched only with frameworks that support it. If none does, it is searched with all of them, and a
// note says so.
template <class T, class Has, class Add>
void allow_listed(PlanFile& file, const char* key, const std::optional<std::vector<T>>& listed, const Has& has,
                  const Add& add) {
  if (!listed) return;
  for (const auto& value : *listed) {
    const auto having = [&](const PlanBase& base) { return has(base.support, value); };
    if (std::any_of(file.bases.begin(), file.bases.end(), having)) continue;
    std::string names;
    for (auto& base : file.bases) {
      add(base.support, value);
      const auto& name = base.scenario.concrete->framework.name;
      if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
    }
    file.notes.push_back(
        fmt::format("plan.{} lists {}, which is none of what {} supports; searched as if it were", key, value, names));
  }
}
void allow_listed(PlanFile& file) {
  using S = Support;
  const auto degree = [&](const char* key, const PlanSpace::Degrees& listed, bool S::*member) {
    allow_listed(
        file, key, listed, [&](const S& s, std::int64_t n) { return n == 1 || s.*member; },
        [&](S& s, std::int64_t) { s.*member = true; });
  };
  const auto& space = file.space;
  degree("tensor", space.tensor, &S::tensor), degree("context", space.context, &S::context);
  degree("pipeline", space.pipeline, &S::pipeline);
  allow_listed(
      file, "sequence", space.sequence, [](const S& s, bool on) { return !on || s.sequence; },
      [](S& s, bool) { s.sequence = true; });
  allow_listed(
      file, "zero", space.zero, [](const S& s, std::int64_t level) { return s.has_zero(level, false); },
      [](S& s, std::int64_t level) {
        s.zero.push_back(level);
        if (!s.zero_in_pipeline.empty()) s.zero_in_pipeline.push_back(level);
      });
  allow_listed(
      file, "schedules", space.schedules, [](const S& s, const std::string& name) { return s.has_schedule(name); },
      [](S& s, const std::string& name) { s.schedules.push_back(name); });
  std::optional<std::vector<std::string>> states;
  for (const auto& one : space.offload) (states ? *states : states.emplace()).push_back(one.text);
  const auto states_of = [&](const std::string& text) {
    return std::find_if(space.offload.begin(), space.offload.end(), [&](auto& o) { return o.text == text; })->states;
  };
  allow_listed(
      file, "offload", states, [&](const S& s, const std::string& text) { return s.has(states_of(text)); },
      [](S& s, const std::string&) { s.offload.clear(); });
  std::optional<std::vector<std::string>> modes;
  if (space.recompute)
    for (const auto mode : (modes.emplace(), *space.recompute)) modes->emplace_back(name(mode));
  const auto mode_of = [&](const std::string& said) {
    return *std::find_if(space.recompute->begin(), space.recompute->end(), [&](auto m) { return said == name(m); });
  };
  allow_listed(
      file, "recompute", modes, [&](const S& s, const std::string& mode) { return s.has(mode_of(mode)); },
      [&](S& s, const std::string& mode) { s.recompute.insert(mode_of(mode)); });
}

// Replaces settings that may be invalid in some layouts; the search space keeps their original values.
std::vector<std::string> settled(const Node& root) {
  std::vector<std::string> sets;
  const Node* parallelism = root.find("parallelism");
  const Node* expert_tensor =
      parallelism && parallelism->kind == Node::Kind::map ? parallelism->find("expert_tensor") : nullptr;
  sets.push_back(expert_tensor ? fmt::format("parallelism={{expert_tensor: {}}}", flow_text(*expert_tensor))
                               : "parallelism={}");
  sets.insert(sets.end(), {"schedule=1f1b", "training.recompute=none", "batch.micro=1"});
  const Node* training = root.find("training");
  if (training && training->kind == Node::Kind::map && training->find("offload"))
    sets.emplace_back("training.offload={}");
  return sets;
}

// Loads a scenario for each cluster, size and framework.
class BaseLoader {
 public:
  // `sets`: what the user set.
  BaseLoader(Context& context, const Node& root, PlanFile& file, const std::vector<std::string>& sets,
             std::int64_t sequences)
      : context_(context), root_(root), file_(file), sequences_(sequences) {
    const Node* name = root.find("name");
    title_ = title(name ? name->text : std::filesystem::path(file.path).stem().string(), sets);
  }

  void add(const Size& size) {
    std::vector<std::string> sets;
    if (!size.key.empty()) sets.push_back(fmt::format("cluster.{}={}", size.key, size.value));
    add(size.gpus, 0, sets, file_.space.framework);
  }

  // A machine that cannot run the training is left out, and a note says why; finish() repeats it if all are.
  void add_cluster(std::size_t which) {
    try {
      add_sizes(which);
    } catch (const UserError& error) {
      if (!left_out_) left_out_ = std::current_exception();
      const auto& found = error.diagnostics();
      file_.notes.push_back(fmt::format("{} is left out: {}", file_.space.clusters[which].name,
                                        found.empty() ? error.what() : found.front().message));
    }
  }

  void finish() {
    auto& bases = file_.bases;
    if (bases.empty() && left_out_) std::rethrow_exception(left_out_);
    const auto key = [](const PlanBase& base) { return std::pair(base.scenario.parallelism.gpus(), base.cluster); };
    std::stable_sort(bases.begin(), bases.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (const auto& base : bases)
      if (base.scenario.job && base.scenario.job->currency != bases.front().scenario.job->currency)
        throw UserError(
            fmt::format("plan.clusters: prices in {} and in {} cannot be compared; give them in one "
                        "currency",
                        bases.front().scenario.job->currency, base.scenario.job->currency));
  }

 private:
  void add_sizes(std::size_t which) {
    auto& problems = context_.problems;
    const auto& cluster = file_.space.clusters[which];
    const auto text = [&](const Size& size) {
      return fmt::format("cluster={}{}{}: {}}}", cluster.text.substr(0, cluster.text.size() - 1),
                         cluster.text == "{}" ? "" : ", ", size.key, size.value);
    };
    std::vector<std::string> price;
    if (cluster.gpu_hour) price.push_back(fmt::format("job.gpu_hour={}", *cluster.gpu_hour));
    if (!cluster.currency.empty()) price.push_back("job.currency=" + cluster.currency);
    const auto& framework = cluster.framework ? cluster.framework : file_.space.framework;
    const auto each = cluster.gpus_per_node;
    std::vector<Size> sizes;
    const bool own = cluster.nodes || cluster.gpus || cluster.parts;
    const auto& nodes = own ? cluster.nodes : file_.space.nodes;
    const auto& gpus = own ? cluster.gpus : file_.space.gpus;
    if (nodes || gpus) {
      sizes = sizes_asked(problems, nodes, gpus, each, cluster.where);
    } else {
      // The model is the same on a node of it.
      auto one = price;
      one.push_back(text({0, "nodes", "1"}));
      if (framework) one.push_back("framework=" + framework->front());
      for (const auto n : sizes_that_divide(file_.space, cluster, loaded(each, one), sequences_))
        sizes.push_back(size_in(n, each));
    }
    if (problems.count() > 0) return;
    if (sizes.empty())
      throw UserError(fmt::format("plan.clusters: no number of nodes of {} has GPUs that some layout divides; {}",
                                  cluster.name, cluster.parts ? "list its 'gpus'" : "try gpus: auto"));
    for (const auto& size : sizes) {
      std::vector<std::string> sets{text(size)};
      sets.insert(sets.end(), price.begin(), price.end());
      add(size.gpus, which, sets, framework);
    }
  }

  // With the placeholder of a layout.
  Scenario loaded(std::int64_t gpus, const std::vector<std::string>& more) const {
    auto all = file_.sets;
    all.insert(all.end(), more.begin(), more.end());
    for (const auto& set : settled(root_)) all.push_back(set);
    all.push_back(fmt::format("batch.global={}", gpus));
    return load(file_.path, all, "", *file_.files);
  }

  void add(std::int64_t gpus, std::size_t cluster, const std::vector<std::string>& sets,
           const std::optional<std::vector<std::string>>& frameworks) {
    const std::vector<std::string> as_said{""};
    for (const auto& framework : frameworks ? *frameworks : as_said) {
      PlanBase base;
      base.cluster = cluster, base.sets = sets;
      if (!framework.empty()) base.sets.push_back("framework=" + framework);
      base.scenario = loaded(gpus, base.sets);
      base.scenario.name = title_;
      base.scenario.batch.global = sequences_;
      const auto& c = *base.scenario.concrete;
      if (c.framework.native_kernels)
        throw UserError("plan: 'framework: native' performs layouts; a search is of what frameworks do, name one");
      if (!c.cluster.groups.empty())
        throw UserError("plan: 'cluster.groups' of unlike GPUs are not searched; leave it out");
      if (base.scenario.optimizer_sync.post_validation)
        throw UserError("plan: 'training.optimizer_sync: post-validation' lets iterations overlap; set it to barrier");
      if (const auto& job = base.scenario.job) {
        if (!file_.space.deadline) file_.space.deadline = job->deadline;
        if (!file_.space.budget) file_.space.budget = job->budget;
      }
      const Node* said = context_.documents.set(&root_, base.sets)->find("framework");
      base.support = load_support(context_, said, c.framework.name);
      context_.problems.throw_if_any();
      file_.bases.push_back(std::move(base));
    }
  }

  Context& context_;
  std::exception_ptr left_out_;  // why the first machine is
  const Node& root_;
  PlanFile& file_;
  const std::int64_t sequences_;
  std::string title_;
};

std::string sections_of(const Node& root, std::string_view except) {
  std::string text;
  for (const auto& entry : root.entries)
    if (entry.key->text != except) text += fmt::format("{}: {}\n", flow_text(*entry.key), flow_text(*entry.value));
  return text;
}

}  // namespace

const char* name(models::Recompute recompute) {
  switch (recompute) {
    case models::Recompute::none:
      return "none";
    case models::Recompute::selective:
      return "selective";
    case models::Recompute::full:
      return "full";
  }
  return "";
}

PlanSpace read_plan_space(Context& context, const Node& node, const Node& root) {
  auto& problems = context.problems;
  PlanSpace space;
  MapReader map(problems, node, "plan");
  if (!map.node()) return space;
  map.fill(plan_fields(), &space);
  if (const Node* offload = map.find("offload")) space.offload = read_offload(context, *offload);
  space.framework = read_plan_framework(problems, map.find("framework"));
  if (const Node* clusters = map.find("clusters")) space.clusters = read_plan_clusters(context, *clusters);
  check_limits(problems, map, root, space);
  map.finish();
  return space;
}

PlanFile load_plan(const std::string& path, const std::vector<std::string>& sets, const Files& files,
                   const std::vector<std::string>& profiles) {
  Context context(files);
  auto& problems = context.problems;
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  problems.throw_if_any();
  PlanFile file{&files, path, sets, {}, {}, {}};
  if (const Node* plan = root->find("plan")) file.space = read_plan_space(context, *plan, *root);
  refuse(context, *root);
  root = with_one_kind_of_steps(context, root, file);
  for (const auto& set : sets)
    if (!file.space.clusters.empty() && set.starts_with("cluster"))
      problems.error({}, fmt::format("--set {}: 'plan.clusters' says which clusters there are; change it there", set));
  if (profiles.size() > 1 && file.space.clusters.empty())
    problems.error({}, "--with: a profile for each GPU of plan.clusters, and the file has one cluster");
  problems.throw_if_any();
  for (const auto& profile : profiles)
    if (file.space.clusters.empty())
      root = context.documents.set(root, file.sets.emplace_back("cluster.profile=" + profile));
    else
      give_profile(context, file.space.clusters, profile);
  problems.throw_if_any();

  const Node* batch = root->find("batch");
  const Node* global = batch && batch->kind == Node::Kind::map ? batch->find("global") : nullptr;
  const auto sequences = global ? read_integer(problems, *global, "'global'", kCount) : std::nullopt;
  if (!global) problems.error(batch ? batch->where() : root->where(), "'batch' needs 'global': sequences per step");
  const Node* training = root->find("training");
  const Node* offload = training && training->kind == Node::Kind::map ? training->find("offload") : nullptr;
  if (offload && file.space.offload.empty()) file.space.offload = read_offload(context, *offload);
  if (file.space.offload.empty()) file.space.offload.emplace_back();
  problems.throw_if_any();
  BaseLoader loader(context, *root, file, sets, *sequences);
  if (file.space.clusters.empty()) {
    const auto sizes = sizes_of(context, *root, file.space);
    problems.throw_if_any();
    for (const auto& size : sizes) loader.add(size);
  }
  for (std::size_t i = 0; i < file.space.clusters.size(); ++i) loader.add_cluster(i);
  problems.throw_if_any();
  loader.finish();
  allow_listed(file);
  return file;
}

std::string standalone(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  context.problems.throw_if_any();
  for (const char* key : {"schedule.file", "cluster.profile", "experts.skew.trace"})
    root = with_whole_path(context, root, key);
  context.problems.throw_if_any();
  return sections_of(*root, "plan");
}

std::string text_of(const std::vector<std::string>& sets, const std::string& origin, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_text("{}", origin), sets);
  context.problems.throw_if_any();
  return sections_of(*root, "");
}

}  // namespace rehearsal::scenario
