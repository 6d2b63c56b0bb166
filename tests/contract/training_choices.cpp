// Choices of `training` and `partition` from the file to the simulated step: which layers are recomputed, kernels that
// are not fused, tensor parallelism under GEMMs, layers dealt by their times.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "answer/predict.hpp"
#include "report/run_report.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;

namespace {

using Sets = std::vector<std::string>;

// Llama 3 70B in 4 stages of 20 layers, tensor 8 with sequence parallelism.
LoweredJob stages_of_20(Sets sets) {
  return prepare(scenario::load(PROJECT_ROOT "/scenarios/llama3-70b-64xh100.yaml", sets));
}
// GPT 1.7B, 24 layers of h 2304 under a vocabulary of 51,200, in 4 stages: the head is the slowest part.
Sets small_model(Sets more) {
  Sets sets = {"parallelism={pipeline: 4, data: 8}", "batch={global: 512, micro: 4}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
scenario::Scenario heavy_head(Sets more) {
  return scenario::load(PROJECT_ROOT "/scenarios/megatron21-t1/gpt-1.7b-32xa100.yaml", small_model(std::move(more)));
}
Time slowest(const LoweredJob& p) {
  Time most;
  for (std::size_t s = 0; s < p.problem.forward.size(); s++)
    most = std::max(most, p.problem.forward[s] + p.problem.backward[s]);
  return most;
}
Summary ask(const scenario::Scenario& scenario, std::string* text = nullptr) {
  const auto prediction = predict(scenario);
  if (text) *text = report::run_text(prediction, {});
  return prediction.summary;
}
Time part(const Summary& s, graph::Category c) { return s.breakdown[static_cast<std::size_t>(c)]; }

}  // namespace

TEST_CASE("a stage is the sum of its layers, recomputed and not") {
  for (const std::string mode : {"selective", "full"}) {
    CAPTURE(mode);
    const auto recompute = [&](const std::string& which) {
      return stages_of_20({fmt::format("training.recompute={{mode: {}{}}}", mode, which)});
    };
    const auto none = stages_of_20({"training.recompute=none"}), all = recompute("");
    // Of 20 layers: every 2nd 10, every 3rd 6, the first 5, every 3rd of the first 8: layers 3 and 6.
    for (const auto& [which, layers] : std::vector<std::pair<std::string, std::int64_t>>{{", every: 2", 10},
                                                                                         {", every: 3", 6},
                                                                                         {", layers: 5", 5},
                                                                                         {", every: 3, layers: 8", 2},
                                                                                         {", layers: 0", 0}}) {
      CAPTURE(which);
      const auto some = recompute(which);
      for (const std::size_t s : {0, 1, 3}) {
        const Time more = all.problem.backward[s] - none.problem.backward[s];
        CHECK(20 * (some.problem.backward[s] - none.problem.backward[s]) == layers * more);
        CHECK(some.problem.forward[s] == none.problem.forward[s]);
        const double less = none.problem.activation[s] - all.problem.activation[s];
        CHECK(20 * (none.problem.activation[s] - some.problem.activation[s]) == double(layers) * less);
      }
    }
    CHECK(recompute(", every: 1").durations == all.durations);
  }
}

TEST_CASE("balanced: no other way to deal the layers has a faster slowest stage") {
  const auto uniform = prepare(heavy_head({})), balanced = prepare(heavy_head({"partition=balanced"}));
  CHECK(uniform.layers == std::vector<std::int64_t>{6, 6, 6, 6});
  const auto& part = balanced.layers;
  REQUIRE(part.size() == 4);
  CHECK(part[0] + part[1] + part[2] + part[3] == 24);
  CHECK(part[3] < 6);
  CHECK(slowest(balanced) < slowest(uniform));
  for (std::int64_t first = 4; first <= 8; first++)
    for (std::int64_t last = 2; last <= 6; last++) {
      const auto middle = 24 - first - last;
      const auto listed = prepare(
          heavy_head({fmt::format("partition=[{}, {}, {}, {}]", first, middle / 2, middle - middle / 2, last)}));
      CHECK(slowest(balanced) <= slowest(listed));
    }
  // The same as that list, and the report says so.
  const auto same = prepare(heavy_head({fmt::format("partition=[{}]", fmt::join(part, ", "))}));
  CHECK(same.graph.digest() == balanced.graph.digest());
  std::string text;
  const auto faster = ask(heavy_head({"partition=balanced"}), &text), slower = ask(heavy_head({}));
  CHECK(faster.iteration < slower.iteration);
  CHECK(text.find("layers per stage: ") != std::string::npos);
  ask(heavy_head({}), &text);
  CHECK(text.find("layers per stage") == std::string::npos);
}

TEST_CASE("balanced with layers that differ, and with own kernels") {
  // The first two layers of a stage are recomputed: two short stages would hold more of those than one long.
  const auto uneven = prepare(heavy_head({"partition=balanced", "training.recompute={mode: full, layers: 2}"}));
  CHECK(slowest(uneven) <= slowest(prepare(heavy_head({"training.recompute={mode: full, layers: 2}"}))));
  const auto tiny =
      scenario::load(PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml", {"partition=balanced"});
  const auto own = prepare(tiny);
  CHECK(std::accumulate(own.layers.begin(), own.layers.end(), std::int64_t{0}) == tiny.concrete->model.layers);
}

TEST_CASE(
    "unfused kernels cost time and the memory of what their operations keep, and so does AdamW operation by "
    "operation") {
  const auto run = [](const char* kernels) { return ask(heavy_head({fmt::format("training.kernels={}", kernels)})); };
  const auto fused = run("fused"), unfused = run("unfused");
  CHECK(part(unfused, graph::Category::compute) > part(fused, graph::Category::compute));
  CHECK(unfused.peak.allocated > fused.peak.allocated);
  CHECK(*unfused.hardware_tflops_per_gpu * to_seconds(unfused.iteration) ==
        doctest::Approx(*fused.hardware_tflops_per_gpu * to_seconds(fused.iteration)));
  // Which kernels layers have is nothing to the optimizer; torch's for-each is.
  const auto step = [](const std::string& set) {
    const auto p = prepare(heavy_head({set}));
    const auto works = p.graph.works();
    for (std::size_t w = 0; w < works.size(); w++)
      if (std::holds_alternative<graph::OptimizerStep>(works[w])) return to_seconds(p.durations[w]);
    return 0.;
  };
  CHECK(step("training.kernels=unfused") == step("training.kernels=fused"));
  CHECK(step("framework.foreach_step=true") > 1.5 * step("framework.foreach_step=false"));
}

TEST_CASE("tensor parallelism under GEMMs: less of it shows, and the graph has the fused operators") {
  const auto run = [](bool overlap, const char* detail) {
    return scenario::load(
        PROJECT_ROOT "/scenarios/llama3-70b-64xh100.yaml",
        {fmt::format("training.overlap={{tensor: {}}}", overlap), fmt::format("simulate.detail={}", detail)});
  };
  const auto plain = ask(run(false, "stage")), async = ask(run(true, "stage"));
  CHECK(async.iteration < plain.iteration);
  CHECK(part(async, graph::Category::tensor_comm) < part(plain, graph::Category::tensor_comm));
  // Pieces are no better GEMMs than the whole, and scattered products are added up.
  CHECK(part(async, graph::Category::compute) >= part(plain, graph::Category::compute));
  // As tasks: beside products on the compute lane, on the lane of the tensor group. Of a stage and micro-batch 4
  // products a layer forward are cut into 8 pieces, of which 7 have a part of a collective beside them, and 2 backward;
  // the inputs of two more are gathered again, whole.
  const auto prepared = prepare(run(true, "operator"));
  const auto& program = prepared.graph.program_of(prepared.graph.ranks()[1]);
  std::int64_t parts = 0, whole = 0;
  for (std::size_t i = 0; i < program.size(); i++) {
    if (program.coordinates[i].microbatch != 0 || program.lane[i] != graph::Lane::tensor_comm) continue;
    const auto& collective = std::get<graph::Collective>(prepared.graph.work(program.work[i]));
    (collective.pieces == 7 ? parts : whole)++;
  }
  CHECK(parts == 20 * 7 * (4 + 2));
  CHECK(whole == 20 * (2 + 2));  // gathered again; reduced beside the gradients of weights
}

TEST_CASE("what sequence parallelism gathers again runs beside the gradient of an input, on a lane of its own") {
  // Llama 3 70B, 80 layers: two gathers of 2 T h = 2 x 8192 x 8192 B each, in the backward of every micro-batch,
  // and one of the head.
  const auto p = stages_of_20({"training.recompute=none"});
  const auto works = p.graph.works();
  std::size_t found = 0;
  for (std::size_t w = 0; w < works.size(); w++) {
    const auto* both = std::get_if<graph::Overlapped>(&works[w]);
    if (!both) continue;
    const auto& gather = std::get<graph::Collective>(p.graph.work(both->collective));
    if (gather.kind != CollectiveKind::all_gather || gather.pieces > 1) continue;
    found++;
    CHECK(gather.size == Bytes(2 * 8192 * 8192));
    const Time kernel = p.durations[both->kernel.index()], collective = p.durations[both->collective.index()];
    CHECK(p.durations[w] >= std::max(kernel, collective));
    if (kernel > collective * 2) CHECK(p.durations[w] > kernel);  // it holds multiprocessors
    CHECK(p.durations[w] < kernel + collective);
  }
  CHECK(found == 3);  // and the input of the head
}

TEST_CASE("a blocking launch adds the host to the GPU") {
  // One stage, no pipeline: every launch of the step shows once more for each doubling of what it takes.
  const auto seconds = [](const std::string& framework) {
    return to_seconds(
        ask(scenario::load(
                PROJECT_ROOT "/scenarios/megatron21-t1/gpt-1.7b-32xa100.yaml",
                {"cluster.nodes=1", "parallelism={data: 8}", "batch={global: 8, micro: 1}", "simulate.contention=off",
                 "framework={use: megatron-2021, " + framework + ", gradient_overlap: never}"}))
            .iteration);
  };
  const double none = seconds("host_time_per_kernel: 0us, launch_blocking: true");
  const double one = seconds("host_time_per_kernel: 10us, launch_blocking: true");
  const double two = seconds("host_time_per_kernel: 20us, launch_blocking: true");
  CHECK(one > none);
  CHECK(two - one == doctest::Approx(one - none).epsilon(1e-6));
  CHECK(seconds("host_time_per_kernel: 10us") < one);  // hidden where the GPU is busy
}

TEST_CASE("what a process takes before it allocates, and a flat bucket") {
  const auto peak = [](const Sets& sets) {
    Sets all{"cluster.nodes=1", "parallelism={data: 8, zero: 1}", "batch={global: 8, micro: 1}"};
    all.insert(all.end(), sets.begin(), sets.end());
    return ask(scenario::load(PROJECT_ROOT "/scenarios/megatron21-t1/gpt-1.7b-32xa100.yaml", all)).peak;
  };
  // 1.57 GB of an A100 where modules are loaded at once, else .8 assumed.
  const auto eager = peak({"framework.lazy_modules=false"}), lazy = peak({"framework.lazy_modules=true"});
  CHECK(*eager.device - *lazy.device == doctest::Approx(1.57e9 - .8e9));
  CHECK(eager.allocated == lazy.allocated);
  // As large as a bucket: 5e8 gradients of 2 bytes, of 1.7e9 parameters.
  const Sets buckets{"framework.bucket_parameters=500000000"};
  Sets flat = buckets;
  flat.push_back("framework.flat_bucket=true");
  CHECK(peak(flat).allocated - peak(buckets).allocated == doctest::Approx(2 * 5e8));
}

TEST_CASE("a loss that torch.compile fuses is torch's without it") {
  const auto peak = [](const char* framework) {
    return ask(scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml",
                              {"batch={global: 16, micro: 2}", "parallelism={data: 8, zero: 3}",
                               "training.recompute=full", fmt::format("framework={{use: titan-2025{}}}", framework)}))
        .peak.allocated;
  };
  CHECK(peak(", compiled: false") == peak(", compiled: false, loss: torch"));
  CHECK(peak(", compiled: false") > peak(", compiled: false, loss: fused"));
  CHECK(peak("") == peak(", loss: fused"));
}
