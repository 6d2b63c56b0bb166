#include <fmt/format.h>

#include <algorithm>
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

// Deadline and budget are of a whole training, whose length and price the rest of the file gives.
void check_limits(Diagnostics& problems, const MapReader& map, const Node& root, const PlanSpace& space) {
  const Node* job = root.find("job");
  const bool priced = job && job->kind == Node::Kind::map && job->find("gpu_hour");
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

// The file's number of GPUs, which may follow from its layout if the cluster has no size.
std::optional<std::int64_t> gpus_of(Context& context, const Node& root, const ClusterChoice& cluster) {
  if (cluster.gpus) return *cluster.gpus;
  if (cluster.nodes) return *cluster.nodes * cluster.spec.gpus_per_node;
  auto layout = load_parallelism(context, root.find("parallelism"), root);
  if (root.find("parallelism")) return layout.value.gpus();
  context.problems.error(cluster.node->where(), "how many GPUs is a plan for? Set cluster.nodes, or plan.gpus");
  return std::nullopt;
}

std::vector<std::pair<std::int64_t, std::string>> sizes_of(Context& context, const Node& root, const PlanSpace& space) {
  std::vector<std::pair<std::int64_t, std::string>> sizes;
  const Node* node = root.find("cluster");
  const auto cluster = node ? load_cluster(context, *node) : std::nullopt;
  if (!cluster) return sizes;
  const auto each = cluster->spec.gpus_per_node;
  const auto at = [&](const char* key) { return place_of(root, fmt::format("plan.{}", key)); };
  if (space.nodes && space.gpus) context.problems.error(at("gpus"), "'gpus' and 'nodes' say the same; leave one out");
  if ((space.nodes || space.gpus) && cluster->gpus)
    context.problems.error(cluster->node->where(), "'gpus' of 'cluster' are some of one node; leave it out");
  if (space.nodes)
    for (const auto nodes : *space.nodes) sizes.emplace_back(nodes * each, fmt::format("cluster.nodes={}", nodes));
  else if (space.gpus)
    for (const auto gpus : *space.gpus) {
      if (gpus % each == 0)
        sizes.emplace_back(gpus, fmt::format("cluster.nodes={}", gpus / each));
      else if (gpus < each)
        sizes.emplace_back(gpus, fmt::format("cluster.gpus={}", gpus));
      else
        context.problems.error(at("gpus"), fmt::format("{} GPUs are no whole number of nodes of {}", gpus, each));
    }
  else if (const auto gpus = gpus_of(context, root, *cluster)) {
    const bool sized = cluster->gpus || cluster->nodes;
    sizes.emplace_back(*gpus, sized               ? ""
                              : *gpus % each == 0 ? fmt::format("cluster.nodes={}", *gpus / each)
                                                  : fmt::format("cluster.gpus={}", *gpus));
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Framework profiles, by name or as mappings; each as one line of YAML.
std::optional<std::vector<std::string>> read_framework(Diagnostics& problems, const Node* node) {
  if (!node || (node->kind == Node::Kind::scalar && node->text == "auto")) return std::nullopt;
  std::vector<const Node*> items{node};
  if (node->kind == Node::Kind::sequence) items = node->items;
  std::set<std::string> all;
  for (const Node* item : items) {
    if (item->kind != Node::Kind::scalar && item->kind != Node::Kind::map)
      problems.error(
          item->where(),
          fmt::format("'framework' lists names of 'rehearse list frameworks', or mappings; found {}", describe(*item)));
    else if (!all.insert(flow_text(*item)).second)
      problems.error(item->where(), fmt::format("'framework' lists {} twice", in_quotes(flow_text(*item))));
  }
  if (items.empty()) problems.error(node->where(), "'framework' is an empty list, which leaves nothing to choose");
  return std::vector(all.begin(), all.end());
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

// File names are relative to the file that contains them; made absolute so that they work from anywhere.
const Node* with_whole_paths(Context& context, const Node* root) {
  const auto whole = [&](const char* key) {
    const Node* node = root;
    for (std::string_view rest = key; node && !rest.empty();) {
      const auto dot = rest.find('.');
      node = node->kind == Node::Kind::map ? node->find(rest.substr(0, dot)) : nullptr;
      rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    }
    if (!node || node->kind != Node::Kind::scalar) return;
    const auto path = std::filesystem::absolute(beside(*node, node->text)).lexically_normal().string();
    if (context.files.exists(path)) root = context.documents.set(root, fmt::format("{}={}", key, path));
  };
  for (const char* key : {"schedule.file", "cluster.profile", "experts.skew.trace"})
    if (root) whole(key);
  return root;
}

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
  space.framework = read_framework(problems, map.find("framework"));
  check_limits(problems, map, root, space);
  map.finish();
  return space;
}

PlanFile load_plan(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  auto& problems = context.problems;
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  problems.throw_if_any();
  PlanFile file{&files, path, sets, {}, {}, {}};
  if (const Node* plan = root->find("plan")) file.space = read_plan_space(context, *plan, *root);
  refuse(context, *root);
  problems.throw_if_any();
  const auto sizes = sizes_of(context, *root, file.space);
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
  // The title of the user's file, without the settings that the search adds.
  const Node* name = root->find("name");
  const auto asked = title(name ? name->text : std::filesystem::path(path).stem().string(), sets);
  const std::vector<std::string> as_said{""};
  for (const auto& [gpus, size] : sizes)
    for (const auto& framework : file.space.framework ? *file.space.framework : as_said) {
      PlanBase base;
      if (!size.empty()) base.sets.push_back(size);
      if (!framework.empty()) base.sets.push_back("framework=" + framework);
      auto all = sets;
      all.insert(all.end(), base.sets.begin(), base.sets.end());
      for (const auto& set : settled(*root)) all.push_back(set);
      all.push_back(fmt::format("batch.global={}", gpus));
      base.scenario = load(path, all, "", files);
      base.scenario.name = asked;
      base.scenario.batch.global = *sequences;
      const auto& c = *base.scenario.concrete;
      if (c.framework.native_kernels)
        throw UserError("plan: 'framework: native' performs layouts; a search is of what frameworks do, name one");
      if (!c.cluster.groups.empty())
        throw UserError("plan: 'cluster.groups' of unlike GPUs are not searched; leave it out");
      if (base.scenario.optimizer_sync.post_validation)
        throw UserError("plan: 'training.optimizer_sync: post-validation' lets iterations overlap; set it to barrier");
      if (const auto& job = base.scenario.job) {
        if (!file.space.deadline) file.space.deadline = job->deadline;
        if (!file.space.budget) file.space.budget = job->budget;
      }
      const Node* said = context.documents.set(root, base.sets)->find("framework");
      base.support = load_support(context, said, c.framework.name);
      problems.throw_if_any();
      file.bases.push_back(std::move(base));
    }
  allow_listed(file);
  return file;
}

std::string standalone(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  context.problems.throw_if_any();
  root = with_whole_paths(context, root);
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
