#include <fmt/format.h>

#include "plan/fields.hpp"
#include "plan/partition.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::scenario {

ParallelismChoice load_parallelism(Context& context, const Node* node, const Node& root) {
  auto& problems = context.problems;
  ParallelismChoice choice{.value = {}, .reader = MapReader(problems, node, "parallelism", root)};
  const auto before = problems.count();
  MapReader& map = choice.reader;
  auto& p = choice.value;
  choice.data_given = map.given("data");
  map.fill(plan::parallelism_fields(), &p);
  map.finish();
  if (p.stages() > schedule::kMaxStages) {
    problems.error(map.at("chunks"), fmt::format("pipeline {} x chunks {} = {} stages; at most {}", p.pipeline,
                                                 p.chunks, p.stages(), schedule::kMaxStages));
    p.chunks = 1;
  }
  choice.sound = problems.count() == before;
  if (p.sequence && p.tensor == 1)
    problems.warn(map.at("sequence"), "'sequence' changes nothing without tensor parallelism (tensor is 1)");
  return choice;
}

namespace {

void check_layout(Diagnostics& problems, const Location& place, const std::string& layout, std::int64_t stages,
                  const std::optional<models::Transformer>& model) {
  try {
    std::vector<std::string> none;
    if (model)
      plan::deal_stages(*model, stages, {.kind = plan::Partition::Kind::listed, .layout = layout}, none);
    else
      plan::stages_of_layout(layout);
  } catch (const UserError& e) {
    problems.error(place, e.diagnostics()[0].message);
  }
}

}  // namespace

plan::Partition load_partition(Context& context, const Node* node, std::int64_t stages,
                               const std::optional<models::Transformer>& model) {
  auto& problems = context.problems;
  plan::Partition partition;
  if (!node || (node->kind == Node::Kind::scalar && node->text == "uniform")) return partition;
  if (node->kind == Node::Kind::scalar && node->text == "balanced") {
    partition.kind = plan::Partition::Kind::balanced;
    return partition;
  }
  if (node->kind == Node::Kind::scalar) {
    problems.error(node->where(),
                   fmt::format("'partition' must be uniform, balanced, a list of layers or {{layers: [...]}}; found {}",
                               describe(*node)));
    return partition;
  }
  partition.kind = plan::Partition::Kind::listed;
  const Node* list = node;
  if (node->kind == Node::Kind::map) {
    MapReader map(problems, *node, "partition");
    const bool layout = map.given("layout");
    list = layout ? map.find("layers") : map.require("layers", "a list with one number of layers per stage");
    map.fill(plan::partition_fields(), &partition, {"layers"});
    map.finish();
    if (layout) {
      for (const char* key : {"layers", "embedding", "head"})
        if (map.given(key)) problems.error(map.at(key), fmt::format("give either '{}' or 'layout', not both", key));
      check_layout(problems, map.at("layout"), partition.layout, stages, model);
      return partition;
    }
    if (!list) return {};
  }
  if (list->kind != Node::Kind::sequence) {
    problems.error(list->where(), fmt::format("'layers' must be a list; found {}", describe(*list)));
    return {};
  }
  const auto before = problems.count();
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < list->items.size(); s++) {
    const auto layers = read_integer(problems, *list->items[s], "an entry of 'layers'", {0, 100'000});
    sum += layers.value_or(0);
    partition.layers.push_back(layers.value_or(1));
  }
  if (static_cast<std::int64_t>(list->items.size()) != stages)
    problems.error(list->where(),
                   fmt::format("'partition' lists {} stages, but pipeline x chunks = {}", list->items.size(), stages));
  if (!model || problems.count() != before) return partition;
  const auto wanted =
      model->layers + (partition.embedding == plan::Ends::layer) + (partition.head == plan::Ends::layer);
  if (sum != wanted)
    problems.error(list->where(),
                   fmt::format("'partition' adds up to {}, but the model has {} layers{}", sum, model->layers,
                               wanted == model->layers ? "" : fmt::format(" ({} with embedding and head)", wanted)));
  return partition;
}

}  // namespace rehearsal::scenario
