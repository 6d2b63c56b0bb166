// The clusters that a plan may choose from, and the sizes of each.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "cost/measured_gpu.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/plan_file.hpp"
#include "scenario/profile.hpp"

namespace rehearsal::scenario {
namespace {

// What a plan says of a cluster, beside the keys that a section `cluster` has.
constexpr std::string_view kOfPlan[] = {"nodes", "gpus", "gpu_hour", "currency", "framework"};

// An entry as two mappings: what the plan says of the cluster, and the cluster.
struct ClusterEntry {
  const Node *plan, *cluster;
};
ClusterEntry halves(Context& context, const Node& item) {
  Node* plan = context.documents.make(Node::Kind::map, item);
  Node* cluster = context.documents.make(Node::Kind::map, item);
  if (item.kind == Node::Kind::scalar) {
    Node* use = context.documents.make(Node::Kind::scalar, item);
    use->text = "use";
    cluster->entries.push_back({use, &item});
  }
  for (const auto& entry : item.entries) {
    const bool ours = std::find(std::begin(kOfPlan), std::end(kOfPlan), entry.key->text) != std::end(kOfPlan);
    (ours ? plan : cluster)->entries.push_back(entry);
  }
  return {plan, cluster};
}

}  // namespace

const Node* with_whole_path(Context& context, const Node* root, std::string_view key) {
  const Node* node = root;
  for (std::string_view rest = key; node && !rest.empty();) {
    const auto dot = rest.find('.');
    node = node->kind == Node::Kind::map ? node->find(rest.substr(0, dot)) : nullptr;
    rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
  }
  if (!node || node->kind != Node::Kind::scalar) return root;
  const auto path = std::filesystem::absolute(beside(*node, node->text)).lexically_normal().string();
  return context.files.exists(path) ? context.documents.set(root, fmt::format("{}={}", key, path)) : root;
}

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

std::optional<std::vector<std::string>> read_plan_framework(Context& context, const Node* node) {
  auto& problems = context.problems;
  if (!node || (node->kind == Node::Kind::scalar && node->text == "auto")) return std::nullopt;
  std::vector<const Node*> items{node};
  if (node->kind == Node::Kind::sequence) items = node->items;
  std::set<std::string> all;
  for (const Node* item : items) {
    if (item->kind != Node::Kind::scalar && item->kind != Node::Kind::map)
      problems.error(item->where(),
                     fmt::format("'framework' must list names of 'rehearse list frameworks', or mappings; found {}",
                                 describe(*item)));
    else if (!all.insert(flow_text(*item)).second)
      problems.error(item->where(), fmt::format("'framework' lists {} twice", in_quotes(flow_text(*item))));
    else if (item->kind == Node::Kind::scalar || item->find("use"))
      load_framework(context, *item);  // once a size is set, its errors would stand nowhere in the file
  }
  if (items.empty()) problems.error(node->where(), "'framework' is an empty list, which leaves nothing to choose");
  return std::vector(all.begin(), all.end());
}

std::vector<PlanSpace::Cluster> read_plan_clusters(Context& context, const Node& list) {
  auto& problems = context.problems;
  const auto before = problems.count();
  std::vector<PlanSpace::Cluster> all;
  if (list.kind != Node::Kind::sequence || list.items.empty()) {
    problems.error(list.where(), fmt::format("'clusters' must be a list such as [{{use: dgx-h100, nodes: auto, "
                                             "gpu_hour: 2.1}}, {{use: b200-sxm, gpu_hour: 4}}]; found {}",
                                             describe(list)));
    return all;
  }
  for (const Node* item : list.items) {
    if (item->kind != Node::Kind::scalar && item->kind != Node::Kind::map) {
      problems.error(item->where(),
                     fmt::format("'clusters' must list names of 'rehearse list clusters', or mappings; found {}",
                                 describe(*item)));
      continue;
    }
    const auto entry = halves(context, *item);
    PlanSpace::Cluster cluster;
    cluster.where = item->where();
    MapReader map(problems, *entry.plan, "clusters");
    map.fill(plan_cluster_fields(), &cluster);
    cluster.framework = read_plan_framework(context, map.find("framework"));
    cluster.parts = map.given("gpus");
    if (map.given("nodes") && map.given("gpus"))
      problems.error(map.at("gpus"), "give either 'gpus' or 'nodes', not both");
    map.finish();
    if (entry.cluster->entries.empty()) {
      problems.error(item->where(),
                     "this entry names no cluster; add one of 'rehearse list clusters', such as use: dgx-h100");
      continue;
    }
    const Node* section = with_whole_path(context, entry.cluster, "profile");
    cluster.text = flow_text(*section);
    const auto loaded = load_cluster(context, *section);
    if (!loaded) continue;
    cluster.name = loaded->spec.name, cluster.gpus_per_node = loaded->spec.gpus_per_node;
    all.push_back(std::move(cluster));
  }
  if (problems.count() > before) return all;  // what could not be read may seem to be there twice
  const auto key = [](const PlanSpace::Cluster& c) { return std::tuple(c.name, c.gpu_hour, c.text, c.framework); };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (key(all[i]) == key(all[i - 1]))
      problems.error(all[i].where, fmt::format("'clusters' lists {} twice", in_quotes(all[i].name)));
  // The same machine at several prices.
  std::set<std::string> several;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].name == all[i - 1].name) several.insert(all[i].name);
  for (auto& cluster : all)
    if (several.contains(cluster.name) && cluster.gpu_hour) cluster.name += fmt::format(" at {:g}", *cluster.gpu_hour);
  return all;
}

void give_profile(Context& context, std::vector<PlanSpace::Cluster>& clusters, const std::string& path) {
  const auto profile = load_profile_file(path, context.files);
  const auto whole = std::filesystem::absolute(path).lexically_normal().string();
  std::string why = "it holds no times of a GPU; name it in the entry of its cluster: {use: ..., profile: FILE}";
  bool given = false;
  for (auto& cluster : clusters) {
    const Node* section = context.documents.read_text(cluster.text, path);
    const auto loaded = load_cluster(context, *section);
    if (!profile.gpu || !loaded) continue;
    const auto unlike = cost::mismatch(profile.gpu->gpu, loaded->spec.gpu);
    if (!unlike.empty()) {
      why = fmt::format("it was measured on GPU '{}', which no cluster of the plan has ({}: {})", profile.gpu->gpu.name,
                        cluster.name, unlike);
      continue;
    }
    cluster.text = flow_text(*context.documents.set(section, "profile=" + whole)), given = true;
  }
  if (!given) context.problems.error({}, fmt::format("--with {}: {}", path, why));
}

std::vector<std::int64_t> sizes_that_divide(const PlanSpace& space, const PlanSpace::Cluster& cluster,
                                            const Scenario& base, std::int64_t sequences) {
  const auto& c = *base.concrete;
  const auto asked = [](const PlanSpace::Degrees& given, std::vector<std::int64_t> otherwise) {
    return given ? *given : std::move(otherwise);
  };
  const auto layers = c.model.layers;
  const auto each = c.cluster.gpus_per_node, most = c.cluster.nics_per_node > 0 ? sequences : 1;
  const auto dividing = [&](std::int64_t n) { return divisors(n, most * each); };
  auto pipelines = dividing(layers);
  if (c.model.family != models::Family::mlp)
    for (const auto stages : dividing(layers + 2)) pipelines.push_back(stages);
  std::set<std::int64_t> products{1};
  for (const auto& axis :
       {asked(space.tensor, dividing(c.model.heads)), asked(space.pipeline, std::move(pipelines)),
        asked(space.data, dividing(sequences)), asked(space.context, dividing(base.batch.sequence))}) {
    std::set<std::int64_t> more;
    for (const auto product : products)
      for (const auto degree : axis)
        if (product * degree <= most * each) more.insert(product * degree);
    products = std::move(more);
  }
  std::erase_if(products, [&](std::int64_t gpus) {
    const auto nodes = (gpus + each - 1) / each;
    return cluster.parts ? gpus % nodes != 0 : gpus % each != 0;
  });
  return {products.begin(), products.end()};
}

}  // namespace rehearsal::scenario
