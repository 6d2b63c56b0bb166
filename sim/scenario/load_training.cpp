#include <fmt/format.h>

#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

void check_sync(MapReader& map, const OptimizerSync& sync) {
  if (sync.rollback_probability > 0 && !sync.post_validation)
    map.problems().error(
        map.at("rollback_probability"),
        "'rollback_probability' needs 'optimizer_sync: post-validation': with a barrier no step is rolled back");
}

void check_scaling_of_loss(MapReader& map, const models::Training& training, const OptimizerSync& sync) {
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) map.problems().error(map.at("loss_scaling"), why);
  };
  refuse(!training.scales_loss() && training.overflow_rate.has_value(),
         "'overflow_rate' applies to dynamic loss scaling; leave 'mode' out or set it to dynamic");
  if (!training.scales_loss()) return;
  refuse(training.precision != Precision::fp16,
         fmt::format("'loss_scaling' is for fp16, whose small gradients underflow without it; leave it out with {}",
                     name(training.precision)));
  refuse(sync.post_validation,
         "'optimizer_sync: post-validation' rolls back steps that overflow; say how often with 'rollback_probability' "
         "and leave 'loss_scaling' out");
}

void check_buffers(MapReader& map, const models::Training& training) {
  using models::Buffers;
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) map.problems().error(map.at("buffers"), why);
  };
  const bool constant = training.buffers == Buffers::constant;
  refuse(constant && !training.buffer_size, "'constant' buffers need a 'size', such as {size: 500MB}");
  refuse(!constant && training.buffer_size.has_value(),
         "'size' applies to constant buffers; leave 'kind' out or set it to constant");
  refuse(training.buffers != Buffers::framework && map.find("bucket"),
         "'bucket' and 'buffers' both set how much is reduced at a time; leave one of them out");
}

}  // namespace

OptimizerSync load_given_training(Context& context, const Node* node, const Node& root) {
  MapReader map(context.problems, node, "training", root);
  OptimizerSync sync;
  map.fill(optimizer_sync_fields(), &sync);
  check_sync(map, sync);
  const auto refuse = [&](const std::string& path) {
    const auto key = path.substr(0, path.find('.'));
    if (!optimizer_sync_fields().find(key) && map.find(key))
      context.problems.error(map.at(key),
                             fmt::format("'{}' does not apply to a scenario with 'costs'; leave it out", key));
  };
  for (const auto& field : training_choice_fields().fields) refuse(field.key);
  map.finish();
  return sync;
}

TrainingChoice load_training(Context& context, const Node* node, const Node& root) {
  auto& problems = context.problems;
  MapReader map(problems, node, "training", root);
  TrainingChoice choice;
  // FSDP2 takes true, false, or a number of GPUs.
  const Node* fsdp = node && node->kind == Node::Kind::map ? node->find("fsdp") : nullptr;
  const Node* over = fsdp && fsdp->kind == Node::Kind::map ? fsdp->find("reshard_after_forward") : nullptr;
  if (over && (over->kind != Node::Kind::scalar || over->text.find_first_not_of("-0123456789") != std::string::npos))
    over = nullptr;
  if (over)
    map.fill(training_choice_fields(), &choice, {"fsdp.reshard_after_forward"});
  else
    map.fill(training_choice_fields(), &choice);
  if (over)
    choice.training.reshard_over =
        read_integer(problems, *over, "a number for 'reshard_after_forward'", {2, 1'000'000}).value_or(0);
  map.finish();
  const auto& training = choice.training;
  if (training.weight_decay > 0 && !training.optimizer->weight_decay)
    problems.error(map.at("weight_decay"),
                   fmt::format("{} has no weight decay; leave 'weight_decay' out, or set 'optimizer' to adamw",
                               training.optimizer->name));
  if (training.recompute == models::Recompute::none && (training.recompute_every > 1 || training.recompute_layers))
    problems.error(place_of(*map.node(), map.node()->find("recompute")->find("mode") ? "recompute.mode" : "recompute"),
                   "'every' and 'layers' say which layers are recomputed, but 'mode' is none; leave them out, or set "
                   "'mode' to full or selective");
  if (training.recompute != models::Recompute::selective && !training.recompute_modules.empty())
    problems.error(place_of(*map.node(), "recompute.modules"),
                   "'modules' lists what selective recomputation recomputes; leave 'mode' out or set it to selective");
  check_sync(map, choice.optimizer_sync);
  check_scaling_of_loss(map, training, choice.optimizer_sync);
  check_buffers(map, training);
  return choice;
}

}  // namespace rehearsal::scenario
