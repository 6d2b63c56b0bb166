// What describes a machine to ASTRA-sim 2 (astra-sim 518bd513): the network of its analytical backends (YAML:
// extern/network_backend/analytical, common/NetworkParser), the system layer (JSON: astra-sim/system/Sys.cc), and the
// logical topology of its ns-3 backend (JSON: "logical-dims"). "GB/s" are 2^30 bytes there (bw_GBps_to_Bpns).
#include <fmt/format.h>

#include <map>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"

namespace rehearsal::interchange {
namespace {

bool is_network(const Source& source) { return source.has({"topology", "npus_count", "bandwidth"}); }
bool is_system(const Source& source) {
  return source.has({"all-reduce-implementation"}) || source.has({"active-chunks-per-dimension"});
}
bool is_logical(const Source& source) { return source.has({"logical-dims"}); }

bool recognises(const Source& source) {
  return source.tree && (is_network(source) || is_system(source) || is_logical(source));
}

using Nodes = std::vector<const scenario::Node*>;
constexpr std::int64_t kMostNodes = 1'000'000;

std::int64_t whole(const scenario::Node& node, const char* what) {
  const auto value = integer_of(node.text);
  constexpr std::int64_t kMost = 1'000'000;
  if (!value || *value < 1 || *value > kMost)
    wrong(node, fmt::format("'{}' must be whole numbers from 1 to {}; found '{}'", what, kMost, node.text));
  return *value;
}

double number(const scenario::Node& node, const char* what) {
  const auto value = number_of(node.text);
  if (!value || *value < 0) wrong(node, fmt::format("'{}' must be numbers; found '{}'", what, node.text));
  return *value;
}

// The first dimension is the inside of a node; the others join nodes.
void say_sizes(const Nodes& counts, const char* key, ScenarioDraft& draft) {
  std::int64_t nodes = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto n = whole(*counts[i], key);
    if (i == 0)
      draft.say("cluster.gpus_per_node", n, *counts[i], fmt::format("{}, first dimension", key));
    else if ((nodes *= n) > kMostNodes)
      wrong(*counts[i], fmt::format("'{}' make more than {} nodes", key, kMostNodes));
  }
  if (counts.size() > 1) draft.say("cluster.nodes", nodes, *counts[1], fmt::format("{}, further dimensions", key));
}

// Blocks of both backends: a switch is two hops away, a neighbour of a ring or of all one.
struct Block {
  const char* inside;   // a node
  const char* between;  // nodes; null: there is no such topology
  int hops;
};
const Block& block_of(const scenario::Node& node) {
  static const std::map<std::string, Block, std::less<>> kBlocks{{"Switch", {"nvswitch", "one-switch", 2}},
                                                                 {"FullyConnected", {"full-mesh", nullptr, 1}},
                                                                 {"Ring", {nullptr, "torus", 1}}};
  const auto found = kBlocks.find(node.text);
  if (found == kBlocks.end())
    wrong(node, fmt::format("'topology' must be of Ring, FullyConnected and Switch; found '{}'", node.text));
  return found->second;
}

void say_topology(const Nodes& kinds, const Nodes& counts, ScenarioDraft& draft) {
  const auto& first = block_of(*kinds[0]);
  if (first.inside)
    draft.say("cluster.node_topology", first.inside, *kinds[0], fmt::format("topology {}", kinds[0]->text));
  else
    draft.no_word(kinds[0]->where(), "topology Ring inside a node", "the inside of a node is as the cluster says");
  if (kinds.size() < 2) return;
  bool rings = true;
  auto dims = Json::array();
  for (std::size_t i = 1; i < kinds.size(); ++i)
    rings &= kinds[i]->text == "Ring", dims.push_back(whole(*counts[i], "npus_count"));
  if (rings) {
    draft.say("cluster.topology.name", "torus", *kinds[1], "topology Ring");
    draft.say("cluster.topology.dims", std::move(dims), *counts[1], "npus_count");
    return;
  }
  const char* between = block_of(*kinds[1]).between;
  if (!between || kinds.size() > 2)
    draft.no_word(kinds[1]->where(),
                  fmt::format("{} of dimensions between nodes", kinds.size() > 2 ? "kinds" : kinds[1]->text),
                  "taken as one switch");
  draft.say("cluster.topology", "one-switch", *kinds[1], fmt::format("topology {}", kinds[1]->text));
}

void read_network(Keys keys, ScenarioDraft& draft) {
  const auto kinds = keys.list({"topology"}), counts = keys.list({"npus_count"}), rates = keys.list({"bandwidth"}),
             latencies = keys.list({"latency"});
  if (!kinds || !counts || !rates)
    wrong(*keys.map(), "'topology', 'npus_count' and 'bandwidth' must each have a value for every dimension");
  const std::size_t dims = kinds->value.size();
  for (const auto* list : {&counts, &rates, &latencies})
    if (*list && (*list)->value.size() != dims)
      wrong(*(*list)->at, fmt::format("'{}' has {} values, and 'topology' {} dimensions", (*list)->word,
                                      (*list)->value.size(), dims));
  if (dims == 0) wrong(*kinds->at, "'topology' names no dimension");
  say_sizes(counts->value, "npus_count", draft);
  say_topology(kinds->value, counts->value, draft);
  const std::string up = "cluster.links.scale_up.", out = "cluster.links.scale_out.";
  for (std::size_t i = 0; i < dims; ++i) {
    const auto& links = i == 0 ? up : out;
    const auto& rate = *rates->value[i];
    if (i > 1) {
      draft.no_word(rate.where(), fmt::format("bandwidth and latency of dimension {}", i + 1),
                    "links between nodes are alike");
      continue;
    }
    draft.say(links + "bandwidth", bandwidth_text(number(rate, "bandwidth") * 0x1p30), rate, "bandwidth x 2^30");
    if (i == 1) draft.say(out + "per_node", whole(*counts->value[0], "npus_count"), rate, "each NPU has its own link");
    if (!latencies) continue;
    const auto& latency = *latencies->value[i];
    const int hops = block_of(*kinds->value[i]).hops;
    draft.say(links + "latency", time_text(number(latency, "latency") * 1e-9 * hops), latency,
              fmt::format("latency x {} hop{}", hops, hops > 1 ? "s" : ""));
  }
  keys.finish();
}

void read_system(Keys keys, ScenarioDraft& draft, const scenario::Files& files) {
  Sheet sheet;
  const auto memory = keys.number({"local-mem-bw"}), peak = keys.number({"peak-perf"});
  if (memory) sheet.memory_bandwidth = memory->value * 1e9;
  if (peak) sheet.peak = peak->value * 1e12;
  if (memory || peak) {
    const auto name = nearest_cluster(sheet, files);
    draft.derive(
        "cluster.use", name,
        fmt::format(
            "nearest to a GPU with{}{}", peak ? " " + flop_rate_text(sheet.peak) : "",
            memory ? fmt::format("{} {} of memory", peak ? " and" : "", bandwidth_text(sheet.memory_bandwidth)) : ""));
  }
  for (const char* key :
       {"all-reduce-implementation", "all-gather-implementation", "reduce-scatter-implementation",
        "all-to-all-implementation", "all-reduce-implementation-custom", "all-gather-implementation-custom"})
    keys.no_word(key, {}, "the library of the cluster chooses");
  for (const char* key : {"endpoint-delay", "active-chunks-per-dimension", "preferred-dataset-splits"})
    keys.no_word(key, {"0", "1"}, "launches and steps of collectives are those of the interconnect");
  keys.ignore({"scheduling-policy", "collective-optimization", "boost-mode", "roofline-enabled", "trace-enabled",
               "replay-only", "track-local-mem"});
  keys.finish();
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  if (is_network(source)) return read_network(keys, draft);
  if (is_logical(source)) {
    if (const auto dims = keys.list({"logical-dims"})) say_sizes(dims->value, "logical-dims", draft);
    return keys.finish();
  }
  if (is_system(source)) return read_system(keys, draft, sources.files());
  throw UserError({{{source.name, 1, 1},
                    "none of ASTRA-sim's files: a network has 'topology', 'npus_count' and 'bandwidth', a system "
                    "'all-reduce-implementation', a logical topology 'logical-dims'"}});
}

}  // namespace

void register_astra_sim(Registry& registry) {
  registry.add({.name = "astra-sim",
                .title = "a description of a machine for ASTRA-sim",
                .summary = "ASTRA-sim's network, system or logical topology: `cluster`",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
