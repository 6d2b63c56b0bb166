// `nvidia-smi topo -m`: how each two GPUs of a node are joined, and which NICs are near which GPUs. What a link carries
// is of its generation, which the GPU's name says: `nvidia-smi -L` in the same file, or --cluster.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

bool is_gpu(std::string_view name) {
  return name.starts_with("GPU") && name.size() > 3 &&
         name.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

bool is_columns(const std::vector<std::string>& words) {
  return words.size() > 2 && words[0] == "GPU0" && (words[1] == "GPU1" || words[1] == "CPU" || words[1] == "NIC0") &&
         std::find(words.begin(), words.end(), "Affinity") != words.end();
}

bool recognises(const Source& source) {
  if (source.kind != Source::Kind::text) return false;
  if (source.text.starts_with("GPU 0: ") && source.text.find("(UUID: GPU-") != std::string::npos) return true;
  const auto lines = lines_of(source.text);
  return std::any_of(lines.begin(), lines.end(), [](const Line& line) { return is_columns(words_of(line.text)); });
}

struct Matrix {
  int line = 0;
  std::vector<std::string> columns = {};  // GPUs, then NICs
  std::map<std::pair<std::string, std::string>, std::string> joined = {};
  std::set<std::string> rows = {};  // GPUs with a row
  std::string gpu = {};             // its name, of nvidia-smi -L

  std::vector<std::string> gpus() const {
    std::vector<std::string> all;
    for (const auto& name : columns)
      if (is_gpu(name)) all.push_back(name);
    return all;
  }
  // Either of the two directions; empty: neither row is there.
  std::string between(const std::string& a, const std::string& b) const {
    if (const auto found = joined.find({a, b}); found != joined.end()) return found->second;
    const auto back = joined.find({b, a});
    return back == joined.end() ? "" : back->second;
  }
};

Matrix matrix_of(const Source& source) {
  Matrix matrix;
  for (const auto& line : lines_of(source.text)) {
    const auto words = words_of(line.text);
    if (words.empty()) continue;
    if (words[0] == "GPU" && line.text.find("(UUID") != std::string::npos && matrix.gpu.empty()) {
      const auto colon = line.text.find(": ");
      if (colon != std::string::npos) matrix.gpu = line.text.substr(colon + 2, line.text.find(" (UUID") - colon - 2);
    }
    if (is_columns(words)) {
      matrix.line = line.number, matrix.columns.clear();
      for (const auto& word : words) {
        if (word == "CPU" || word == "NUMA" || word == "GPU") break;
        matrix.columns.push_back(word);
      }
      continue;
    }
    const bool is_row = std::find(matrix.columns.begin(), matrix.columns.end(), words[0]) != matrix.columns.end();
    if (!is_row || words.size() <= matrix.columns.size() - (is_gpu(words[0]) ? 0 : 1)) continue;
    if (is_gpu(words[0])) matrix.rows.insert(words[0]);
    for (std::size_t i = 0; i < matrix.columns.size() && i + 1 < words.size(); ++i)
      if (words[i + 1] != "X") matrix.joined[{words[0], matrix.columns[i]}] = words[i + 1];
  }
  return matrix;
}

// NVLinks of "NV18"; 0: it is none.
std::int64_t nvlinks(const std::string& joined) {
  constexpr std::int64_t kMost = 1000;
  const auto count = joined.starts_with("NV") ? integer_of(std::string_view(joined).substr(2)).value_or(0) : 0;
  return count > 0 && count <= kMost ? count : 0;
}
bool is_near(const std::string& joined) { return joined == "PIX" || joined == "PXB"; }

// Groups of GPUs that are joined as `alike` says.
template <class Alike>
std::size_t groups(const Matrix& matrix, const std::vector<std::string>& gpus, const Alike& alike) {
  std::map<std::string, std::string> root;
  for (const auto& gpu : gpus) root[gpu] = gpu;
  const auto find = [&root](std::string name) {
    while (root[name] != name) name = root[name];
    return name;
  };
  for (const auto& a : gpus)
    for (const auto& b : gpus)
      if (a != b && alike(matrix.between(a, b))) root[find(a)] = find(b);
  std::set<std::string> roots;
  for (const auto& gpu : gpus) roots.insert(find(gpu));
  return roots.size();
}

void say_inside(const Matrix& matrix, const scenario::Node& at, ScenarioDraft& draft) {
  const auto gpus = matrix.gpus();
  std::set<std::int64_t> counts;              // of pairs, 0 where they have no NVLink
  std::map<std::string, std::int64_t> total;  // of a GPU with a row
  for (const auto& a : gpus)
    for (const auto& b : gpus)
      if (const auto joined = matrix.between(a, b); a != b && !joined.empty()) {
        counts.insert(nvlinks(joined));
        if (matrix.rows.contains(a)) total[a] += nvlinks(joined);
      }
  if (counts.empty()) return;
  const auto least = *counts.begin(), most = *counts.rbegin();
  constexpr std::int64_t kFewest = 6;  // NVLinks of a GPU behind a switch: V100
  if (most > 0 && least == most) {
    const bool switched = gpus.size() > 4 || most >= kFewest;
    draft.say("cluster.node_topology", switched ? "nvswitch" : "full-mesh", at, fmt::format("NV{} between all", most));
    draft.say(Fact::nvlinks, switched ? most : most * std::int64_t(gpus.size() - 1), at, fmt::format("NV{}", most));
    return;
  }
  const bool mesh = most == 2 && gpus.size() == 8 &&
                    std::all_of(total.begin(), total.end(), [](const auto& gpu) { return gpu.second == 6; });
  if (mesh) {
    draft.say("cluster.node_topology", "hybrid-cube-mesh", at, "NV1 and NV2, six a GPU");
    draft.say(Fact::nvlinks, 6, at, "NV1 and NV2");
    return;
  }
  if (most > 0)
    draft.no_word(at.where(), fmt::format("NVLinks between some GPUs (NV{})", most),
                  "taken as PCIe, over which the others are joined");
  const auto sockets = groups(matrix, gpus, [](const auto& joined) { return joined != "SYS" && !joined.empty(); });
  const auto switches = groups(matrix, gpus, [](const auto& joined) { return is_near(joined); });
  draft.say("cluster.node_topology.name", "pcie-host", at, "PIX, PXB, PHB, NODE or SYS between all");
  draft.say("cluster.node_topology.sockets", std::min<std::int64_t>(2, std::int64_t(sockets)), at, "SYS between them");
  if (switches < gpus.size())
    draft.say("cluster.node_topology.switches", std::int64_t(switches), at, "PIX and PXB behind each");
}

// NICs behind a PCIe switch of some GPU carry the job; others are for storage and management.
void say_nics(const Matrix& matrix, const scenario::Node& at, ScenarioDraft& draft) {
  const auto gpus = std::int64_t(matrix.gpus().size()), rows = std::int64_t(matrix.rows.size());
  std::set<std::string> near;
  std::int64_t all = 0;
  for (const auto& nic : matrix.columns) {
    if (is_gpu(nic)) continue;
    ++all;
    for (const auto& gpu : matrix.rows)
      if (is_near(matrix.between(gpu, nic))) near.insert(nic);
  }
  if (all == 0) return;
  if (near.empty()) {
    draft.say("cluster.links.scale_out.per_node", all, at, "NICs, none nearer to a GPU than the others");
    return;
  }
  const auto many = rows > 0 ? std::max<std::int64_t>(1, std::int64_t(near.size()) * gpus / rows) : all;
  draft.say("cluster.links.scale_out.per_node", many, at,
            rows == gpus
                ? fmt::format("NICs with PIX or PXB to a GPU, of {}", all)
                : fmt::format("{} NICs with PIX or PXB to the {} GPUs whose rows are there", near.size(), rows));
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  const auto matrix = matrix_of(source);
  const auto cluster = cluster_with(matrix.gpu, sources.files());
  if (cluster)
    draft.say("cluster.use", *cluster, *sources.make(scenario::Node::Kind::null, source.name, 1),
              fmt::format("GPUs called '{}'", matrix.gpu));
  if (matrix.line == 0 && !matrix.gpu.empty()) {  // of nvidia-smi -L alone
    if (!cluster)
      draft.wanted({source.name, 1, 0}, "cluster.use", fmt::format("GPUs called '{}'", matrix.gpu),
                   "the name of the machine: --cluster NAME (rehearse list clusters)");
    return;
  }
  if (matrix.line == 0 || matrix.rows.empty())
    throw UserError(
        {{{source.name, 0, 0},
          "no matrix of nvidia-smi topo -m: it begins with a line 'GPU0 GPU1 ... CPU Affinity', and has one "
          "for each GPU"}});
  const auto& at = *sources.make(scenario::Node::Kind::null, source.name, matrix.line);
  draft.say("cluster.gpus_per_node", std::int64_t(matrix.gpus().size()), at, "columns GPU0, ...");
  say_inside(matrix, at, draft);
  say_nics(matrix, at, draft);
  if (!cluster)
    draft.wanted(at.where(), "cluster.use", "which GPUs these are",
                 "what nvidia-smi -L prints: give it, too; or name the machine: --cluster NAME");
}

}  // namespace

void register_nvidia_smi(Registry& registry) {
  registry.add({.name = "nvidia-smi",
                .title = "a matrix of nvidia-smi topo -m",
                .summary = "nvidia-smi topo -m and -L: links inside a node, NICs beside GPUs, the GPU",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
