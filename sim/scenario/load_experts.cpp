// `experts`: how tokens are routed to the experts of a model, and how the experts are placed on GPUs.
#include <fmt/format.h>

#include <filesystem>

#include "models/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using models::Skew;

constexpr const char* kSkews = "uniform, natural, {zipf: A}, a list of loads or {trace: FILE}";

// Expert loads of every step, as `rehearse balance` takes them: `weights` of one step, or `trace` of several.
void read_trace(Context& context, const Node& node, Skew& skew) {
  auto& problems = context.problems;
  const auto name = read_text(problems, node, "'trace'");
  if (!name) return;
  const auto before = problems.count();
  const Node* root = context.documents.read_file(beside(node, *name));
  if (!root) return;
  MapReader map(problems, *root, "");
  if (!map.node()) return;
  if (const Node* weights = map.find("weights")) {
    skew.trace = {read_loads(context, weights, "'weights'")};
  } else if (const Node* trace = map.require("trace", "a list of the weights of every step")) {
    for (const Node* step : trace->items) skew.trace.push_back(read_loads(context, step, "a step of 'trace'"));
    if (trace->items.empty()) problems.error(trace->where(), "'trace' must be a list of the weights of every step");
  }
  for (const auto& step : skew.trace)
    for (const auto& layer : step)
      for (const double load : layer)
        if (!(load >= 0))
          return problems.error(root->where(), fmt::format("a load of {} tokens is negative; give 0 or more", load));
  for (const auto& step : skew.trace)
    if (problems.count() == before && step.front().size() != skew.trace.front().front().size())
      return problems.error(root->where(), "every step of 'trace' must list the same number of experts");
  if (problems.count() == before) skew.kind = Skew::Kind::trace;
}

Skew read_skew(Context& context, const Node& node) {
  auto& problems = context.problems;
  Skew skew;
  const auto before = problems.count();
  if (node.kind == Node::Kind::sequence && !node.items.empty()) {
    for (const Node* item : node.items)
      skew.loads.push_back(read_number(problems, *item, "an entry of 'skew'", kPositive).value_or(1));
    if (problems.count() == before) skew.kind = Skew::Kind::loads;
  } else if (node.kind == Node::Kind::map) {
    MapReader map(problems, node, "skew");
    const Node* trace = map.find("trace");
    if (trace && map.given("zipf"))
      problems.error(map.at("zipf"), "give either 'zipf' or 'trace', not both: a trace holds the load of every expert");
    if (trace) {
      map.find("zipf");
      read_trace(context, *trace, skew);
    } else {
      skew.zipf = map.number("zipf", {0, 100});
      if (skew.zipf > 0) skew.kind = Skew::Kind::zipf;  // with exponent 0 all experts have the same load
    }
    map.finish();
  } else if (node.kind == Node::Kind::scalar && node.text == "natural") {
    skew.kind = Skew::Kind::natural;
  } else if (node.kind != Node::Kind::scalar || node.text != "uniform") {
    problems.error(node.where(), fmt::format("'skew' must be {}; found {}", kSkews, describe(node)));
  }
  return skew;
}

}  // namespace

models::ExpertSettings load_experts(Context& context, const Node* node, const Node& root,
                                    const std::optional<models::Transformer>& model) {
  auto& problems = context.problems;
  models::ExpertSettings settings;
  if (node && model && !model->is_moe()) {
    problems.error(node->where(),
                   fmt::format("'experts' says how tokens are routed to experts, but model '{}' has none; leave it out",
                               model->name));
    return settings;
  }
  MapReader map(problems, node, "experts", root);
  map.fill(models::expert_fields(), &settings, {"skew"});
  if (const Node* skew = map.find("skew")) settings.skew = read_skew(context, *skew);
  map.finish();
  return settings;
}

}  // namespace rehearsal::scenario
