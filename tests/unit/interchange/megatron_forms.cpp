// The same run in every form that Megatron-LM's arguments come in, and what is wrong in them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "interchange/import.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::megatron_forms_test {

using namespace interchange;
namespace {

const std::string kFolder = std::string(TEST_DATA) + "/interchange/megatron-forms/";

using Beside = scenario::LaidOver;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}
Imported of_words(const std::string& text, std::optional<std::int64_t> world = 8) {
  return import({.arguments = words_of(text), .world = world}, scenario::disk());
}
Imported of_text(const std::string& name, const std::string& text, std::optional<std::int64_t> world = 8) {
  return import({.files = {name}, .world = world}, Beside(std::map<std::string, std::string>{{name, text}}));
}
std::string digest_of(const Imported& imported) { return scenario::load_text(imported.yaml, "again.yaml").digest; }

std::string message_of(const auto& run) {
  try {
    run();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}
Json value_of(const Imported& imported, const std::string& key) {
  const Json* value = imported.draft.find(key);
  return value ? *value : Json();
}

const std::string kModel = "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --bf16 ";
// An 8B-like run with most that differs from argparse's defaults.
const std::string kRun =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope "
    "--normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout "
    "0.0 --hidden-dropout 0.0 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
    "--num-layers-per-virtual-pipeline-stage 8 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce "
    "--overlap-param-gather --micro-batch-size 1 --global-batch-size 128 --bf16 --recompute-granularity full "
    "--recompute-method block --recompute-num-layers 4 --no-gradient-accumulation-fusion --cross-entropy-loss-fusion "
    "--attention-backend flash --vocab-size 128256 --tokenizer-type HuggingFaceTokenizer";

}  // namespace

TEST_CASE("one run as arguments, as YAML, as the table of a log and as a configuration has one digest") {
  const auto typed = of_words(kRun, 16);
  CHECK(value_of(typed, "parallelism.chunks").dump() == "2");
  CHECK(value_of(typed, "model.vocabulary").dump() == "128256");

  std::string yaml = "ENV_VARS:\n  CUDA_DEVICE_MAX_CONNECTIONS: 1\nMODEL_ARGS:\n";
  const auto words = words_of(kRun);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool valued = i + 1 < words.size() && !words[i + 1].starts_with("--");
    yaml += fmt::format("  {}: {}\n", words[i], valued ? words[i + 1] : "true");
    if (valued) ++i;
  }
  CHECK(digest_of(of_text("model_config.yaml", yaml, 16)) == digest_of(typed));

  const auto log = import({.files = {kFolder + "llama3-8b.log"}}, scenario::disk());
  CHECK(digest_of(log) == digest_of(typed));
  CHECK(log.draft.origin("model.vocabulary")->where.line > 100);
  CHECK(log.draft.unknown().empty());

  const auto bridge = import({.files = {kFolder + "run_config.yaml"}, .world = 16}, scenario::disk());
  CHECK(digest_of(bridge) == digest_of(typed));
  CHECK(to_text(*bridge.draft.origin("model.kv_heads")).ends_with("model.num_query_groups"));
  CHECK(bridge.draft.unknown().empty());
}

TEST_CASE("logs have other lines around their tables, and launchers put ranks before each") {
  std::ifstream file(kFolder + "llama3-8b.log");
  std::string table, ranked;
  for (std::string line; std::getline(file, line);) table += line + "\n", ranked += "[rank0]: " + line + "\n";
  CHECK(digest_of(of_text("ranked.log", ranked, {})) == digest_of(of_text("plain.log", table, {})));

  std::ifstream yaml(kFolder + "run_config.yaml");
  std::stringstream config;
  config << yaml.rdbuf();
  const auto log = of_text("train.log",
                           "done with setup ...\n    x: (1, 2)\n------- Task Configuration -------\n" + config.str() +
                               "\n----------------------------------\nTraining ...\n",
                           16);
  CHECK(log.formats == std::vector<std::string>{"megatron-bridge"});
  CHECK(digest_of(log) == digest_of(of_text("plain.log", table, {})));
  CHECK(log.draft.origin("batch.global")->where.line ==
        3 + import({.files = {kFolder + "run_config.yaml"}, .world = 16}, scenario::disk())
                .draft.origin("batch.global")
                ->where.line);
  CHECK(message_of([] {
          of_text("end.log", "---- arguments ----\n  hidden_size .... 12\n---- end of arguments ----\n");
        }).find("end.log:1:1: error: the table of arguments has no num_layers") == 0);
}

TEST_CASE("a whole command says how many GPUs there are, and its environment") {
  const auto torchrun = of_words(
      "CUDA_DEVICE_MAX_CONNECTIONS=1 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun --nproc_per_node 8 "
      "--nnodes=4 --rdzv_backend c10d pretrain_gpt.py --tensor-model-parallel-size=4 " +
          kModel,
      {});
  CHECK(value_of(torchrun, "cluster.nodes").dump() == "4");
  CHECK(value_of(torchrun, "parallelism.data").dump() == "8");
  CHECK(value_of(torchrun, "training.allocator").dump() == "\"expandable\"");
  CHECK(torchrun.draft.unknown().empty());

  CHECK(value_of(of_words("srun -N 2 --ntasks-per-node=4 python -u pretrain_gpt.py " + kModel, {}), "cluster.gpus")
            .dump() == "8");
  CHECK(value_of(of_words("mpirun -np 16 python pretrain_gpt.py " + kModel, {}), "cluster.nodes").dump() == "2");
  CHECK(value_of(of_words("python -m torch.distributed.run --nproc-per-node 2 pretrain_bert.py " + kModel, {}),
                 "model.encoder")
            .dump() == "true");
  // Without the launcher's name; and a number that is negative is a value.
  const auto bare = of_words("--nproc_per_node 8 --nnodes 2 --window-size -1,0 --num-workers -1 " + kModel, {});
  CHECK(value_of(bare, "cluster.nodes").dump() == "2");
  CHECK(!bare.draft.has("model.mixer.window"));
}

TEST_CASE("a file of arguments is the same as what is typed, with lines") {
  std::string file;
  for (const auto& word : words_of(kRun)) file += (word.starts_with("--") ? " \\\n" : " ") + word;
  const auto imported = of_text("args.txt", file.substr(3) + "\n", 16);
  CHECK(imported.formats == std::vector<std::string>{"megatron"});
  CHECK(digest_of(imported) == digest_of(of_words(kRun, 16)));
  CHECK(to_text(*imported.draft.origin("model.hidden")) == "args.txt:2 --hidden-size");
  CHECK(message_of([] { of_text("args.txt", "--num-layers 4\noops\n--hidden-size\n"); }) ==
        "args.txt:1:1: error: '--num-layers' must be a whole number; found a list of 2");
}

TEST_CASE("a format that is asked for and does not fit says so") {
  for (const char* format : {"megatron", "megatron-log", "megatron-bridge", "primus", "nemo"}) {
    CAPTURE(format);
    const auto message = message_of([format] {
      import({.files = {"x.txt"}, .as = format, .world = 8}, Beside(std::map<std::string, std::string>{
                                                                 { "x.txt",
                                                                   "hello" }}));
    });
    CHECK(message.find("x.txt") == 0);
  }
}

TEST_CASE("what nobody says is Megatron's default") {
  const auto plain = of_words(kModel);
  CHECK(value_of(plain, "model.family").dump() == "\"gpt\"");
  CHECK(value_of(plain, "model.ffn").dump() == "4096");
  CHECK(value_of(plain, "batch.global").dump() == "8");  // one micro-batch of each of 8 replicas
  CHECK(value_of(plain, "framework.dropout").dump() == "true");
  CHECK(to_text(*plain.draft.origin("model.ffn")) == "derived: Megatron's width: 4 x 1024");
  CHECK(plain.draft.unworded().empty());
  // int(4 h x 2 / 3 / 64) x 64.
  CHECK(value_of(of_words(kModel + "--swiglu"), "model.ffn").dump() == "2688");
  // Keys are grouped only where it is asked for.
  CHECK(!of_words(kModel + "--num-query-groups 4").draft.has("model.kv_heads"));
  CHECK(value_of(of_words(kModel + "--group-query-attention --num-query-groups 4"), "model.kv_heads").dump() == "4");
  // Experts are cut like the rest unless it is said.
  const auto experts = of_words(kModel +
                                "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel "
                                "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall");
  CHECK(value_of(experts, "parallelism.expert_tensor").dump() == "2");
  CHECK(value_of(experts, "model.experts_per_token").dump() == "2");
  CHECK(value_of(experts, "model.expert_ffn").dump() == "4096");
}

TEST_CASE("layers of several kinds, by frequency and by pattern") {
  const auto moe = kModel + "--num-experts 8 --moe-router-topk 2 ";
  CHECK(value_of(of_words(moe + "--moe-layer-freq ([0]*3+[1]*5)"), "model.dense_layers").dump() == "3");
  CHECK(value_of(of_words(moe + "--moe-layer-freq 2"), "model.layers").dump() ==
        R"([{"repeat":4,"layers":[{},{"ffn":"dense"}]}])");
  CHECK(value_of(of_words(kModel + "--window-size 127,0 --window-attn-skip-freq 2"), "model.layers").dump() ==
        R"([{"repeat":4,"layers":[{"mixer":{"window":128}},{}]}])");
  CHECK(value_of(of_words(kModel + "--window-size 127,0"), "model.mixer.window").dump() == "128");
  const auto delta = of_words(moe +
                              "--experimental-attention-variant gated_delta_net --linear-attention-freq 4 "
                              "--linear-num-value-heads 32 --linear-num-key-heads 16");
  CHECK(value_of(delta, "model.layers").dump() ==
        R"([{"repeat":2,"layers":[{"repeat":3,"mixer":{"kind":"linear","heads":32,"kv_heads":16,"head_dim":128,)"
        R"("value_dim":128,"convolution":4}},{}]}])");
  const auto hybrid = "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --bf16 ";
  const auto stages = of_words(std::string(hybrid) +
                               "--hybrid-layer-pattern M-M*|M-M- "
                               "--pipeline-model-parallel-size 2");
  CHECK(value_of(stages, "model.pattern").dump() == "\"M-M*M-M-\"");
  CHECK(!stages.draft.has("partition"));
  const auto uneven = of_words(std::string(hybrid) +
                               "--hybrid-layer-pattern M-M|*M-M-M --mamba-state-dim 64 "
                               "--pipeline-model-parallel-size 2");
  CHECK(value_of(uneven, "partition.layers").dump() == "[3,6]");
  CHECK(value_of(uneven, "model.layers").dump().find(R"("kind":"mamba2","heads":32,"kv_heads":8,"head_dim":64)") !=
        std::string::npos);
}

TEST_CASE("arguments that contradict each other name both places") {
  const auto of = [](const std::string& more) { return message_of([&] { of_words(kModel + more); }); };
  CHECK(of("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et|tt|tL")
            .find("'--pipeline-model-parallel-layout' has 3 stages, which are no multiple of "
                  "'--pipeline-model-parallel-size' 4") != std::string::npos);
  CHECK(of("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|ttL")
            .find("has 4 layers (t), and '--num-layers' (arguments) says 8") != std::string::npos);
  CHECK(of("--pipeline-model-parallel-size 3").find("8 layers are no multiple of '--pipeline-model-parallel-size' 3") !=
        std::string::npos);
  CHECK(
      of("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3").find("do not divide 8 layers") !=
      std::string::npos);
  CHECK(of("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1")
            .find("leave 7 of 8 layers (arguments) to 3 pipeline ranks") != std::string::npos);
  CHECK(of("--tensor-model-parallel-size 3").find("8 GPUs are no multiple of tensor 3") != std::string::npos);
  CHECK(of("--num-experts 8 --moe-layer-freq [0,1]").find("is for 2 layers, and '--num-layers' (arguments) says 8") !=
        std::string::npos);
  CHECK(of("--hybrid-layer-pattern M-M-").find("'--num-layers' is 8, and '--hybrid-layer-pattern' (arguments) has 4") !=
        std::string::npos);
  CHECK(of("--decoder-num-layers 4").find("an encoder and a decoder (T5)") != std::string::npos);
}

TEST_CASE("templates and mistakes are refused with the cure") {
  const auto of = [](const std::string& words) { return message_of([&] { of_words(words); }); };
  CHECK(of("--num-layers $LAYERS --hidden-size 1024 --num-attention-heads 16")
            .find("'--num-layers' must be a whole number; found the text '$LAYERS', which a script fills in") !=
        std::string::npos);
  CHECK(message_of([] {
          of_text("a.yaml",
                  "MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 1024\n  --num-attention-heads: 16\n"
                  "  --global-batch-size: CONFIG_BATCH_SIZE\n");
        }) ==
        "a.yaml:5:24: error: '--global-batch-size' must be a whole number; found the text 'CONFIG_BATCH_SIZE', "
        "which a script fills in: put the value in its place, or give what the run resolved");
  CHECK(of("--num-layers 8 --hidden-size 1024").find("there is no '--num-attention-heads'") != std::string::npos);
  CHECK(of("--num-layers eight --hidden-size 1024 --num-attention-heads 16").find("must be a whole number") !=
        std::string::npos);
  CHECK(of("pretrain_gpt.py oops --num-layers 8").find("'oops' is no argument of Megatron-LM") != std::string::npos);
  CHECK(of("--use-checkpoint-args --micro-batch-size 1").find("the model's sizes are in the checkpoint") !=
        std::string::npos);
  CHECK(of(kModel + "--tensor-model-parallel-size 0").find("must be from 1 to 1000000; found 0") != std::string::npos);
  CHECK(of(kModel + "--make-vocab-size-divisible-by 0").find("must be from 1 to") != std::string::npos);
  CHECK(of("torchrun --nproc_per_node 0 x.py " + kModel).find("'GPUS_PER_NODE' must be from 1 to 1024") !=
        std::string::npos);
  CHECK(of(kModel + "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 9")
            .find("9 stages on each pipeline rank") != std::string::npos);
  const auto misspelt = of_words(kModel + "--swigluu");
  REQUIRE(misspelt.draft.unknown().size() == 1);
  CHECK(misspelt.draft.unknown().front().what == "--swigluu; did you mean '--swiglu'?");
}

TEST_CASE("a configuration of NeMo 1 says its GPUs, and Megatron's words by its own names") {
  const auto nemo = of_text(
      "nemo.yaml",
      "trainer:\n  devices: 8\n  num_nodes: 4\n  precision: bf16\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 128\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 4\n"
      "  encoder_seq_length: 4096\n  max_position_embeddings: 4096\n  num_layers: 40\n  hidden_size: 5120\n"
      "  ffn_hidden_size: 13824\n  num_attention_heads: 40\n  activation: fast-swiglu\n  bias: false\n"
      "  normalization: rmsnorm\n  position_embedding_type: rope\n  hidden_dropout: 0.0\n  attention_dropout: 0.0\n"
      "  share_embeddings_and_output_weights: false\n  sequence_parallel: true\n  mcore_gpt: true\n"
      "  activations_checkpoint_granularity: full\n  activations_checkpoint_method: block\n"
      "  activations_checkpoint_num_layers: 2\n  fp8: false\n  data:\n    seq_length: 4096\n  optim:\n"
      "    name: distributed_fused_adam\n    overlap_grad_sync: true\n    grad_sync_dtype: bf16\n",
      {});
  CHECK(nemo.formats == std::vector<std::string>{"nemo"});
  for (const auto& [key, value] :
       {std::pair("cluster.nodes", "4"), std::pair("parallelism.data", "4"), std::pair("model.family", "\"llama\""),
        std::pair("model.ffn", "13824"), std::pair("parallelism.zero", "1"), std::pair("parallelism.sequence", "true"),
        std::pair("training.recompute.layers", "2"), std::pair("training.gradient_precision", "\"bf16\""),
        std::pair("framework.gradient_overlap", "\"always\""), std::pair("training.precision", "\"bf16\""),
        std::pair("model.sequence", "4096"), std::pair("framework.dropout", "false")}) {
    CAPTURE(key);
    CHECK(value_of(nemo, key).dump() == value);
  }
  CHECK(!nemo.draft.has("model.tie_embeddings"));
  CHECK(nemo.draft.unworded().empty());
  CHECK(nemo.draft.unknown().empty());
}

TEST_CASE("an experiment of Primus reads the files of its checkout, or knows the model by its name") {
  const std::string experiment =
      "exp_name: a\nmodules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
      "    model: ${PRIMUS_MODEL:llama3.1_8B}.yaml\n    overrides:\n      micro_batch_size: 2\n"
      "      global_batch_size: 32\n      seq_length: ${PRIMUS_SEQ_LENGTH:4096}\n"
      "      tensor_model_parallel_size: ${PRIMUS_TP:2}\n      overlap_grad_reduce: true\n";
  const auto alone = of_text("a/MI300X/x.yaml", experiment);
  CHECK(value_of(alone, "model.use").dump() == "\"llama3-8b\"");
  CHECK(value_of(alone, "batch.sequence").dump() == "4096");
  CHECK(value_of(alone, "cluster.use").dump() == "\"mi300x\"");
  CHECK(value_of(alone, "parallelism.tensor").dump() == "2");
  CHECK(value_of(alone, "framework.dropout").dump() == "false");
  REQUIRE(alone.draft.unworded().size() == 1);
  CHECK(alone.draft.unworded().front().what == "config pre_trainer.yaml");

  const std::string home = "a/MI300X/../../primus/configs/";
  const Beside checkout({{"a/MI300X/x.yaml", experiment},
                         {home + "modules/megatron/pre_trainer.yaml",
                          "extends:\n  - trainer_base.yaml\nuse_distributed_optimizer: true\nmicro_batch_size: 1\n"},
                         {home + "modules/megatron/trainer_base.yaml", "bf16: true\noptimizer: adam\nclip_grad: 1.0\n"},
                         {home + "models/megatron/llama3.1_8B.yaml",
                          "num_layers: 32\nhidden_size: 4096\nffn_hidden_size: 14336\nnum_attention_heads: 32\n"
                          "group_query_attention: true\nnum_query_groups: 8\nswiglu: true\nadd_bias_linear: false\n"
                          "normalization: RMSNorm\nposition_embedding_type: rope\nhidden_dropout: 0.0\n"
                          "attention_dropout: 0.0\nuntie_embeddings_and_output_weights: true\n"
                          "tokenizer_type: Llama3Tokenizer\npadded_vocab_size: 128256\nsequence_parallel: true\n"}});
  const auto inside = import({.files = {"a/MI300X/x.yaml"}, .world = 8}, checkout);
  CHECK(value_of(inside, "model.kv_heads").dump() == "8");
  CHECK(value_of(inside, "batch.micro").dump() == "2");  // the experiment's goes before the module's
  CHECK(value_of(inside, "parallelism.zero").dump() == "1");
  CHECK(value_of(inside, "parallelism.sequence").dump() == "true");
  CHECK(to_text(*inside.draft.origin("model.layers")) == home + "models/megatron/llama3.1_8B.yaml:1 num_layers");
  CHECK(inside.draft.unworded().empty());
  CHECK(inside.draft.unknown().empty());

  const auto split = [&](const std::string& list) {
    return import({.files = {"a/MI300X/y.yaml"}, .world = 8},
                  Beside({{"a/MI300X/y.yaml", experiment +
                                                  "      pipeline_model_parallel_size: 4\n"
                                                  "      decoder_pipeline_manual_split_list: " +
                                                  list + "\n"},
                          {home + "models/megatron/llama3.1_8B.yaml",
                           "num_layers: 32\nhidden_size: 4096\nnum_attention_heads: 32\nvocab_size: 1000\n"}}));
  };
  CHECK(value_of(split("[7, 9, 9, 7]"), "partition.layers").dump() == "[7,9,9,7]");
  CHECK(message_of([&] { split("[8, 9, 9, 7]"); }).find("has 33 layers in 4 stages, and there are 32 layers (") !=
        std::string::npos);
}

TEST_CASE("each form is known by its content, and by one format alone") {
  for (const auto& [name, text, format] :
       {std::tuple("a.yaml", "MODEL_ARGS:\n  --num-layers: 2\n", "megatron"),
        std::tuple("a.log", "x\n----- arguments -----\n  num_layers .... 2\n", "megatron-log"),
        std::tuple("b.log", "x\n------- Task Configuration -------\nmodel:\n  a: 1\n------\n", "megatron-bridge"),
        std::tuple("b.yaml", "model:\n  num_layers: 2\ntrain:\n  global_batch_size: 4\n", "megatron-bridge"),
        std::tuple("n.yaml", "trainer:\n  devices: 8\nmodel:\n  micro_batch_size: 1\n", "nemo"),
        std::tuple("c.yaml", "modules:\n  pre_trainer:\n    framework: megatron\n", "primus")}) {
    interchange::Sources sources{scenario::disk()};
    const auto formats = formats_of(sources.text(name, text));
    REQUIRE(formats.size() == 1);
    CHECK(formats.front()->name == format);
  }
  interchange::Sources sources{scenario::disk()};
  CHECK(formats_of(sources.arguments({"torchrun", "x.py", "--num-layers", "2"})).size() == 1);
  CHECK(formats_of(sources.arguments({"deepspeed", "train.py", "--deepspeed", "ds.json"})).empty());
}

TEST_CASE("arguments of 2026 are known, and what is taken in their place is said") {
  const auto run = of_words(kModel +
                            "--enable-hyper-connections --num-residual-streams 4 --gpu-sniff-test-interval 100 "
                            "--use-transformer-engine-op-fuser --runtime-time-unit hours --hybrid-context-parallel");
  CHECK(run.draft.unknown().empty());
  const auto& all = run.draft.unworded();
  for (const char* name :
       {"--enable-hyper-connections", "--use-transformer-engine-op-fuser", "--hybrid-context-parallel"})
    CHECK(std::any_of(all.begin(), all.end(),
                      [name](const Left& left) { return left.what.starts_with(name) && !left.why.empty(); }));
}

TEST_CASE("arguments that Megatron-LM refuses or ignores beside others") {
  const auto overlap = kModel + "--tensor-model-parallel-size 2 --tp-comm-overlap";
  CHECK(message_of([&] { of_words(overlap); }).find("refuses '--tp-comm-overlap' without '--sequence-parallel'") !=
        std::string::npos);
  CHECK(value_of(of_words(overlap + " --sequence-parallel"), "framework.async_tensor").dump() == "true");
  CHECK_FALSE(of_words(kModel + "--tp-comm-overlap").draft.has("framework.async_tensor"));

  const auto ignored = of_words(kModel + "--num-query-groups 4");
  CHECK_FALSE(ignored.draft.has("model.kv_heads"));
  REQUIRE(ignored.draft.unworded().size() >= 1);
  const auto& all = ignored.draft.unworded();
  CHECK(std::any_of(all.begin(), all.end(), [](const Left& left) {
    return left.what == "--num-query-groups 4" && left.why.find("without --group-query-attention") != std::string::npos;
  }));
  CHECK(value_of(of_words(kModel + "--group-query-attention --num-query-groups 4"), "model.kv_heads").dump() == "4");
}

}  // namespace rehearsal::megatron_forms_test
