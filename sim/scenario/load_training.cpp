#include <fmt/format.h>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// `recompute: full` or {mode: full, early_stop: true}.
void read_recompute(Diagnostics& problems, const Node& node, TrainingChoice& choice) {
  using models::Recompute;
  const auto modes = {Choice<Recompute>{"none", Recompute::none}, Choice<Recompute>{"selective", Recompute::selective},
                      Choice<Recompute>{"full", Recompute::full}};
  MapReader map(problems, node, "recompute");
  choice.training.recompute = map.choice<Recompute>("mode", modes, {});
  auto& training = choice.training;
  training.recompute_every = map.integer("every", kCount, 1);
  training.recompute_layers = map.optional_integer("layers", {0, kCount.high});
  if (training.recompute == Recompute::none && (training.recompute_every > 1 || training.recompute_layers))
    problems.error(map.at("mode"),
                   "'every' and 'layers' say which layers are recomputed, and 'mode' none that none is");
  choice.early_stop = map.optional_boolean("early_stop");
  map.finish();
}

void read_overlap(Diagnostics& problems, const Node& node, TrainingChoice& choice) {
  MapReader map(problems, node, "overlap");
  choice.overlap_gradients = map.optional_boolean("gradients");
  choice.overlap_pipeline = map.optional_boolean("pipeline");
  choice.training.overlap_gathers = map.optional_boolean("parameters");
  choice.overlap_tensor = map.optional_boolean("tensor");
  map.finish();
}

// How ZeRO-3 gathers.
void read_fsdp(Diagnostics& problems, const Node& node, TrainingChoice& choice) {
  MapReader map(problems, node, "fsdp");
  choice.training.prefetch = map.optional_integer("prefetch", {0, 1000});
  choice.training.reshard_after_forward = map.optional_boolean("reshard_after_forward");
  map.finish();
}

void read_offload(Diagnostics& problems, const Node& node) {
  MapReader map(problems, node, "offload");
  for (const char* key : {"optimizer", "gradients", "parameters", "activations"})
    map.unbuilt(key, "none", "offloading is");
  map.finish();
}

OptimizerSync read_optimizer_sync(MapReader& map) {
  OptimizerSync sync;
  sync.post_validation = map.choice<bool>("optimizer_sync", {{"barrier", false}, {"post-validation", true}}, {}, false);
  sync.rollback_probability = map.number("rollback_probability", {0, 1}, 0.);
  if (sync.rollback_probability > 0 && !sync.post_validation)
    map.problems().error(map.at("rollback_probability"),
                         "'rollback_probability' needs 'optimizer_sync: post-validation': behind a barrier no step is "
                         "taken back");
  return sync;
}

}  // namespace

OptimizerSync load_given_training(Context& context, const Node* node, const Node& root) {
  MapReader map(context.problems, node, "training", root);
  const auto sync = read_optimizer_sync(map);
  for (const char* key : {"precision", "gradient_precision", "optimizer", "recompute", "attention", "kernels", "causal",
                          "offload", "overlap", "bucket", "fsdp", "allocator", "learning_rate", "weight_decay"})
    if (map.find(key))
      context.problems.error(map.at(key), fmt::format("'{}' has no meaning in a scenario with 'costs'", key));
  map.finish();
  return sync;
}

TrainingChoice load_training(Context& context, const Node* node, const Node& root) {
  auto& problems = context.problems;
  MapReader map(problems, node, "training", root);
  TrainingChoice choice;
  auto& training = choice.training;
  training.precision = map.choice<Precision>(
      "precision",
      {{"fp32", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}, {"fp8", Precision::fp8}}, {},
      Precision::bf16);
  // fp16 training keeps fp16 gradients and unscales them; bf16 has too few digits to add up in.
  training.gradient_precision = map.choice<Precision>(
      "gradient_precision", {{"fp32", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}}, {},
      training.precision == Precision::fp16 ? Precision::fp16 : Precision::fp32);
  using models::AttentionKind, models::OptimizerKind, models::Recompute;
  training.optimizer = map.choice<OptimizerKind>(
      "optimizer", {{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}, {"lomo", OptimizerKind::lomo}}, {},
      OptimizerKind::adamw);
  const bool adamw = training.optimizer == OptimizerKind::adamw;
  training.learning_rate = map.number("learning_rate", kPositive, adamw ? 1e-3 : .1);
  training.weight_decay = map.number("weight_decay", {0, 1}, adamw ? .01 : 0);
  if (training.weight_decay > 0 && !adamw)
    problems.error(map.at("weight_decay"), "'weight_decay' is a term of adamw; leave it out for other optimizers");
  if (const Node* recompute = map.find("recompute"); recompute && recompute->kind == Node::Kind::map)
    read_recompute(problems, *recompute, choice);
  else
    training.recompute = map.choice<Recompute>(
        "recompute", {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}, {},
        Recompute::none);
  training.attention = map.choice<AttentionKind>(
      "attention", {{"flash", AttentionKind::flash}, {"unfused", AttentionKind::unfused}}, {}, AttentionKind::flash);
  training.causal = map.boolean("causal", true);
  if (const Node* overlap = map.find("overlap")) read_overlap(problems, *overlap, choice);
  if (const Node* offload = map.find("offload")) read_offload(problems, *offload);
  training.kernels =
      map.choice<models::Kernels>("kernels", {{"fused", models::Kernels::fused}, {"unfused", models::Kernels::unfused}},
                                  {}, models::Kernels::fused);
  choice.optimizer_sync = read_optimizer_sync(map);
  training.bucket = map.bytes("bucket", training.bucket);
  if (const Node* fsdp = map.find("fsdp")) read_fsdp(problems, *fsdp, choice);
  using models::Allocator;
  training.allocator = map.choice<Allocator>(
      "allocator",
      {{"caching", Allocator::caching}, {"expandable", Allocator::expandable}, {"exact", Allocator::exact}}, {},
      Allocator::caching);
  map.finish();
  return choice;
}

}  // namespace rehearsal::scenario
