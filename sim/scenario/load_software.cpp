#include <fmt/format.h>

#include "scenario/load.hpp"

namespace rehearsal::scenario {

std::optional<models::Software> load_software(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "configs/software", "software profile");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "software", node);
  map.cite(citations, "");
  models::Software software;
  using models::GradientOverlap;
  software.name = part.name;
  map.find("use"), map.find("name"), map.find("summary");
  software.source = map.text("source", "");
  const bool assumed = map.boolean("assumed", false);
  software.dropout = map.boolean("dropout", software.dropout);
  software.fused_accumulation = map.boolean("fused_accumulation", software.fused_accumulation);
  constexpr NumberRange kTraffic{0, 1000};
  software.accumulate_bytes_fp16 = map.number("accumulate_bytes_fp16", kTraffic, software.accumulate_bytes_fp16);
  software.accumulate_bytes_bf16 = map.number("accumulate_bytes_bf16", kTraffic, software.accumulate_bytes_bf16);
  software.optimizer_bytes = map.number("optimizer_bytes", kTraffic, software.optimizer_bytes);
  software.host_seconds_per_kernel = to_seconds(map.time("host_time_per_kernel", true, Time{}));
  software.host_backward_factor = map.number("host_backward_factor", {0, 10}, software.host_backward_factor);
  software.attention_rate = map.number("attention_rate", {0, 10, true}, software.attention_rate);
  software.attention_kernel = map.choice<models::AttentionKernel>("attention_kernel",
                                                                  {{"flash-2", models::AttentionKernel::flash2},
                                                                   {"flash-3", models::AttentionKernel::flash3},
                                                                   {"cudnn", models::AttentionKernel::cudnn}},
                                                                  {}, software.attention_kernel);
  software.fp8_scaling = map.choice<models::Fp8Scaling>("fp8_scaling",
                                                        {{"tensorwise", models::Fp8Scaling::tensorwise},
                                                         {"rowwise", models::Fp8Scaling::rowwise},
                                                         {"blockwise", models::Fp8Scaling::blockwise}},
                                                        {}, software.fp8_scaling);
  software.sharded_sends = map.boolean("sharded_sends", software.sharded_sends);
  software.blocking_sends = map.boolean("blocking_sends", software.blocking_sends);
  software.gradient_overlap = map.choice<GradientOverlap>("gradient_overlap",
                                                          {{"never", GradientOverlap::never},
                                                           {"without-pipeline", GradientOverlap::without_pipeline},
                                                           {"always", GradientOverlap::always}},
                                                          {}, software.gradient_overlap);
  software.sharded_tensors = map.integer("sharded_tensors", {1, 1000}, software.sharded_tensors);
  software.sharded_tensor_latency = to_seconds(map.time("sharded_tensor_latency", true, Time{}));
  software.sharded_tensor_efficiency =
      map.number("sharded_tensor_efficiency", {0, 1, true}, software.sharded_tensor_efficiency);
  using models::SelectiveRecompute;
  software.selective_recompute = map.choice<SelectiveRecompute>(
      "selective_recompute",
      {{"attention", SelectiveRecompute::attention}, {"operators", SelectiveRecompute::operators}}, {},
      software.selective_recompute);
  software.early_stop = map.boolean("early_stop", software.early_stop);
  software.compiled = map.boolean("compiled", software.compiled);
  software.loss = map.choice<models::LossKernels>("loss",
                                                  {{"vocabulary-parallel", models::LossKernels::vocabulary_parallel},
                                                   {"torch", models::LossKernels::torch},
                                                   {"fused", models::LossKernels::fused}},
                                                  {}, software.loss);
  software.saves_gathered = map.boolean("saves_gathered", software.saves_gathered);
  software.keeps_stage_output = map.boolean("keeps_stage_output", software.keeps_stage_output);
  software.flat_gradient_bytes = map.number("flat_gradient_bytes", kTraffic, software.flat_gradient_bytes);
  software.step_gradient_bytes = map.number("step_gradient_bytes", kTraffic, software.step_gradient_bytes);
  software.workspace = map.bytes("workspace", software.workspace);
  software.own_kernels = map.boolean("own_kernels", software.own_kernels);
  software.separate_projections = map.boolean("separate_projections", software.separate_projections);
  software.async_tensor = map.boolean("async_tensor", software.async_tensor);
  map.finish();
  if (problems.count() != before) return std::nullopt;
  if (assumed)
    context.assume(fmt::format("software {}: the profile was not fitted ({})", software.name, software.source));
  for (const auto& key : citations.assumed)
    context.assume(fmt::format("software {}: {} was not measured ({})", software.name, key,
                               citations.sources.count(key) ? citations.sources[key] : "no source"));
  return software;
}

}  // namespace rehearsal::scenario
