// NCCL's topology of a node in XML. Clouds ship what NCCL_TOPO_FILE reads: devices on PCIe by class. What
// NCCL_TOPO_DUMP_FILE writes, and RCCL, has also NVLinks and xGMI of each GPU, and names and speeds of NICs
// (src/graph/xml.cc, topo.cc of NCCL 5067397c).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "interchange/names.hpp"
#include "interchange/xml.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) {
  return source.begins_with_line("<system version", 60) && source.text.find("busid") != std::string::npos;
}

struct Device {
  int line;
  std::string bus, device;
  std::string root;  // bus of the bridge below the processor that it hangs on
  double pcie = 0;   // bytes/s of its link, one way
};

struct Link {
  int line;
  std::string from, to, target_class;
  std::int64_t count;
};

struct Net {
  int line;
  std::int64_t megabits;
};

struct Node {
  std::vector<Device> gpus, nics;
  std::vector<Link> nvlinks, xgmis;
  std::vector<Net> nets;
};

// "16 GT/s", "32.0 GT/s PCIe": payload of a lane, of generations 1 to 6 after their line codes.
double lane_rate(std::string_view speed) {
  const auto rate = number_of(speed.substr(0, speed.find(' ')));
  if (!rate) return 0;
  static constexpr std::pair<double, double> kLanes[] = {{2.5, .25e9},  {5, .5e9},     {8, .985e9},
                                                         {16, 1.969e9}, {32, 3.938e9}, {64, 7.563e9}};
  for (const auto& [transfers, bytes] : kLanes)
    if (*rate == transfers) return bytes;
  return 0;
}

bool has_child(const Element& element, std::string_view name) {
  return std::any_of(element.children.begin(), element.children.end(),
                     [name](const Element& child) { return child.name == name; });
}

void take_links(const Element& gpu, const std::string& bus, const Source& source, Node& node) {
  for (const auto& child : gpu.children) {
    if (child.name != "nvlink" && child.name != "xgmi") continue;
    const auto count = integer_of(child.attribute("count"));
    constexpr std::int64_t kMost = 10'000;
    if (!count || *count < 1 || *count > kMost)
      throw UserError(
          {{{source.name, child.line, 0}, fmt::format("'count' of {} must be a whole number", child.name)}});
    (child.name == "nvlink" ? node.nvlinks : node.xgmis)
        .push_back(
            {child.line, bus, std::string(child.attribute("target")), std::string(child.attribute("tclass")), *count});
  }
}

void walk(const Element& element, const std::string& root, const Source& source, Node& node) {
  for (const auto& child : element.children) {
    if (child.name == "net") {
      if (const auto speed = integer_of(child.attribute("speed")); speed && *speed > 0)
        node.nets.push_back({child.line, *speed});
      continue;
    }
    if (child.name != "pci") {
      walk(child, root, source, node);
      continue;
    }
    const std::string bus(child.attribute("busid"));
    const auto below = root.empty() ? bus : root;
    const auto kind = child.attribute("class");
    const auto is = [kind](std::string_view of) { return kind.starts_with(of); };
    const Device device{
        child.line, bus, std::string(child.attribute("device")), below,
        lane_rate(child.attribute("link_speed")) * double(integer_of(child.attribute("link_width")).value_or(0))};
    // 3D and VGA controllers, displays (AMD), accelerators; Ethernet, other networks, InfiniBand.
    if (has_child(child, "gpu") || is("0x0302") || is("0x0300") || is("0x1200")) node.gpus.push_back(device);
    if (has_child(child, "nic") || is("0x0200") || is("0x0207") || is("0x0208")) node.nics.push_back(device);
    for (const auto& gpu : child.children)
      if (gpu.name == "gpu") take_links(gpu, bus, source, node);
    walk(child, below, source, node);
  }
}

// Links of GPUs: through switches, between all pairs alike, or otherwise.
void say_links(const std::vector<Link>& links, const char* name, std::size_t gpus, Sources& sources,
               const Source& source, ScenarioDraft& draft) {
  if (links.empty()) return;
  const auto& at = *sources.make(scenario::Node::Kind::null, source.name, links.front().line);
  std::map<std::string, std::int64_t> total;
  std::set<std::int64_t> counts;
  bool switched = true;
  for (const auto& link : links) {
    total[link.from] += link.count;
    counts.insert(link.count);
    switched &= link.target_class.starts_with("0x0680");  // a bridge of another kind: an NVSwitch
  }
  std::int64_t least = total.begin()->second;
  for (const auto& [gpu, count] : total) least = std::min(least, count);
  const bool alike = counts.size() == 1 && links.size() == gpus * (gpus - 1);
  if (switched)
    draft.say("cluster.node_topology", "nvswitch", at, fmt::format("{} to switches", name));
  else if (alike)
    draft.say("cluster.node_topology", "full-mesh", at, fmt::format("{} between all GPUs", name));
  else
    draft.no_word(at.where(),
                  fmt::format("{}: {} links among {} GPUs, not between all alike", name, links.size(), gpus),
                  "the inside of a node is as the cluster says");
  if (std::string_view(name) == "nvlink" && (switched || alike))
    draft.say(Fact::nvlinks, least, at, fmt::format("{} of a GPU", name));
}

void say_pcie(const Node& node, Sources& sources, const Source& source, ScenarioDraft& draft) {
  const auto& gpu = node.gpus.front();
  const auto& at = *sources.make(scenario::Node::Kind::null, source.name, gpu.line);
  constexpr double kReached = .83;  // by copies from pinned memory: 53 of 63 GB/s (DGX H100), 26 of 31.5 (DGX A100)
  if (gpu.pcie > 0)
    draft.derive(
        "cluster.host.pcie.bandwidth", bandwidth_text(gpu.pcie * kReached),
        fmt::format("{} of link_speed x link_width ({}), {}", kReached, bandwidth_text(gpu.pcie), to_text(at.where())));
  std::map<std::string, std::int64_t> sharing;
  for (const auto& one : node.gpus) ++sharing[one.root];
  std::int64_t most = 1;
  for (const auto& [root, count] : sharing) most = std::max(most, count);
  draft.say("cluster.host.pcie.gpus_per_link", most, at, "GPUs below a bridge of a processor");
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  const auto root = read_xml(source.text, source.name);
  Node node;
  walk(root, "", source, node);
  if (node.gpus.empty())
    throw UserError({{{source.name, root.line, 0},
                      "no GPU: neither <gpu> nor a <pci> of class 0x0302, 0x0300 or 0x1200 is in it"}});
  const auto at = [&](int line) -> const scenario::Node& {
    return *sources.make(scenario::Node::Kind::null, source.name, line);
  };
  const auto gpus = node.gpus.size();
  draft.say("cluster.gpus_per_node", std::int64_t(gpus), at(node.gpus.front().line), "GPUs on PCIe");
  if (!node.nics.empty())
    draft.say("cluster.links.scale_out.per_node", std::int64_t(node.nics.size()), at(node.nics.front().line),
              "NICs on PCIe");
  if (!node.nets.empty()) {
    const auto slow = std::min_element(node.nets.begin(), node.nets.end(),
                                       [](const Net& a, const Net& b) { return a.megabits < b.megabits; });
    draft.say("cluster.links.scale_out.bandwidth", fmt::format("{:g}Gb/s", double(slow->megabits) / 1e3),
              at(slow->line), "net speed");
  }
  say_pcie(node, sources, source, draft);
  say_links(node.nvlinks, "nvlink", gpus, sources, source, draft);
  say_links(node.xgmis, "xgmi", gpus, sources, source, draft);
  const auto name = gpu_by_device(node.gpus.front().device, sources.files());
  if (const auto cluster = cluster_with(name, sources.files()); cluster && !name.empty())
    draft.say("cluster.use", *cluster, at(node.gpus.front().line),
              fmt::format("device {}: {}", node.gpus.front().device, name));
  else
    draft.wanted(at(node.gpus.front().line).where(), "cluster.use", "which GPUs these are",
                 "what nvidia-smi -L prints: give it, too; or name the machine: --cluster NAME");
}

}  // namespace

void register_nccl_topology(Registry& registry) {
  registry.add({.name = "nccl-topology",
                .title = "a topology of NCCL in XML",
                .summary = "NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE: GPUs, NICs, PCIe, NVLink of a node",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
