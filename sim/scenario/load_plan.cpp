#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "base/spread.hpp"
#include "base/stopping.hpp"
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
      "give the price of a GPU-hour and the size of the training: job: {tokens: 2T, gpu_hour: 2.5, currency: USD}";
  if (map.given("deadline") && !job)
    problems.error(map.at("deadline"),
                   "'deadline' needs the size of the training; give job: {tokens: 2T}, or steps, or samples");
  if (map.given("budget") && !priced)
    problems.error(map.at("budget"), fmt::format("'budget' needs a price; {}", price));
  if (space.objective == PlanSpace::Objective::cost && !priced)
    problems.error(map.at("objective"), fmt::format("'objective: cost' needs a price; {}", price));
  if (space.objective == PlanSpace::Objective::energy && !job)
    problems.error(map.at("objective"),
                   "'objective: energy' needs the size of the training and, if a GPU does not draw its limit, its "
                   "power; give job: {tokens: 2T, power: {gpu: 600W}}");
  for (const auto& cluster : space.clusters) {
    const bool none = cluster.currency.empty() && !(job && job->find("currency"));
    const auto said = problems.count();
    if (!job && cluster.gpu_hour)
      problems.error(cluster.where, "'gpu_hour' needs the size of the training; give job: {tokens: 2T}");
    else if (cluster.gpu_hour && none)
      problems.error(cluster.where, "'gpu_hour' has no currency; give one, such as currency: USD");
    else if (some && !cluster.gpu_hour && job && !job->find("gpu_hour"))
      problems.error(cluster.where, "'gpu_hour' is missing, but other clusters have one; give every cluster its price");
    if (problems.count() > said) break;  // the others lack the same
  }
}

// Refuses sections that are incompatible with a search over layouts.
void refuse(Context& context, const Node& root) {
  const auto no = [&](const char* key, const char* why) {
    if (const Node* node = root.find(key)) context.problems.error(node->where(), fmt::format("'{}': {}", key, why));
  };
  no("costs", "a search over layouts needs a model and a cluster, not given stage times");
  no("jobs", "a search plans one job; plan each scenario by itself");
  no("stages", "a search splits all stages alike; leave it out");
  no("faults", "a search assumes machines without faults; leave it out");
  no("data_parallel", "a search covers only replicas that all-reduce their gradients; leave it out");
  if (const Node* partition = root.find("partition"); partition && partition->kind != Node::Kind::scalar)
    context.problems.error(
        partition->where(),
        "'partition' lists layers for a fixed number of stages; set it to uniform or balanced for a search");
}

// Parts of a training have steps of their own, and the search is of one kind of steps.
const Node* with_one_kind_of_steps(Context& context, const Node* root, PlanFile& file) {
  const Node* job = root->find("job");
  for (const char* key : {"phases", "ramp"}) {
    if (!job || !job->find(key)) continue;
    file.notes.push_back(
        fmt::format("job.{0} is ignored: the search prices steps with the batch of the file; to predict the whole "
                    "training, add {0} to the layout found and use `rehearse run`",
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
  context.problems.error(cluster.node->where(), "a plan needs a number of GPUs; set cluster.nodes, or plan.gpus");
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
      problems.error(where, fmt::format("{} GPUs cannot be divided equally over {} nodes of {} GPUs", n, most, each));
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
  if ((space.nodes || space.gpus) && cluster->gpus)
    context.problems.error(cluster->node->where(),
                           "'cluster.gpus' fixes the number of GPUs, which 'plan' varies here; leave it out");
  if (space.nodes || space.gpus) return sizes_asked(context.problems, space.nodes, space.gpus, each, at);
  const auto gpus = gpus_of(context, root, *cluster);
  if (!gpus) return {};
  const bool sized = cluster->gpus || cluster->nodes;
  return {sized ? Size{*gpus, "", ""} : size_in(*gpus, each)};
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

  void want(const Size& size) {
    std::vector<std::string> sets;
    if (!size.key.empty()) sets.push_back(fmt::format("cluster.{}={}", size.key, size.value));
    const char* key = file_.space.framework ? "plan.framework" : file_.space.gpus ? "plan.gpus" : "plan.nodes";
    want({size.gpus, 0, sets, place_of(root_, key)}, file_.space.framework);
  }
  void want_cluster(std::size_t which) {
    try {
      want_sizes(which);
    } catch (const UserError& error) {
      leave_out(which, 0, error);
    }
  }

  // All that is wanted, from all over it. Who asks to stop gets what is loaded by then.
  void load_wanted() {
    constexpr std::size_t kMost = 65'535;  // search::Layout::base
    if (wanted_.size() > kMost)
      throw UserError(
          {{wanted_.front().where,
            fmt::format("{} combinations of sizes, clusters and frameworks exceed the limit of {}; list fewer",
                        wanted_.size(), kMost)}});
    const auto all = wanted_.size();
    for (const auto& wanted : spread(std::move(wanted_))) {
      if (!file_.bases.empty() && asked_to_stop()) {
        ++file_.unread;
        continue;
      }
      try {
        file_.bases.push_back(base(wanted));
      } catch (const UserError& error) {
        if (file_.space.clusters.empty()) throw;
        leave_out(wanted.cluster, wanted.gpus, error);
      }
    }
    if (file_.unread > 0)
      file_.notes.push_back(fmt::format("{} of {} sizes were not searched: stopped before", file_.unread, all));
    finish();
  }

 private:
  struct Wanted {
    std::int64_t gpus = 0;
    std::size_t cluster = 0;
    std::vector<std::string> sets;
    Location where;
  };
  void want(const Wanted& wanted, const std::optional<std::vector<std::string>>& frameworks) {
    if (!frameworks) return wanted_.push_back(wanted);
    for (const auto& framework : *frameworks) wanted_.emplace_back(wanted).sets.push_back("framework=" + framework);
  }
  void want_sizes(std::size_t which) {
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
      for (const auto n : sizes_that_divide(file_.space, cluster, loaded(each, one, cluster.where), sequences_))
        sizes.push_back(size_in(n, each));
    }
    if (problems.count() > 0) return;
    if (sizes.empty())
      throw UserError(
          {{cluster.where, fmt::format("no layout divides the GPUs of any number of nodes of {}; {}", cluster.name,
                                       cluster.parts ? "list its 'gpus'" : "try gpus: auto")}});
    for (const auto& size : sizes) {
      std::vector<std::string> sets{text(size)};
      sets.insert(sets.end(), price.begin(), price.end());
      want({size.gpus, which, sets, cluster.where}, framework);
    }
  }

  // With the placeholder of a layout. What is wrong with the settings of a base stands at `where`, which asks for them.
  Scenario loaded(std::int64_t gpus, std::vector<std::string> more, const Location& where) const {
    for (const auto& set : settled(root_)) more.push_back(set);
    more.push_back(fmt::format("batch.global={}", gpus));
    auto all = file_.sets;
    all.insert(all.end(), more.begin(), more.end());
    try {
      return load(file_.path, all, "", *file_.files);
    } catch (const UserError& error) {
      auto found = error.diagnostics();
      for (auto& one : found)
        for (const auto& set : more)
          if (one.where.file == "--set " + set) one.where = where;
      if (found.empty()) throw;
      throw UserError(std::move(found));
    }
  }

  PlanBase base(const Wanted& wanted) const {
    PlanBase base;
    base.cluster = wanted.cluster, base.sets = wanted.sets;
    base.scenario = loaded(wanted.gpus, wanted.sets, wanted.where);
    base.scenario.name = title_;
    base.scenario.batch.global = sequences_;
    const auto& c = *base.scenario.concrete;
    const auto refuse = [&](const char* why) { throw UserError({{wanted.where, std::string("plan: ") + why}}); };
    if (c.framework.native_kernels)
      refuse("'framework: native' has no search, which is over what frameworks support; name a framework");
    if (!c.cluster.groups.empty()) refuse("'cluster.groups' with different GPUs cannot be searched; leave it out");
    if (base.scenario.optimizer_sync.post_validation)
      refuse(
          "'training.optimizer_sync: post-validation' cannot be searched, because its iterations overlap; set it to "
          "barrier");
    if (file_.space.objective == PlanSpace::Objective::energy && !base.scenario.job->power.gpu &&
        c.cluster.gpu.power_limit <= 0)
      refuse("'objective: energy' needs the power of a GPU, which its file does not give; set job.power.gpu");
    const Node* said = context_.documents.set(&root_, base.sets)->find("framework");
    base.support = load_support(context_, said, c.framework.name);
    context_.problems.throw_if_any();
    return base;
  }

  // A machine that cannot run the training is left out, all of it or some of its sizes.
  void leave_out(std::size_t cluster, std::int64_t gpus, const UserError& error) {
    if (!first_left_out_) first_left_out_ = error;
    const auto& found = error.diagnostics();
    left_out_[{cluster, found.empty() ? error.what() : found.front().message}].insert(gpus);
  }
  void finish() {
    auto& bases = file_.bases;
    if (bases.empty() && first_left_out_) throw UserError(*first_left_out_);
    const auto key = [](const PlanBase& base) {
      return std::tuple(base.scenario.parallelism.gpus(), base.cluster, base.sets);
    };
    std::stable_sort(bases.begin(), bases.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (const auto& [what, sizes] : left_out_) {
      const auto& [cluster, why] = what;
      const bool some = std::any_of(bases.begin(), bases.end(),
                                    [&, cluster = cluster](auto& base) { return base.cluster == cluster; });
      file_.notes.push_back(
          fmt::format("{}{}{} is left out: {}", file_.space.clusters[cluster].name,
                      some ? fmt::format(" of {} GPUs", *sizes.begin()) : "",
                      some && sizes.size() > 1 ? fmt::format(", and of {} other sizes,", sizes.size() - 1) : "", why));
    }
    for (const auto& base : bases) {
      const auto& job = base.scenario.job;
      if (!job) continue;
      if (!file_.space.deadline) file_.space.deadline = job->deadline;
      if (!file_.space.budget) file_.space.budget = job->budget;
      if (const auto& first = bases.front(); job->currency != first.scenario.job->currency)
        throw UserError({{file_.space.clusters[base.cluster].where,
                          fmt::format("prices in {} and {} cannot be compared; give all of them in one currency",
                                      first.scenario.job->currency, job->currency)}});
    }
  }

  Context& context_;
  const Node& root_;
  PlanFile& file_;
  const std::int64_t sequences_;
  std::string title_;
  std::vector<Wanted> wanted_;
  std::optional<UserError> first_left_out_;
  std::map<std::pair<std::size_t, std::string>, std::set<std::int64_t>> left_out_;  // cluster and why: sizes in GPUs
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
  const auto before = problems.count();
  PlanSpace space;
  MapReader map(problems, node, "plan");
  if (!map.node()) return space;
  map.fill(plan_fields(), &space);
  if (const Node* offload = map.find("offload")) space.offload = read_offload(context, *offload);
  space.framework = read_plan_framework(context, map.find("framework"));
  if (const Node* clusters = map.find("clusters")) space.clusters = read_plan_clusters(context, *clusters);
  if (space.nodes && space.gpus) problems.error(map.at("gpus"), "give either 'gpus' or 'nodes', not both");
  map.finish();
  if (problems.count() == before) check_limits(problems, map, root, space);
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
      problems.error({}, fmt::format("--set {}: the clusters are those of 'plan.clusters'; change them there", set));
  if (profiles.size() > 1 && file.space.clusters.empty())
    problems.error({},
                   "--with gives profiles for the GPUs of 'plan.clusters', but this file has a single cluster; set "
                   "cluster.profile");
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
    for (const auto& size : sizes) loader.want(size);
  }
  for (std::size_t i = 0; i < file.space.clusters.size(); ++i) loader.want_cluster(i);
  problems.throw_if_any();
  loader.load_wanted();
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
