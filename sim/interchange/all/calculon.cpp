// The three files of Calculon (calculon-ai/calculon caa4b11f, calculon/llm/llm.py, memory.py, network.py): application,
// execution and system. Each is known by its keys.
#include <fmt/format.h>

#include <cmath>

#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/machine.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal::interchange {
namespace {

bool is_application(const Source& source) {
  return source.has({"hidden", "feedforward", "seq_size", "attn_heads", "num_blocks"});
}
bool is_execution(const Source& source) { return source.has({"num_procs", "tensor_par", "pipeline_par", "data_par"}); }
bool is_system(const Source& source) { return source.has({"matrix", "mem1", "networks"}); }

bool recognises(const Source& source) {
  return source.kind == Source::Kind::json && (is_application(source) || is_execution(source) || is_system(source));
}

void read_application(Keys keys, ScenarioDraft& draft) {
  draft.derive("model.family", "gpt", "Calculon's transformer");
  keys.say_integer("model.layers", {"num_blocks"});
  keys.say_integer("model.hidden", {"hidden"});
  keys.say_integer("model.heads", {"attn_heads"});
  keys.say_integer("model.head_dim", {"attn_size"});
  keys.say_integer("model.ffn", {"feedforward"});
  keys.say_integer("model.sequence", {"seq_size"});
  draft.derive("model.vocabulary", 51200, "what Calculon counts parameters with (num_parameters)");
  keys.finish();
}

void read_offload(Keys& keys, ScenarioDraft& draft) {
  if (const auto optimizer = keys.boolean({"optimizer_offload"}); optimizer && optimizer->value)
    draft.say("training.offload.optimizer", "host", *optimizer->at, optimizer->word);
  if (const auto values = keys.boolean({"activations_offload"}); values && values->value) {
    const Json* recompute = draft.find("training.recompute");
    if (recompute && recompute->text() == "full")
      draft.say("training.offload.activations", "host", *values->at, values->word);
    else
      draft.say("training.offload.activations.share", 1, *values->at, values->word);
  }
  keys.no_word("weight_offload", {}, "parameters leave a GPU with zero 3 alone");
}

// Execution.__init__: what reductions of tensor parallelism are made of, and whether they are hidden.
void read_tensor_communication(Keys& keys, ScenarioDraft& draft) {
  if (const auto kind = keys.text({"tensor_par_comm_type"})) {
    if (kind->value != "ar" && kind->value != "rs_ag" && kind->value != "p2p_rs_ag")
      wrong(*kind->at, fmt::format("'{}' must be ar, p2p_rs_ag or rs_ag; found '{}'", kind->word, kind->value));
    draft.say("parallelism.sequence", kind->value == "rs_ag", *kind->at, kind->word);
    if (kind->value == "p2p_rs_ag") draft.say("framework.sharded_sends", true, *kind->at, kind->word);
  }
  if (const auto overlap = keys.text({"tensor_par_overlap"}); overlap && overlap->value != "none")
    draft.say("training.overlap.tensor", true, *overlap->at, overlap->word + ": " + overlap->value);
  const Json* sequence = draft.find("parallelism.sequence");
  if (const auto redo = keys.boolean({"seq_par_ag_redo"}); redo && sequence && sequence->dump() == "true")
    draft.say("framework.saves_gathered", !redo->value, *redo->at, redo->word);
}

void read_execution(Keys keys, ScenarioDraft& draft) {
  if (const auto training = keys.boolean({"training"}); training && !training->value)
    wrong(*training->at, "'training' is false, and scenarios are of training");
  keys.say(Fact::world, {"num_procs"});
  keys.say_integer("parallelism.tensor", {"tensor_par"});
  keys.say_integer("parallelism.pipeline", {"pipeline_par"});
  keys.say_integer("parallelism.data", {"data_par"});
  keys.say_integer("batch.global", {"batch_size"});
  keys.say_integer("batch.micro", {"microbatch_size"});
  if (const auto type = keys.text({"datatype"})) {
    static constexpr std::pair<std::string_view, const char*> kTypes[] = {
        {"float8", "fp8"}, {"float16", "fp16"}, {"bfloat16", "bf16"}, {"float32", "fp32"}};
    const char* ours = nullptr;
    for (const auto& [theirs, name] : kTypes)
      if (type->value == theirs) ours = name;
    if (!ours)
      wrong(*type->at, fmt::format("'datatype' must be float8, float16, bfloat16 or float32; found '{}'", type->value));
    draft.say("training.precision", ours, *type->at, type->word);
  }
  if (const auto recompute = keys.text({"activation_recompute"})) {
    const auto& mode = recompute->value;
    if (mode != "full" && mode != "attn_only" && mode != "none")
      wrong(*recompute->at, fmt::format("'{}' must be full, attn_only or none; found '{}'", recompute->word, mode));
    draft.say("training.recompute", mode == "attn_only" ? "selective" : mode, *recompute->at, recompute->word);
  }
  if (const auto chunks = keys.integer({"pipeline_interleaving"})) {
    draft.say("parallelism.chunks", chunks->value, *chunks->at, chunks->word);
    draft.derive("schedule", chunks->value > 1 ? "interleaved-1f1b" : "1f1b", "pipeline_interleaving");
  }
  if (const auto sharding = keys.boolean({"optimizer_sharding"}))
    draft.say("parallelism.zero", sharding->value ? 1 : 0, *sharding->at, sharding->word);
  keys.say_boolean("training.overlap.gradients", {"data_par_overlap"});
  read_tensor_communication(keys, draft);
  read_offload(keys, draft);
  if (const auto attention = keys.text({"attention_type"}); attention && attention->value == "multiquery")
    draft.say("model.kv_heads", 1, *attention->at, attention->word + ": multiquery");
  draft.derive("training.attention", "unfused", "Calculon's blocks have two products and a softmax between");
  draft.assume("framework.use", "megatron-2022", "what Calculon was validated with, Megatron-LM of arXiv 2205.05198");
  keys.no_word("fused_activation", {}, "kernels are those of the framework");
  keys.no_word("tensor_par_net", {"0"}, "links follow from which ranks are neighbours (placement)");
  keys.ignore({"pipeline_par_net", "data_par_net"});
  keys.finish();
}

// What the nearest cluster has otherwise, beyond what data sheets are rounded by.
constexpr double kRounded = .02;
bool differs(double a, double b) { return b <= 0 || std::abs(a / b - 1) > kRounded; }

void read_networks(const Said<std::vector<const scenario::Node*>>& networks, ScenarioDraft& draft) {
  const std::string up = "cluster.links.scale_up.", out = "cluster.links.scale_out.";
  for (std::size_t tier = 0; tier < networks.value.size(); ++tier) {
    Keys keys(draft, networks.value[tier], fmt::format("networks[{}].", tier));
    if (tier > 1) {
      draft.no_word(networks.value[tier]->where(), fmt::format("networks[{}]", tier),
                    "machines have links inside nodes and between them");
      continue;
    }
    const auto& links = tier == 0 ? up : out;
    const auto size = keys.integer({"size"});
    if (size && tier == 0) draft.say("cluster.gpus_per_node", size->value, *size->at, size->word);
    if (const auto rate = keys.number({"bandwidth"})) {
      draft.say(links + "bandwidth", bandwidth_text(rate->value * 1e9), *rate->at, rate->word);
      if (tier == 1)
        draft.derive(out + "per_node", draft.integer("cluster.gpus_per_node", 8),
                     "Calculon's rates are of a processor");
    }
    if (const auto share = keys.number({"efficiency"}))
      draft.say(tier == 0 ? up + "interconnect.ring_share" : out + "efficiency", share->value, *share->at, share->word);
    if (const auto latency = keys.number({"latency"}))
      draft.say(tier == 0 ? up + "interconnect.launch" : out + "latency", time_text(latency->value), *latency->at,
                latency->word);
    keys.no_word("ops", {}, "collectives are those of the library");
    keys.no_word("processor_usage", {"0", "0.0"}, "multiprocessors that collectives hold are those of the framework");
    keys.ignore({"must_be_filled"});
    keys.finish();
  }
}

void read_system(Keys keys, ScenarioDraft& draft, const scenario::Files& files) {
  auto first = keys.below("mem1"), second = keys.below("mem2"), matrix = keys.below("matrix");
  const auto networks = keys.list({"networks"});
  Sheet sheet;
  const auto half = matrix.number({"float16.tflops", "bfloat16.tflops"});
  const auto eighth = matrix.number({"float8.tflops"});
  const auto rate = first.number({"GBps"}), capacity = first.number({"GiB"});
  constexpr double kMostGiB = 1e6;  // shipped systems say 80000000000 for "no limit"
  const bool limited = capacity && capacity->value <= kMostGiB;
  if (half) sheet.peak = half->value * 1e12;
  if (rate) sheet.memory_bandwidth = rate->value * 1e9;
  if (limited) sheet.memory = capacity->value * 0x1p30;
  if (networks && !networks->value.empty()) {
    Keys inside(draft, networks->value[0], "networks[0].");
    if (const auto up = inside.number({"bandwidth"})) sheet.scale_up = up->value * 1e9;
    if (const auto size = inside.integer({"size"})) sheet.gpus_per_node = size->value;
    if (networks->value.size() > 1)
      if (const auto out = Keys(draft, networks->value[1], "networks[1].").number({"bandwidth"}))
        sheet.node_out = out->value * 1e9 * double(std::max<std::int64_t>(1, sheet.gpus_per_node));
    read_networks(*networks, draft);
  }
  const auto name = nearest_cluster(sheet, files);
  draft.derive("cluster.use", name,
               fmt::format("nearest to {} and {} of memory a GPU, {} between GPUs", flop_rate_text(sheet.peak),
                           bandwidth_text(sheet.memory_bandwidth), bandwidth_text(sheet.scale_up)));
  const auto gpu = scenario::load_named_cluster(name, {}, files).spec.gpu;
  const auto peak = [&gpu](Precision precision) {
    const auto found = gpu.peak.find(precision);
    return found == gpu.peak.end() ? 0. : found->second.value();
  };
  if (half && differs(sheet.peak, peak(Precision::fp16)))
    for (const char* type : {"fp16", "bf16"})
      draft.say(std::string("cluster.gpu.peak.") + type, flop_rate_text(sheet.peak), *half->at, half->word);
  if (eighth && differs(eighth->value * 1e12, peak(Precision::fp8)))
    draft.say("cluster.gpu.peak.fp8", flop_rate_text(eighth->value * 1e12), *eighth->at, eighth->word);
  if (rate && differs(sheet.memory_bandwidth, gpu.memory_bandwidth.value()))
    draft.say("cluster.gpu.memory_bandwidth", bandwidth_text(sheet.memory_bandwidth), *rate->at, rate->word);
  if (limited && differs(sheet.memory, double(gpu.memory.count())))
    draft.say("cluster.gpu.memory", size_text(sheet.memory), *capacity->at, capacity->word);
  if (capacity && !limited)
    draft.no_word(capacity->at->where(), fmt::format("{}: {:.0f}", capacity->word, capacity->value),
                  fmt::format("as good as no limit; the memory of {} is taken", gpu.name));
  if (const auto host = second.number({"GBps"}); host && host->value > 0)
    draft.say("cluster.host.pcie.bandwidth", bandwidth_text(host->value * 1e9), *host->at, host->word);
  if (const auto host = second.number({"GiB"}); host && host->value > 0 && host->value <= kMostGiB)
    draft.derive("cluster.host.memory",
                 size_text(host->value * 0x1p30 * double(std::max<std::int64_t>(1, sheet.gpus_per_node))),
                 "mem2.GiB of each processor of a node");
  for (Keys* memory : {&first, &second}) {
    memory->no_word("MB_efficiency", {}, "kernels reach what the GPU's own constants say");
    memory->finish();
  }
  draft.no_word(keys.map()->find("matrix")->where(), "matrix: gflops_efficiency",
                "products reach what the GPU's own constants say");
  matrix.ignore({"float*", "bfloat*"});
  matrix.finish();
  keys.no_word("vector", {}, "kernels beside products are bound by memory");
  keys.no_word("processing_mode", {"no_overlap"}, "products and memory traffic are priced kernel by kernel");
  keys.ignore({"matrix", "mem1", "mem2", "networks"});
  keys.finish();
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  if (is_application(source))
    read_application(keys, draft);
  else if (is_execution(source))
    read_execution(keys, draft);
  else if (is_system(source))
    read_system(keys, draft, sources.files());
  else
    throw UserError(
        {{{source.name, 1, 1},
          "none of Calculon's files: an application has 'hidden' and 'num_blocks', an execution 'num_procs' "
          "and 'tensor_par', a system 'matrix', 'mem1' and 'networks'"}});
}

}  // namespace

void register_calculon(Registry& registry) {
  registry.add({.name = "calculon",
                .title = "a file of Calculon",
                .summary = "Calculon's JSON: application, execution or system, or all three",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
