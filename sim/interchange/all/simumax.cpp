// The three files of SimuMax (MooreThreads/SimuMax 4dcaae51, simumax/core/config.py): model, strategy and system. Each
// is known by its keys.
#include <fmt/format.h>

#include <cmath>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::interchange {
namespace {

bool is_model(const Source& source) { return source.has({"hidden_size", "head_num", "layer_num"}); }
bool is_strategy(const Source& source) { return source.has({"micro_batch_num", "tp_size", "pp_size"}); }
bool is_system(const Source& source) { return source.has({"accelerator.op", "networks", "num_per_node"}); }

bool recognises(const Source& source) {
  return source.kind == Source::Kind::json && (is_model(source) || is_strategy(source) || is_system(source));
}

void read_model(Keys keys, ScenarioDraft& draft) {
  const auto experts = keys.integer({"expert_num"});
  const bool moe = experts && experts->value > 1;
  draft.derive("model.family", moe ? "moe" : "llama",
               moe ? "expert_num" : "no experts; norms of SimuMax are RMS norms");
  if (const auto name = keys.text({"model_name"})) draft.say("name", name->value, *name->at, name->word);
  keys.say_integer("model.layers", {"layer_num"});
  keys.say_integer("model.hidden", {"hidden_size"});
  keys.say_integer("model.heads", {"head_num"});
  keys.say_integer("model.ffn", {"intermediate_size"});
  keys.say(Fact::vocabulary, {"vocab_size"});
  draft.derive(Fact::vocabulary_unit, 128, "make_vocab_size_divisible_by of SimuMax");
  if (const auto swiglu = keys.boolean({"use_swiglu"}))
    draft.say("model.ffn_kind", swiglu->value ? "swiglu" : "gelu", *swiglu->at, swiglu->word);
  if (const auto kind = keys.text({"attention_type"}); kind && kind->value == "mla") {
    keys.say_integer("model.mla.query_rank", {"q_lora_rank"});
    keys.say_integer("model.mla.kv_rank", {"kv_lora_rank"});
    keys.say_integer("model.mla.rotary_dim", {"qk_pos_emb_head_dim"});
    keys.say_integer("model.mla.head_dim", {"qk_head_dim"});
    keys.say_integer("model.mla.value_dim", {"v_head_dim"});
    keys.ignore({"kv_head_num", "head_size"});
  } else {
    keys.say_integer("model.kv_heads", {"kv_head_num"});
    keys.say_integer("model.head_dim", {"head_size"});
    keys.ignore({"q_lora_rank", "kv_lora_rank", "qk_pos_emb_head_dim", "qk_head_dim", "v_head_dim"});
  }
  if (moe) {
    draft.say("model.experts", experts->value, *experts->at, experts->word);
    keys.say_integer("model.experts_per_token", {"topk"});
    keys.say_integer("model.expert_ffn", {"moe_ffn_hidden_size", "intermediate_size"});
    if (const auto shared = keys.integer({"moe_shared_expert_intermediate_size"}); shared && shared->value > 0) {
      draft.say("model.shared_ffn", shared->value, *shared->at, shared->word);
    }
    keys.say_integer("model.dense_layers", {"dense_layers"});
  } else {
    keys.ignore({"topk", "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size", "dense_layers"});
  }
  if (const auto capacity = keys.number({"capacity"}); capacity && capacity->value != 1)
    draft.say("experts.capacity", capacity->value, *capacity->at, capacity->word);
  keys.no_word("group_linear_mode", {"\"parallel\"", "parallel"}, "experts are products in groups");
  keys.ignore({"model_type", "expert_num", "moe_pad_expert_input_to_capacity", "make_vocab_size_divisible_by",
               "padded_vocab_size", "orig_vocab_size"});
  keys.finish();
}

// parse_attention_recompute(), parse_mlp_recompute(): what the first `recompute_layer_num` layers of a stage repeat.
void read_recompute(Keys& keys, ScenarioDraft& draft) {
  const auto enabled = keys.boolean({"enable_recompute"});
  const auto granularity = keys.text({"recompute_granularity"});
  const auto layers = keys.integer({"recompute_layer_num"});
  const auto flag = [&keys](std::string_view name) {
    const auto said = keys.boolean({name});
    return said && said->value;
  };
  const bool attention = flag("attn_recompute"), down = flag("mla_rms_recompute"), mlp = flag("mlp_recompute"),
             norm = flag("mlp_rms_recompute");
  keys.no_word("recompute_variance", {}, "the last product of a repeated part is repeated, too");
  if ((enabled && !enabled->value) || !granularity || !layers || layers->value == 0) {
    draft.derive("training.recompute", "none", "enable_recompute, recompute_granularity and recompute_layer_num");
    return;
  }
  draft.say("training.recompute.layers", layers->value, *layers->at, layers->word);
  const auto& what = granularity->value;
  const auto mode = [&](const char* ours) {
    draft.say("training.recompute.mode", ours, *granularity->at, granularity->word + ": " + what);
  };
  if (what == "full_block") return mode("full");
  mode("selective");
  if (what == "sdp_only") return;
  auto modules = Json::array();
  if (what == "attn_only") {
    modules.push_back("core_attn");
    draft.no_word(granularity->at->where(), what, "of the projections around attention nothing is repeated");
  } else if (what == "selective_recompute") {
    if (attention) modules.push_back("core_attn");
    if (attention && down) modules.push_back("mla_up_proj");
    if (down || norm) modules.push_back("layernorm");
    if (mlp && norm) modules.push_back("moe");
    if (mlp && !norm) modules.push_back("moe_act");
    if (mlp) modules.push_back("mlp");
    if (down)
      draft.no_word(granularity->at->where(), "mla_rms_recompute: the products into the latents",
                    "they are not repeated; their results are kept");
    if (mlp && !norm)
      draft.no_word(granularity->at->where(), "mlp_recompute without mlp_rms_recompute",
                    "of experts the activation is repeated, and not their products");
  } else {
    wrong(*granularity->at,
          fmt::format("'{}' must be full_block, attn_only, sdp_only or selective_recompute; found '{}'",
                      granularity->word, what));
  }
  draft.derive("training.recompute.modules", std::move(modules), "attn_, mla_rms_, mlp_ and mlp_rms_recompute");
}

void read_strategy(Keys keys, ScenarioDraft& draft) {
  keys.say(Fact::world, {"world_size"});
  keys.say_integer("model.sequence", {"seq_len"});
  keys.say_integer("batch.micro", {"micro_batch_size"});
  keys.say(Fact::accumulation, {"micro_batch_num"});
  keys.say_integer("parallelism.tensor", {"tp_size"});
  keys.say_integer("parallelism.pipeline", {"pp_size"});
  keys.say_integer("parallelism.expert", {"ep_size"});
  keys.say_integer("parallelism.expert_tensor", {"etp_size"});
  keys.say_integer("parallelism.zero", {"zero_state"});
  keys.say_boolean("parallelism.sequence", {"enable_sequence_parallel"});
  if (const auto chunks = keys.integer({"interleaving_size"}))
    draft.say("parallelism.chunks", chunks->value, *chunks->at, chunks->word);
  if (const auto schedule = keys.text({"pp_schedule"}))
    draft.say("schedule", schedule->value == "zb_h2" ? "zb-h2" : schedule->value, *schedule->at, schedule->word);
  else if (draft.integer("parallelism.chunks", 1) > 1)
    draft.derive("schedule", "interleaved-1f1b", "interleaving_size");
  const auto fp8 = keys.boolean({"fp8"});
  if (fp8 && fp8->value)
    draft.say("training.precision", "fp8", *fp8->at, fp8->word);
  else if (const auto type = keys.text({"dtype"}))
    draft.say("training.precision", type->value, *type->at, type->word);
  const auto narrow = keys.boolean({"grad_reduce_in_bf16"}), wide = keys.boolean({"use_fp32_accum_grad"});
  if (narrow && narrow->value)
    draft.say("training.gradient_precision", "bf16", *narrow->at, narrow->word);
  else if (wide)
    draft.say("training.gradient_precision", wide->value ? "fp32" : "bf16", *wide->at, wide->word);
  read_recompute(keys, draft);
  const auto flash = keys.boolean({"use_flash_sdp"}), math = keys.boolean({"use_math_sdp"});
  if (math && math->value)
    draft.say("training.attention", "unfused", *math->at, math->word);
  else if (flash)
    draft.say("training.attention", flash->value ? "flash" : "unfused", *flash->at, flash->word);
  keys.say_boolean("framework.dropout", {"enable_dropout"});
  keys.say_boolean("framework.fused_accumulation", {"use_fused_grad_accumulation"});
  draft.assume("framework.use", "megatron-2025", "what SimuMax was validated with, Megatron-Core");
  for (const char* key : {"num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage",
                          "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"})
    keys.no_word(key, {}, "--set partition.layers=[...] says the layers of each stage");
  keys.no_word("moe_dispatcher_policy", {"\"all2all\"", "all2all"}, "all-to-alls of tokens");
  for (const char* key : {"tp_net", "pp_net", "dp_net", "ep_net", "etp_net", "edp_net"})
    keys.no_word(key, {"\"auto\"", "auto"}, "links follow from which ranks are neighbours (placement)");
  for (const char* key : {"use_fused_norm", "use_fused_swiglu"})
    if (const auto fused = keys.boolean({key}); fused && !fused->value)
      draft.no_word(fused->at->where(), fused->word + ": false", "training.kernels: unfused takes all of them apart");
  for (const char* key : {"cache_groupgemm_col_fp8_inputs", "offload_groupgemm_col_inputs"}) keys.no_word(key, {}, "");
  keys.no_word("attention_sparse_ratio", {"0", "0.0", "0.5"}, "attention is causal");
  keys.ignore({"mem_factor", "dispatch_probs", "use_accm_weight", "dtype", "use_flash_sdp"});
  keys.finish();
}

// A rate of SimuMax: "gbps" counts 2^30 bytes (compute_net_op_time, compute_mem_access_time).
std::optional<Said<double>> rate_of(Keys& network) {
  auto rate = network.number({"bandwidth.gbps"});
  if (rate) rate->value *= 0x1p30;
  return rate;
}

void read_networks(Keys networks, ScenarioDraft& draft, const cluster::ClusterSpec& base) {
  const std::string up = "cluster.links.scale_up.", out = "cluster.links.scale_out.";
  const auto pcie = networks.boolean({"intra_with_pcie"});
  const bool of_pcie = pcie && pcie->value;
  auto inside = networks.below(of_pcie ? "intra_node_pcie_8x" : "high_intra_node");
  if (of_pcie) {
    draft.say("cluster.node_topology", "pcie-host", *pcie->at, pcie->word);
    draft.derive(up + "interconnect.use", "assumed-pcie", "intra_with_pcie");
    if (!base.collectives.empty())
      draft.derive("cluster.collectives", nullptr, fmt::format("those of {} are of NVLink", base.name));
  }
  const auto take = [&](Keys& network, const std::string& rate_key, const std::string& share_key, double over) {
    if (const auto rate = rate_of(network))
      draft.say(rate_key, bandwidth_text(rate->value / over), *rate->at,
                over > 1 ? fmt::format("{}, over {:.0f} NICs", rate->word, over) : rate->word);
    if (const auto share = network.number({"bandwidth.efficient_factor"}))
      draft.say(share_key, share->value, *share->at, share->word);
    network.ignore({"bandwidth"});
    network.no_word("op", {}, "collectives are those of the library");
    network.no_word("processor_usage", {"0", "0.0"},
                    "multiprocessors that collectives hold are those of the framework");
    network.finish();
  };
  take(inside, up + "bandwidth", up + "interconnect.ring_share", 1);
  auto between = networks.below("inter_node");
  take(between, out + "bandwidth", out + "efficiency", double(std::max<std::int64_t>(1, base.nics_per_node)));
  for (const char* key : {"intra_node_pcie_4x", "intra_node_pcie_2x", "low_intra_node"})
    networks.no_word(key, {}, "groups of fewer GPUs have the same links");
  networks.finish();
}

void read_system(Keys keys, ScenarioDraft& draft, const scenario::Files& files) {
  auto accelerator = keys.below("accelerator");
  const auto peak = accelerator.number({"op.matmul.tflops", "op.default.tflops"});
  const auto eighth = accelerator.number({"op.fp8_matmul.tflops"});
  const auto memory = accelerator.number({"mem_gbs"});
  const auto sustained = accelerator.number({"bandwidth.default.gbps"});
  const auto share = accelerator.number({"bandwidth.default.efficient_factor"});
  const auto node = keys.integer({"num_per_node"});
  Sheet sheet;
  if (peak) sheet.peak = peak->value * 1e12;
  if (memory) sheet.memory = memory->value * 0x1p30;
  if (node) sheet.gpus_per_node = node->value;
  const auto name = nearest_cluster(sheet, files);
  draft.derive(
      "cluster.use", name,
      fmt::format("nearest to {} and {} of memory a GPU", flop_rate_text(sheet.peak), size_text(sheet.memory)));
  const auto base = scenario::load_named_cluster(name, {}, files).spec;
  if (node) draft.say("cluster.gpus_per_node", node->value, *node->at, node->word);
  const auto differs = [](double a, double b) { return b <= 0 || std::abs(a / b - 1) > .02; };
  const auto of = [&base](Precision precision) {
    const auto found = base.gpu.peak.find(precision);
    return found == base.gpu.peak.end() ? 0. : found->second.value();
  };
  if (peak && differs(sheet.peak, of(Precision::bf16)))
    for (const char* type : {"fp16", "bf16"})
      draft.say(std::string("cluster.gpu.peak.") + type, flop_rate_text(sheet.peak), *peak->at, peak->word);
  if (eighth && of(Precision::fp8) > 0 && differs(eighth->value * 1e12, of(Precision::fp8)))
    draft.say("cluster.gpu.peak.fp8", flop_rate_text(eighth->value * 1e12), *eighth->at, eighth->word);
  if (sustained && share)
    draft.say("cluster.gpu.sustained_memory_bandwidth", bandwidth_text(sustained->value * 0x1p30 * share->value),
              *sustained->at, sustained->word + " x efficient_factor");
  if (const auto* op = accelerator.map() ? accelerator.map()->find("op") : nullptr)
    draft.no_word(op->where(), "accelerator.op: efficient_factor and accurate_efficient_factor",
                  "products reach what the GPU's own constants say; `cluster.profile` holds measured ones");
  accelerator.ignore({"backend", "mode", "op", "bandwidth"});
  accelerator.finish();
  read_networks(keys.below("networks"), draft, base);
  keys.no_word("FC8", {}, "all GPUs of a node reach each other at the same rate");
  keys.ignore({"sys_name"});
  keys.finish();
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  if (is_model(source))
    read_model(keys, draft);
  else if (is_strategy(source))
    read_strategy(keys, draft);
  else if (is_system(source))
    read_system(keys, draft, sources.files());
  else
    throw UserError({{{source.name, 1, 1},
                      "none of SimuMax's files: a model has 'layer_num' and 'head_num', a strategy 'tp_size' and "
                      "'micro_batch_num', a system 'accelerator' and 'networks'"}});
}

}  // namespace

void register_simumax(Registry& registry) {
  registry.add({.name = "simumax",
                .title = "a file of SimuMax",
                .summary = "SimuMax's JSON: model, strategy or system, or all three",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
