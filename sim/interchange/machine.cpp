#include "interchange/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "interchange/keys.hpp"
#include "interchange/names.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::interchange {
namespace {

double peak_of(const cluster::Gpu& gpu) {
  for (const auto precision : {Precision::fp16, Precision::bf16})
    if (const auto rate = gpu.peak.find(precision); rate != gpu.peak.end()) return rate->second.value();
  return 0;
}

// Two amounts as far apart as the logarithm of their ratio; nothing where one is not known.
double apart(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 0; }

std::string in_units(double value, std::initializer_list<std::pair<double, const char*>> units) {
  for (const auto& [unit, name] : units)
    if (value >= unit) return fmt::format("{:.10g}{}", value / unit, name);
  const auto& [unit, name] = *(units.end() - 1);
  return fmt::format("{:.10g}{}", value / unit, name);
}

// The base of a draft with what is said over it, but for collectives and sizes.
scenario::NamedCluster base_of(const ScenarioDraft& draft, const std::string& name, const scenario::Files& files) {
  std::vector<std::string> sets;
  constexpr std::string_view kCluster = "cluster.";
  for (const auto& [key, given] : draft.keys()) {
    if (!key.starts_with(kCluster)) continue;
    const auto own = key.substr(kCluster.size());
    if (own == "use" || own == "nodes" || own == "gpus" || own.starts_with("collectives")) continue;
    sets.push_back(own + "=" + given.value.dump());
  }
  return scenario::load_named_cluster(name, sets, files);
}

// Keys of a part that the base knows by a name alone.
void name_part(ScenarioDraft& draft, const std::string& key, const std::string& name, const std::string& base) {
  if (draft.has(key) && !draft.find(key) && !draft.has(key + ".use") && !name.empty())
    draft.derive(key + ".use", name, "of " + base);
}

// GB/s of one link, one way, of NVLink's generations: 20 of the first, 25 of the second to fourth, 50 of the fifth.
double nvlink_rate(const cluster::Interconnect& links) {
  return links.name == "nvlink-1" ? 20e9 : links.name == "nvlink-5" ? 50e9 : 25e9;
}

// What links inside a node follow from: NVLinks of the base's generation, or PCIe where the base has none of it.
void complete_links(ScenarioDraft& draft, const cluster::ClusterSpec& base) {
  const std::string up = "cluster.links.scale_up.";
  if (const auto& links = draft[Fact::nvlinks]; links && !draft.has(up + "bandwidth")) {
    const double rate = nvlink_rate(base.interconnect);
    draft.derive(up + "bandwidth", bandwidth_text(double(links->value) * rate),
                 fmt::format("{} links ({}) of {}, as {} has them", links->value, to_text(links->origin),
                             bandwidth_text(rate), base.name));
  }
  const Json* inside = draft.find("cluster.node_topology");
  if (!inside) inside = draft.find("cluster.node_topology.name");
  const bool pcie = inside && inside->is_string() && inside->text() == "pcie-host";
  if (!pcie || base.interconnect.kind == cluster::LinkKind::pcie || draft.has(up + "interconnect")) return;
  draft.derive(up + "interconnect.use", "assumed-pcie",
               fmt::format("GPUs are joined by PCIe, and not as in {}", base.name));
  if (base.host.pcie)
    draft.assume(up + "bandwidth", bandwidth_text(base.host.pcie->value()),
                 fmt::format("no file says it; between a GPU and its host in {}", base.name));
  if (!base.collectives.empty() && !draft.has("cluster.collectives"))
    draft.derive("cluster.collectives", nullptr, fmt::format("those of {} are of NVLink", base.name));
}

// What is left open of NICs that a file counts, and of switches that it lists.
void complete_fabric(ScenarioDraft& draft, const cluster::ClusterSpec& base) {
  const std::string out = "cluster.links.scale_out.";
  if (draft.has(out + "per_node") && base.nics_per_node > 0)
    draft.assume(out + "bandwidth", bandwidth_text(base.nic.value()), fmt::format("no file says it; as {}", base.name));
  const auto& leaf = draft[Fact::nodes_per_leaf];
  if (!leaf || draft.has("cluster.topology")) return;
  const auto how = fmt::format("{} nodes on a leaf ({})", leaf->value, to_text(leaf->origin));
  const auto levels = draft[Fact::switch_levels] ? draft[Fact::switch_levels]->value : 2;
  if (levels <= 2 && base.topology.name.starts_with("rail-")) {
    draft.derive("cluster.topology.name", base.topology.name, fmt::format("as {}", base.name));
    draft.derive("cluster.topology.nodes_per_leaf", leaf->value, how);
    return;
  }
  const auto nics = draft.integer(out + "per_node", std::max<std::int64_t>(1, base.nics_per_node));
  draft.derive("cluster.topology.name", "fat-tree", "switches in levels");
  if (levels > 2) draft.derive("cluster.topology.levels", 3, to_text(draft[Fact::switch_levels]->origin));
  draft.derive("cluster.topology.radix", 2 * nics * leaf->value,
               how + fmt::format(" with {} NICs each, as many ports up", nics));
}

}  // namespace

std::string nearest_cluster(const Sheet& sheet, const scenario::Files& files) {
  std::string best;
  double least = std::numeric_limits<double>::max();
  const auto asked = small_letters(sheet.gpu);
  for (const auto& name : files.names_in(files.home() + "/configs/clusters")) {
    if (name == "this-machine") continue;
    const auto spec = scenario::load_named_cluster(name, {}, files).spec;
    if (!asked.empty() && !spec.gpu.name.starts_with(asked)) continue;
    // A GPU by its data sheet first; of those that have it, the one with such links.
    const double distance =
        4 * (apart(peak_of(spec.gpu), sheet.peak) + apart(spec.gpu.memory_bandwidth.value(), sheet.memory_bandwidth)) +
        2 * apart(double(spec.gpu.memory.count()), sheet.memory) + apart(spec.nvlink.value(), sheet.scale_up) +
        apart(spec.nic.value() * double(spec.nics_per_node), sheet.node_out) +
        apart(double(spec.gpus_per_node), double(sheet.gpus_per_node)) +
        (is_usual(name, files) ? 0 : .001);  // of equals the usual one
    if (distance < least) least = distance, best = name;
  }
  return best;
}

std::string bandwidth_text(double rate) { return in_units(rate, {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}}); }
std::string flop_rate_text(double rate) { return in_units(rate, {{1e12, "TFLOP/s"}}); }
std::string time_text(double seconds) { return in_units(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}); }
std::string size_text(double bytes) {
  for (const auto& [unit, name] :
       {std::pair(0x1p40, "TiB"), std::pair(0x1p30, "GiB"), std::pair(0x1p20, "MiB"), std::pair(0x1p10, "KiB")})
    if (bytes >= unit && std::fmod(bytes, unit) == 0) return fmt::format("{:.0f}{}", bytes / unit, name);
  return fmt::format("{:.0f}B", bytes);
}

void complete_machine(ScenarioDraft& draft, const scenario::Files& files) {
  const Json* use = draft.find("cluster.use");
  if (!use || !use->is_string()) return;
  const auto name = use->text();
  const auto plain = scenario::load_named_cluster(name, {}, files).spec;
  complete_links(draft, plain);
  complete_fabric(draft, plain);
  name_part(draft, "cluster.gpu", plain.gpu.name, name);
  name_part(draft, "cluster.links.scale_up.interconnect", plain.interconnect.name, name);
  if (!draft.has("cluster.collectives.measured") && !draft.has("cluster.collectives.fitted")) return;
  const auto spec = base_of(draft, name, files).spec;
  const auto how = fmt::format("the machine itself, {}", name);
  const auto inside = spec.node_topology.name.empty() ? spec.topology.name : spec.node_topology.name;
  const std::string on = "cluster.collectives.measured_on.";
  draft.derive(on + "nvlink", bandwidth_text(spec.nvlink.value()), how);
  draft.derive(on + "latency", time_text(to_seconds(spec.nvlink_latency)), how);
  draft.derive(on + "topology", inside, how);
  draft.derive(on + "gpus", spec.gpus_per_node, how);
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string line;
    for (std::size_t i = at; i < end; ++i) {
      if (text[i] == '\x1b' && i + 1 < end && text[i + 1] == '[') {  // ESC [ ... letter
        i += 2;
        while (i < end && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
        continue;
      }
      if (text[i] != '\r') line += text[i];
    }
    lines.push_back({++number, std::move(line)});
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> words_of(std::string_view line, std::string_view between) {
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(between); at != line.npos;) {
    const auto end = std::min(line.find_first_of(between, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(between, end);
  }
  return words;
}

}  // namespace rehearsal::interchange
