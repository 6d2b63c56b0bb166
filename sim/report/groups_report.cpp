#include "report/groups_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/json.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kWholeMap = 64;   // jobs with up to this many GPUs show all of them
constexpr std::uint32_t kFirstNodes = 2;  // nodes shown of larger jobs
constexpr std::size_t kMembers = 8;       // of a group that is listed in full

using Groups = std::vector<std::vector<std::uint32_t>>;

struct Spread {
  std::uint32_t least = 0, most = 0;  // nodes that one group spans
};
Spread spread(const GroupMap& map, const Groups& groups) {
  Spread all{UINT32_MAX, 0};
  for (const auto& group : groups) {
    std::uint32_t nodes = 1;  // members are ascending
    for (std::size_t i = 1; i < group.size(); ++i) nodes += group[i] / map.per_node != group[i - 1] / map.per_node;
    all.least = std::min(all.least, nodes), all.most = std::max(all.most, nodes);
  }
  return all;
}

// Nothing where the groups are not evenly spaced.
std::optional<std::uint32_t> distance(const Groups& groups) {
  std::optional<std::uint32_t> apart;
  for (const auto& group : groups)
    for (std::size_t i = 1; i < group.size(); ++i) {
      const auto step = group[i] - group[i - 1];
      if (apart.value_or(step) != step) return std::nullopt;
      apart = step;
    }
  return apart;
}

std::string words(const GroupMap& map, Axis axis, const Groups& groups) {
  const auto size = map.mesh.size(axis);
  const auto on = spread(map, groups);
  const auto apart = distance(groups);
  return fmt::format("{} group{} of {} GPUs, {}, {} on {} node{}", grouped(groups.size()),
                     groups.size() == 1 ? "" : "s", size,
                     !apart        ? "unevenly spaced"
                     : *apart == 1 ? "side by side"
                                   : fmt::format("{} apart", *apart),
                     groups.size() == 1 ? "" : "each",
                     on.least == on.most ? std::to_string(on.most) : fmt::format("{} to {}", on.least, on.most),
                     on.most == 1 ? "" : "s");
}

std::string some(const std::vector<std::uint32_t>& group) {
  if (group.size() <= kMembers) return fmt::format("{}", fmt::join(group, " "));
  const std::vector<std::uint32_t> first(group.begin(), group.begin() + kMembers - 1);
  return fmt::format("{} ... {}", fmt::join(first, " "), group.back());
}

bool folds(const plan::Mesh& mesh) { return mesh.size(Axis::expert) * mesh.size(Axis::expert_tensor) > 1; }

// "tensor 8, context 1, data 2, pipeline 4; experts: expert-tensor 1, expert 8, expert-data 2".
std::string order_text(const plan::Mesh& mesh) {
  std::string factors, experts;
  const auto add = [&](std::string& text, Axis axis) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name(axis), mesh.size(axis));
  };
  for (const Axis axis : mesh.order()) {
    if (axis != Axis::expert) add(factors, axis);
    if (axis == Axis::tensor) add(experts, Axis::expert_tensor);
    if (axis == Axis::expert) add(experts, Axis::expert);
    if (axis == Axis::data) add(experts, Axis::expert_data);
  }
  return folds(mesh) ? factors + "; of experts: " + experts : factors;
}

// As JSON and CSV spell it.
std::string key(Axis axis) {
  std::string text = name(axis);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace

bool is_shown(const plan::Mesh& mesh, Axis axis) {
  return mesh.size(axis) > 1 && (axis != Axis::expert_data || folds(mesh));
}

std::vector<std::uint32_t> group_numbers(const plan::Mesh& mesh, Axis axis) {
  std::vector<std::uint32_t> numbers(mesh.ranks());
  const auto groups = mesh.groups(axis);
  for (std::uint32_t g = 0; g < groups.size(); ++g)
    for (const auto rank : groups[g]) numbers[rank] = g;
  return numbers;
}

std::string group_words(const GroupMap& map, Axis axis) { return words(map, axis, map.mesh.groups(axis)); }

std::string to_text(const GroupMap& map, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto width = static_cast<std::size_t>(style.width);
  const auto& mesh = map.mesh;
  std::string text = paint.bold(map.title) + "\n";
  text += wrap(fmt::format("  {} GPUs on {} node{} of {}; from the innermost: {}", grouped(mesh.ranks()),
                           grouped(map.nodes()), map.nodes() == 1 ? "" : "s", map.per_node, order_text(mesh)),
               width, "  ") +
          "\n";
  const std::uint32_t nodes = mesh.ranks() <= kWholeMap ? map.nodes() : std::min(kFirstNodes, map.nodes());
  std::string alone;
  for (const Axis axis : kShownAxes) {
    if (!is_shown(mesh, axis)) {
      if (axis == Axis::tensor || axis == Axis::data || axis == Axis::pipeline)
        alone += fmt::format("{}{}", alone.empty() ? "" : ", ", name(axis));
      continue;
    }
    const auto groups = mesh.groups(axis);
    const auto numbers = group_numbers(mesh, axis);
    text += fmt::format("\n{}  {}\n", paint.bold(name(axis)), words(map, axis, groups));
    // Group numbers of the GPUs of a node; printed once if it is the same for all.
    const auto cell = fmt::format("{}", groups.size() - 1).size();
    const auto front = fmt::format("  node {} ", map.nodes() - 1).size() + 1;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      std::string line = fmt::format("{:<{}}", fmt::format("  node {}", node), front);
      const std::string indent(front, ' ');
      for (std::uint32_t gpu = node * map.per_node; gpu < std::min(mesh.ranks(), (node + 1) * map.per_node); ++gpu) {
        const auto number = fmt::format("{:>{}} ", numbers[gpu], cell);
        if (line.size() - line.rfind('\n') - 1 + number.size() > width) line += "\n" + indent;
        line += number;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    if (nodes < map.nodes()) text += paint.dim(fmt::format("  and {} nodes more", grouped(map.nodes() - nodes))) + "\n";
    text += paint.dim(fmt::format("  group 0 = GPUs {}", some(groups.front()))) + "\n";
  }
  if (!alone.empty()) text += fmt::format("\n{} 1: every GPU is its own group there.\n", alone);
  std::vector<std::string> notes_below{"A number is that of the group; GPUs of a node stand in their order."};
  if (nodes < map.nodes()) notes_below.emplace_back("--format json lists every group, --format csv every GPU.");
  return fit(text + notes("Reading", notes_below, style.width, paint), style.width);
}

std::string to_json(const GroupMap& map) {
  const auto& mesh = map.mesh;
  auto order = Json::array();
  for (const Axis axis : mesh.order()) order.push_back(key(axis));
  Json sizes{{"order", order}};
  std::string groups;
  Json axes = Json::object();
  for (const Axis axis : kShownAxes) {
    sizes[key(axis)] = mesh.size(axis);
    const auto all = mesh.groups(axis);
    const auto on = spread(map, all);
    axes[key(axis)] = Json{{"groups", all.size()},
                           {"size", mesh.size(axis)},
                           {"apart", distance(all)},
                           {"nodes_of_a_group", {{"least", on.least}, {"most", on.most}}}};
    groups += fmt::format("{}\n    {}: [", groups.empty() ? "" : ",", Json(key(axis)).dump());
    for (std::size_t g = 0; g < all.size(); ++g)
      groups += fmt::format("{}\n      {}", g ? "," : "", Json(all[g]).dump());
    groups += "\n    ]";
  }
  return fmt::format(
      "{{\n  \"name\": {},\n  \"gpus\": {},\n  \"nodes\": {},\n  \"gpus_per_node\": {},\n  \"mesh\": {},\n  \"axes\": "
      "{},\n  "
      "\"groups\": {{{}\n  }}\n}}\n",
      Json(map.title).dump(), mesh.ranks(), map.nodes(), map.per_node, sizes.dump(), axes.dump(), groups);
}

std::string to_csv(const GroupMap& map) {
  std::vector<std::string> cells{"gpu", "node"};
  std::vector<std::vector<std::uint32_t>> numbers;
  for (const Axis axis : kShownAxes) {
    cells.push_back(key(axis) + "_group"), cells.push_back(key(axis) + "_place");
    numbers.push_back(group_numbers(map.mesh, axis));
  }
  std::string text = csv_line(cells);
  for (std::uint32_t gpu = 0; gpu < map.mesh.ranks(); ++gpu) {
    cells = {std::to_string(gpu), std::to_string(gpu / map.per_node)};
    for (std::size_t a = 0; a < std::size(kShownAxes); ++a) {
      cells.push_back(std::to_string(numbers[a][gpu]));
      cells.push_back(std::to_string(map.mesh.along(kShownAxes[a], gpu)));
    }
    text += csv_line(cells);
  }
  return text;
}

}  // namespace rehearsal::report
