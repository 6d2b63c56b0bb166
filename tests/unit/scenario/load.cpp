// Valid scenarios: every name resolved, every default filled in, the same digest for the same question.
#include "helpers.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

TEST_CASE("the example of the contract") {
  const auto s = load_text(
      "version: 1\n"
      "name: GPT-3 175B on 128 DGX A100\n"
      "model: gpt3-175b\n"
      "cluster: {use: dgx-a100-80g, nodes: 128}\n"
      "parallelism: {tensor: 8, sequence: true, context: 1, pipeline: 8, chunks: 1, data: 16, expert: 1, zero: 1}\n"
      "batch: {global: 1536, micro: 1}\n"
      "schedule: 1f1b\n"
      "training: {precision: bf16, optimizer: adamw, recompute: selective, attention: flash}\n"
      "framework: megatron-2021\n");
  REQUIRE(s.concrete);
  CHECK_FALSE(s.abstract);
  CHECK(s.parallelism.gpus() == 1024);
  CHECK(s.microbatches() == 96);  // 1536 / (16 x 1)
  CHECK(s.batch.sequence == 2048);
  const auto& c = *s.concrete;
  CHECK(c.model.head_dim == 128);  // 12288 / 96
  CHECK(c.model.kv_heads == 96);
  CHECK(c.model.tie_embeddings);
  CHECK(c.training.recompute == models::Recompute::selective);
  CHECK(c.training.gradient_precision == Precision::fp32);
  CHECK(c.framework.name == "megatron-2021");
  CHECK(c.framework.host_seconds_per_kernel == doctest::Approx(58e-6));
  CHECK(c.framework.gradient_overlap == models::GradientOverlap::without_pipeline);
  CHECK(c.cluster.gpus() == 1024);
  CHECK(c.cluster.topology.name == "rail-optimized");
  CHECK(c.cluster.node_rate().value() == doctest::Approx(200e9));  // 8 x 200 Gb/s
  CHECK(c.cluster.gpu.peak.at(Precision::bf16).value() == doctest::Approx(312e12));
  CHECK(c.cluster.gpu.memory == bytes(79.14 * double(std::int64_t(1) << 30)));
  // The table that tensor parallelism asks most: 8 GPUs, 64 MiB, as printed by nccl-tests.
  const auto& points = c.curves.measured.at({CollectiveKind::all_reduce, 8});
  CHECK(points[6].size == Bytes(64 << 20));
  CHECK(points[6].time == picoseconds(579'900'000));
  CHECK(s.digest.size() == 64);
}

TEST_CASE("the same question has the same digest, whatever its spelling") {
  const Folder folder;
  const auto digest = load(folder.write("x.yaml", kGood + "name: x\n")).digest;
  const std::string same[] = {
      // JSON, keys in another order
      R"({"name": "x", "schedule": "1f1b", "batch": {"micro": 1, "global": 1536}, "model": "gpt3-175b",
          "parallelism": {"data": 16, "pipeline": 8, "tensor": 8}, "cluster": {"nodes": 128, "use": "dgx-a100-80g"},
          "version": 1})",
      // a block, comments, quotes, an alias, defaults written out, the data degree left out
      "# question\nversion: 1\nname: 'x'\nmodel: &m gpt3-175b\ncluster:\n  use: dgx-a100-80g\n  nodes: 128\n"
      "parallelism: {tensor: 8, pipeline: 8, chunks: 1, zero: 0}\nbatch: {global: 1536}\nschedule: {name: 1f1b}\n"
      "training: {precision: bf16, recompute: none}\nsimulate: {detail: stage}\n"};
  for (const auto& text : same) CHECK(load(folder.write("y.yaml", text)).digest == digest);
  const std::string others[] = {with(kGood, "1536", "3072"), with(kGood, "dgx-a100-80g", "dgx-h100"),
                                kGood + "simulate: {seed: 1}\n", kGood + "training: {causal: false}\n"};
  for (const auto& text : others) CHECK(load(folder.write("y.yaml", text + "name: x\n")).digest != digest);
}

TEST_CASE("the size of the cluster follows from the degrees, and the data degree from the cluster") {
  const struct {
    const char *cluster, *parallelism;
    std::int64_t nodes, gpus_per_node, data;
    const char* topology;
  } cases[] = {
      {"{use: dgx-a100-80g, nodes: 4}", "{tensor: 8, pipeline: 2}", 4, 8, 2, "rail-optimized"},
      {"{use: dgx-a100-80g, gpus: 4}", "{tensor: 2}", 1, 4, 2, "nvswitch"},
      {"dgx-a100-80g", "{tensor: 2, data: 2}", 1, 4, 2, "nvswitch"},
      {"dgx-a100-80g", "{tensor: 8, data: 4}", 4, 8, 4, "rail-optimized"},
      {"dgx-a100-80g", "{tensor: 8}", 1, 8, 1, "nvswitch"},
      {"{use: dgx-a100-80g, nodes: 1}", "{}", 1, 8, 8, "nvswitch"},
  };
  for (const auto& [cluster, parallelism, nodes, per_node, data, topology] : cases) {
    INFO(cluster);
    INFO(parallelism);
    const auto s = load_text(fmt::format(
        "version: 1\nmodel: gpt-3.6b\ncluster: {}\nparallelism: {}\nbatch: {{global: 8}}\n", cluster, parallelism));
    CHECK(s.concrete->cluster.nodes == nodes);
    CHECK(s.concrete->cluster.gpus_per_node == per_node);
    CHECK(s.parallelism.data == data);
    CHECK(s.concrete->cluster.topology.name == topology);
  }
}

TEST_CASE("data parallelism: buckets and how ZeRO-3 gathers") {
  const auto usual = load_text(kGood);
  CHECK_FALSE(usual.concrete->training.bucket);  // as the framework does
  CHECK(usual.concrete->training.gathered_ahead() == 1);
  CHECK(usual.concrete->training.reshards());
  const auto given = load_text(with(kGood, "tensor: 8", "zero: 3, tensor: 8") +
                               "training: {bucket: 100MB, fsdp: {prefetch: 2, reshard_after_forward: false}, "
                               "overlap: {parameters: false}}\n");
  CHECK(given.parallelism.zero == 3);
  CHECK(given.concrete->training.bucket == Bytes(100'000'000));
  CHECK(given.concrete->training.gathered_ahead() == 2);
  CHECK_FALSE(given.concrete->training.reshards());
  CHECK(given.concrete->training.overlap_gathers == false);
  CHECK(given.warnings.empty());
  // What changes nothing is said; what is written out as it is anyway asks the same question.
  CHECK(load_text(kGood + "training: {fsdp: {prefetch: 2}}\n").warnings.size() == 1);
  CHECK(load_text(kGood + "training: {fsdp: {prefetch: 1}}\n").digest == usual.digest);
  CHECK(load_text(kGood + "training: {bucket: 26MB}\n").digest != usual.digest);
}

TEST_CASE("training: which layers are recomputed, unfused kernels, overlapped tensor parallelism") {
  const auto usual = load_text(kGood);
  CHECK(usual.concrete->training.recomputes_alike());
  CHECK_FALSE(load_text(kGood, {"framework=fsdp-2023"}).concrete->framework.async_tensor);
  const auto given = load_text(with(kGood, "tensor: 8", "sequence: true, tensor: 8") +
                               "training: {recompute: {mode: full, every: 2, layers: 7}, kernels: unfused, "
                               "overlap: {tensor: true}}\nframework: fsdp-2023\npartition: balanced\n");
  const auto& t = given.concrete->training;
  CHECK(t.recompute_every == 2);
  CHECK(t.recompute_layers == 7);
  CHECK(t.kernels == models::Kernels::unfused);
  CHECK(given.concrete->framework.async_tensor);
  CHECK(given.concrete->partition.kind == plan::Partition::Kind::balanced);
  CHECK(load_text(kGood + "training: {kernels: fused, recompute: {mode: full, every: 1}}\n").digest ==
        load_text(kGood + "training: {recompute: full}\n").digest);
  for (const char* other :
       {"recompute: {mode: full, every: 2}", "recompute: {mode: full, layers: 2}", "recompute: full, kernels: unfused"})
    CHECK(load_text(kGood + "training: {" + other + "}\n").digest !=
          load_text(kGood + "training: {recompute: full}\n").digest);
  CHECK(load_text(kGood + "partition: balanced\n").digest != usual.digest);
  // A knob of the profile; without sequence parallelism it changes nothing, and says so.
  const auto knob = load_text(kGood + "framework: {use: fsdp-2023, async_tensor: true}\n");
  CHECK(knob.concrete->framework.async_tensor);
  REQUIRE(knob.warnings.size() == 1);
  CHECK(knob.warnings[0].find("'async_tensor' changes nothing") != std::string::npos);
}

TEST_CASE("framework: named, derived from attention and GPU, changed knob by knob, overruled by training") {
  // What is in use on a GPU today, by configs/default_frameworks.yaml.
  for (const char* cluster : {"dgx-a100-80g", "dgx-h100", "h200-sxm", "b200-sxm"})
    CHECK(load_text(with(kGood, "dgx-a100-80g", cluster)).concrete->framework.name == "megatron-2025");
  CHECK(load_text(with(kGood, "dgx-a100-80g", "l40s-pcie")).concrete->framework.name == "fsdp-2024");
  const auto unfused = load_text(kGood + "training: {attention: unfused}\n");
  CHECK(unfused.concrete->framework.name == "megatron-2021");
  CHECK(std::any_of(unfused.assumptions.begin(), unfused.assumptions.end(), [](auto& a) {
    return a.starts_with("framework megatron-2021: not given; the default for unfused attention on a100-80g-sxm (");
  }));
  const auto on_volta = load_text(with(kGood, "{use: dgx-a100-80g, nodes: 128}", "{use: dgx2-v100-32g, nodes: 64}") +
                                  "training: {attention: unfused, precision: fp16}\n");
  CHECK(on_volta.concrete->framework.name == "megatron-2021");
  CHECK(on_volta.other_framework.size() == 3);
  const auto knob =
      load_text(kGood + "framework: {use: titan-2024, compiled: false, optimizer_bytes: 12}\n").concrete->framework;
  CHECK_FALSE(knob.compiled);
  CHECK(knob.early_stop);
  CHECK(knob.optimizer_bytes == 12);
  // A few keys that no scenario names, NCCL's version among them: they change the profile chosen by default.
  const auto some = load_text(with(kGood, "dgx-a100-80g", "dgx-h100") + "framework: {nccl: 2.12.10}\n");
  CHECK(some.concrete->framework.name == "megatron-2025");
  for (const auto& other : some.other_framework) CHECK(other.framework.nccl == Version{2, 12});
  CHECK(some.concrete->framework.compiled);
  CHECK(some.concrete->framework.nccl == Version{2, 12});
  for (const char* wrong : {"2", "2.", "two", "-2.1", "2.1.", "2.1.x", "2.1.1.1"})
    CHECK(errors_of(kGood + "framework: {nccl: " + wrong + "}\n").size() == 1);
  const auto overruled = load_text(kGood +
                                   "framework: megatron-2021\n"
                                   "training: {overlap: {gradients: true, pipeline: true},"
                                   " recompute: {mode: full, early_stop: true}}\n")
                             .concrete;
  CHECK(overruled->framework.gradient_overlap == models::GradientOverlap::always);
  CHECK_FALSE(overruled->framework.blocking_sends);
  CHECK(overruled->framework.early_stop);
  CHECK(overruled->training.recompute == models::Recompute::full);
}

TEST_CASE("fp16 keeps fp16 gradients unless asked otherwise") {
  CHECK(load_text(kGood + "training: {precision: fp16}\n").concrete->training.gradient_precision == Precision::fp16);
  CHECK(load_text(kGood + "training: {precision: fp16, gradient_precision: fp32}\n")
            .concrete->training.gradient_precision == Precision::fp32);
}

TEST_CASE("an inline model takes the family's defaults; a named one may be changed") {
  const auto m = load_text(with(kGood, "gpt3-175b",
                                "{family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, "
                                "ffn: 14336, vocabulary: 128256, sequence: 8192}"))
                     .concrete->model;
  CHECK(m.ffn_kind == models::FfnKind::swiglu);
  CHECK_FALSE(m.tie_embeddings);
  CHECK(m.head_dim == 128);
  const auto fewer = load_text(kGood, {"model.layers=48"}).concrete->model;
  CHECK(fewer.layers == 48);
  CHECK(fewer.hidden == 12288);
  CHECK(fewer.name == "gpt3-175b");
}

TEST_CASE("what a fabric and NCCL's groups do to the NICs") {
  const auto named = load_text(kGood, {}).concrete->cluster;
  CHECK(named.nics_per_group == 1);
  CHECK(named.fabric == 1);
  const auto changed = load_text(kGood, {"cluster.links.scale_out.fabric=ecmp", "cluster.links.scale_out.per_group=8",
                                         "cluster.links.scale_up.interconnect=nvlink-4"})
                           .concrete->cluster;
  CHECK(changed.nics_per_group == 8);
  CHECK(changed.fabric == doctest::Approx(.6 / .96));
  CHECK(named.interconnect.name == "nvlink-3");
  CHECK(changed.interconnect.name == "nvlink-4");
}

TEST_CASE("links that join a part of a node's GPUs make it as many nodes") {
  const auto rack = [](const std::string& domain) {
    return load_text(
               "version: 1\nmodel: {use: llama3-8b}\nbatch: {global: 144, micro: 1}\nparallelism: {tensor: 1}\n"
               "cluster: {use: gb200-nvl72, gpus: 144, links: {scale_up: {domain: " +
                   domain + "}}}\n",
               "test")
        .concrete->cluster;
  };
  const auto whole = rack("72"), trays = rack("4");
  CHECK(whole.gpus_per_node == 72);
  CHECK(whole.nodes == 2);
  CHECK(trays.gpus_per_node == 4);
  CHECK(trays.nodes == 36);
  CHECK(trays.nics_per_node == 4);  // one for each GPU, as before
  CHECK(trays.host.domains == 2);   // a Grace for two GPUs
  CHECK(trays.gpus() == whole.gpus());
  CHECK_THROWS_AS(rack("5"), UserError);
}

TEST_CASE("an inline cluster states what it took for granted") {
  const auto s =
      load_text(with(kGood, "{use: dgx-a100-80g, nodes: 128}",
                     "{gpu: a100-80g-sxm, gpus_per_node: 8, nodes: 128, links: {scale_up: {bandwidth: 300GB/s}, "
                     "nic: {bandwidth: 100Gb/s, latency: 3us}}}"));
  const auto& c = s.concrete->cluster;
  CHECK(c.nics_per_node == 8);
  CHECK(c.nic.value() == doctest::Approx(12.5e9));
  CHECK(c.nvlink_message.value() == doctest::Approx(80e9));  // as measured on the A100: 80 of 300
  CHECK(s.concrete->curves.fitted.empty());                  // priced from the links
  CHECK(c.interconnect.name == "assumed-nvlink");            // whatever its rate
  CHECK(c.interconnect.switch_share == 0);
  CHECK(c.nics_per_group == 0);
  CHECK(c.fabric == 1);
  const std::vector<std::string> taken = {"links.scale_up.latency",
                                          "links.scale_up.p2p_bandwidth",
                                          "links.scale_up.sharded_p2p_gather_bandwidth",
                                          "links.scale_out.efficiency",
                                          "links.scale_out.message_efficiency",
                                          "message_overhead",
                                          "links.scale_up.interconnect.ring_share"};
  CHECK(c.assumed == taken);
}

TEST_CASE("one number of a named cluster or GPU may be changed") {
  const auto s = load_text(kGood, {"cluster.links.scale_out.bandwidth=100Gb/s", "cluster.gpu.memory=40GB"});
  CHECK(s.concrete->cluster.nic.value() == doctest::Approx(12.5e9));
  CHECK(s.concrete->cluster.nic_efficiency == .96);
  CHECK(s.concrete->cluster.gpu.memory == Bytes(40'000'000'000));
  CHECK(s.concrete->cluster.gpu.sms == 108);
}

TEST_CASE("partitions") {
  const auto bare = load_text(kGood + "partition: [11, 12, 12, 12, 12, 12, 12, 13]\n").concrete->partition;
  CHECK(bare.kind == plan::Partition::Kind::listed);
  CHECK(bare.layers.size() == 8);
  CHECK(bare.head == plan::Ends::free);
  // Both ends count: 96 layers and two.
  const auto ends =
      load_text(kGood + "partition: {layers: [13, 12, 12, 12, 12, 12, 12, 13], embedding: layer, head: layer}\n")
          .concrete->partition;
  CHECK(ends.embedding == plan::Ends::layer);
  CHECK(load_text(kGood + "partition: uniform\n").concrete->partition.kind == plan::Partition::Kind::uniform);
}

TEST_CASE("schedules with knobs") {
  const auto s = load_text(with(with(kGood, "schedule: 1f1b",
                                     "schedule: {name: interleaved-1f1b, group: 8, extra_warmup: 1, "
                                     "memory_limit: 60GB}"),
                                "data: 16", "data: 16, chunks: 2"));
  CHECK(s.schedule.name == "interleaved-1f1b");
  CHECK(s.schedule.group == 8u);
  CHECK(s.schedule.extra_warmup == 1u);
  CHECK(s.schedule.memory_limit == 60e9);
  CHECK_FALSE(load_text(with(kGood, "1f1b", "{name: 1f1b, memory_limit: null}")).schedule.memory_limit);
}

TEST_CASE("abstract scenarios: one value for all stages, or a list") {
  const auto s = load_text(
      "version: 1\nparallelism: {pipeline: 2, chunks: 1}\nbatch: {microbatches: 24}\nschedule: zb-h1\n"
      "costs: {forward: 18.522ms, backward: [18ms, 19ms], weight: 9.337ms, transfer: 0.601ms}\n"
      "memory: {activation: 100, weight_hold: [32, 33], limit: 800}\n");
  REQUIRE(s.abstract);
  CHECK_FALSE(s.concrete);
  CHECK(s.microbatches() == 24);
  CHECK(s.abstract->forward == std::vector<Time>(2, picoseconds(18'522'000'000)));
  CHECK(s.abstract->backward[1] == picoseconds(19'000'000'000));
  CHECK(s.abstract->transfer == picoseconds(601'000'000));
  CHECK(s.abstract->activation == std::vector<double>{100, 100});
  CHECK(s.abstract->weight_hold == std::vector<double>{32, 33});
  CHECK(s.schedule.memory_limit == 800.);
  const auto sizes = load_text(kGoodAbstract + "memory: {activation: 100MB, limit: 1GB}\n");
  CHECK(sizes.abstract->activation[3] == 100e6);
  CHECK(sizes.abstract->weight_hold == std::vector<double>(4, 0));
  CHECK(sizes.schedule.memory_limit == 1e9);
}

TEST_CASE("the name of a nameless scenario is its file's") {
  const Folder folder;
  const auto path = folder.write("how-long.yaml", kGood);
  CHECK(load(path).name == "how-long");
  // A title that --set may have made untrue says what was set.
  CHECK(load(path, {"batch.global=3072", "schedule=gpipe"}).name ==
        "how-long (with batch.global=3072, schedule=gpipe)");
  CHECK(load(path, {"batch.global=3072", "name=mine"}).name == "mine");
  // Of several values of one key the last counts; a title names four.
  CHECK(load(path, {"batch.global=1536", "batch.global=3072"}).name == "how-long (with batch.global=3072)");
  CHECK(load(path, {"batch.global=3072", "batch.micro=2", "schedule=gpipe", "training.recompute=full",
                    "simulate.seed=2", "simulate.symmetry=off"})
            .name ==
        "how-long (with batch.global=3072, batch.micro=2, schedule=gpipe, training.recompute=full and 2 more)");
  CHECK(load(path).file == path);
}

TEST_CASE("a schedule of several chunks with one says what it is, and what to do") {
  const auto one = load_text(with(kGood, "schedule: 1f1b", "schedule: interleaved-1f1b"));
  REQUIRE(one.warnings.size() == 1);
  CHECK(
      one.warnings[0].find("x.yaml:6:11: 'interleaved-1f1b' with one chunk per rank is 1f1b; set parallelism.chunks to "
                           "2 or more") != std::string::npos);
  const auto chunks = load_text(
      with(with(kGood, "schedule: 1f1b", "schedule: interleaved-1f1b"), "pipeline: 8", "pipeline: 8, chunks: 2"));
  CHECK(chunks.warnings.empty());
}

TEST_CASE("placement: every axis once, from the innermost") {
  CHECK(load_text(kGood).placement == plan::kUsualOrder);
  const std::string usual = "placement: [tensor, context, expert, data, pipeline]\n";
  CHECK(load_text(kGood + usual).digest == load_text(kGood).digest);
  const auto s = load_text(kGood + "placement: [pipeline, data, expert, context, tensor]\n");
  CHECK(s.placement == plan::AxisOrder{Axis::pipeline, Axis::data, Axis::expert, Axis::context, Axis::tensor});
  CHECK(s.digest != load_text(kGood).digest);

  const auto errors = [](const std::string& order) { return errors_of(kGood + "placement: " + order + "\n"); };
  const std::string once = "; it takes each of tensor, context, expert, data, pipeline once";
  CHECK(errors("[tensor, context, data, pipeline]") ==
        std::vector<std::string>{"7:12: 'placement' does not name 'expert'" + once});
  CHECK(errors("[tensor, data, context, expert, data, pipeline]") ==
        std::vector<std::string>{"7:44: 'placement' names 'data' twice" + once});
  CHECK(
      errors("[tensor, context, expert, dat, pipeline]") ==
      std::vector<std::string>{"7:38: an entry of 'placement' must be one of tensor, context, expert, data, pipeline; "
                               "found 'dat'; did you mean 'data'?"});
  CHECK(errors("tensor") == std::vector<std::string>{"7:12: 'placement' must be a list of tensor, context, expert, "
                                                     "data, pipeline, each once; found the text 'tensor'"});
  CHECK(errors_of(kGoodAbstract + usual).size() == 1);  // one GPU per rank, which stands where it stands
}

TEST_CASE("warnings carry their place") {
  const auto s = load_text(with(kGood, "tensor: 8, pipeline: 8, data: 16", "tensor: 1, sequence: true, pipeline: 8"));
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0].find("x.yaml:4:36: 'sequence' changes nothing without tensor parallelism") != std::string::npos);
}

TEST_CASE("load throws what check reports") {
  const Folder folder;
  const auto path = folder.write("x.yaml", with(with(kGood, "1536", "x"), "gpt3-175b", "y"));
  try {
    load(path);
    FAIL("loaded");
  } catch (const UserError& e) {
    CHECK(format(e.diagnostics()) == format(check(path).errors));
    CHECK(e.diagnostics().size() == 2);
    CHECK(e.diagnostics()[0].where.file == path);
  }
}

TEST_CASE("errors in a part name the part's file") {
  const Folder folder;
  namespace fs = std::filesystem;
  for (const char* part : {"configs", "models/zoo"}) {
    fs::create_directories(fs::path(folder.path()) / part);
    fs::copy(fs::path(PROJECT_ROOT) / part, fs::path(folder.path()) / part, fs::copy_options::recursive);
  }
  const auto gpu = folder.write("configs/gpus/a100-80g-sxm.yaml", "peak: {bf16: 312}\nsms: 0\n");
  const auto path = folder.write("x.yaml", kGood);
  ::setenv("REHEARSAL_HOME", folder.path().c_str(), 1);
  const auto errors = check(path).errors;
  REQUIRE(errors.size() >= 2);
  CHECK(format(errors).find(gpu + ":1:14: error: 'bf16': rate '312' has no unit") != std::string::npos);
  CHECK(format(errors).find(gpu + ":2:6: error: 'sms' must be a whole number") != std::string::npos);
  CHECK(format(errors).find("x.yaml") == std::string::npos);

  ::setenv("REHEARSAL_HOME", "/nowhere", 1);
  CHECK_THROWS_WITH_AS(
      disk().home(),
      "REHEARSAL_HOME: error: '/nowhere' holds no configs/clusters and models/zoo; unset it or correct it", UserError);
  ::unsetenv("REHEARSAL_HOME");
  CHECK(disk().home() == PROJECT_ROOT);  // found above the test binary, or as the source tree
}

TEST_CASE("lists of what is shipped") {
  const Folder folder;
  for (const char* kind : {"models", "clusters", "gpus", "frameworks"}) {
    const auto all = list(kind);
    CHECK(all.size() >= 2);
    for (const auto& one : all) CHECK_MESSAGE(!one.summary.empty(), one.name);
  }
  CHECK_THROWS_WITH_AS(list("gpu"), "error: cannot list 'gpu'; did you mean 'gpus'?", UserError);
}
