#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "base/error.hpp"
#include "scenario/jobs_file.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// "3", or "0-15".
bool read_range(std::string_view text, std::int64_t& first, std::int64_t& last) {
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, first);
  if (read.ec != std::errc()) return false;
  last = first;
  if (read.ptr == end) return true;
  if (*read.ptr != '-') return false;
  read = std::from_chars(read.ptr + 1, end, last);
  return read.ec == std::errc() && read.ptr == end;
}

// A range, a number, or a list of these; every node once, below `count`.
std::vector<std::uint32_t> read_nodes(Context& context, const Node& node, std::int64_t count, std::string& said) {
  auto& problems = context.problems;
  std::vector<std::uint32_t> nodes;
  std::vector<const Node*> parts{&node};
  if (node.kind == Node::Kind::sequence) parts = node.items;
  if (parts.empty())
    problems.error(node.where(), "'nodes' is an empty list; give a range such as 0-15, a node, or a list of these");
  for (const Node* part : parts) {
    std::int64_t first = 0, last = 0;
    if (part->kind != Node::Kind::scalar || !read_range(part->text, first, last) || first < 0 || last < first) {
      problems.error(
          part->where(),
          fmt::format("'nodes' must be a range such as 0-15, a node, or a list of these; found {}", describe(*part)));
      return {};
    }
    said += (said.empty() ? "" : ", ") + part->text;
    if (last >= count) {
      problems.error(part->where(),
                     fmt::format("node {} does not exist: the cluster has nodes 0 to {}", last, count - 1));
      return {};
    }
    for (auto n = first; n <= last; ++n) nodes.push_back(static_cast<std::uint32_t>(n));
  }
  return nodes;
}

// The shared cluster, reduced to the number of nodes of one job.
const Node* of_size(Context& context, const Node& cluster, std::size_t nodes) {
  auto& documents = context.documents;
  const auto scalar = [&](const std::string& text) {
    Node* made = documents.make(Node::Kind::scalar, cluster);
    made->text = text;
    return made;
  };
  Node* sized = documents.make(Node::Kind::map, cluster);
  if (cluster.kind == Node::Kind::map)
    for (const auto& entry : cluster.entries)
      if (entry.key->text != "nodes" && entry.key->text != "gpus") sized->entries.push_back(entry);
  if (cluster.kind == Node::Kind::scalar) sized->entries.push_back({scalar("use"), scalar(cluster.text)});
  sized->entries.push_back({scalar("nodes"), scalar(std::to_string(nodes))});
  return sized;
}

// The scenario in a file, with its cluster replaced.
std::optional<Scenario> read_job(Context& context, const Node& at, const std::string& path, const Node& cluster,
                                 std::size_t nodes) {
  auto& problems = context.problems;
  const Node* root = context.documents.read_file(path);
  if (!root) return std::nullopt;
  Node* changed = context.documents.make(Node::Kind::map, *root);
  for (const auto& entry : root->entries)
    if (entry.key->text != "cluster") changed->entries.push_back(entry);
  if (root->find("costs") || root->find("jobs") || root->find("faults")) {
    problems.error(at.where(), fmt::format("'{}' cannot share the cluster with other jobs: it has '{}'", path,
                                           root->find("costs")  ? "costs"
                                           : root->find("jobs") ? "jobs"
                                                                : "faults"));
    return std::nullopt;
  }
  Node* key = context.documents.make(Node::Kind::scalar, cluster);
  key->text = "cluster";
  changed->entries.push_back({key, of_size(context, cluster, nodes)});
  const auto before = problems.count();
  auto scenario = read_scenario(context, path, *changed);
  if (problems.count() != before) return std::nullopt;
  if (scenario.optimizer_sync.post_validation)
    problems.error(at.where(),
                   fmt::format("'{}' cannot share the cluster with other jobs: its iterations overlap", path));
  if (scenario.data_parallel.served())
    problems.error(at.where(),
                   fmt::format("'{}' cannot share the cluster with other jobs: it has parameter servers", path));
  return scenario;
}

}  // namespace

bool is_jobs(const Node& root) { return root.kind == Node::Kind::map && root.find("jobs"); }

Jobs read_jobs(Context& context, const std::string& path, const Node& root) {
  auto& problems = context.problems;
  Jobs all;
  all.file = path;
  MapReader top(problems, root, "");
  if (const Node* node = top.require("version", "1, the format that this program reads"))
    read_integer(problems, *node, "'version'", {1, 1});
  all.name = top.text("name", std::filesystem::path(path).stem().string());
  const Node* cluster = top.require("cluster", "the machine of all jobs, with its number of nodes");
  const Node* jobs = top.require("jobs", "a list of {scenario: FILE, nodes: 0-15}");
  top.finish();
  if (!cluster || !jobs) return all;
  auto choice = load_cluster(context, *cluster);
  if (!choice) return all;
  if (!choice->nodes) {
    problems.error(cluster->where(), "with several jobs, 'cluster' needs its number of 'nodes'");
    return all;
  }
  all.cluster = choice->spec;
  all.cluster.nodes = *choice->nodes;
  if (jobs->kind != Node::Kind::sequence || jobs->items.empty()) {
    problems.error(jobs->where(),
                   fmt::format("'jobs' must be a list of {{scenario: FILE, nodes: 0-15}}; found {}", describe(*jobs)));
    return all;
  }
  std::vector<std::string> taken(static_cast<std::size_t>(all.cluster.nodes));  // by node: the file of the job on it
  for (const Node* item : jobs->items) {
    MapReader map(problems, *item, "jobs");
    if (!map.node()) continue;
    const Node* file = map.require("scenario", "the file of a scenario");
    const Node* nodes = map.require("nodes", "a range such as 0-15");
    map.finish();
    if (!file || !nodes) continue;
    Jobs::Job job;
    job.on = read_nodes(context, *nodes, all.cluster.nodes, job.nodes);
    const auto name = read_text(problems, *file, "'scenario'");
    if (!name || job.on.empty()) continue;
    bool alone = true;
    for (const auto n : job.on) {
      if (alone && !taken[n].empty()) {
        problems.error(nodes->where(),
                       fmt::format("node {} is given to two jobs, {} and {}; jobs may share links, but not nodes", n,
                                   taken[n], *name));
        alone = false;
      }
      taken[n] = *name;
    }
    if (!alone) continue;
    const std::filesystem::path given(*name);
    const auto whole = given.is_absolute() ? given : std::filesystem::path(path).parent_path() / given;
    if (auto scenario = read_job(context, *file, whole.string(), *cluster, job.on.size())) {
      job.scenario = std::move(*scenario);
      all.jobs.push_back(std::move(job));
    }
  }
  for (const auto& w : problems.warnings()) all.warnings.push_back(w.message);
  return all;
}

std::variant<Scenario, Jobs> load_either(const std::string& path, const std::vector<std::string>& sets,
                                         const Files& files) {
  Context context(files);
  const Node* root = context.documents.set(context.documents.read_file(path), sets);
  if (!root || !is_jobs(*root)) {
    Scenario scenario = root ? read_scenario(context, path, *root) : Scenario{};
    context.problems.throw_if_any();
    scenario.name = title(scenario.name, sets);
    scenario.digest = digest(scenario);
    return scenario;
  }
  Jobs jobs = read_jobs(context, path, *root);
  context.problems.throw_if_any();
  jobs.name = title(jobs.name, sets);
  for (auto& job : jobs.jobs) job.scenario.digest = digest(job.scenario);
  return jobs;
}

Jobs load_jobs(const std::string& path, const std::vector<std::string>& sets, const Files& files) {
  auto either = load_either(path, sets, files);
  if (auto* jobs = std::get_if<Jobs>(&either)) return std::move(*jobs);
  throw UserError(path + " holds one scenario and no 'jobs'");
}

}  // namespace rehearsal::scenario
