// Files of other predictors: vTrain, Calculon, SimuMax, ASTRA-sim, SimAI.
#include "machine_files.hpp"

namespace rehearsal::interchange::machines {

TEST_CASE("vTrain: a row of its own validation") {
  const auto row = imported({sample("vtrain/config_val_single_0818.json")});
  CHECK(value(row, "cluster.use") == "\"a100-80g-ib800\"");  // 4 x 200 Gb/s a node
  CHECK(value(row, "cluster.gpus") == "2");
  CHECK(value(row, "model.layers") == "12");
  CHECK(value(row, "model.sequence") == "1024");
  CHECK(value(row, "model.vocabulary") == "50257");
  CHECK(value(row, "parallelism.pipeline") == "2");
  CHECK(value(row, "batch.micro") == "4");
  CHECK(value(row, "training.recompute") == "\"full\"");
  CHECK(value(row, "training.precision") == "\"fp16\"");
  CHECK(row.draft.origin("framework.use")->basis == Basis::assumed);
  CHECK(row.draft.unknown().empty());
  CHECK(row.draft.unworded().empty());
}

TEST_CASE("vTrain: other machines, degrees that follow, and files that contradict themselves") {
  const auto read = [](const std::string& text) { return imported({"v.json"}, "", {}, {{"v.json", text}}); };
  const std::string rest =
      R"("gpu_name": "A100", "global_batch_size": 64, "micro_batch_size": 2, "num_layers": 8, "hidden_size": 1024,
         "num_attention_heads": 16, "max_length": 1024, "vocab_size": 51200})";
  const auto missing = read(R"({"num_gpus": 16, "pipeline_parallel_size": 2, "data_parallel_size": 4,
    "tensor_parallel_size": null, "inter_node_bandwidth": 600, )" +
                            rest);
  CHECK(value(missing, "parallelism.tensor") == "2");                             // 16 / (2 x 4)
  CHECK(value(missing, "cluster.links.scale_out.bandwidth") == "\"18.75GB/s\"");  // 75 GB/s over four NICs
  CHECK(value(missing, "model.vocabulary") == "51200");

  CHECK_SAYS(error_of([&] { read(R"({"tensor_parallel_size": 0, "pipeline_parallel_size": 2, )" + rest); }),
             "v.json:1: 'parallelism.tensor' must be from 1 to 1000000; found 0");

  const auto wrong = error_of([] { imported({sample("vtrain/config_mtnlg_16_10_105.json")}); });
  CHECK_SAYS(wrong, "config_mtnlg_16_10_105.json:2: 10 replicas of 1680 GPUs are not 3360 GPUs");
  CHECK_SAYS(wrong, "--set parallelism.data=2 would fit");
  const auto mended = imported({sample("vtrain/config_mtnlg_16_10_105.json")}, "", {"parallelism.data=2"});
  CHECK(value(mended, "parallelism.data") == "2");
}

TEST_CASE("Calculon: three files, each known by its keys") {
  const auto all = imported({sample("calculon/gpt3-175B.json"), sample("calculon/3072_t4_p64_d12_mbs4_full.json"),
                             sample("calculon/a100_80e.json")});
  CHECK(value(all, "model.ffn") == "49152");
  CHECK(value(all, "model.head_dim") == "128");
  CHECK(value(all, "parallelism.tensor") == "4");
  CHECK(value(all, "parallelism.sequence") == "true");  // rs_ag
  CHECK(value(all, "parallelism.zero") == "1");
  CHECK(value(all, "training.recompute") == "\"full\"");
  CHECK(value(all, "training.overlap.gradients") == "false");
  CHECK(value(all, "framework.saves_gathered") == "true");  // seq_par_ag_redo: false
  CHECK(value(all, "cluster.use") == "\"dgx-a100-80g\"");
  CHECK(value(all, "cluster.nodes") == "384");
  CHECK(value(all, "cluster.gpu.peak.fp16").empty());  // as that GPU's
  CHECK(value(all, "cluster.links.scale_up.interconnect.ring_share") == "0.65");
  CHECK(value(all, "cluster.links.scale_up.interconnect.use") == "\"nvlink-3\"");
  CHECK(value(all, "cluster.links.scale_out.bandwidth") == "\"25GB/s\"");
  CHECK(value(all, "cluster.links.scale_out.efficiency") == "0.9");
  CHECK(value(all, "cluster.host.memory") == "\"4TiB\"");  // 512 GiB of each of 8
  CHECK(drops(all, "mem1.GiB: 80000000000 (as good as no limit"));
  CHECK(drops(all, "processor_usage: 0.15"));
  CHECK(all.draft.unknown().empty());
}

TEST_CASE("Calculon: what a GPU has otherwise than the nearest one, and words of an execution") {
  const std::string system = R"({"matrix": {"float16": {"tflops": 500, "gflops_efficiency": [[0, 1]]}},
    "mem1": {"GiB": 120, "GBps": 3350, "MB_efficiency": [[0, 1]]}, "networks": [{"bandwidth": 450, "size": 8}]})";
  const std::string execution = R"({"num_procs": 8, "tensor_par": 4, "pipeline_par": 2, "data_par": 1, "batch_size": 8,
    "microbatch_size": 1, "datatype": "bfloat16", "activation_recompute": "attn_only", "pipeline_interleaving": 3,
    "optimizer_sharding": false, "tensor_par_comm_type": "p2p_rs_ag", "tensor_par_overlap": "none",
    "activations_offload": true, "weight_offload": true, "training": true, "new_word": 1})";
  const auto read = [&](const std::string& text) {
    return imported({sample("calculon/gpt3-175B.json"), "s.json", "e.json"}, "", {},
                    {{"s.json", system}, {"e.json", text}});
  };
  const auto all = read(execution);
  CHECK(value(all, "cluster.gpu.peak.bf16") == "\"500TFLOP/s\"");
  CHECK(value(all, "cluster.gpu.memory") == "\"120GiB\"");
  CHECK(all.draft.has("cluster.gpu.use"));
  CHECK(value(all, "training.precision") == "\"bf16\"");
  CHECK(value(all, "training.recompute") == "\"selective\"");
  CHECK(value(all, "schedule") == "\"interleaved-1f1b\"");
  CHECK(value(all, "framework.sharded_sends") == "true");
  CHECK(value(all, "training.offload.activations.share") == "1");
  CHECK(drops(all, "weight_offload: true"));
  REQUIRE(all.draft.unknown().size() == 1);
  CHECK(all.draft.unknown()[0].what == "new_word");
  auto inference = execution, type = execution;
  inference.replace(inference.find("\"training\": true"), 16, "\"training\": false");
  type.replace(type.find("bfloat16"), 8, "int4");
  CHECK_SAYS(error_of([&] { read(inference); }), "scenarios are of training");
  CHECK_SAYS(error_of([&] { read(type); }),
             "e.json:2: 'datatype' must be float8, float16, bfloat16 or float32; found 'int4'");
}

TEST_CASE("SimuMax: three files, each known by its keys") {
  const auto all = imported({sample("simumax/model_deepseekv3.json"),
                             sample("simumax/strategy_ep4_pp2_dp4_selective.json"), sample("simumax/a100_pcie.json")});
  CHECK(value(all, "name") == "\"deepseek_v3\"");
  CHECK(value(all, "model.family") == "\"moe\"");
  CHECK(value(all, "model.mla.kv_rank") == "512");
  CHECK(value(all, "model.dense_layers") == "3");
  CHECK(value(all, "model.shared_ffn") == "2048");
  CHECK(value(all, "model.vocabulary") == "129280");  // a multiple of 128 already
  CHECK(value(all, "parallelism.expert") == "4");
  CHECK_FALSE(all.draft.has("parallelism.sequence"));  // of tensor 1
  CHECK(value(all, "batch.global") == "32");           // 1 x 8 x 4
  CHECK(value(all, "training.recompute.layers") == "2");
  CHECK(value(all, "training.recompute.modules") == R"(["core_attn","mla_up_proj","layernorm","moe","mlp"])");
  CHECK(value(all, "training.gradient_precision") == "\"fp32\"");
  CHECK(value(all, "cluster.node_topology") == "\"pcie-host\"");
  CHECK(value(all, "cluster.links.scale_up.bandwidth") == "\"32.21225472GB/s\"");  // 30 x 2^30
  CHECK(value(all, "cluster.collectives") == "null");
  CHECK(drops(all, "accurate_efficient_factor"));
  CHECK(all.draft.unknown().empty());
}

TEST_CASE("ASTRA-sim: network, system and logical topology") {
  const auto all =
      imported({sample("astra-sim/HGX-H100-validated.yml"), sample("astra-sim/HGX-H100-validated_system.json"),
                sample("astra-sim/ns3_sample_16nodes_2D.json")});
  CHECK(all.part);
  CHECK(value(all, "cluster.use") == "\"dgx-h100\"");  // 3,350 GB/s of memory
  CHECK(value(all, "cluster.gpus_per_node") == "8");
  CHECK(value(all, "cluster.nodes") == "2");
  CHECK(value(all, "cluster.node_topology") == "\"nvswitch\"");
  CHECK(value(all, "cluster.links.scale_up.bandwidth") == "\"429.4967296GB/s\"");  // 400 x 2^30
  CHECK(value(all, "cluster.links.scale_up.latency") == "\"1.8725us\"");           // two hops
  CHECK(drops(all, "all-reduce-implementation"));
  CHECK(all.draft.unknown().empty());

  const auto read = [](const std::string& text) { return imported({"n.yml"}, "dgx-h100", {}, {{"n.yml", text}}); };
  const auto rings = read(
      "topology: [ Switch, Ring, Ring ]\nnpus_count: [ 8, 4, 2 ]\nbandwidth: [ 400.0, 50.0, 25.0 ]\n"
      "latency: [ 500.0, 700.0, 700.0 ]\n");
  CHECK(value(rings, "cluster.topology.name") == "\"torus\"");
  CHECK(value(rings, "cluster.topology.dims") == "[4,2]");
  CHECK(value(rings, "cluster.nodes") == "8");
  CHECK(value(rings, "cluster.links.scale_out.per_node") == "8");
  CHECK(drops(rings, "bandwidth and latency of dimension 3"));
  CHECK_SAYS(error_of([&] { read("topology: [ Switch, Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0, 1 ]\n"); }),
             "n.yml:2: 'npus_count' has 1 values, and 'topology' 2 dimensions");
  CHECK_SAYS(error_of([&] { read("topology: [ Mesh ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0 ]\n"); }),
             "must be of Ring, FullyConnected and Switch; found 'Mesh'");
}

TEST_CASE("SimAI: the layout of a workload, a row of a specification, and rates on the bus") {
  const auto all = imported({sample("simai/workload_2_microbatches.txt")}, "",
                            {R"(model={"family": "moe", "layers": 96, "hidden": 12288, "heads": 96, "experts": 16,
                                       "experts_per_token": 2})"});
  CHECK(value(all, "parallelism.tensor") == "2");
  CHECK(value(all, "parallelism.pipeline") == "12");
  CHECK(value(all, "parallelism.chunks") == "8");
  CHECK(value(all, "parallelism.sequence") == "true");
  CHECK(value(all, "parallelism.zero") == "1");
  CHECK(value(all, "parallelism.data") == "384");  // 9,216 / (2 x 12)
  CHECK(value(all, "batch.global") == "768");      // two micro-batches
  CHECK(drops(all, "8 layers of a rank (96 in all), 25165824 values"));
  CHECK_SAYS(error_of([] { imported({sample("simai/aicb_G175B_tp8_pp1.txt")}); }),
             "no file says which model is trained");
  CHECK_SAYS(error_of([] { imported({sample("simai/aicb_Workload_spec_v1.1.csv")}); }), "leave its row");

  const auto bus = imported({sample("simai/busbw.yaml")}, "dgx-a100-80g");
  CHECK(bus.part);
  CHECK(value(bus, "cluster.collectives.fitted.all_gather.rate") == "\"320GB/s\"");  // 280 / (7/8)
  CHECK(value(bus, "cluster.collectives.measured_on.nvlink") == "\"300GB/s\"");
  CHECK(drops(bus, "PP busbw: 47.5"));
}

}  // namespace rehearsal::interchange::machines
