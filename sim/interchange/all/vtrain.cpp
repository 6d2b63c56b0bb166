// A configuration of vTrain (VIA-Research/vTrain f8dda847, src/config.py): a GPT under Megatron-DeepSpeed.
#include <fmt/format.h>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) {
  return source.kind == Source::Kind::json &&
         source.has({"global_batch_size", "tensor_parallel_size", "pipeline_parallel_size", "max_length", "gpu_name"});
}

// validate_config(): the one degree that is left out follows from the others.
void degrees(Keys& keys, ScenarioDraft& draft) {
  keys.say(Fact::world, {"num_gpus"});
  keys.say_integer("parallelism.tensor", {"tensor_parallel_size"});
  keys.say_integer("parallelism.pipeline", {"pipeline_parallel_size"});
  keys.say_integer("parallelism.data", {"data_parallel_size"});
  const auto world = draft[Fact::world];
  if (!world) return;
  for (const auto& [missing, one, other] :
       {std::array{"tensor", "pipeline", "data"}, std::array{"pipeline", "tensor", "data"}}) {
    const auto key = fmt::format("parallelism.{}", missing);
    const auto first = draft.integer(fmt::format("parallelism.{}", one), 1),
               second = draft.integer(fmt::format("parallelism.{}", other), 1);
    constexpr std::int64_t kMost = 1'000'000;  // of a degree
    if (first < 1 || second < 1 || first > kMost || second > kMost) continue;
    const auto product = first * second;
    if (!draft.has(key))
      draft.derive(key, world->value / product, fmt::format("{} GPUs / ({} x {})", world->value, one, other));
  }
}

// A cluster by its GPU and by what a node sends.
void machine(Keys& keys, ScenarioDraft& draft, const scenario::Files& files) {
  const auto gpu = keys.text({"gpu_name"});
  const auto out = keys.number({"inter_node_bandwidth"});  // Gb/s of a node
  const auto node = keys.integer({"node_size"});
  Sheet sheet{.gpu = gpu ? gpu->value : "A100",
              .node_out = (out ? out->value : 800) * 1e9 / 8,
              .gpus_per_node = node ? node->value : 8};
  const auto name = nearest_cluster(sheet, files);
  if (name.empty()) {
    if (gpu)
      draft.wanted(gpu->at->where(), "cluster.use", gpu->word + " " + gpu->value,
                   "the name of the machine: --cluster NAME (rehearse list clusters)");
    return;
  }
  draft.derive("cluster.use", name,
               fmt::format("nearest to nodes of {} {} with {} a node", sheet.gpus_per_node, sheet.gpu,
                           bandwidth_text(sheet.node_out)));
  const auto spec = scenario::load_named_cluster(name, {}, files).spec;
  if (node && node->value != spec.gpus_per_node) draft.say("cluster.gpus_per_node", node->value, *node->at, node->word);
  const double nic = sheet.node_out / double(std::max<std::int64_t>(1, spec.nics_per_node));
  if (out && std::abs(nic / spec.nic.value() - 1) > .02)
    draft.say("cluster.links.scale_out.bandwidth", bandwidth_text(nic), *out->at,
              fmt::format("{}, over {} NICs of {}", out->word, spec.nics_per_node, name));
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  degrees(keys, draft);
  machine(keys, draft, sources.files());
  draft.derive("model.family", "gpt", "vTrain's ShardedGptModel");
  keys.say_integer("model.layers", {"num_layers"});
  keys.say_integer("model.hidden", {"hidden_size"});
  keys.say_integer("model.heads", {"num_attention_heads"});
  keys.say_integer("model.sequence", {"max_length"});
  if (!keys.say_integer("model.vocabulary", {"vocab_size"}))
    draft.derive("model.vocabulary", 50257, "the default of vTrain's vocab_size");
  keys.say_integer("batch.global", {"global_batch_size"});
  // Without a pipeline vTrain itself takes a replica's whole share at once (validate_config). The runs that it was
  // validated with had the micro-batch that the file says.
  if (!keys.say_integer("batch.micro", {"micro_batch_size"}))
    draft.derive("batch.micro",
                 draft.integer("batch.global", 1920) / std::max<std::int64_t>(1, draft.integer("parallelism.data", 1)),
                 "global_batch_size / data_parallel_size, as vTrain without a micro_batch_size");
  const auto schedule = keys.text({"pipeline_scheduling"});
  if (schedule) draft.say("schedule", schedule->value, *schedule->at, schedule->word);
  const auto checkpoint = keys.boolean({"use_checkpoint"});
  if (checkpoint)
    draft.say("training.recompute", checkpoint->value ? "full" : "none", *checkpoint->at, checkpoint->word);
  else
    draft.derive("training.recompute", "full", "the default of vTrain's use_checkpoint");
  if (const auto bucket = keys.boolean({"use_gradient_bucket"}); bucket && bucket->value)
    draft.say("training.overlap.gradients", true, *bucket->at, bucket->word);
  draft.derive("training.precision", "fp16", "vTrain profiles layers in fp16 (predictor.py, create_model)");
  draft.derive("training.attention", "unfused", "vTrain's attention is two products and a softmax (model/layers.py)");
  draft.assume("framework.use", "deepspeed-2021", "what vTrain was validated with, Megatron-DeepSpeed");
  keys.no_word("ddp_bucket_size", {"0"}, "buckets are those of the framework");
  keys.no_word("intra_node_bandwidth", {"150"}, "links inside a node are those of the cluster");
  keys.no_word("model_arch", {"ShardedGptModel"}, "taken as a GPT");
  keys.ignore({"trace_path"});
  keys.finish();
}

}  // namespace

void register_vtrain(Registry& registry) {
  registry.add({.name = "vtrain",
                .title = "a configuration of vTrain",
                .summary = "vTrain's JSON: model, layout, batch, machine",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
