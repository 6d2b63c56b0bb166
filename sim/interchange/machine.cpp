#include "interchange/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::interchange {
namespace {

std::string small(std::string_view text) {
  std::string all;
  for (const char c : text) all += char(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

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
scenario::NamedCluster base_of(const Draft& draft, const std::string& name, const scenario::Files& files) {
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
void name_part(Draft& draft, const std::string& key, const std::string& name, const std::string& base) {
  if (draft.has(key) && !draft.find(key) && !draft.has(key + ".use") && !name.empty())
    draft.derive(key + ".use", name, "of " + base);
}

}  // namespace

std::string nearest_cluster(const Sheet& sheet, const scenario::Files& files) {
  std::string best;
  double least = std::numeric_limits<double>::max();
  const auto asked = small(sheet.gpu);
  for (const auto& name : files.names_in(files.home() + "/configs/clusters")) {
    if (name == "this-machine") continue;
    const auto spec = scenario::load_named_cluster(name, {}, files).spec;
    if (!asked.empty() && !spec.gpu.name.starts_with(asked)) continue;
    // A GPU by its data sheet first; of those that have it, the one with such links.
    const double distance =
        4 * (apart(peak_of(spec.gpu), sheet.peak) + apart(spec.gpu.memory_bandwidth.value(), sheet.memory_bandwidth)) +
        2 * apart(double(spec.gpu.memory.count()), sheet.memory) + apart(spec.nvlink.value(), sheet.scale_up) +
        apart(spec.nic.value() * double(spec.nics_per_node), sheet.node_out) +
        apart(double(spec.gpus_per_node), double(sheet.gpus_per_node));
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

void complete_machine(Draft& draft, const scenario::Files& files) {
  const Json* use = draft.find("cluster.use");
  if (!use || !use->is_string()) return;
  const auto name = use->text();
  const auto plain = scenario::load_named_cluster(name, {}, files).spec;
  name_part(draft, "cluster.gpu", plain.gpu.name, name);
  name_part(draft, "cluster.links.scale_up.interconnect", plain.interconnect.name, name);
  if (!draft.has("cluster.collectives.measured")) return;
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
