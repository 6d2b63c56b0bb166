// Wrong scenarios: each line of a table is one error and its expected message, with its place. The base is kGood (line
// 1 version, 2 model, 3 cluster, 4 parallelism, 5 batch, 6 schedule), or kGoodAbstract (2 parallelism, 3 batch, 4
// costs).
#include "helpers.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

struct Slip {
  const char *old, *now;  // replaced in the base
  const char* error;      // the only complaint begins so
};

void check_slips(const std::string& base, const std::vector<Slip>& slips) {
  CHECK(errors_of(base).empty());
  for (const auto& [old, now, error] : slips) {
    const auto errors = errors_of(with(base, old, now));
    INFO(now);
    INFO(fmt::format("{}", fmt::join(errors, "\n")));
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].starts_with(error));
  }
}

}  // namespace

TEST_CASE("unknown keys, with the nearest spelling") {
  check_slips(
      kGood,
      {{"schedule: 1f1b", "schedul: 1f1b", "6:1: unknown key 'schedul'; did you mean 'schedule'?"},
       {"micro: 1", "micro_batch: 1", "5:23: unknown key 'micro_batch' in 'batch'; did you mean 'micro'?"},
       {"tensor: 8, ", "tensor: 8, senquence: true, ",
        "4:26: unknown key 'senquence' in 'parallelism'; did you mean 'sequence'?"},
       {"nodes: 128", "nodes: 128, !!int nods: 1", "3:42: unknown key 'nods' in 'cluster'; did you mean 'nodes'?"},
       {"schedule: 1f1b", "schedule: {name: 1f1b, gruop: 2}",
        "6:24: unknown key 'gruop' in 'schedule'; did you mean 'group'?"},
       {"version: 1", "version: 1\nsimulate: {details: stage}",
        "2:12: unknown key 'details' in 'simulate'; did you mean 'detail'?"},
       {"version: 1", "version: 1\ntraining: {overlap: {gradient: true}}",
        "2:22: unknown key 'gradient' in 'overlap'; did you mean 'gradients'?"}});
}

TEST_CASE("a misspelt required key is missing and unknown: both are said") {
  const auto errors = errors_of(with(kGood, "model:", "modle:"));
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].starts_with("1:1: missing key 'model'"));
  CHECK(errors[1] == "2:1: unknown key 'modle'; did you mean 'model'?");
}

TEST_CASE("missing keys point to their mapping") {
  check_slips(kGood, {{"version: 1\n", "", "1:1: missing key 'version'"},
                      {"model: gpt3-175b\n", "", "1:1: missing key 'model'"},
                      {"cluster: {use: dgx-a100-80g, nodes: 128}\n", "", "1:1: missing key 'cluster'"},
                      {"batch: {global: 1536, micro: 1}\n", "", "1:1: missing key 'batch'"},
                      {"{global: 1536, micro: 1}", "{micro: 1}", "5:8: missing key 'global' in 'batch'"},
                      {"{global: 1536, micro: 1}", "\n  micro: 1", "5:1: missing key 'global' in 'batch'"},
                      {"schedule: 1f1b", "schedule: {group: 8}", "6:11: missing key 'name' in 'schedule'"},
                      {"global: 1536", "global:", "5:15: not valid YAML: a ':' without a value after it"},
                      {"global: 1536", "global: ~", "5:9: 'global' has no value"},
                      {"schedule: 1f1b", "schedule:", "6:1: 'schedule' has no value"}});
  check_slips(kGoodAbstract, {{", weight: 5ms", "", "4:8: missing key 'weight' in 'costs'"},
                              {"{microbatches: 8}", "{}", "3:8: missing key 'microbatches' in 'batch'"}});
}

TEST_CASE("duplicate keys: the second is the error") {
  check_slips(kGood, {{"schedule: 1f1b", "schedule: 1f1b\nmodel: gpt-1t",
                       "7:1: duplicate key 'model'; it is already given on line 2"},
                      {"micro: 1", "global: 3", "5:23: duplicate key 'global'; it is already given on line 5"}});
}

TEST_CASE("mistyped values: what was found, what is allowed") {
  check_slips(
      kGood,
      {{"version: 1", "version: one",
        "1:10: 'version' must be a whole number from 0 to 1000000000; found the text 'one'"},
       {"version: 1", "version: 2", "1:10: 'version' 2 is unknown; this program reads version 1"},
       {"tensor: 8", "tensor: '8'",
        "4:23: 'tensor' must be a whole number from 1 to 1000000; found the quoted text '8'"},
       {"tensor: 8", "tensor: !!str 8",
        "4:23: 'tensor' must be a whole number from 1 to 1000000; found a text by its tag !!str: '8'"},
       {"tensor: 8", "tensor: ! 8",
        "4:23: 'tensor' must be a whole number from 1 to 1000000; found a text by its tag !: '8'"},
       {"tensor: 8", "tensor: !!str '8'",
        "4:23: 'tensor' must be a whole number from 1 to 1000000; found the quoted text '8'"},
       {"tensor: 8", "tensor: !foo 8", "4:23: the tag '!foo' has no effect here; leave it out"},
       {"tensor: 8", "tensor: 8.0", "4:23: 'tensor' must be a whole number from 1 to 1000000; found the number '8.0'"},
       {"tensor: 8", "tensor: eight",
        "4:23: 'tensor' must be a whole number from 1 to 1000000; found the text 'eight'"},
       {"tensor: 8", "tensor: [8]", "4:23: 'tensor' must be a whole number from 1 to 1000000; found a list of 1"},
       {"tensor: 8", "tensor: {of: 8}", "4:23: 'tensor' must be a whole number from 1 to 1000000; found a mapping"},
       {"tensor: 8", "tensor: 0x8", "4:23: 'tensor' must be a whole number"},
       {"tensor: 8", "tensor: 8, sequence: yes", "4:36: 'sequence' must be true or false; found the text 'yes'"},
       {"tensor: 8", "tensor: 8, sequence: 'true'",
        "4:36: 'sequence' must be true or false; found the quoted text 'true'"},
       {"{global: 1536, micro: 1}", "1536",
        "5:8: 'batch' must be a mapping of keys to values; found the number '1536'"},
       {"{global: 1536, micro: 1}", "[1536, 1]", "5:8: 'batch' must be a mapping of keys to values; found a list of 2"},
       {"schedule: 1f1b", "schedule: [1f1b]", "6:11: 'schedule' must be a text; found a list of 1"},
       {"model: gpt3-175b", "model: [gpt3-175b]", "2:8: the model must be a name; found a list of 1"}});
}

TEST_CASE("names: the nearest spelling") {
  check_slips(kGood,
              {{"gpt3-175b", "gpt3-157b", "2:8: unknown model 'gpt3-157b'; did you mean 'gpt3-175b'?"},
               {"gpt3-175b", "../zoo/gpt3-175b", "2:8: unknown model '../zoo/gpt3-175b'"},
               {"gpt3-175b", "''", "2:8: unknown model ''"},
               {"dgx-a100-80g", "dgx-a100", "3:16: unknown cluster 'dgx-a100'; did you mean 'dgx-a100-40g'?"},
               {"schedule: 1f1b", "schedule: 1fb1", "6:11: unknown schedule '1fb1'; did you mean '1f1b'?"},
               {"version: 1", "version: 1\nframework: megatron-2012",
                "2:12: unknown framework profile 'megatron-2012'; did you mean 'megatron-2021'?"},
               {"version: 1", "version: 1\ntraining: {precision: bf-16}",
                "2:23: 'precision' must be one of fp32, fp16, bf16, fp8, fp4; found 'bf-16'; did you mean 'bf16'?"},
               {"version: 1", "version: 1\ntraining: {recompute: ful}",
                "2:23: 'recompute' must be one of none, selective, full; found 'ful'; did you mean 'full'?"}});
}

TEST_CASE("zero, negative, huge and non-finite numbers") {
  check_slips(
      kGood,
      {{"tensor: 8", "tensor: 0", "4:23: 'tensor' must be a whole number from 1 to 1000000; found the number '0'"},
       {"tensor: 8", "tensor: -8", "4:23: 'tensor' must be a whole number from 1 to 1000000; found the number '-8'"},
       {"data: 16", "data: 10000000000", "4:45: 'data' must be a whole number from 1 to 1000000"},
       {"global: 1536", "global: 99999999999999999999999999",
        "5:17: 'global' must be a whole number from 1 to 1000000000"},
       {"global: 1536", "global: .inf", "5:17: 'global' must be a whole number"},
       {"global: 1536", "global: .nan", "5:17: 'global' must be a whole number"},
       {"global: 1536", "global: 1e400", "5:17: 'global' must be a whole number"},
       {"nodes: 128", "nodes: 900000", "3:10: 900000 nodes of 8 GPUs exceed the limit of 1000000 GPUs"},
       {"version: 1", "version: 1\nsimulate: {iterations: 0}",
        "2:24: 'iterations' must be a whole number from 1 to 1000"},
       {"version: 1", "version: 1\nframework: {use: megatron-2021, attention_rate: nan}",
        "2:49: 'attention_rate' must be a number above 0"},
       {"version: 1", "version: 1\nframework: {use: megatron-2021, optimizer_bytes: inf}",
        "2:50: 'optimizer_bytes' must be a number from 0"}});
  check_slips(kGoodAbstract,
              {{"forward: 5ms", "forward: 0", "4:18: 'forward' must be above zero"},
               {"forward: 5ms", "forward: -5ms", "4:18: 'forward': time '-5ms' is negative"},
               {"forward: 5ms", "forward: infms", "4:18: 'forward': time 'infms' is not a number with a unit"},
               {"forward: 5ms", "forward: nan", "4:18: 'forward': time 'nan' is not a number with a unit"},
               {"forward: 5ms", "forward: 1e300s", "4:18: 'forward': time '1e300s' is too large"},
               {"forward: 5ms", "forward: 2h", "4:18: 'forward' 7200.000 s is longer than an hour, which is the most"},
               {"microbatches: 8", "microbatches: 1000000000",
                "3:8: 1000000000 micro-batches x 4 stages exceed the limit of 100000000 forwards"},
               {"pipeline: 4", "pipeline: 65536", "2:25: 'pipeline' must be a whole number from 1 to 65535"}});
}

TEST_CASE("wrong and missing units") {
  check_slips(kGoodAbstract,
              {{"forward: 5ms", "forward: 5", "4:18: 'forward': time '5' has no unit; write a number with a unit"},
               {"forward: 5ms", "forward: 5MB", "4:18: 'forward': time '5MB' has the unknown unit 'MB'"},
               {"forward: 5ms", "forward: 5 Ms", "4:18: 'forward': time '5 Ms' has the unknown unit 'Ms'"},
               {"forward: 5ms", "forward: fast", "4:18: 'forward': time 'fast' is not a number with a unit"},
               {"weight: 5ms", "weight: 5ms, transfer: 5", "4:61: 'transfer': time '5' has no unit"}});
  check_slips(kGood, {{"1f1b", "{name: 1f1b, memory_limit: 60}", "6:38: 'memory_limit': size '60' has no unit"},
                      {"nodes: 128", "nodes: 128, links: {scale_out: {bandwidth: 400GB}}",
                       "3:73: 'bandwidth': bandwidth '400GB' has the unknown unit 'GB'"},
                      {"nodes: 128", "nodes: 128, links: {scale_out: {latency: 400Gb/s}}",
                       "3:71: 'latency': time '400Gb/s' has the unknown unit 'Gb/s'"}});
}

TEST_CASE("products that do not multiply out") {
  check_slips(
      kGood,
      {{"data: 16", "data: 15",
        "4:45: tensor 8 x pipeline 8 x data 15 = 960 GPUs, but the cluster has 1024 (128 x 8); data 16 would fit"},
       {"tensor: 8, pipeline: 8, data: 16", "tensor: 8, pipeline: 9, data: 16",
        "4:45: tensor 8 x pipeline 9 x data 16 = 1152 GPUs, but the cluster has 1024"},
       {"tensor: 8, pipeline: 8, data: 16", "tensor: 8, pipeline: 12",
        "4:14: tensor 8 x pipeline 12 = 96 does not divide the 1024 GPUs of the cluster"},
       {"{use: dgx-a100-80g, nodes: 128}", "{use: dgx-a100-80g, gpus: 9}",
        "3:36: 'gpus' 9 cannot be divided equally over 2 nodes of 8 GPUs; nearest: 8 or 10"},
       {"nodes: 128", "nodes: 128, gpus: 8", "3:48: give either 'nodes' or 'gpus'"},
       {"global: 1536", "global: 1500",
        "5:17: 'global' 1500 is not a multiple of data x micro = 16 x 1 = 16; nearest: 1488 or 1504"},
       {"global: 1536, micro: 1", "global: 8, micro: 4",
        "5:17: 'global' 8 is not a multiple of data x micro = 16 x 4 = 64; nearest: 64"},
       {"tensor: 8, pipeline: 8, data: 16", "tensor: 64, pipeline: 16, data: 1",
        "4:23: 'tensor' 64 does not divide the 96 heads of model 'gpt3-175b'; nearest: 48 or 96"},
       {"pipeline: 8, data: 16", "pipeline: 128, data: 1",
        "4:36: pipeline 128 x chunks 1 = 128 stages are too many for 96 layers; at most 98"},
       {"version: 1", "version: 1\npartition: [12, 12]", "2:12: 'partition' lists 2 stages, but pipeline x chunks = 8"},
       {"version: 1", "version: 1\npartition: [12, 12, 12, 12, 12, 12, 12, 13]",
        "2:12: 'partition' adds up to 97, but the model has 96 layers"},
       {"version: 1", "version: 1\npartition: [12, -1, 25, 12, 12, 12, 12, 12]",
        "2:17: an entry of 'layers' must be a whole number from 0"},
       {"version: 1", "version: 1\npartition: {layout: Et|tL}", "2:21: partition.layout has 2 stages, but"},
       {"version: 1", "version: 1\npartition: {layout: 'E(t|L'}", "2:21: partition.layout 'E(t|L': ')' is missing"},
       {"micro: 1", "micro: 1, lengths: {fixed: 0}", "5:50: 'fixed' must be a whole number from 1"},
       {"micro: 1", "micro: 1, lengths: 512", "5:42: 'lengths' must be {fixed: N}"},
       {"micro: 1", "micro: 1, packing: pack", "5:42: 'packing' needs the lengths of documents"},
       {"version: 1", "version: 1\npartition: {layers: [12, 12, 12, 12, 12, 12, 12, 12], head: layer}",
        "2:21: 'partition' adds up to 96, but the model has 96 layers (97 with embedding and head)"}});
  check_slips(kGoodAbstract,
              {{"forward: 5ms", "forward: [5ms, 6ms]",
                "4:18: 'forward' lists 2 values, but there are 4 stages; give one value for each, or one for all"},
               {"forward: 5ms", "forward: [5ms, 6ms, 7, 8ms]", "4:29: 'forward': time '7' has no unit"}});
}

TEST_CASE("models that cannot be") {
  const auto inline_model =
      with(kGood, "gpt3-175b", "{family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8}");
  check_slips(
      inline_model,
      {{"kv_heads: 8", "kv_heads: 5", "2:71: 'kv_heads' 5 must divide 'heads' 32"},
       {"heads: 32", "heads: 24", "2:57: 'heads' 24 must divide 'hidden' 4096, or give 'head_dim'"},
       {"family: llama", "family: u-net",
        "2:17: 'family' must be one of gpt, llama, hybrid, moe, u-transformer, mlp; found 'u-net'"},
       {"kv_heads: 8", "experts: 8", "2:70: 'experts' is a key of family moe"},
       {"kv_heads: 8", "kv_heads: 4", "4:23: 'tensor' 8 does not divide the 4 kv_heads of model 'inline'; nearest: 4"},
       {"kv_heads: 8", "ffn: 11004",
        "4:23: 'tensor' 8 does not divide the 11004 ffn columns of model 'inline'; nearest: 7 or 12"},
       {"kv_heads: 8", "ffn_kind: relu",
        "2:71: 'ffn_kind' must be one of gelu, swiglu, geglu, squared-relu; found 'relu'"},
       {"layers: 32, ", "", "2:8: missing key 'layers' in 'model'"}});
}

TEST_CASE("schedules against degrees") {
  check_slips(kGood,
              {{"data: 16", "data: 16, chunks: 2",
                "4:57: '1f1b' takes one chunk per rank; found 'chunks' 2; use 'interleaved-1f1b'"},
               {"schedule: 1f1b", "schedule: {file: /nowhere/my.csv}", "6:18: '/nowhere/my.csv' cannot be opened"},
               {"schedule: 1f1b", "schedule: {name: 1f1b, group: 0}", "6:31: 'group' must be a whole number from 1"}});
}

TEST_CASE("features that do not exist yet are refused by name; their defaults are not") {
  check_slips(
      kGood, {{"version: 1", "version: 1\ntraining: {offload: {optimizer: tape}}",
               "2:33: 'optimizer' must be one of device, host, nvme"},
              {"version: 1", "version: 1\ntraining: {overlap: {parameters: true}}",
               "2:34: 'parameters' must be false with 'zero' 0"},
              {"version: 1", "version: 1\ntraining: {fsdp: {prefetch: -1}}", "2:29: 'prefetch' must be a whole number"},
              {"version: 1", "version: 1\ntraining: {recompute: {mode: full, every: 0}}",
               "2:43: 'every' must be a whole number from 1"},
              {"version: 1", "version: 1\ntraining: {recompute: {mode: none, layers: 2}}",
               "2:30: 'every' and 'layers' say which layers are recomputed, but 'mode' is none; leave them out, or set "
               "'mode' to full or selective"},
              {"version: 1", "version: 1\ntraining: {overlap: {tensor: true}}",
               "2:30: 'tensor' needs 'sequence: true' in 'parallelism'"},
              {"version: 1", "version: 1\nframework: {use: titan-2024, compiled: true}\ntraining: {kernels: unfused}",
               "3:21: 'unfused' for 'kernels' contradicts 'compiled: true' in 'framework'"},
              {"version: 1", "version: 1\npartition: even", "2:12: 'partition' must be uniform, balanced, a list of"},
              {"version: 1", "version: 1\ntraining: {precision: fp8}",
               "2:11: GPU 'a100-80g-sxm' does not compute in the precision"},
              {"version: 1", "version: 1\nframework: {use: titan-2024, fp8_scaling: row}",
               "2:43: 'fp8_scaling' must be one of tensorwise, current, rowwise, blockwise, mx; found 'row'"},
              {"version: 1", "version: 1\nframework: {use: titan-2024, attention_kernel: flash-4}",
               "2:48: 'attention_kernel' must be one of flash-2, flash-3, cudnn; found 'flash-4'"}});
  // A scaling for which the GPU has no rate.
  const auto hopper = with(with(kGood, "gpt3-175b", "llama3-8b"), "{use: dgx-a100-80g, nodes: 128}",
                           "{use: dgx-h100, nodes: 128, gpu: {use: h100-80g-sxm, fp8_rowwise_speedup: 0}}") +
                      "training: {precision: fp8}\n";
  CHECK(errors_of(hopper + "framework: {use: titan-2024}\n").empty());
  const auto refused = errors_of(hopper + "framework: {use: titan-2024, fp8_scaling: rowwise}\n");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find("no fp8 rate for this 'framework.fp8_scaling'") != std::string::npos);
  CHECK(errors_of(kGood +
                  "training: {kernels: fused, optimizer_sync: barrier, offload: {optimizer: none, activations: none},"
                  " bucket: 25MB, allocator: caching, overlap: {parameters: false, tensor: false}}\n"
                  "simulate: {detail: stage, contention: auto, symmetry: off, iterations: 1, seed: 7}\n")
            .empty());
}

TEST_CASE("abstract scenarios exclude concrete parts") {
  check_slips(kGoodAbstract,
              {{"version: 1", "version: 1\nmodel: gpt3-175b", "2:8: give either 'model' or 'costs', not both"},
               {"version: 1", "version: 1\ntraining: {precision: bf16}",
                "2:23: 'precision' does not apply to a scenario with 'costs'; leave it out"},
               {"version: 1", "version: 1\ntraining: {optimizer_sync: later}",
                "2:28: 'optimizer_sync' must be one of barrier, post-validation; found 'later'"},
               {"version: 1", "version: 1\ntraining: {rollback_probability: 0.1}",
                "2:34: 'rollback_probability' needs 'optimizer_sync: post-validation'"},
               {"version: 1", "version: 1\ntraining: {optimizer_sync: post-validation}\nsimulate: {iterations: 0}",
                "3:24: 'iterations' must be"},
               {"pipeline: 4", "pipeline: 4, tensor: 2",
                "2:36: 'tensor' does not apply to a scenario with 'costs'; leave it out"},
               {"microbatches: 8", "microbatches: 8, global: 8",
                "3:34: 'global' does not apply to a scenario with 'costs'; give 'microbatches'"},
               {"version: 1", "version: 1\nmemory: {activation: 100MB, weight_hold: 32}",
                "2:42: 'weight_hold' is given without a unit, but other memory of this scenario with one"},
               {"version: 1", "version: 1\nmemory: {weight_hold: 32}", "2:9: missing key 'activation' in 'memory'"},
               {"version: 1", "version: 1\nmemory: {activation: 1, limit: [1, 2]}",
                "2:32: 'limit' must be one value for all ranks"},
               {"version: 1", "version: 1\nmemory: {activation: 1, limit: 0}", "2:32: 'limit' must be above zero"}});
  check_slips(kGood,
              {{"global: 1536", "global: 1536, microbatches: 8", "5:37: 'microbatches' is for scenarios with 'costs'"},
               {"version: 1", "version: 1\nmemory: {activation: 1}", "2:9: 'memory' is for scenarios with 'costs'"}});
}

TEST_CASE("all errors of a file at once, in order of line") {
  const auto errors = errors_of(
      "version: 3\n"
      "model: gpt3\n"
      "cluster: {use: dgx-a100-80g, noodles: 4}\n"
      "parallelism: {tensor: -1, pipeline: x}\n"
      "batch: {micro: 0}\n"
      "schedule: 2f2b\n"
      "traning: {precision: bf16}\n"
      "simulate: {detail: fine}\n");
  const std::vector<std::string> begins = {"1:10: 'version' 3",
                                           "2:8: unknown model 'gpt3'",
                                           "3:30: unknown key 'noodles'",
                                           "4:23: 'tensor'",
                                           "4:37: 'pipeline'",
                                           "5:8: missing key 'global'",
                                           "5:16: 'micro'",
                                           "6:11: unknown schedule",
                                           "7:1: unknown key 'traning'",
                                           "8:20: 'detail' must be one of stage, layer, operator"};
  INFO(fmt::format("{}", fmt::join(errors, "\n")));
  REQUIRE(errors.size() == begins.size());
  for (std::size_t i = 0; i < errors.size(); i++) CHECK(errors[i].starts_with(begins[i]));
}

TEST_CASE("hundreds of errors are counted, not listed") {
  std::string text = kGood;
  for (int i = 0; i < 300; i++) text += fmt::format("unknown_{}: 1\n", i);
  const auto errors = errors_of(text);
  REQUIRE(errors.size() == 51);
  CHECK(errors.back() == "x.yaml: and 250 more errors");
}

TEST_CASE("a file cannot write to the terminal through its errors") {
  for (const auto& error : errors_of(with(kGoodAbstract, "forward: 5ms", "forward: \"\\e[2J\", \"\\e[31mx\": 1"))) {
    CHECK(error.find('\x1b') == std::string::npos);
    CHECK(error.find("\\x1b[") != std::string::npos);
  }
}

TEST_CASE("errors of --set name the option; unknown paths are unknown keys") {
  const struct {
    const char *set, *error;
  } cases[] = {
      {"batch.micro=x", "--set batch.micro=x: 'micro' must be a whole number from 1 to 1000000000; found the text 'x'"},
      {"batch.mirco=2", "--set batch.mirco=2: unknown key 'mirco' in 'batch'; did you mean 'micro'?"},
      {"btach.micro=2", "--set btach.micro=2: unknown key 'btach'; did you mean 'batch'?"},
      {"batch.micro.x=2", "--set batch.micro.x=2: 'micro' must be"},
      {"batch.global=1500", "--set batch.global=1500: 'global' 1500 is not a multiple"},
      {"schedule=2f2b", "--set schedule=2f2b: unknown schedule '2f2b'"},
      {"parallelism={tensor: 8, pipelin: 8}", "--set parallelism={tensor: 8, pipelin: 8}: unknown key 'pipelin'"},
  };
  for (const auto& [set, error] : cases) {
    const auto errors = errors_of(kGood, {set});
    INFO(fmt::format("{}", fmt::join(errors, "\n")));
    REQUIRE(errors.size() >= 1);
    CHECK(std::any_of(errors.begin(), errors.end(), [&](auto& e) { return e.find(error) != std::string::npos; }));
  }
}
