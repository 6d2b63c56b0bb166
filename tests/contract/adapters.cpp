// Low-rank adapters, AdamW inside the backward and 8-bit gathers: their effects, and what they cannot be combined with.
#include <doctest/doctest.h>

#include <string>

#include "answer/whole_run.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

constexpr const char* kFile = "llama3-8b-dgx-h100.yaml";

answer::Result ask(const Sets& more) { return predicted_file(kFile, with({"batch.global=8"}, more)); }
double seconds_of(const answer::Result& p) { return to_seconds(p.summary.iteration); }
double bytes_of(const answer::Result& p, graph::MemoryCategory category) {
  return held(p.summary.ranks.front(), category);
}

std::string refused(const Sets& more) {
  try {
    ask(more);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("adapters: less time, hardly any gradients and states, the same weights") {
  using graph::MemoryCategory;
  for (const char* cut :
       {"parallelism={data: 8}", "parallelism={data: 8, zero: 1}", "parallelism={data: 8, zero: 2}",
        "parallelism={data: 8, zero: 3}", "parallelism={tensor: 2, data: 4}", "parallelism={pipeline: 2, data: 4}"}) {
    CAPTURE(cut);
    const auto all = ask({cut}), frozen = ask({cut, "training.lora=16"});
    CHECK(seconds_of(frozen) < .9 * seconds_of(all));
    CHECK(seconds_of(frozen) > .5 * seconds_of(all));
    CHECK(bytes_of(frozen, MemoryCategory::optimizer) < .02 * bytes_of(all, MemoryCategory::optimizer));
    CHECK(bytes_of(frozen, MemoryCategory::gradients) < .02 * bytes_of(all, MemoryCategory::gradients));
    CHECK(frozen.summary.peak.allocated < all.summary.peak.allocated);
    // Wider adapters take longer and train more parameters; narrower ones the opposite.
    const auto wide = ask({cut, "training.lora=64"});
    const auto few = ask({cut, "training.lora={rank: 16, modules: [linear_qkv]}"});
    CHECK(seconds_of(wide) > seconds_of(frozen));
    CHECK(bytes_of(wide, MemoryCategory::optimizer) > 3.9 * bytes_of(frozen, MemoryCategory::optimizer));
    CHECK(seconds_of(few) < seconds_of(frozen));
    CHECK(few.summary.peak.allocated < frozen.summary.peak.allocated);
  }
}

TEST_CASE("what adapters do not go with is refused by name") {
  CHECK(says(refused({"training.lora={modules: [linear_qkv]}"}), "training.lora.rank"));
  CHECK(says(refused({"parallelism={expert: 8}", "model={use: deepseek-v3, layers: 4}", "training.lora=8"}),
             "latent attention"));
  CHECK(says(refused({"training.lora={rank: 8, experts: true}"}), "has none"));
  CHECK(says(refused({"training.frozen_precision=nf4"}), "training.lora.rank"));
  CHECK(says(refused({"parallelism={data: 8, zero: 3}", "training.optimizer=lomo", "batch={global: 8, micro: 1}",
                      "training.lora=8"}),
             "inside the backward"));
}

TEST_CASE("AdamW inside the backward keeps no gradient, and takes no longer than its bytes") {
  const Sets alone{"batch.global=1", "parallelism={data: 1}", "cluster={use: dgx-h100, gpus: 1}",
                   "model={use: llama3-8b, layers: 8}"};
  const auto behind = ask(alone), inside = ask(with(alone, {"training.optimizer_in_backward=true"}));
  CHECK(bytes_of(inside, graph::MemoryCategory::optimizer) == bytes_of(behind, graph::MemoryCategory::optimizer));
  CHECK(inside.summary.peak.allocated < behind.summary.peak.allocated);
  CHECK(seconds_of(inside) == doctest::Approx(seconds_of(behind)).epsilon(.05));
  CHECK(says(refused({"parallelism={data: 8}", "training.optimizer_in_backward=true"}), "one replica"));
  CHECK(says(refused(with(alone, {"training.optimizer=sgd", "training.optimizer_in_backward=true"})), "does not apply to sgd"));
  CHECK(says(refused(with(alone, {"batch={global: 4, micro: 1}", "training.optimizer_in_backward=true"})),
             "micro-batches"));
}

TEST_CASE("layers that are gathered in 8 bits bring half the bytes") {
  const Sets fp8{"parallelism={data: 8, zero: 3}", "training.precision=fp8"};
  const auto gathered = [&](const char* narrow, const char* scaling) {
    const auto p = ask(with(
        fp8, {std::string("framework={use: titan-2024, fp8_gather: ") + narrow + ", fp8_scaling: " + scaling + "}"}));
    return p.summary.traffic.per_gpu.data;
  };
  CHECK(gathered("true", "tensorwise") < gathered("false", "tensorwise"));
  CHECK(gathered("true", "rowwise") == gathered("false", "rowwise"));  // a row's scale needs the whole row
}

TEST_CASE("beside a collective, products that fill a GPU in rounds take longer") {
  const Sets sharded{"parallelism={data: 8, zero: 3}", "framework=fsdp-2023"};
  const auto at_once = ask(with(sharded, {"cluster.gpu.persistent_gemms=false"})), rounds = ask(sharded);
  CHECK(seconds_of(rounds) > seconds_of(at_once));
  // Without overlap they take their own time.
  const Sets serial = with(sharded, {"training.overlap={gradients: false, parameters: false}"});
  CHECK(ask(with(serial, {"cluster.gpu.persistent_gemms=false"})).summary.iteration == ask(serial).summary.iteration);
}

TEST_CASE("a checkpoint of a job holds what learns, and no frozen weights") {
  const auto checkpoint = [](const Sets& more) {
    const auto p =
        ask(with({"parallelism={data: 8, zero: 1}", "job={tokens: 1B, failures: {per_1000_node_days: 6.5}}"}, more));
    return answer::whole_run(*p.lowered, p.summary).checkpoint_bytes;
  };
  const double whole = checkpoint({}), adapters = checkpoint({"training.lora=16"});
  CHECK(whole == doctest::Approx(14 * 8'030'261'248.));
  // Two matrices for each of four products, of queries, keys and values together: 16 (4096 + 6144 + 8192 + 4096 + 28672
  // + 14336 + 4096) in 32 layers, or with products apart, whose second matrices are as large.
  CHECK(adapters >= 14 * 32 * 16. * 69632);
  CHECK(adapters < .01 * whole);
  CHECK(checkpoint({"training.lora=32"}) == doctest::Approx(2 * adapters));
}

TEST_CASE("frozen matrices in fewer bits: their bytes held and gathered, the same FLOPs, a little more time") {
  using graph::MemoryCategory;
  for (const char* cut : {"parallelism={data: 8}", "parallelism={data: 8, zero: 3}", "parallelism={tensor: 2, data: 4}",
                          "parallelism={pipeline: 2, data: 4}"}) {
    CAPTURE(cut);
    const auto full = ask({cut, "training.lora=16"});
    const auto four = ask({cut, "training.lora=16", "training.frozen_precision=nf4-double"});
    const auto eight = ask({cut, "training.lora=16", "training.frozen_precision=int8"});
    // Matrices of layers are 6,979,321,856 of 8,030,261,248 parameters, beside which stand 32 x 16 x 69,632 of
    // adapters.
    const double share = 6'979'321'856. / (8'030'261'248. + 35'651'584.);
    const auto held = [&](const answer::Result& p) { return bytes_of(p, MemoryCategory::parameters); };
    if (std::string(cut).find("pipeline") == std::string::npos) {
      CHECK(held(eight) == doctest::Approx(held(full) * (1 - share / 2)).epsilon(.005));
      CHECK(held(four) == doctest::Approx(held(full) * (1 - share * (1 - .515869 / 2))).epsilon(.005));
    }
    CHECK(held(four) < held(eight));
    CHECK(four.lowered->model_flops.value() == full.lowered->model_flops.value());
    CHECK(seconds_of(four) > seconds_of(full) * (std::string(cut).find("zero") == std::string::npos ? 1 : .8));
    CHECK(four.summary.peak.allocated < full.summary.peak.allocated);
    CHECK(four.summary.traffic.per_gpu.tensor == full.summary.traffic.per_gpu.tensor);
    if (std::string(cut).find("zero") != std::string::npos)
      CHECK(four.summary.traffic.per_gpu.data < .5 * full.summary.traffic.per_gpu.data);
  }
}

TEST_CASE("adapters beside experts: few gradients, the same weights, in all layouts of experts") {
  using graph::MemoryCategory;
  for (const char* cut : {"parallelism={data: 8, zero: 3}", "parallelism={data: 8, expert: 8}",
                          "parallelism={data: 8, expert: 8, zero: 1}", "parallelism={data: 4, tensor: 2, expert: 4}"}) {
    CAPTURE(cut);
    const Sets moe{cut, "model={use: qwen3-30b-a3b, layers: 2}"};
    const auto all = ask(moe), few = ask(with(moe, {"training.lora=16"}));
    const auto more = ask(with(moe, {"training.lora={rank: 16, experts: true}"}));
    CHECK(seconds_of(few) < seconds_of(all));
    CHECK(bytes_of(few, MemoryCategory::optimizer) < .02 * bytes_of(all, MemoryCategory::optimizer));
    CHECK(bytes_of(more, MemoryCategory::optimizer) > bytes_of(few, MemoryCategory::optimizer));
    CHECK(bytes_of(more, MemoryCategory::optimizer) < .2 * bytes_of(all, MemoryCategory::optimizer));
    CHECK(seconds_of(more) > seconds_of(few));
    CHECK(few.summary.peak.allocated < all.summary.peak.allocated);
  }
}

TEST_CASE("gradients that come and go, and roots of all second moments at once") {
  const Sets alone{"batch.global=1", "parallelism={data: 1}", "cluster={use: dgx-h100, gpus: 1}",
                   "model={use: llama3-8b, layers: 8}", "training.recompute=full"};
  const auto all = [&](const char* knobs, const Sets& cut = {}) {
    return ask(with(with(alone, cut), {std::string("framework={use: fsdp-2024") + knobs + "}"}));
  };
  for (const Sets& cut : {Sets{}, Sets{"batch.global=8", "cluster.gpus=8", "parallelism={data: 8, zero: 3}"},
                          Sets{"batch.global=8", "cluster.gpus=8", "parallelism={data: 8, zero: 2}"}}) {
    const auto stay = all("", cut), go = all(", transient_gradients: true", cut);
    const auto roots = all(", transient_gradients: true, foreach_step: true", cut);
    CHECK(go.summary.iteration == stay.summary.iteration);
    CHECK(roots.summary.iteration > stay.summary.iteration);  // and three times the traffic
    CHECK(go.summary.peak.allocated <= stay.summary.peak.allocated);
    CHECK(roots.summary.peak.allocated >= go.summary.peak.allocated);
  }
  // On one GPU at the step: 2 bytes of parameters, 4 of gradients, 12 of states and 4 of roots a parameter.
  const auto roots = all(", transient_gradients: true, foreach_step: true, workspace: 1MiB");
  const double parameters = models::parameters(roots.lowered->scenario.concrete->model);
  CHECK(roots.summary.peak.allocated == doctest::Approx(22 * parameters).epsilon(1e-3));
}

TEST_CASE("a fraction of the optimizer's states on the host") {
  using graph::MemoryCategory;
  const auto at = [](const char* offload) { return ask({"parallelism={data: 8, zero: 1}", offload}); };
  const auto none = at("training.offload={}"), half = at("training.offload={optimizer: host, optimizer_fraction: 0.5}"),
             all = at("training.offload={optimizer: host}");
  CHECK(bytes_of(half, MemoryCategory::optimizer) ==
        doctest::Approx(bytes_of(none, MemoryCategory::optimizer) / 2).epsilon(1e-6));
  CHECK(bytes_of(all, MemoryCategory::optimizer) == 0);
  CHECK(seconds_of(half) > seconds_of(none));
  CHECK(seconds_of(half) < seconds_of(all));
  CHECK(says(refused({"training.offload.optimizer_fraction=0.5"}), "training.offload.optimizer to host"));
}

TEST_CASE("hooks of ZeRO-3 cost the host of every layer and pass, on one GPU too") {
  const std::string text =
      "version: 1\nmodel: {use: llama3-8b, layers: 4, sequence: 256}\ncluster: {use: dgx-h100, gpus: 1}\n"
      "parallelism: {data: 1, zero: 3}\nbatch: {global: 1, micro: 1}\ntraining: {precision: bf16, recompute: full}\n"
      "framework: hf-2024\n";
  const auto step = [&](int launches) {
    return seconds_of(predicted(text, {"framework.zero3_launches=" + std::to_string(launches)}));
  };
  // The host decides: 100 more of 30 us in the forward, the forward again and the backward of each of 4 layers.
  CHECK(step(300) - step(200) == doctest::Approx(4 * 3 * 100 * 30e-6).epsilon(1e-6));
  CHECK(predicted(text, {"framework.zero3_launches=300", "parallelism.zero=0"}).summary.iteration ==
        predicted(text, {"framework.zero3_launches=0"}).summary.iteration);
}
