// InfraGraph (Keysight/infragraph 2701fa51): devices of components and the links between them, instances of devices,
// and connections "server.0.nic.0.eth1.leafsw.0.port.0" between those.
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

const scenario::Node* root_of(const Source& source) {
  const auto* below = source.find("infrastructure");
  return below ? below : source.tree;
}

const scenario::Node* list_in(const scenario::Node* map, std::string_view key) {
  const auto* list = map && map->kind == scenario::Node::Kind::map ? map->find(key) : nullptr;
  return list && list->kind == scenario::Node::Kind::sequence ? list : nullptr;
}

std::string text_in(const scenario::Node* map, std::string_view key) {
  const auto* value = map && map->kind == scenario::Node::Kind::map ? map->find(key) : nullptr;
  return value && value->kind == scenario::Node::Kind::scalar ? value->text : "";
}

bool recognises(const Source& source) {
  if (!source.tree) return false;
  const auto* root = root_of(source);
  const auto* connections = list_in(root, "connections");
  return connections && list_in(root, "instances") && !connections->items.empty() &&
         connections->items[0]->kind == scenario::Node::Kind::scalar &&
         words_of(connections->items[0]->text, ".").size() == 9;
}

// One end: "server.0.nic.3", of a device alone "xpu.3".
struct End {
  std::string instance, component;
  std::int64_t which = 0, part = 0;
  std::string place() const { return fmt::format("{}.{}", instance, which); }
};
struct Connection {
  End a, b;
  std::string link;
  const scenario::Node* at;
};

std::int64_t index_of(const scenario::Node& at, const std::string& text) {
  const auto value = integer_of(text);
  if (!value || *value < 0) wrong(at, fmt::format("'{}' of '{}' must be a number", text, at.text));
  return *value;
}

std::vector<Connection> connections_of(const scenario::Node* list, bool of_device) {
  std::vector<Connection> all;
  if (!list) return all;
  for (const auto* at : list->items) {
    const auto words = words_of(at->text, ".");
    if (words.size() != (of_device ? 5U : 9U))
      wrong(*at, of_device ? "a connection inside a device is 'component.N.link.component.N'"
                           : "a connection is 'instance.N.component.N.link.instance.N.component.N'");
    if (of_device)
      all.push_back(
          {{"", words[0], 0, index_of(*at, words[1])}, {"", words[3], 0, index_of(*at, words[4])}, words[2], at});
    else
      all.push_back({{words[0], words[2], index_of(*at, words[1]), index_of(*at, words[3])},
                     {words[5], words[7], index_of(*at, words[6]), index_of(*at, words[8])},
                     words[4],
                     at});
  }
  return all;
}

struct Rate {
  double bytes = 0;  // a second
  const scenario::Node* at = nullptr;
  std::string word;
};

// Both spellings of the units are about: gigabytes_per_second and giga_bytes_per_second.
std::map<std::string, Rate, std::less<>> rates_of(const scenario::Node* links) {
  std::map<std::string, Rate, std::less<>> all;
  if (!links) return all;
  for (const auto* link : links->items) {
    const auto* bandwidth = link->kind == scenario::Node::Kind::map ? link->find("bandwidth") : nullptr;
    if (!bandwidth || bandwidth->kind != scenario::Node::Kind::map) continue;
    for (const auto& [key, value] : bandwidth->entries) {
      const double unit = key->text.find("bits") != std::string::npos    ? 1e9 / 8
                          : key->text.find("bytes") != std::string::npos ? 1e9
                                                                         : 0;
      const auto rate = number_of(value->text);
      if (unit > 0 && rate && *rate > 0)
        all[text_in(link, "name")] = {*rate * unit, value, fmt::format("{} of {}", key->text, text_in(link, "name"))};
    }
  }
  return all;
}

class Graph {
 public:
  Graph(Sources& sources, const Source& source, ScenarioDraft& draft)
      : sources_(sources),
        draft_(draft),
        root_(root_of(source)),
        rates_(rates_of(list_in(root_, "links"))),
        connections_(connections_of(list_in(root_, "connections"), false)) {}

  void read() {
    find_server();
    if (server_) inside();
    between();
    if (!draft_.has("cluster.use") && server_)
      draft_.wanted(server_->where(), "cluster.use", "which GPUs these are",
                    "the name of the machine: --cluster NAME (rehearse list clusters)");
  }

 private:
  // The device with GPUs, and the names of its instances; of a device that another file defines, instances with NICs.
  void find_server() {
    std::string device;
    if (const auto* devices = list_in(root_, "devices"))
      for (const auto* one : devices->items)
        if (const auto* components = list_in(one, "components"))
          for (const auto* component : components->items)
            if (const auto type = text_in(component, "type"); type == "xpu" || type == "gpu") {
              server_ = one, xpu_ = component, device = text_in(one, "name");
              break;
            }
    if (const auto* instances = list_in(root_, "instances"))
      for (const auto* one : instances->items)
        if (!device.empty() && text_in(one, "device") == device) servers_.insert(text_in(one, "name"));
    for (const auto& connection : connections_)
      for (const auto* end : {&connection.a, &connection.b}) {
        const bool of_server = end->component == "nic" || end->component == "xpu" || end->component == "pciesw";
        if (servers_.empty() && of_server) servers_.insert(end->instance);
      }
  }

  void inside() {
    const auto name = text_in(xpu_, "name");
    std::set<std::int64_t> gpus;
    std::map<std::string, std::map<std::int64_t, std::set<std::int64_t>>> beside;  // component -> its number -> GPUs
    std::map<std::string, const Connection*> first;
    const auto connections = connections_of(list_in(server_, "connections"), true);
    for (const auto& connection : connections)
      for (const auto& [gpu, other] :
           {std::pair(&connection.a, &connection.b), std::pair(&connection.b, &connection.a)})
        if (gpu->component == name) {
          gpus.insert(gpu->part);
          beside[other->component][other->part].insert(gpu->part);
          first.emplace(other->component, &connection);
        }
    const auto count = integer_of(text_in(xpu_, "count")).value_or(std::int64_t(gpus.size()));
    draft_.say("cluster.gpus_per_node", std::max<std::int64_t>(1, count), *xpu_, fmt::format("{} of a device", name));
    for (const auto& [component, parts] : beside) {
      const bool joins_all = std::all_of(parts.begin(), parts.end(),
                                         [&](const auto& part) { return std::int64_t(part.second.size()) == count; });
      const auto& connection = *first[component];
      if (count > 1 && joins_all && component != "cpu" && component != "nic") {
        draft_.say("cluster.node_topology", "nvswitch", *connection.at,
                   fmt::format("all {} on each {}", name, component));
        if (const auto rates = rates_of(list_in(server_, "links")); rates.contains(connection.link))
          draft_.say("cluster.links.scale_up.bandwidth",
                     bandwidth_text(rates.at(connection.link).bytes * double(parts.size())),
                     *rates.at(connection.link).at, fmt::format("{} links of {}", parts.size(), connection.link));
      } else if (component.find("pci") != std::string::npos && !joins_all) {
        draft_.say("cluster.host.pcie.gpus_per_link", std::int64_t(parts.begin()->second.size()), *connection.at,
                   fmt::format("{} behind a {}", name, component));
      }
    }
    if (const auto cluster = cluster_with(text_in(xpu_, "description"), sources_.files()))
      draft_.say("cluster.use", *cluster, *xpu_, text_in(xpu_, "description"));
  }

  // NICs of servers, and switches that these meet on.
  void between() {
    std::map<std::string, std::set<std::string>> nics_of, servers_of;  // of a server; of a switch
    std::map<std::string, std::set<std::string>> leaves_of;            // of a server
    const Connection* first = nullptr;
    double down = 0, up = 0;
    std::set<std::string> spines;
    for (const auto& connection : connections_) {
      const bool a = servers_.contains(connection.a.instance), b = servers_.contains(connection.b.instance);
      const auto rate = rates_.find(connection.link);
      if (a == b) {
        if (a) continue;
        up += rate == rates_.end() ? 0 : rate->second.bytes;
        spines.insert(connection.b.place());
        continue;
      }
      const auto& server = a ? connection.a : connection.b;
      const auto& other = a ? connection.b : connection.a;
      if (!first) first = &connection;
      // A NIC that is a device of its own hangs on a part of the server.
      const bool own_nic = server.component != "nic";
      nics_of[server.place()].insert(own_nic ? other.place() : fmt::format("{}", server.part));
      if (own_nic) continue;
      servers_of[other.place()].insert(server.place());
      leaves_of[server.place()].insert(other.place());
      down += rate == rates_.end() ? 0 : rate->second.bytes;
    }
    if (!first) return;
    const auto nics = std::int64_t(nics_of.begin()->second.size());
    draft_.say("cluster.links.scale_out.per_node", nics, *first->at, "NICs of a server that are connected");
    if (const auto rate = rates_.find(first->link); rate != rates_.end()) {
      draft_.say("cluster.links.scale_out.bandwidth", bandwidth_text(rate->second.bytes), *rate->second.at,
                 rate->second.word);
      const auto description = text_in(root_, "description");
      if (rate->second.word.find("bytes") != std::string::npos &&
          description.find(fmt::format("{:g}Gbps", rate->second.bytes / 1e9)) != std::string::npos)
        draft_.no_word(
            rate->second.at->where(),
            fmt::format("the description says {:g}Gbps, and the link has as many bytes", rate->second.bytes / 1e9),
            "taken as the link says");
    }
    if (nics_of.size() > 1)
      draft_.say("cluster.nodes", std::int64_t(nics_of.size()), *first->at, "servers that are connected");
    if (servers_of.empty()) return;
    fabric(*first, servers_of, leaves_of, spines, down, up);
  }

  void fabric(const Connection& first, const std::map<std::string, std::set<std::string>>& servers_of,
              const std::map<std::string, std::set<std::string>>& leaves_of, const std::set<std::string>& spines,
              double down, double up) {
    const auto& at = *first.at;
    if (servers_of.size() == 1) return draft_.say("cluster.topology", "one-switch", at, "all on one switch");
    const auto per_leaf = std::int64_t(servers_of.begin()->second.size());
    const bool one_leaf =
        std::all_of(leaves_of.begin(), leaves_of.end(), [](const auto& s) { return s.second.size() == 1; });
    const std::string name = "cluster.topology.";
    if (one_leaf) {
      const auto nics = draft_.integer("cluster.links.scale_out.per_node", 1);
      draft_.say(name + "name", "fat-tree", at, "all NICs of a server on one switch");
      draft_.derive(name + "radix", 2 * nics * per_leaf,
                    fmt::format("{} servers on a switch with {} NICs each, as many ports up", per_leaf, nics));
    } else {
      draft_.say(name + "name", spines.empty() ? "rail-only" : "rail-optimized", at,
                 "NICs of a server on several switches");
      draft_.derive(name + "nodes_per_leaf", per_leaf, "servers on a switch");
    }
    if (down > 0 && up > 0 && down > up * 1.001)
      draft_.derive(name + "oversubscription", down / up, "rates of all links to servers over those between switches");
  }

  Sources& sources_;
  ScenarioDraft& draft_;
  const scenario::Node* root_;
  const std::map<std::string, Rate, std::less<>> rates_;
  const std::vector<Connection> connections_;
  const scenario::Node *server_ = nullptr, *xpu_ = nullptr;
  std::set<std::string> servers_;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  if (!recognises(source))
    throw UserError(
        {{{source.name, 1, 1},
          "no InfraGraph: it has 'instances', and 'connections' such as server.0.nic.0.eth.leaf.0.port.0"}});
  Graph(sources, source, draft).read();
}

}  // namespace

void register_infragraph(Registry& registry) {
  registry.add({.name = "infragraph",
                .title = "an InfraGraph",
                .summary = "InfraGraph: GPUs, NICs and switches of `cluster`",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
