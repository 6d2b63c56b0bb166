// Reading tables of published runs, and the scenarios that their rows become.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "published/against.hpp"
#include "published/layout.hpp"
#include "published/row_scenario.hpp"
#include "published/run.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;
using published::FrameworkDetail;
using published::read_runs;
using published::scenario_of;

namespace {

class Table {
 public:
  explicit Table(const std::string& text)
      : path_((std::filesystem::temp_directory_path() /
               ("rehearse-table-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".csv"))
                  .string()) {
    std::ofstream(path_) << text;
  }
  ~Table() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kHead =
    "id,table,framework,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpu_mem_gb,n_gpus,gpus_per_node,"
    "interconnect,tp,pp,vp,cp,zero_stage,micro_batch,global_batch,recompute,seq_parallel,schedule,precision,iter_time_"
    "s\n";

std::string message(const std::string& text) {
  const Table table(text);
  try {
    read_runs(table.path());
  } catch (const UserError& error) {
    return error.diagnostics().front().message;
  }
  return "no error";
}

scenario::Scenario loaded(const std::string& row, FrameworkDetail detail = FrameworkDetail::knobs) {
  const Table table(kHead + row + "\n");
  const auto runs = read_runs(table.path());
  REQUIRE(runs.size() == 1);
  const auto scenario = scenario_of(runs[0], read_mapping(), detail);
  REQUIRE(scenario.not_judged == "");
  return scenario::load_text(scenario.yaml, "row");
}
std::string not_judged(const std::string& row) {
  const Table table(kHead + row + "\n");
  return scenario_of(read_runs(table.path())[0], read_mapping(), FrameworkDetail::knobs).not_judged;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("quotes, empty cells and the sign of a byte order") {
  const Table table(
      "\xef\xbb\xbfid,layers,hidden,seq,n_gpus,gpu,global_batch,micro_batch,iter_time_s,notes\r\n"
      "t-1,24,2304,2048,32,\"A100, \"\"80GB\"\"\",512,16,3.5,\"a, b\"\r\n\n"
      "t-2,24,2304,2048,32,A100,512,n/a,,\n");
  const auto runs = read_runs(table.path());
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].gpu == "A100, \"80GB\"");
  CHECK(runs[0].table == "t");
  CHECK(runs[0].line == 2);
  CHECK(*runs[0].iteration_s == 3.5);
  CHECK(*runs[0].micro_batch == 16);
  CHECK(runs[1].line == 4);
  CHECK(!runs[1].micro_batch);
  CHECK(!runs[1].iteration_s);
}

TEST_CASE("what is wrong with a table") {
  const std::string head = "id,layers,hidden,seq,n_gpus,gpu,global_batch,micro_batch,iter_time_s\n";
  CHECK(contains(message(""), "empty"));
  CHECK(contains(message("id,layers\n"), "no column 'hidden'"));
  CHECK(contains(message("id,id\n"), "'id' stands there twice"));
  CHECK(contains(message(head + "a,1,2\n"), ":2: 3 cells under 9 columns"));
  CHECK(contains(message(head + ",1,2,3,4,A100,5,6,7\n"), "no 'id'"));
  CHECK_THROWS_AS(read_runs("/nowhere/at/all.csv"), UserError);
}

TEST_CASE("a cell that cannot be read leaves its row not judged, and the others go on") {
  const std::string head = "id,layers,hidden,seq,n_gpus,gpu,global_batch,micro_batch,iter_time_s,peak_mem_gb,vp\n";
  const auto unread = [&](const std::string& row) {
    const Table table(head + row + "\na-2,24,2048,2048,8,A100,16,1,7,,\n");
    const auto runs = read_runs(table.path());
    REQUIRE(runs.size() == 2);
    CHECK(scenario_of(runs[1], read_mapping(), FrameworkDetail::knobs).not_judged == "");
    CHECK(scenario_of(runs[0], read_mapping(), FrameworkDetail::knobs).not_judged == runs[0].unread);
    return runs[0].unread;
  };
  CHECK(unread("a,x,2,3,4,A100,5,6,7,,") == "its 'layers' is 'x', not a number");
  CHECK(unread("a,1.5,2,3,4,A100,5,6,7,,") == "its 'layers' is '1.5', not a whole number");
  CHECK(unread("a,1,2,3,4,A100,5,6,-7,,") == "its 'iter_time_s' is '-7', not a number");
  CHECK(unread("a,1,2,3,4,A100,5,6,7,lots,") == "its 'peak_mem_gb' is 'lots', not a number");
  CHECK(unread("a,1,2,3,4,A100,5,6,7,,layers/virtual stage x").starts_with("its 'vp' is"));
  // A run that did not fit is one, wherever the table says so.
  const Table table(head + "a,24,2048,2048,8,A100,16,1,,OOM,\nb,24,2048,2048,8,A100,16,1,OOM,,\n");
  for (const auto& run : read_runs(table.path())) {
    CHECK(run.out_of_memory());
    CHECK(run.unread.empty());
    CHECK(scenario_of(run, read_mapping(), FrameworkDetail::knobs).not_judged == "");
  }
}

namespace {

const std::string kRecipe =
    "id,framework,model,layers,hidden,heads,kv_heads,ffn,seq,n_experts,topk,moe_ffn,gpu,n_gpus,gpus_per_node,tp,pp,ep,"
    "zero_stage,micro_batch,global_batch,recompute,iter_time_s,dispatcher,expert_overlap,cuda_graph,capacity,routing,"
    "tp_"
    "overlap,loss,lengths\n";

published::RowScenario recipe(const std::string& recompute, const std::string& cells, const char* framework = "mine") {
  const Table table(kRecipe +
                    fmt::format("a-1,{},MoE,4,1024,16,16,4096,2048,16,2,1024,H100,8,8,2,1,4,1,1,8,\"{}\",1,{}\n",
                                framework, recompute, cells));
  return scenario_of(read_runs(table.path())[0], read_mapping(), FrameworkDetail::knobs);
}

}  // namespace

TEST_CASE("columns of a recipe: what they say counts, what they do not say is left to rules") {
  const auto told = recipe("selective: norm, moe_act", "DeepEP,on,attn+moe_router,1.5,natural,yes,torch,512");
  REQUIRE(told.not_judged == "");
  const auto s = scenario::load_text(told.yaml, "row");
  const auto& c = *s.concrete;
  CHECK(c.framework.dispatcher == models::Dispatcher::deepep);
  CHECK(c.framework.expert_overlap);
  CHECK(c.framework.cuda_graph == models::CudaGraph::attention_router);
  CHECK(c.framework.async_tensor);
  CHECK(c.experts.capacity == 1.5);
  CHECK(c.experts.skew.kind == models::Skew::Kind::natural);
  CHECK(c.training.recompute_modules == std::set{models::RecomputeModule::layernorm, models::RecomputeModule::moe_act});
  const auto untold = recipe("see recipe", "see recipe,not printed,yes,n/a,,,,packed");
  REQUIRE(untold.not_judged == "");
  CHECK(untold.yaml == recipe("none", ",,,,,,,").yaml);
  CHECK(untold.untold ==
        std::vector<std::string>{"framework.dispatcher", "framework.expert_overlap", "training.recompute"});
  CHECK(recipe("none", ",,,,,,,").untold.empty());  // a table without such columns is not asked
  CHECK(recipe("not stated", "nccl,no,,,,,,").untold == std::vector<std::string>{"training.recompute"});
}

TEST_CASE("what a source does not tell of a recipe is what fits, and its band holds the next") {
  const auto predicted = [](const char* recompute) {
    const Table table(
        "id,framework,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,n_gpus,tp,pp,zero_stage,micro_batch,global_"
        "batch,"
        "recompute,iter_time_s\n" +
        fmt::format("a-1,mine,GPT,32,4096,32,32,16384,51200,2048,A100,64,8,1,1,4,64,{},1\n", recompute));
    return published::predict(read_runs(table.path()), {.forecast = false})[0];
  };
  const auto none = predicted("none"), selective = predicted("selective"), untold = predicted("see script");
  REQUIRE(none.not_judged == "");
  CHECK(untold.iteration_s == none.iteration_s);
  CHECK(untold.recipes.low == 1);
  CHECK(untold.recipes.high == doctest::Approx(selective.iteration_s / none.iteration_s));
  CHECK(*untold.band.high == doctest::Approx(*none.band.high * untold.recipes.high));
  CHECK(none.recipes.high == 1);
}

TEST_CASE("a recipe's cell that says nothing known leaves its row not judged") {
  CHECK(recipe("none", "pigeon,,,,,,,").not_judged == "its 'dispatcher' is 'pigeon', which says nothing known");
  CHECK(recipe("none", ",,,some,,,,").not_judged == "its 'capacity' is 'some', which says nothing known");
  CHECK(recipe("none", ",,sometimes,,,,,").not_judged == "its 'cuda_graph' is 'sometimes', which says nothing known");
  CHECK(recipe("selective: magic", ",,,,,,,").not_judged ==
        "its 'recompute' is 'selective: magic', which says nothing known");
  CHECK(recipe("selective (class)", ",,,,,,,").not_judged == "");
}

TEST_CASE("a mixture that a table only names, on as large a part of each rack") {
  const Table table(
      "id,framework,model,layers,hidden,seq,gpu,n_gpus,tp,pp,ep,micro_batch,global_batch,iter_time_s\n"
      "a-1,Megatron-Bridge 26.04,Qwen3-235B-A22B,,,4096,GB200,128,1,2,64,1,1024,1\n");
  const auto row = scenario_of(read_runs(table.path())[0], read_mapping(), FrameworkDetail::knobs);
  REQUIRE(row.not_judged == "");
  const auto s = scenario::load_text(row.yaml, "row");
  CHECK(s.concrete->model.experts == 128);
  CHECK(s.concrete->cluster.nodes == 2);
  CHECK(s.concrete->cluster.gpus_per_node == 64);
  CHECK(s.concrete->cluster.nics_per_node == 64);
}

TEST_CASE("NeMo before 25.04 cuts experts over the tensor group") {
  const auto degree = [](const char* framework) {
    return scenario::load_text(recipe("none", ",,,,,,,", framework).yaml, "row").parallelism.expert_tensor;
  };
  CHECK(degree("NeMo 24.11 recipe") == 2);
  CHECK(degree("NeMo (25.05 recipe)") == 1);
}

TEST_CASE("without a precision a row runs in bf16 where GPU and framework have it") {
  const auto precision = [](const char* framework, const char* gpu, const char* printed) {
    return loaded(fmt::format("x-1,x,{},GPT,24,2048,16,16,8192,51200,2048,{},32,8,8,,1,1,1,1,0,1,64,none,no,,{},1",
                              framework, gpu, printed))
        .concrete->training.precision;
  };
  CHECK(precision("Megatron-Core", "H100", "") == Precision::bf16);
  CHECK(precision("mine", "A100", "") == Precision::bf16);
  CHECK(precision("mine", "H100", "mixed fp16") == Precision::fp16);
  CHECK(precision("OneFlow-GPT", "V100-32GB", "") == Precision::fp16);
  CHECK(precision("DeepSpeed", "A100", "") == Precision::fp16);
}

TEST_CASE("a Megatron run with a pipeline") {
  const auto s = loaded(
      "megatron21_x-1,megatron21_x,Megatron-LM 2021,GPT,96,12288,96,,,,2048,A100-80GB-SXM,80,96,8,NVSwitch + "
      "HDR,8,12,4,"
      "1,0,1,24,full (uniform),no,interleaved 1F1B,fp16 mixed,10");
  CHECK(s.concrete->cluster.name == "dgx-a100-80g");
  CHECK(s.concrete->cluster.nodes == 12);
  CHECK(s.concrete->model.kv_heads == 96);
  CHECK(s.concrete->model.ffn == 4 * 12288);
  CHECK(s.concrete->model.vocabulary == 51200);
  CHECK(s.concrete->training.attention == models::AttentionKind::unfused);
  CHECK(s.concrete->training.recompute == models::Recompute::full);
  CHECK(s.concrete->training.precision == Precision::fp16);
  CHECK(s.concrete->framework.name == "megatron-2021");
  CHECK(s.parallelism.chunks == 4);
  CHECK(s.parallelism.data == 1);
  CHECK(s.schedule.name == "interleaved-1f1b");
}

TEST_CASE("a layout of Megatron-Core says which layers its stages have") {
  using published::layers_of_layout;
  using Layers = std::vector<std::int64_t>;
  CHECK(layers_of_layout("Et*3|(tt|)*6mL") == Layers{3, 2, 2, 2, 2, 2, 2, 0});
  CHECK(layers_of_layout("Ett|tt|ttL") == Layers{2, 2, 2});
  CHECK(layers_of_layout("E,t|((t|)*2tt|)*2L|") == Layers{1, 1, 1, 2, 1, 1, 2, 0});
  for (const char* wrong : {"", "EL", "Et|x", "(t|", "t)", "t*", "(t|)*200000", "t*99999999999999999999"})
    CHECK_FALSE(layers_of_layout(wrong));
  const Table table(kHead +
                    "a-1,,Megatron-Core,GPT,15,1024,8,,,32000,1024,A100,80,8,8,,2,2,layout Et*3|(tt|)*6L,1,,1,8,,,,,1\n"
                    "a-2,,Megatron-Core,GPT,15,1024,8,,,32000,1024,A100,80,8,8,,2,2,layout Et|x,1,,1,8,,,,,1\n");
  const auto runs = read_runs(table.path());
  CHECK(runs[0].chunks == 4);
  CHECK(runs[0].stage_layers == Layers{3, 2, 2, 2, 2, 2, 2, 0});
  const auto row = scenario_of(runs[0], published::read_mapping(), FrameworkDetail::knobs);
  CHECK(row.yaml.find("partition: [3, 2, 2, 2, 2, 2, 2, 0]") != std::string::npos);
  CHECK(runs[1].unread == "its 'vp' is 'layout Et|x', not a number");
}

TEST_CASE("machines and frameworks that rows name") {
  struct Case {
    const char *framework, *model, *gpu, *interconnect, *precision, *cluster, *profile;
    bool flash = true;
  };
  for (const auto& [framework, model, gpu, net, precision, cluster, profile, flash] : {
           Case{"torchtitan", "LLAMA3-8B", "H100-96GB-HBM2e 500W", "", "torch.compile + Float8", "h100-96g-500w",
                "titan-2024"},
           Case{"NeMo 25", "LLAMA3-8B", "H100-80GB-SXM", "DGX-H100", "FP8", "dgx-h100", "megatron-2025"},
           Case{"NeMo 25", "LLAMA3-8B", "H100-80GB-SXM", "400 Gb/s RoCE", "bf16", "h100-roce400", "megatron-2025"},
           Case{"Megatron-Core", "Qwen 7B", "H200-141GB-SXM", "", "bf16", "h200-sxm", "megatron-2025"},
           Case{"Megatron-Core", "GPT", "B200-180GB", "", "FP8", "b200-sxm", "megatron-2025"},
           Case{"OneFlow-GPT", "GPT", "V100-16GB-SXM2", "100 Gb/s IB", "fp16", "v100-16g-ib100", "oneflow-2021", false},
       }) {
    CAPTURE(gpu);
    const char* table = std::string(framework) == "torchtitan" ? "titan_x" : flash ? "x" : "dlperf_x";
    const auto s =
        loaded(fmt::format("{1}-1,{1},{0},{2},32,4096,32,8,14336,128256,8192,{3},{4},8,8,{5},1,1,1,1,3,1,64,"
                           "none,no,,{6},1",
                           framework, table, model, gpu, flash ? 80 : 16, net, precision));
    CHECK(s.concrete->cluster.name == cluster);
    CHECK(s.concrete->framework.name == profile);
    CHECK((s.concrete->training.attention == models::AttentionKind::flash) == flash);
  }
}

TEST_CASE("without its framework a row is left to the defaults") {
  const char* row =
      "mosaic_x-1,mosaic_x,llm-foundry,MPT-7b,32,4096,32,32,16384,50368,2048,A100-40GB-SXM,40,16,8,RoCE,1,1,1,1,3,4,64,"
      "full,no,FSDP,amp_bf16/DEFAULT,1";
  const auto named = loaded(row), plain = loaded(row, FrameworkDetail::none);
  CHECK(named.concrete->framework.name == "fsdp-2023");
  CHECK(plain.concrete->framework.name == "megatron-2025");  // the default of flash attention
  CHECK(named.concrete->cluster.name == "a100-40g-roce");
}

TEST_CASE("ranks that share a sequence") {
  const auto s = loaded("x-1,x,F,LLAMA3-8B,32,4096,32,8,14336,128256,8192,H100,80,8,8,,1,1,1,4,3,1,64,none,no,,bf16,1");
  CHECK(s.parallelism.context == 4);
  CHECK(s.parallelism.data == 2);
}

TEST_CASE("rows that are not judged say why") {
  const std::string start = "x-1,x,F,M,32,4096,32,8,14336,128256,8192,";
  CHECK(contains(not_judged(start + "H100,80,8,8,,1,1,1,1,3,,64,none,no,,bf16,1"), "micro-batch"));
  CHECK(contains(not_judged(start + "H100,80,8,8,,1,1,1,1,3,1,64,none,no,,bf16,"), "neither time nor memory"));
  CHECK(contains(not_judged(start + "Gaudi2,192,8,8,,1,1,1,1,3,1,64,none,no,,bf16,1"), "Gaudi2"));
}
