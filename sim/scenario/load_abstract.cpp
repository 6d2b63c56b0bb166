// Abstract scenarios: given times instead of a model and a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/quantity_text.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

const Time kLongest = seconds(3600);

// Memory as bare numbers or as sizes such as 100MB, but not both. `with_unit` remembers which the first one was.
class MemoryUnit {
 public:
  explicit MemoryUnit(Diagnostics& problems) : problems_(problems) {}

  std::optional<double> read(const Node& node, const std::string& what) {
    const auto last = node.kind == Node::Kind::scalar && !node.text.empty() ? node.text.back() : '0';
    const bool unit = (last >= 'a' && last <= 'z') || last == 'B';
    std::optional<double> value;
    if (unit) {
      if (const auto size = read_bytes(problems_, node, what)) value = double(size->count());
    } else {
      value = read_number(problems_, node, what, {0, 1e18});
    }
    if (value && *value != 0) {
      if (with_unit_ && *with_unit_ != unit)
        problems_.error(
            node.where(),
            fmt::format("{} is given {} a unit, but other memory of this scenario {} one; use the same unit for all",
                        what, unit ? "with" : "without", unit ? "without" : "with"));
      with_unit_ = unit;
    }
    return value;
  }

  std::vector<double> read_all(const Node* node, const std::string& what, std::size_t stages) {
    if (!node) return {};
    if (node->kind != Node::Kind::sequence) return std::vector<double>(stages, read(*node, what).value_or(0));
    std::vector<double> values;
    if (node->items.size() != stages)
      problems_.error(
          node->where(),
          fmt::format("{} lists {} values, but there are {} stages; give one value for each, or one for all", what,
                      node->items.size(), stages));
    for (const Node* item : node->items) values.push_back(read(*item, what).value_or(0));
    values.resize(stages);
    return values;
  }

 private:
  Diagnostics& problems_;
  std::optional<bool> with_unit_;
};

// The edges between stages: [from, to] or [from, to, time].
void read_edges(Diagnostics& problems, const Node& node, std::size_t stages, AbstractCosts& costs) {
  const auto& form = cost_fields().at("costs.edges").form;
  const IntegerRange range{0, static_cast<std::int64_t>(stages) - 1};
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;
  for (const auto& [edge, at] :
       read_entries<schedule::Edge>(problems, node, "edges", form, {.transfer = costs.transfer})) {
    const auto before = problems.count();
    for (const Node* stage : {at->items[0], at->items[1]}) read_integer(problems, *stage, "a stage of 'edges'", range);
    if (problems.count() != before) continue;
    if (edge.from >= edge.to)
      problems.error(
          at->where(),
          fmt::format(
              "the edge from stage {} to stage {} does not go forward; an edge leads from a stage to a later one",
              edge.from, edge.to));
    else if (!known.insert({edge.from, edge.to}).second)
      problems.error(at->where(),
                     fmt::format("the edge from stage {} to stage {} is listed twice", edge.from, edge.to));
    else
      costs.edges.push_back(edge);
  }
  std::sort(costs.edges.begin(), costs.edges.end(),
            [](const auto& a, const auto& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
}

}  // namespace

AbstractCosts load_costs(Context& context, const Node& node, const Node* memory, std::size_t stages,
                         ScheduleChoice& schedule) {
  auto& problems = context.problems;
  AbstractCosts costs;
  MapReader map(problems, node, "costs");
  const auto times = [&](const char* key, const char* sense) {
    const auto before = problems.count();
    const Node* value = map.require(key, sense);
    auto list = read_list<Time>(problems, value, fmt::format("'{}'", key), stages, "stages", read_time);
    if (list.empty() && value && problems.count() == before)
      problems.error(value->where(), fmt::format("'{}' is empty", key));
    // No step of training takes an hour per stage, and sums of such times must stay below 2^63 picoseconds.
    const auto longest = list.empty() ? Time{} : *std::max_element(list.begin(), list.end());
    if (longest > kLongest)
      problems.error(value->where(),
                     fmt::format("'{}' {} is longer than an hour, which is the most", key, show(longest)));
    return list;
  };
  costs.forward = times("forward", "the time of one forward of a stage, such as 18.5ms");
  costs.backward = times("backward", "the time of one input gradient of a stage, such as 18.1ms");
  costs.weight = times("weight", "the time of one weight gradient of a stage, such as 9.3ms");
  costs.transfer = map.time("transfer", true, Time{});
  if (costs.transfer > kLongest)
    problems.error(map.at("transfer"), "'transfer' is longer than an hour, which is the most");
  if (const Node* edges = map.find("edges")) read_edges(problems, *edges, stages, costs);
  map.finish();
  for (const auto t : costs.forward)
    if (t == Time{}) {
      problems.error(map.at("forward"), "'forward' must be above zero");
      break;
    }

  if (!memory) return costs;
  MapReader sizes(problems, *memory, "memory");
  MemoryUnit unit(problems);
  costs.activation =
      unit.read_all(sizes.require("activation", "memory of one forward of a stage (M_B)"), "'activation'", stages);
  costs.weight_hold = unit.read_all(sizes.find("weight_hold"), "'weight_hold'", stages);
  if (costs.weight_hold.empty()) costs.weight_hold.assign(costs.activation.size(), 0);
  if (const Node* limit = sizes.nullable("limit")) {
    if (schedule.memory_limit)
      problems.error(limit->where(),
                     "the limit is given twice: here and as 'schedule.memory_limit'; leave one of them out");
    else if (limit->kind == Node::Kind::sequence)
      problems.error(limit->where(), "'limit' must be one value for all ranks; limits per rank are not supported");
    else if (const auto value = unit.read(*limit, "'limit'")) {
      schedule.memory_limit = *value;
      if (*value <= 0) problems.error(limit->where(), "'limit' must be above zero; leave it out for no limit");
    }
  }
  sizes.finish();
  return costs;
}

}  // namespace rehearsal::scenario
