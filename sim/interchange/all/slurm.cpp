// Slurm's topology: topology.conf, topology.yaml, and what `scontrol show topology` prints (man pages topology.conf(5)
// and topology.yaml(5) of Slurm). Leaf switches with nodes, switches above them, and blocks of nodes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"

namespace rehearsal::interchange {
namespace {

bool is_entry(std::string_view line) {
  const auto small = small_letters(line.substr(0, 12));
  return small.starts_with("switchname=") || small.starts_with("blockname=");
}

const scenario::Node* first_of(const Source& source) {
  return source.tree && source.tree->kind == scenario::Node::Kind::sequence && !source.tree->items.empty()
             ? source.tree->items[0]
             : nullptr;
}

bool is_yaml(const Source& source) {
  const auto* first = first_of(source);
  return first && first->kind == scenario::Node::Kind::map && first->find("topology") &&
         (first->find("tree") || first->find("block") || first->find("flat"));
}

bool recognises(const Source& source) {
  if (is_yaml(source)) return true;
  if (source.kind != Source::Kind::text) return false;
  const auto lines = lines_of(source.text);
  return std::any_of(lines.begin(), lines.end(), [](const Line& line) { return is_entry(line.text); });
}

// Names of a list of hosts: "dev[0-5,8]", "rack[1-2]n[01-16]", "a,b".
class Hosts {
 public:
  Hosts(const std::string& text, const Location& where) : where_(where) {
    std::string one;
    int depth = 0;
    for (const char c : text + ",") {
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (c == ',' && depth == 0) {
        if (!one.empty()) expand("", one);
        one.clear();
      } else if (c != ' ') {
        one += c;
      }
    }
    if (depth != 0) wrong(text);
  }
  std::set<std::string> names;

 private:
  static constexpr std::size_t kMost = 1'000'000;

  [[noreturn]] void wrong(const std::string& text) const {
    throw UserError({{where_, fmt::format("no list of names: '{}'; write such as node[01-16,20]", text)}});
  }
  void expand(const std::string& before, const std::string& rest) {
    const auto open = rest.find('[');
    if (open == std::string::npos) {
      names.insert(before + rest);
      if (names.size() > kMost) throw UserError({{where_, fmt::format("more than {} names", kMost)}});
      return;
    }
    const auto close = rest.find(']', open);
    if (close == std::string::npos) wrong(rest);
    for (const auto& range : words_of(rest.substr(open + 1, close - open - 1), ",")) {
      const auto dash = range.find('-');
      const auto low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
      const auto from = integer_of(low), to = integer_of(high);
      if (!from || !to || *from < 0 || *to < *from || *to - *from >= std::int64_t(kMost)) wrong(range);
      for (auto n = *from; n <= *to; ++n)
        expand(before + rest.substr(0, open) + fmt::format("{:0{}}", n, low.size()), rest.substr(close + 1));
    }
  }
  Location where_;
};

struct Group {
  int line;
  std::set<std::string> nodes, switches;
};
struct Topology {
  std::map<std::string, Group> switches, blocks;
  std::string sizes;  // of blocks, as said
  int sizes_line = 0;
};

// "SwitchName=s0 Nodes=dev[0-5]", also over lines that end in a backslash; scontrol adds Level= and LinkSpeed=.
Topology of_conf(const Source& source) {
  Topology all;
  std::string text;
  int number = 0;
  for (const auto& line : lines_of(source.text)) {
    if (text.empty()) number = line.number;
    text += line.text.substr(0, line.text.find('#'));
    while (text.ends_with(' ')) text.pop_back();
    if (text.ends_with('\\')) {
      text.back() = ' ';
      continue;
    }
    const Location where{source.name, number, 0};
    std::map<std::string, std::string> keys;
    for (const auto& word : words_of(text))
      if (const auto equals = word.find('='); equals != std::string::npos)
        keys[small_letters(word.substr(0, equals))] = word.substr(equals + 1);
    text.clear();
    if (keys.contains("blocksizes")) all.sizes = keys["blocksizes"], all.sizes_line = number;
    for (const auto& [key, of] : {std::pair("switchname", &all.switches), std::pair("blockname", &all.blocks)})
      if (keys.contains(key)) {
        auto& group = (*of)[keys[key]];
        group.line = number;
        if (keys.contains("nodes")) group.nodes = Hosts(keys["nodes"], where).names;
        if (keys.contains("switches")) group.switches = Hosts(keys["switches"], where).names;
      }
  }
  return all;
}

// The topology that is the cluster's default, else the first.
Topology of_yaml(const Source& source, ScenarioDraft& draft) {
  Topology all;
  const auto* chosen = first_of(source);
  for (const auto* one : source.tree->items) {
    const auto* is_default = one->kind == scenario::Node::Kind::map ? one->find("cluster_default") : nullptr;
    if (is_default && boolean_of(is_default->text) == std::optional(true)) chosen = one;
  }
  for (const auto* one : source.tree->items)
    if (one != chosen)
      draft.no_word(one->where(), "another topology", "the cluster's default is taken, else the first");
  const auto take = [&](const char* kind, const char* list, const char* name, std::map<std::string, Group>& groups) {
    const auto* of = chosen->find(kind);
    const auto* entries = of && of->kind == scenario::Node::Kind::map ? of->find(list) : nullptr;
    if (!entries || entries->kind != scenario::Node::Kind::sequence) return;
    for (const auto* entry : entries->items) {
      Keys keys(draft, entry, fmt::format("{}.", list));
      const auto called = keys.text({name}), nodes = keys.text({"nodes"}), children = keys.text({"children"});
      if (!called) wrong(*entry, fmt::format("'{}' is missing", name));
      auto& group = groups[called->value];
      group.line = entry->line;
      if (nodes) group.nodes = Hosts(nodes->value, nodes->at->where()).names;
      if (children) group.switches = Hosts(children->value, children->at->where()).names;
      keys.finish();
    }
  };
  take("tree", "switches", "switch", all.switches);
  take("block", "blocks", "block", all.blocks);
  if (const auto* block = chosen->find("block"); block && block->kind == scenario::Node::Kind::map)
    if (const auto* sizes = block->find("block_sizes"))
      all.sizes = scenario::flow_text(*sizes), all.sizes_line = sizes->line;
  return all;
}

// Levels of switches from nodes up; of a circle of switches, which Slurm refuses, some number.
class Levels {
 public:
  explicit Levels(const Topology& topology) : topology_(topology) {}
  int of(const std::string& name, int deepest = 64) {
    const auto [known, fresh] = known_.emplace(name, 1);
    if (!fresh) return known->second;
    int level = 1;
    const auto found = topology_.switches.find(name);
    if (found != topology_.switches.end() && deepest > 0)
      for (const auto& below : found->second.switches) level = std::max(level, 1 + of(below, deepest - 1));
    return known_[name] = level;
  }

 private:
  const Topology& topology_;
  std::map<std::string, int> known_;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  if (source.tree && !is_yaml(source))
    throw UserError(
        {{{source.name, 1, 1}, "no topology.yaml: it is a list of topologies, each with a tree or blocks"}});
  const auto topology = source.tree ? of_yaml(source, draft) : of_conf(source);
  if (topology.switches.empty() && topology.blocks.empty())
    throw UserError({{{source.name, 0, 0}, "a topology without switches and blocks: nothing follows for a cluster"}});
  const auto at = [&](int line) -> const scenario::Node& {
    return *sources.make(scenario::Node::Kind::null, source.name, line);
  };
  std::set<std::string> nodes;
  std::size_t most = 0, leaves = 0;
  int line = 0, levels = 0;
  Levels level(topology);
  for (const auto& [name, group] : topology.switches) {
    nodes.insert(group.nodes.begin(), group.nodes.end());
    const bool leaf = group.switches.empty() && !group.nodes.empty();  // scontrol lists nodes of higher ones, too
    leaves += leaf;
    if (leaf && group.nodes.size() > most) most = group.nodes.size(), line = group.line;
    levels = std::max(levels, level.of(name));
  }
  for (const auto& [name, group] : topology.blocks) nodes.insert(group.nodes.begin(), group.nodes.end());
  draft.assume(Fact::nodes, std::int64_t(nodes.size()),
               fmt::format("all nodes of {}; --world says how many GPUs the job has", source.name));
  if (leaves > 1) {
    draft.say(Fact::nodes_per_leaf, std::int64_t(most), at(line), "nodes of the largest leaf switch");
    draft.say(Fact::switch_levels, levels, at(line), "levels of switches");
  } else if (leaves == 1) {
    draft.say("cluster.topology", "one-switch", at(line), "one leaf switch");
  }
  if (!topology.blocks.empty()) {
    const auto& [name, first] = *topology.blocks.begin();
    draft.no_word({source.name, first.line, 0},
                  fmt::format("{} blocks, {} of {} nodes{}", topology.blocks.size(), name, first.nodes.size(),
                              topology.sizes.empty() ? "" : ", sizes " + topology.sizes),
                  "where a block is one NVLink domain it is a node of the cluster: --cluster gb200-nvl72");
  }
}

}  // namespace

void register_slurm(Registry& registry) {
  registry.add({.name = "slurm",
                .title = "a topology of Slurm",
                .summary = "Slurm's topology.conf, topology.yaml, scontrol show topology: leaf switches",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
