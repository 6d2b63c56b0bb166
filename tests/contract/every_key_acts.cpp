// What if? Every number and every choice of a scenario, changed alone as a user would (--set), changes an answer of
// some shipped scenario, in the direction of its kind, and its digest; or it is refused by name; or the report names it
// as having no effect. No change is silently ignored.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "answer/predict.hpp"
#include "scenario/fields.hpp"

using namespace rehearsal;

namespace {

struct Told {
  scenario::Scenario scenario;
  answer::Summary summary;
  std::vector<std::string> warnings;

  bool same(const Told& other) const { return answer::same_answer(summary, other.summary); }
};

Told ask(const std::string& file, const std::vector<std::string>& sets) {
  Told told;
  const auto read = [&](const std::vector<std::string>& more) {
    auto all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return scenario::load(PROJECT_ROOT "/scenarios/" + file, all);
  };
  told.scenario = read({});
  const auto prediction =
      answer::predict(told.scenario, {.summary = {.critical_path = false}, .assumptions = false, .reread = read});
  told.summary = prediction.summary, told.warnings = prediction.warnings;
  return told;
}

struct Question {
  const char* file;
  std::vector<std::string> sets;
};
// The shipped scenarios, and variants with other frameworks, partitions and precisions for what they do not use. Small
// ones first.
const std::vector<Question>& questions() {
  static const std::vector<Question> all = {
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "batch.lengths={list: [512, 3072]}", "batch.packing=pack", "batch.document_mask=true"}},
      {"megatron21-t1/gpt-3.6b-64xa100.yaml",
       {"batch.global=128", "cluster.nodes=4", "parallelism={tensor: 2, pipeline: 4, data: 4}",
        "training.precision=bf16"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=32", "cluster.nodes=2", "parallelism={data: 16, zero: 3}", "framework=deepspeed-2021"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=32", "cluster.nodes=2", "parallelism={data: 16, zero: 3, secondary_shard: 8}",
        "framework=deepspeed-2023", "training.gradient_precision=bf16"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8, zero: 3}", "framework=fsdp-2023", "training.recompute=full"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "training.precision=fp8", "framework=titan-2024"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "training.precision=fp8", "framework={use: titan-2024, fp8_scaling: rowwise}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "training.precision=fp8", "framework={use: titan-2024, fp8_scaling: blockwise}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "training.precision=fp8", "cluster.gpu.fp8_speedup=0", "cluster.gpu.peak.fp8=1979TFLOP/s"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "framework={use: titan-2024, attention_kernel: flash-3}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "framework={use: titan-2024, attention_kernel: cudnn}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=16", "parallelism={data: 8}", "training.precision=fp16", "framework=deepspeed-2021",
        "training.loss_scaling=dynamic"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8}", "framework=megatron-2021",
        "model={family: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "parallelism={data: 8}", "training.precision=fp32"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={pipeline: 4, data: 2}", "training.optimizer_sync=post-validation"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={pipeline: 2, data: 4, chunks: 2}", "schedule={name: interleaved-1f1b}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "training.recompute={mode: full, every: 2}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "training.kernels=unfused", "training.attention=unfused"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "model={use: qwen3-30b-a3b, layers: 2}",
        "framework={use: megatron-2025, dispatcher: deepep}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "model={use: qwen3-30b-a3b, layers: 2}",
        "framework={use: megatron-2025, dispatcher: deepep, expert_overlap: true}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "cluster={use: b200-sxm, nodes: 1}", "training.precision=fp8",
        "model={use: qwen3-30b-a3b, layers: 2}",
        "framework={use: megatron-2026, dispatcher: deepep, fp8_scaling: mx, expert_overlap: true}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "model={use: qwen3-30b-a3b, layers: 2, shared_experts: 2}",
        "framework=megatron-2025"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=16", "parallelism={expert: 16}", "cluster={use: b200-sxm, nodes: 2}", "training.precision=fp8",
        "model={use: qwen3-30b-a3b, layers: 2}",
        "framework={use: megatron-2026, dispatcher: hybridep, fp8_scaling: mx, fused_grouped_mlp: true, "
        "host_bound_to_cores: false}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "cluster={use: b200-sxm, nodes: 1}", "training.precision=fp4", "framework=megatron-2026"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "cluster={use: b200-sxm, nodes: 1}", "training.precision=fp4", "framework=megatron-2026",
        "cluster.gpu.fp4_speedup=0"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=64", "cluster.nodes=8", "parallelism={data: 64}",
        "job={tokens: 1B, deadline: 3d, gpu_hour: 2, currency: USD, budget: 1k, carbon: 0.4kg/kWh, spares: 0, "
        "failures: {per_1000_node_days: 5000, group: {nodes: 2, per_1000_days: 1000}, slow: {per_1000_node_days: "
        "5000}}, checkpoint: {interval: 10min}}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=16",
        "job={steps: 10k, ramp: {from: 8, by: 8, samples: 8k}, evaluation: {every: 100, time: 1min}}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "job={steps: 10k, evaluation: {every: 100, steps: 20}}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "parallelism={data: 4, context: 2}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8, zero: 3}", "training.lora={rank: 16, modules: [linear_qkv]}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8, zero: 3}", "training.lora={rank: 16}", "framework=hf-2024",
        "training.frozen_precision=nf4", "model={use: qwen3-30b-a3b, layers: 2}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8, zero: 1}", "framework=hf-2024", "training.recompute=full",
        "model={use: llama3-8b, layers: 2}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=1", "parallelism={data: 1}", "cluster={use: dgx-h100, gpus: 1}",
        "model={use: llama3-8b, layers: 2}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8, zero: 3}", "framework=fsdp-2023", "training.recompute=full",
        "training.offload={optimizer: nvme, gradients: nvme, parameters: nvme, activations: nvme}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 4, tensor: 2, zero: 3, sequence: false}", "framework=fsdp-2023",
        "training.recompute=full", "training.offload={optimizer: host, gradients: host}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={data: 8}", "model={use: llama3-8b, layers: 2}",
        "data_parallel={kind: parameter-server, servers: 2, delay: 1}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8",
        "model={use: llama3-8b, layers: 2, mixer: {window: 512, value_dim: 64, gate: true, sinks: true, qk_norm: "
        "true}}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "model={use: llama3-8b, layers: 2, mixer: {chunk: 512}}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "model={use: llama3-8b, layers: 2, mixer: {sparse: 512, index_heads: 8, index_dim: 64}}"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "model={use: qwen3-30b-a3b, layers: 2, expert_latent: 1024}"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "model={use: qwen3-vl-2b, layers: 2}", "model.vision.layers=2"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=8", "model={use: gemma4-31b, layers: 2}", "model.vision.layers=2"}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=8", "parallelism={expert: 8}", "cluster={use: h800-roce, nodes: 1}",
        "model={use: qwen3-30b-a3b, layers: 2}", "framework=megatron-2025"}},
      {"gpu/tensor-4.yaml", {}},
      {"measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml", {}},
      {"teaching-1f1b-8-stages.yaml", {}}};
  return all;
}

const Told& asked(std::size_t question) {
  static std::map<std::size_t, Told> known;
  const auto found = known.find(question);
  if (found != known.end()) return found->second;
  return known.emplace(question, ask(questions()[question].file, questions()[question].sets)).first->second;
}

// More of it makes no step longer (faster) or none shorter (slower); keys not listed have no direction.
enum class More { faster, slower };
std::optional<More> direction(const fields::Field& field) {
  using Kind = fields::Form::Kind;
  if (field.key.find("measured_on") != std::string::npos) return std::nullopt;  // of another machine, for comparison
  if (field.key.find("collectives.fitted") != std::string::npos) return std::nullopt;
  if (field.form.kind == Kind::bandwidth || field.form.kind == Kind::flop_rate) return More::faster;
  if (field.form.kind == Kind::time) return More::slower;
  static const std::map<std::string, More> numbers = {{"cluster.gpu.sms", More::faster},
                                                      {"cluster.gpu.gemm_efficiency", More::faster},
                                                      {"cluster.host.pcie.gpus_per_link", More::slower},
                                                      {"framework.host_optimizer_bytes", More::slower},
                                                      {"cluster.gpu.sustained_clock", More::faster},
                                                      {"cluster.gpu.weight_gradient_rate", More::faster},
                                                      {"cluster.gpu.small_tile_loss", More::slower},
                                                      {"cluster.gpu.attention_tail", More::slower},
                                                      {"cluster.gpu.fp8_speedup", More::faster},
                                                      {"cluster.gpu.fp8_rowwise_speedup", More::faster},
                                                      {"cluster.gpu.fp8_blockwise_speedup", More::faster},
                                                      {"cluster.links.scale_out.efficiency", More::faster},
                                                      {"cluster.links.scale_out.message_efficiency", More::faster},
                                                      {"framework.attention_rate", More::faster},
                                                      {"framework.optimizer_bytes", More::slower},
                                                      {"framework.accumulate_bytes_fp16", More::slower},
                                                      {"framework.accumulate_bytes_bf16", More::slower},
                                                      {"framework.host_backward_factor", More::slower},
                                                      {"framework.sharded_tensor_efficiency", More::faster},
                                                      {"training.rollback_probability", More::slower}};
  const auto found = numbers.find(field.key);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

// Why a key need not have an effect. Every line must be an argument.
const std::map<std::string, const char*> kExceptions = {
    {"simulate.seed", "nothing random is in a prediction yet; performed runs draw their data from it"},
    {"simulate.symmetry", "that every rank simulated gives the same answer is what detail_agrees.cpp proves"},
    {"simulate.detail", "that detail changes no answer is what detail_agrees.cpp proves"},
    {"simulate.iterations", "behind a barrier all iterations are alike"},
    {"schedule.time_limit", "of searches; how far they get in it is no promise"},
    {"schedule.group", "the number that a schedule takes without it is the same schedule"},
    {"schedule.extra_warmup", "the number that a schedule takes without it is the same schedule"},
    {"schedule.pieces", "the number that a schedule takes without it is the same schedule"},
    {"schedule.waves", "1 is what a schedule of waves does without it"},
    {"training.learning_rate", "of performed training; idle_keys says so where a framework's step is predicted"},
    {"training.weight_decay", "of performed training; idle_keys says so where a framework's step is predicted"},
    {"framework.cuda_graph", "where the ends alone wait for the host, a graph of attention leaves them as they were"},
    {"experts.capacity", "one that no expert reaches drops nothing; those that do are in experts.cpp"},
    {"framework.nccl", "two versions between which no algorithm came are the same; 2.14 for 2.29 acts, below"},
    {"cluster.collectives.measured_on.nccl", "as framework.nccl"},
    {"cluster.links.scale_up.interconnect.step", "of links without a latency of their own, as in interconnects.cpp"},
    {"cluster.gpu.peak.tf32", "of GPUs without a rate for fp32; all shipped ones have it"},
};

bool named(const std::vector<std::string>& messages, const std::string& key) {
  const auto last = "'" + key.substr(key.rfind('.') + 1) + "'";
  return std::any_of(messages.begin(), messages.end(), [&](const std::string& m) {
    return m.find("'" + key + "'") != std::string::npos || m.find(last) != std::string::npos;
  });
}

double amount(const fields::Value& value) {
  if (const auto* x = std::get_if<std::int64_t>(&value)) return double(*x);
  if (const auto* x = std::get_if<double>(&value)) return *x;
  if (const auto* x = std::get_if<Time>(&value)) return double(x->count());
  if (const auto* x = std::get_if<Bandwidth>(&value)) return x->value();
  if (const auto* x = std::get_if<FlopRate>(&value)) return x->value();
  if (const auto* x = std::get_if<Duration>(&value)) return x->value();
  if (const auto* x = std::get_if<Power>(&value)) return x->value();
  if (const auto* x = std::get_if<CarbonIntensity>(&value)) return x->value();
  if (const auto* x = std::get_if<Count>(&value)) return x->value();
  if (const auto* list = std::get_if<std::vector<fields::Value>>(&value)) {
    double sum = 0;
    for (const auto& item : *list) sum += amount(item);
    return sum;
  }
  return 0;
}

enum class Outcome { acts, refused, said, silent };

// One key set to one value in one scenario.
Outcome moved(std::size_t question, const fields::Field& field, const fields::Value& to) {
  const Told& before = asked(question);
  auto sets = questions()[question].sets;
  sets.push_back(field.key + "=" + fields::written(to));
  try {
    const Told after = ask(questions()[question].file, sets);
    if (field.get(&after.scenario) != to) return Outcome::refused;  // another key overrides it
    if (!after.same(before)) {
      CHECK(after.scenario.digest != before.scenario.digest);
      if (const auto way = direction(field); way && after.summary.iteration != before.summary.iteration) {
        const auto was = field.get(&before.scenario);
        const bool more = amount(to) > amount(was), longer = after.summary.iteration > before.summary.iteration;
        // Reordered tasks can make a faster machine slower (Graham 1969): up to a hundredth is accepted.
        const double change = std::abs(to_seconds(after.summary.iteration) / to_seconds(before.summary.iteration) - 1);
        if (!was.absent() && change > .01) CHECK(longer == (more == (*way == More::slower)));
      }
      return Outcome::acts;
    }
    // If the old value is also reported, neither of them has an effect.
    return named(after.warnings, field.key) || named(before.warnings, field.key) ? Outcome::said : Outcome::silent;
  } catch (const UserError&) {
    return Outcome::refused;
  }
}

// The report may also name defaults: a value that changes nothing is not idle if another value of the key has an
// effect.
bool another_acts(std::size_t question, const fields::Field& field, const fields::Value& to) {
  const auto others = fields::others(field, to);
  return std::any_of(others.begin(), others.end(), [&](const auto& other) {
    return !other.absent() && moved(question, field, other) == Outcome::acts;
  });
}

}  // namespace

TEST_CASE("every number and every choice acts, or the program says why not") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  std::size_t acting = 0;
  for (const auto& field : scenario::scenario_fields().fields) {
    using Kind = fields::Form::Kind;
    if (!field.key_of_files || !field.set ||
        (field.form.list && !field.form.each_once && !(field.form.set && field.form.kind == Kind::choice)) ||
        field.form.kind == Kind::text || field.form.kind == Kind::name || field.form.kind == Kind::table)
      continue;
    CAPTURE(field.key);
    std::map<Outcome, std::size_t> met;
    for (std::size_t q = 0; q < questions().size() && met[Outcome::acts] == 0; q++) {
      const auto& scenario = asked(q).scenario;
      const bool own_part =
          scenario.concrete.has_value() != (field.key.starts_with("costs.") || field.key.starts_with("memory."));
      if (!own_part) continue;
      for (const auto& to : fields::others(field, field.get(&scenario))) {
        CAPTURE(q);
        CAPTURE(fields::written(to));
        auto outcome = moved(q, field, to);
        if (outcome == Outcome::silent && another_acts(q, field, to)) outcome = Outcome::acts;
        if (!kExceptions.count(field.key)) CHECK(outcome != Outcome::silent);
        if (++met[outcome], outcome == Outcome::acts) break;
      }
    }
    if (met[Outcome::acts]) acting++;
    if (std::getenv("REHEARSAL_SHOW"))
      MESSAGE(field.key, " acts ", met[Outcome::acts], " refused ", met[Outcome::refused], " said ",
              met[Outcome::said]);
    if (!kExceptions.count(field.key)) CHECK(met[Outcome::acts] + met[Outcome::refused] > 0);
  }
  CHECK(acting > 80);
}

// Three GPUs cannot share two NICs in a node: so the effect of the number is tested on a machine that is possible.
TEST_CASE("a scenario is answered though a number beside one of its own makes no machine") {
  const std::string text =
      "version: 1\nmodel: {family: gpt, layers: 2, hidden: 512, heads: 4, vocabulary: 128, sequence: 128}\n"
      "cluster: {gpu: a100-80g-sxm, gpus_per_node: 2, nodes: 2, links: {scale_up: {bandwidth: 300GB/s}, "
      "nic: {bandwidth: 400Gb/s, per_node: 2}}}\nparallelism: {tensor: 4}\nbatch: {global: 1, micro: 1}\n";
  answer::Options options;
  options.reread = [&](const std::vector<std::string>& sets) { return scenario::load_text(text, "two.yaml", sets); };
  CHECK_NOTHROW(answer::predict(scenario::load_text(text, "two.yaml"), options));
}

TEST_CASE("what moves anything in the answer is not called idle: times, rates, memory of any tier") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  const auto idle = [](const std::vector<std::string>& sets) {
    std::vector<std::string> keys;
    for (const auto& w : ask("llama3-8b-dgx-h100.yaml", sets).warnings)
      if (w.find("changes nothing in this answer") != std::string::npos)
        keys.push_back(w.substr(w.find('\'') + 1, w.find('\'', w.find('\'') + 1) - w.find('\'') - 1));
    return keys;
  };
  const auto named_idle = [&](const std::string& key, std::vector<std::string> sets) {
    const auto keys = idle(sets);
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  // The rated bandwidth determines another value, by which kernels are priced.
  CHECK_FALSE(named_idle(
      "cluster.gpu.memory_bandwidth",
      {"batch.global=8", "cluster={use: dgx-h100, nodes: 1, gpu: {use: h100-80g-sxm, memory_bandwidth: 0.3TB/s}}"}));
  // Bytes on the host, and a rate that only utilisation is measured by.
  CHECK_FALSE(named_idle("training.moments", {"batch.global=8", "training.recompute=full", "training.moments=bf16",
                                              "training.offload={optimizer: host}"}));
  CHECK_FALSE(named_idle("cluster.gpu.peak.fp8", {"batch.global=8", "training.precision=fp8", "framework=megatron-2025",
                                                  "cluster.gpu.peak.fp8=3000TFLOP/s"}));
  CHECK_FALSE(named_idle("cluster.gpu.memory", {"batch.global=8", "cluster.gpu.memory=90GiB"}));
  CHECK_FALSE(named_idle("training.allocator", {"batch.global=8", "training.allocator=exact"}));
  // Our own kernels instead of a framework's are another program, perhaps with another partition.
  CHECK_FALSE(named_idle("framework.native_kernels",
                         {"batch.global=8", "parallelism={pipeline: 2, data: 4, zero: 1}",
                          "framework={use: megatron-2025, native_kernels: false}", "partition=balanced"}));
  CHECK(named_idle("training.learning_rate", {"batch.global=8", "training.learning_rate=0.1"}));
}

TEST_CASE("an old NCCL lacks the switch's all-reduce: slower, though the curves were measured with a new one") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  const auto with = [](const char* nccl) {
    return ask("llama3-8b-dgx-h100.yaml", {"batch.global=8", "parallelism={data: 8}", "training.precision=fp32",
                                           std::string("framework.nccl=") + nccl})
        .summary.iteration;
  };
  CHECK(with("2.16") > with("2.17"));
  CHECK(with("2.17") == with("2.29"));
}
