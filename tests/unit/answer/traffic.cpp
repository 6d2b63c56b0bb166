// Traffic per rank in cases that can be added up by hand: data, tensor and pipeline parallelism separately, and what
// crosses a NIC.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;
using doctest::Approx;

namespace {

using Sets = std::vector<std::string>;

// A GPT of 4 layers on DGX A100 (no switch that adds), with rings alone: NCCL 2.3 has no trees.
Result run(const Sets& sets) {
  Sets all = {"model={family: gpt, layers: 4, hidden: 1024, heads: 16, sequence: 512, vocabulary: 51200}",
              "training={precision: bf16, attention: unfused}", "framework={use: megatron-2021, nccl: 2.3}",
              "simulate.detail=layer"};
  all.insert(all.end(), sets.begin(), sets.end());
  return predict(scenario::load(PROJECT_ROOT "/scenarios/megatron21-t1/gpt-3.6b-64xa100.yaml", all));
}

const LinkTraffic* named(const answer::TrafficSummary& traffic, const std::string& name) {
  for (const auto& link : traffic.links)
    if (link.name == name) return &link;
  return nullptr;
}

constexpr double kMessage = 512. * 1024 * 2;  // activations of a sequence between layers, 16 bits each

}  // namespace

TEST_CASE("data parallelism: a ring of k nodes sends 2 (k-1)/k of the gradients over every NIC") {
  // One GPU a node: tensor groups fill the nodes. fp32 gradients, no ZeRO.
  for (const int k : {2, 4}) {
    const auto r = run({fmt::format("cluster={{use: dgx-a100-80g, nodes: {}}}", k),
                        fmt::format("parallelism={{tensor: 8, data: {}, zero: 0}}", k), "batch={global: 8, micro: 1}"});
    const auto& t = r.summary.traffic;
    REQUIRE(t.data_parallel);
    const double gradients = 4 * t.data_parallel->parameters;
    CHECK(t.per_gpu.data == Approx(2. * (k - 1) / k * gradients).epsilon(1e-9));
    CHECK(t.all_gpus.data == Approx(8. * k * t.per_gpu.data).epsilon(1e-12));
    const auto* nic = named(t, "node 0 NIC 0 to leaf 0.0");
    REQUIRE(nic);
    CHECK(nic->count == std::uint64_t(8 * k));
    CHECK(nic->bytes == t.per_gpu.data);
    CHECK(nic->busy_share == Approx(nic->bytes / 25e9 / to_seconds(r.summary.iteration)).epsilon(1e-12));
  }
}

TEST_CASE("data parallelism over whole nodes: each NIC carries an eighth of what leaves its node") {
  // 16 ranks on 2 nodes, one ring per NIC: 2 x 15/16 of the gradients leave a node; 7 of 8 steps stay inside.
  const auto t = run({"cluster={use: dgx-a100-80g, nodes: 2}", "parallelism={tensor: 1, data: 16, zero: 0}",
                      "batch={global: 16, micro: 1}"})
                     .summary.traffic;
  REQUIRE(t.data_parallel);
  const double sent = 2. * 15 / 16 * 4 * t.data_parallel->parameters;
  CHECK(t.per_gpu.data == Approx(sent).epsilon(1e-9));
  const auto *nic = named(t, "node 0 NIC 0 to leaf 0.0"), *port = named(t, "node 0 GPU 0 port out");
  REQUIRE((nic && port));
  CHECK(nic->bytes == Approx(sent / 8).epsilon(1e-9));
  CHECK(port->bytes == Approx(sent * 7 / 8).epsilon(1e-9));
  CHECK((nic->count == 16 && port->count == 16));
}

TEST_CASE("tensor parallelism: four reductions a layer and micro-batch") {
  const auto of = [&](const char* tensor, int layers, const char* more) {
    const auto r = run({"cluster={use: dgx-a100-80g, nodes: 1}", "parallelism.pipeline=1", "parallelism.data=1", tensor,
                        "batch={global: 3, micro: 1}", fmt::format("model.layers={}", layers), more});
    const auto& t = r.summary.traffic;
    CHECK((t.per_gpu.data == 0 && t.per_gpu.pipeline == 0 && !t.data_parallel));
    CHECK(t.all_gpus.tensor == 8 * t.per_gpu.tensor);
    REQUIRE(named(t, "node 0 GPU 0 port out"));
    CHECK(named(t, "node 0 GPU 0 port out")->bytes == t.per_gpu.tensor);
    return t.per_gpu.tensor;
  };
  const char *plain = "parallelism.tensor=8", *sequence = "parallelism={tensor: 8, sequence: true}";
  const double ring = 7. / 8 * kMessage;
  // Two layers more: an all-reduce after attention and one after the MLP, forward and backward, 2 x 7/8 each.
  const char* none = "training.recompute=none";
  CHECK(of(plain, 6, none) - of(plain, 4, none) == Approx(2 * 3 * 4 * 2 * ring).epsilon(1e-9));
  // Full recomputation repeats the forward's two.
  const char* full = "training.recompute=full";
  CHECK(of(plain, 6, full) - of(plain, 4, full) == Approx(2 * 3 * 6 * 2 * ring).epsilon(1e-9));
  // With sequence parallelism each is a gather and a scatter, as many bytes; megatron-2021 gathers the two inputs once
  // more for the gradients of the weights (arXiv 2205.05198, 4.2.2).
  CHECK(of(sequence, 6, none) - of(sequence, 4, none) == Approx(2 * 3 * (4 * 2 + 2) * ring).epsilon(1e-9));
  const char* saves = "framework.saves_gathered=true";
  CHECK(of(sequence, 6, saves) - of(sequence, 4, saves) == Approx(2 * 3 * 4 * 2 * ring).epsilon(1e-9));
}

TEST_CASE("pipeline parallelism: an activation and a gradient for each micro-batch and hop") {
  // Tensor groups fill the nodes, a stage each. Untied, so that the ends share nothing.
  const auto of = [&](const char* sharded, const char* network = "simulate.contention=auto") {
    return run({"cluster={use: dgx-a100-80g, nodes: 4}", "parallelism={tensor: 8, pipeline: 4, data: 1}",
                "model.tie_embeddings=false", "batch={global: 5, micro: 1}", sharded, network})
        .summary.traffic;
  };
  const auto whole = of("framework.sharded_sends=false"), sharded = of("framework.sharded_sends=true");
  // Ranks in the middle send 5 activations on and 5 gradients back; 3 hops of 8 pairs, both ways.
  CHECK(whole.per_gpu.pipeline == 10 * kMessage);
  CHECK(whole.all_gpus.pipeline == 3 * 8 * 10 * kMessage);
  CHECK(sharded.per_gpu.pipeline == 10 * kMessage / 8);
  // Who receives an eighth gathers the rest from its node: 10 times in the middle, 30 times in all, 8 GPUs each.
  CHECK(sharded.per_gpu.tensor - whole.per_gpu.tensor <= 10. * 7 / 8 * kMessage);
  CHECK(sharded.all_gpus.tensor - whole.all_gpus.tensor == 30. * 8 * 7 / 8 * kMessage);
  // NICs: of nodes in the middle both ways.
  const auto* nic = named(whole, "node 1 NIC 0 to leaf 0.0");
  REQUIRE(nic);
  CHECK((nic->bytes == 10 * kMessage && nic->count == 16));
  const auto* end = named(whole, "node 0 NIC 0 to leaf 0.0");
  REQUIRE(end);
  CHECK((end->bytes == 5 * kMessage && end->count == 16));
  // Without contention no link is known; the bytes sent are the same.
  const auto alone = of("framework.sharded_sends=false", "simulate.contention=off");
  CHECK(alone.links.empty());
  CHECK((alone.per_gpu == whole.per_gpu && alone.all_gpus == whole.all_gpus));
}

TEST_CASE("a tied embedding: both ends of the pipeline add its gradients up") {
  // Two ranks send 2 x 1/2 of the table's slice in fp32, once.
  const auto of = [&](const char* tied) {
    return run({"cluster={use: dgx-a100-80g, nodes: 2}", "parallelism={tensor: 8, pipeline: 2, data: 1}",
                "batch={global: 4, micro: 1}", tied})
        .summary.traffic.all_gpus.pipeline;
  };
  CHECK(of("model.tie_embeddings=true") - of("model.tie_embeddings=false") == 16 * 4 * (51200. / 8) * 1024);
}

TEST_CASE("given times move no bytes") {
  const auto r = predict(scenario::load(PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml"));
  CHECK((r.summary.traffic.per_gpu == AxisBytes{} && r.summary.traffic.links.empty()));
}

namespace {

// Llama 3 8B on n GPUs that do nothing but data parallelism; 32 layers, two tables of 128,256 x 4,096 that are not
// tied.
constexpr double kPsi = 8030261248., kEnds = 2 * 128256. * 4096 + 4096;

Result replicas(int zero, int n, int microbatches, const Sets& more) {
  Sets sets = {n < 8 ? fmt::format("cluster={{use: dgx-a100-80g, gpus: {}}}", n)
                     : fmt::format("cluster={{use: dgx-a100-80g, nodes: {}}}", n / 8),
               fmt::format("parallelism={{data: {}, zero: {}}}", n, zero),
               fmt::format("batch={{global: {}, micro: 1}}", n * microbatches),
               "framework={use: fsdp-2023, nccl: 2.3}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return predict(scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets));
}

}  // namespace

TEST_CASE("volumes of the ZeRO paper: 2, 2, 2 and 3 Psi, each in the precision in which it travels") {
  // arXiv 1910.02054, section 7, with (n-1)/n for what a rank keeps. The tables at the ends are gathered once for both
  // passes (FSDP keeps the root of a model), which the paper does not know.
  struct Travels {
    const char* precision;
    double parameters, gradients;
  };
  for (const auto& [precision, parameters, gradients] : {Travels{"bf16", 2, 4}, {"fp16", 2, 2}, {"fp32", 4, 4}})
    for (const int n : {2, 4, 8, 16, 64})
      for (const char* recompute : {"none", "selective", "full"}) {
        const auto run = [&](int zero, const char* more = "simulate.seed=1") {
          const auto r = replicas(
              zero, n, 1, {fmt::format("training={{precision: {}, recompute: {}}}", precision, recompute), more});
          return *r.summary.traffic.data_parallel;
        };
        CAPTURE(precision);
        CAPTURE(n);
        CAPTURE(recompute);
        const double others = double(n - 1) / n;
        const double all_reduced = 2 * gradients, to_shards = gradients + parameters;
        for (const int zero : {0, 1, 2, 3}) {
          CAPTURE(zero);
          const auto v = run(zero);
          const double form = zero == 0 ? all_reduced : zero < 3 ? to_shards : to_shards + parameters;
          CHECK(v.parameters == kPsi);
          CHECK(v.form == (zero < 3 ? "2 Psi" : "3 Psi"));
          CHECK(v.closed_form_bytes == Approx(others * form * kPsi).epsilon(1e-12));
          const double kept = zero == 3 ? others * parameters * kEnds : 0;
          CHECK(v.bytes == Approx(v.closed_form_bytes - kept).epsilon(1e-7));
        }
        const auto all = run(1, "framework.zero1_reduces=all");
        CHECK(all.form == "3 Psi");
        CHECK(all.closed_form_bytes == Approx(others * (all_reduced + parameters) * kPsi).epsilon(1e-12));
        CHECK(all.bytes == Approx(all.closed_form_bytes).epsilon(1e-7));
      }
}

TEST_CASE("micro-batches: ZeRO-2 reduces and ZeRO-3 gathers in each of them") {
  const auto of = [&](int zero, const char* more = "simulate.seed=1") {
    return *replicas(zero, 8, 3, {"training.recompute=full", more}).summary.traffic.data_parallel;
  };
  const double psi = 7. / 8 * kPsi;  // weights 2 bytes, gradients 4
  CHECK((of(0).form == "2 Psi" && of(1).form == "2 Psi" && of(2).form == "(3 + 1) Psi" && of(3).form == "3 x 3 Psi"));
  CHECK(of(0).bytes == Approx(2 * 4 * psi).epsilon(1e-7));
  CHECK(of(1).bytes == Approx((4 + 2) * psi).epsilon(1e-7));
  CHECK(of(2).bytes == Approx((3 * 4 + 2) * psi).epsilon(1e-7));
  CHECK(of(3).closed_form_bytes == Approx(3 * (4 + 2 * 2) * psi).epsilon(1e-12));
  CHECK(of(3).bytes == Approx(3 * (4 + 2 * 2) * psi - 3 * 2 * 7. / 8 * kEnds).epsilon(1e-7));
  const auto kept = of(3, "training.fsdp={reshard_after_forward: false}");
  CHECK(kept.form == "3 x 2 Psi");
  CHECK(kept.bytes == Approx(3 * (4 + 2) * psi).epsilon(1e-7));
}

TEST_CASE("ZeRO-1 that reduces all takes the time of an all-reduce") {
  // Nothing overlaps: the step is longer by the all-reduce less the reduce-scatter of all gradients.
  const auto of = [&](const char* reduces) {
    return replicas(1, 16, 1, {"training={recompute: full, overlap: {gradients: false}}", reduces});
  };
  const auto shards = of("framework.zero1_reduces=shards"), all = of("framework.zero1_reduces=all");
  const auto reduction = [](const Result& r) {
    const auto& program = r.graph().program_of(r.graph().ranks()[0]);
    Time sum;
    for (std::size_t t = 0; t < program.size(); ++t)
      if (program.coordinates[t].pass == graph::Pass::gradient_reduce)
        sum += r.lowered->durations[program.work[t].index()];
    return sum;
  };
  CHECK(reduction(all) > reduction(shards));
  CHECK(all.summary.iteration - shards.summary.iteration == reduction(all) - reduction(shards));
  // A walk of the schedule knows it as well.
  for (const char* reduces : {"framework.zero1_reduces=shards", "framework.zero1_reduces=all"}) {
    const auto r = replicas(1, 16, 1, {"training.recompute=full", reduces, "simulate.contention=off"});
    CHECK(estimate(r.scenario()).iteration == r.summary.iteration);
  }
  CHECK(all.summary.peak.allocated == shards.summary.peak.allocated);
  CHECK(all.scenario().digest != shards.scenario().digest);
}
