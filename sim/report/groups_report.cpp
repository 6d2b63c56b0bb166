#include "report/groups_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kWholeMap = 64;   // jobs with up to this many GPUs show all of them
constexpr std::uint32_t kFirstNodes = 2;  // nodes shown of larger jobs
constexpr std::size_t kMembers = 8;       // of a group that is listed in full

using Groups = std::vector<std::vector<std::uint32_t>>;

// The groups of an axis, and how they lie.
struct AxisGroups {
  AxisGroups(const GroupMap& map, Axis axis) : size(map.mesh.size(axis)), all(map.mesh.groups(axis)) {
    bool even = true;
    for (const auto& group : all) {
      std::uint32_t nodes = 1;  // members are ascending
      for (std::size_t i = 1; i < group.size(); ++i) {
        const auto step = group[i] - group[i - 1];
        nodes += group[i] / map.per_node != group[i - 1] / map.per_node;
        even = even && apart.value_or(step) == step, apart = step;
      }
      least = std::min(least, nodes), most = std::max(most, nodes);
    }
    if (!even) apart.reset();
  }

  std::uint32_t size;
  Groups all;
  std::uint32_t least = UINT32_MAX, most = 0;  // nodes that one group spans
  std::optional<std::uint32_t> apart;          // nothing where they are not evenly spaced
};

std::string words(const AxisGroups& groups) {
  const auto count = groups.all.size();
  return fmt::format(
      "{} group{} of {} GPUs, {}, {} on {} node{}", grouped(count), count == 1 ? "" : "s", groups.size,
      !groups.apart        ? "unevenly spaced"
      : *groups.apart == 1 ? "side by side"
                           : fmt::format("{} apart", *groups.apart),
      count == 1 ? "" : "each",
      groups.least == groups.most ? std::to_string(groups.most) : fmt::format("{} to {}", groups.least, groups.most),
      groups.most == 1 ? "" : "s");
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

std::string group_words(const GroupMap& map, Axis axis) { return words({map, axis}); }

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
    const AxisGroups groups(map, axis);
    const auto numbers = group_numbers(mesh, axis);
    text += fmt::format("\n{}  {}\n", paint.bold(name(axis)), words(groups));
    // Group numbers of the GPUs of a node; printed once if it is the same for all.
    const auto cell = fmt::format("{}", groups.all.size() - 1).size();
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
    text += paint.dim(fmt::format("  group 0 = GPUs {}", some(groups.all.front()))) + "\n";
  }
  if (!alone.empty()) text += fmt::format("\n{} 1: every GPU is its own group there.\n", alone);
  std::vector<std::string> notes_below{"A number is that of the group; GPUs of a node stand in their order."};
  if (nodes < map.nodes()) notes_below.emplace_back("--format json lists every group, --format csv every GPU.");
  return fit(text + notes("Reading", notes_below, style.width, paint), style.width);
}

Shown<GroupMap> groups_answer() {
  Shown<GroupMap> mesh("Sizes of the axes; order: from the innermost.");
  mesh.figure("order", [](auto& m) {
    std::vector<std::string> order;
    for (const Axis axis : m.mesh.order()) order.push_back(key(axis));
    return order;
  });
  for (const Axis axis : kShownAxes) mesh.figure(key(axis), [axis](auto& m) { return m.mesh.size(axis); });
  const auto itself = [](auto& of) { return &of; };
  const auto by_axis = [](const GroupMap& map) {
    std::vector<std::pair<std::string, AxisGroups>> all;
    for (const Axis axis : kShownAxes) all.emplace_back(key(axis), AxisGroups(map, axis));
    return all;
  };
  return Shown<GroupMap>("Which GPU is in which group along every axis.")
      .figure("name", &GroupMap::title)
      .figure("gpus", [](auto& m) { return m.mesh.ranks(); })
      .figure("nodes", &GroupMap::nodes)
      .figure("gpus_per_node", &GroupMap::per_node)
      .group("mesh", mesh, itself)
      .named_rows(
          "axes",
          Shown<AxisGroups>("By axis.")
              .figure("groups", [](auto& g) { return g.all.size(); })
              .figure("size", &AxisGroups::size)
              .figure("apart", Unit::none, "null: not evenly", &AxisGroups::apart)
              .group("nodes_of_a_group",
                     Shown<AxisGroups>().figure("least", &AxisGroups::least).figure("most", &AxisGroups::most), itself),
          by_axis)
      .named("groups", Unit::none, "", "GPUs of every group, by axis", [](const GroupMap& map) {
        std::vector<std::pair<std::string, Groups>> all;
        for (const Axis axis : kShownAxes) all.emplace_back(key(axis), map.mesh.groups(axis));
        return all;
      });
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
