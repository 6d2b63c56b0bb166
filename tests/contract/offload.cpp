// States outside the GPU (ZeRO-Offload, arXiv 2101.06840; ZeRO-Infinity, 2104.07857; ZeRO-R, 1910.02054): the traffic,
// what fits, the effect of links and disks shared by GPUs, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "models/offload.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// 12 layers of 1,024 columns on a node that says all of its host.
const std::string kSmall = R"(version: 1
model: {family: gpt, layers: 12, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 1024, tie_embeddings: false}
cluster:
  use: dgx2-v100-32g
  gpus: 1
  host: {cores: 48, memory: 1TB, memory_bandwidth: 200GB/s, core_bandwidth: 1TB/s,
         pcie: {bandwidth: 10GB/s, latency: 0us, gpus_per_link: 1},
         nvme: {capacity: 10TB, read: 20GB/s, write: 10GB/s, latency: 0us}}
batch: {global: 2, micro: 2}
training: {precision: fp16, recompute: full, attention: unfused, overlap: {gradients: true}}
framework: {use: deepspeed-2021, host_optimizer_bytes: 28}
)";
const Sets kSixteen{"cluster.gpus=16", "parallelism={data: 16, zero: 3}", "batch.global=32"};

double parameters(const answer::Result& p) { return models::parameters(p.lowered->scenario.concrete->model); }
double seconds_of(const answer::Result& p) { return to_seconds(p.timeline.makespan()); }
double seconds_of(const Sets& sets) { return seconds_of(predicted(kSmall, sets)); }
const answer::TierSummary& tier(const answer::Result& p, Tier which) {
  for (const auto& t : p.summary.tiers)
    if (t.tier == which) return t;
  FAIL("nothing is kept there");
  throw InternalError("unreachable");
}
double kept(const answer::TierSummary& t, graph::MemoryCategory category) {
  return double(t.at_peak[static_cast<std::size_t>(category)].count());
}

}  // namespace

TEST_CASE("ZeRO-Offload moves 4 Psi: gradients out and parameters in, 2 bytes each, over all ranks together") {
  const auto one = predicted(kSmall, {"training.offload={optimizer: host, gradients: host}"});
  const double psi = parameters(one);
  CHECK(one.summary.traffic.per_gpu.offload_out == doctest::Approx(2 * psi).epsilon(1e-3));
  CHECK(one.summary.traffic.per_gpu.offload_in == doctest::Approx(2 * psi).epsilon(1e-3));
  for (const char* zero : {"2", "3"}) {
    const auto shared = predicted(kSmall, with(kSixteen, {"training.offload={optimizer: host, gradients: host}",
                                                          std::string("parallelism.zero=") + zero}));
    CHECK(shared.summary.traffic.all_gpus.offload_out == doctest::Approx(2 * psi).epsilon(1e-3));
    CHECK(shared.summary.traffic.all_gpus.offload_in == doctest::Approx(2 * psi).epsilon(1e-3));
  }
  // The sum comes back for the second micro-batch, and the GPU adds to it.
  const auto twice =
      predicted(kSmall, {"training.offload={optimizer: host, gradients: host}", "batch={global: 4, micro: 2}"});
  CHECK(twice.summary.traffic.per_gpu.offload_out == doctest::Approx(4 * psi).epsilon(1e-3));
  CHECK(twice.summary.traffic.per_gpu.offload_in == doctest::Approx(4 * psi).epsilon(1e-3));
  // With tensor parallelism each rank moves its shard.
  const auto cut = predicted(
      kSmall, {"training.offload={optimizer: host, gradients: host}", "cluster.gpus=2", "parallelism={tensor: 2}"});
  CHECK(cut.summary.traffic.all_gpus.offload_out == doctest::Approx(2 * psi).epsilon(.01));
  CHECK(cut.summary.traffic.per_gpu.offload_out == doctest::Approx(psi).epsilon(.01));
}

TEST_CASE("states are where the matrix says, on the ranks that hold them") {
  const auto of = [](const char* offload, const Sets& more = {}) {
    return predicted(kSmall, with(more, {std::string("training.offload=") + offload}));
  };
  using graph::MemoryCategory;
  const auto host = of("{optimizer: host, gradients: host}");
  const double psi = parameters(host);
  CHECK(kept(tier(host, Tier::host), MemoryCategory::optimizer) == doctest::Approx(12 * psi));
  CHECK(kept(tier(host, Tier::host), MemoryCategory::gradients) == doctest::Approx(2 * psi));
  const auto delayed = of("{optimizer: host, gradients: host, delayed_update: true}");
  CHECK(kept(tier(delayed, Tier::host), MemoryCategory::gradients) == doctest::Approx(4 * psi));
  const auto all = of("{optimizer: nvme, gradients: nvme, parameters: nvme}");
  CHECK(kept(tier(all, Tier::nvme), MemoryCategory::optimizer) == doctest::Approx(12 * psi));
  CHECK(tier(all, Tier::nvme).per_node == doctest::Approx(16 * psi));
  CHECK(tier(all, Tier::host).per_node < 16 * psi);  // what is on its way
  const auto shared = of("{optimizer: nvme, gradients: nvme, parameters: nvme}", kSixteen);
  CHECK(tier(shared, Tier::nvme).per_node == doctest::Approx(16 * psi));  // one node
  CHECK(tier(shared, Tier::nvme).per_gpu == doctest::Approx(psi));
  // A tier that is too small says so, and nothing fits.
  const auto tight = of("{optimizer: host, gradients: host}", {"cluster.host.memory=2GB"});
  CHECK(tier(tight, Tier::host).fits == false);
  CHECK(tight.summary.fits == false);
  CHECK(tight.summary.fits_device == true);
}

TEST_CASE("10 B parameters on one V100 of 32 GB: with ZeRO-Offload, and not without") {
  const auto fits = [](const Sets& sets) { return predicted_file("gpt-10b-offload-1xv100.yaml", sets).summary.fits; };
  CHECK(fits({}) == true);
  CHECK(fits({"training.offload={}"}) == false);
  CHECK(fits({"training.offload={optimizer: host}"}) == false);  // gradients stay
  CHECK(fits({"model.layers=70"}) == false);
  CHECK(fits({"model.layers=200", "training.offload={optimizer: host, gradients: host, parameters: host}"}) == true);
}

TEST_CASE("a step that waits for one link has the efficiency of ZeRO-Infinity, eq. 6") {
  // Nothing overlaps: each part is fetched when needed, and gradients leave when all are there. The host updates in no
  // time.
  const Sets serial{"training.overlap.gradients=false", "training.overlap.parameters=false",
                    "cluster.host.memory_bandwidth=1000TB/s", "cluster.host.core_bandwidth=1000TB/s"};
  for (const int micro : {1, 4})
    for (const char* rate : {"1GB/s", "10GB/s", "70GB/s"}) {
      const auto at = with(serial, {fmt::format("batch={{global: {0}, micro: {0}}}", micro),
                                    fmt::format("cluster.host.pcie.bandwidth={}", rate)});
      const auto alone = predicted(kSmall, at);
      const auto waits =
          predicted(kSmall, with(at, {"training.offload={optimizer: host, parameters: host, prefetch: 0}"}));
      const auto& moved = waits.summary.traffic.per_gpu;
      CHECK(moved.offload_out == doctest::Approx(2 * parameters(waits)).epsilon(.01));  // gradients
      // Parameters for the forward, and for the backward with what it computes again; both ends stay meanwhile.
      CHECK(moved.offload_in > 3 * parameters(waits));
      CHECK(moved.offload_in < 4 * parameters(waits));
      const double update = to_seconds(alone.summary.breakdown[static_cast<std::size_t>(graph::Category::optimizer)]);
      const double computes = seconds_of(alone) - update;
      const double flops = waits.lowered->hardware_flops.value();
      const double formula =
          models::efficiency(flops / (moved.offload_in + moved.offload_out),
                             waits.lowered->scenario.concrete->cluster.host.pcie->value(), flops / computes);
      CHECK(computes / seconds_of(waits) == doctest::Approx(formula).epsilon(.01));
    }
}

TEST_CASE("states of the optimizer over one link: read, updated, written") {
  const Sets serial{"cluster.host.memory_bandwidth=1000TB/s",
                    "cluster.host.core_bandwidth=1000TB/s",
                    "cluster.host.pcie.bandwidth=1000TB/s",
                    "cluster.host.nvme={read: 2GB/s, write: 2GB/s}",
                    "model.layers=4",
                    "model.vocabulary=1000"};  // one tile
  const auto alone = predicted(kSmall, serial);
  const auto waits = predicted(kSmall, with(serial, {"training.offload={optimizer: nvme, gradients: host}"}));
  const double computes =
      seconds_of(alone) - to_seconds(alone.summary.breakdown[static_cast<std::size_t>(graph::Category::optimizer)]);
  CHECK(seconds_of(waits) == doctest::Approx(computes + 24 * parameters(waits) / 2e9).epsilon(.01));
}

TEST_CASE("checkpoints over one slow link") {
  // So slow that computing hides nothing worth a hundredth; b s h elements of 2 bytes a layer, out and back.
  const auto slow = predicted(kSmall, {"cluster.host.pcie.bandwidth=1MB/s", "training.offload={activations: host}"});
  const double bytes = 2 * 12 * 2. * 2 * 1024 * 1024;
  CHECK(slow.summary.traffic.per_gpu.offload_out == bytes / 2);
  CHECK(slow.summary.traffic.per_gpu.offload_in == bytes / 2);
  CHECK(seconds_of(slow) == doctest::Approx(bytes / 1e6).epsilon(.01));
}

TEST_CASE("the aggregate rate of all GPUs' links grows with them where each keeps a share, not with one owner") {
  const auto all = with(kSixteen, {"cluster.host.pcie.bandwidth=100MB/s", "training.offload.optimizer=host",
                                   "training.offload.parameters=host", "training.overlap.parameters=false",
                                   "cluster.host.memory_bandwidth=1000TB/s"});
  const auto owned = with(all, {"training.offload.owner=one"});
  const auto apart = predicted(kSmall, all), one = predicted(kSmall, owned);
  CHECK(one.summary.traffic.per_gpu.offload_in ==
        doctest::Approx(apart.summary.traffic.per_gpu.offload_in).epsilon(.01));
  // Parameters come twice: over sixteen links, or over one at a time.
  const double apart_s = apart.summary.traffic.per_gpu.offload_in / 1e8;
  CHECK(seconds_of(one) - seconds_of(apart) == doctest::Approx(15 * apart_s).epsilon(.05));
}

TEST_CASE("links, host memory and disks are shared by those behind them") {
  const Sets offload{"training.offload={optimizer: nvme, gradients: nvme, parameters: nvme}"};
  const auto step = [&](const Sets& sets) { return seconds_of(with(with(kSixteen, offload), sets)); };
  const double usual = step({});
  CHECK(step({"cluster.host.pcie.gpus_per_link=4"}) > usual);
  CHECK(step({"cluster.host.nvme.read=10GB/s"}) > usual);
  CHECK(step({"cluster.host.nvme.write=5GB/s"}) > usual);
  CHECK(step({"cluster.host.memory_bandwidth=40GB/s"}) > usual);
  CHECK(step({"cluster.host.core_bandwidth=1GB/s"}) > usual);
  // One disk per node serves all its GPUs: sixteen shares of a state take as long as the whole.
  const Sets reads{"training.offload={optimizer: nvme, gradients: host}", "cluster.host.nvme={read: 1GB/s}",
                   "cluster.host.memory_bandwidth=1000TB/s", "cluster.host.core_bandwidth=1000TB/s"};
  const auto shared = predicted(kSmall, with(kSixteen, reads));
  CHECK(seconds_of(shared) > 12 * parameters(shared) / 1e9);
}

TEST_CASE("a delayed update runs under the step, but for what comes back") {
  const Sets slow{"cluster.host.memory_bandwidth=5GB/s"};
  const auto offload = [&](const char* more) {
    return with(slow, {fmt::format("training.offload={{optimizer: host, gradients: host{}}}", more)});
  };
  const auto prompt = predicted(kSmall, offload("")), delayed = predicted(kSmall, offload(", delayed_update: true"));
  const double update = 28 * parameters(prompt) / 5e9 / .64, back = 2 * parameters(prompt) / 5e9;
  CHECK(update > seconds_of(predicted(kSmall, slow)));  // longer than computing
  CHECK(seconds_of(delayed) == doctest::Approx(update + back).epsilon(.2));
  CHECK(seconds_of(delayed) < seconds_of(prompt));
}

TEST_CASE("one step, whatever the detail") {
  for (const char* offload : {"{optimizer: host, gradients: host, activations: host}",
                              "{optimizer: nvme, gradients: nvme, parameters: nvme}"}) {
    const Sets sets{std::string("training.offload=") + offload, "batch={global: 4, micro: 2}"};
    const auto coarse = predicted(kSmall, sets), layers = predicted(kSmall, with(sets, {"simulate.detail=layer"})),
               fine = predicted(kSmall, with(sets, {"simulate.detail=operator"}));
    CHECK(seconds_of(coarse) == seconds_of(layers));
    CHECK(seconds_of(fine) == doctest::Approx(seconds_of(coarse)).epsilon(1e-3));
    CHECK(coarse.summary.peak.allocated == layers.summary.peak.allocated);
    CHECK(fine.summary.peak.allocated == doctest::Approx(coarse.summary.peak.allocated).epsilon(.01));
    for (const auto& t : coarse.summary.tiers) CHECK(tier(fine, t.tier).per_node == t.per_node);
  }
  const Sets four{"cluster.gpus=4", "parallelism={data: 2, tensor: 2, zero: 2}", "batch={global: 8, micro: 2}",
                  "training.offload={optimizer: host, gradients: host}"};
  CHECK(seconds_of(four) == seconds_of(with(four, {"simulate.symmetry=off"})));
}

TEST_CASE("checkpoints cut over a tensor group: a part of the memory for one gather each") {
  const Sets two{"cluster.gpus=4", "parallelism={tensor: 4}"};
  const auto whole = predicted(kSmall, two),
             cut = predicted(kSmall, with(two, {"training.partition_activations=device"})),
             away = predicted(kSmall, with(two, {"training.partition_activations=host"}));
  const double checkpoint = 2. * 2 * 1024 * 1024;
  const auto activations = [](const answer::Result& p) {
    Bytes most;
    for (const auto& point : timeline::memory_curve(p.graph(), p.timeline, RankId(0)))
      most = std::max(most, point.live[static_cast<std::size_t>(graph::MemoryCategory::activations)]);
    return double(most.count());
  };
  CHECK(activations(whole) - activations(cut) > 10 * .75 * checkpoint);
  CHECK(activations(away) < activations(cut));
  // A ring moves (t - 1) / t of it on each rank; 12 b s h a layer are there without (2101.06840's count): under a
  // tenth.
  const double more = cut.summary.traffic.per_gpu.tensor - whole.summary.traffic.per_gpu.tensor;
  CHECK(more == doctest::Approx(12 * .75 * checkpoint));
  CHECK(more < .1 * whole.summary.traffic.per_gpu.tensor);
  CHECK(seconds_of(cut) > seconds_of(whole));
  CHECK(away.summary.traffic.per_gpu.offload_out == 12 * checkpoint / 4);
  CHECK(away.summary.traffic.per_gpu.offload_in == 12 * checkpoint / 4);
}

// Korthikanti table 2: a layer keeps T h (34 + 5 a s/h) bytes, here T h 114 with T = 2,048.
TEST_CASE("a share of what layers keep waits on the host, at any detail") {
  const double layer = 2048 * 1024 * 114.;
  const auto away = [](const char* activations, const Sets& more = {}) {
    return predicted(
        kSmall, with({"training.recompute=none", std::string("training.offload.activations=") + activations}, more));
  };
  const auto stays = predicted(kSmall, {"training.recompute=none"});
  for (const double share : {.25, .5}) {
    const auto some = away(fmt::format("{{share: {}}}", share).c_str());
    CHECK(some.summary.traffic.per_gpu.offload_out == doctest::Approx(12 * share * layer).epsilon(1e-4));
    CHECK(some.summary.traffic.per_gpu.offload_in == some.summary.traffic.per_gpu.offload_out);
    CHECK(some.summary.peak.allocated < stays.summary.peak.allocated);
    CHECK(kept(tier(some, Tier::host), graph::MemoryCategory::activations) ==
          doctest::Approx(12 * share * layer).epsilon(1e-4));
  }
  // The layer's input, 2 of the 114, stays.
  const auto all = away("{share: 1}");
  CHECK(all.summary.traffic.per_gpu.offload_out == doctest::Approx(12 * layer * 112 / 114).epsilon(1e-4));
  CHECK(away("{layers: 3}").summary.traffic.per_gpu.offload_out ==
        doctest::Approx(3 * layer * 112 / 114).epsilon(1e-4));
  CHECK(seconds_of(away("{share: 0}")) == seconds_of(stays));
  for (const char* detail : {"stage", "layer", "operator"})
    CHECK(seconds_of(away("{share: 0.5}", {std::string("simulate.detail=") + detail})) ==
          doctest::Approx(seconds_of(away("{share: 0.5}"))).epsilon(1e-9));
}

TEST_CASE("what no rule allows is refused with the way out") {
  const auto refused = [](const Sets& sets, const char* why) {
    CAPTURE(why);
    const auto said = refusal(kSmall, sets);
    CAPTURE(said);
    CHECK(says(said, why));
  };
  refused({"training.offload={parameters: nvme}"}, "set training.offload.optimizer to nvme");
  refused({"training.offload={optimizer: host, gradients: nvme}"}, "set training.offload.optimizer to nvme");
  refused({"training.offload={activations: host}", "training.recompute=none"}, "set training.recompute to full");
  refused({"training.offload={activations: {share: 0.5}}"}, "for layers that keep their activations");
  refused({"training.offload={activations: {to: nvme, share: 0.5}}", "training.recompute=none"}, "set it to host");
  refused({"training.offload={optimizer: host, delayed_update: true}"}, "gradients of the previous step");
  refused({"training.offload={optimizer: host, owner: one}"}, "which of several replicas");
  refused(with(kSixteen, {"parallelism.zero=0", "training.offload={optimizer: host}"}),
          "parallelism.zero to 1, 2 or 3");
  refused(with(kSixteen, {"parallelism.zero=1", "training.offload={optimizer: host, gradients: host}"}), "zero to 2");
  refused(with(kSixteen, {"parallelism.zero=2", "training.offload={optimizer: host, parameters: host}"}), "zero to 3");
  refused({"training.partition_activations=device"}, "set parallelism.tensor to 2 or more");
  refused({"cluster={use: l40s-pcie, gpus: 1}", "training.offload={optimizer: host}"},
          "'cluster.host.memory' is needed");
  refused({"training.offload={optimizer: host, gradients: host, parameters: host, delayed_update: true}"},
          "leave training.offload.parameters on the device");
}

TEST_CASE("without overlap offloading is no faster than with it, and both use the host's update rate") {
  for (const std::string machine : {"cluster={use: gb200-nvl72, gpus: 1}", "cluster={use: dgx-h100, gpus: 1}",
                                    "cluster={use: dgx2-v100-32g, gpus: 1}"})
    for (const std::string batch : {"batch={global: 2, micro: 2}", "batch={global: 64, micro: 2}"}) {
      CAPTURE(machine);
      CAPTURE(batch);
      const auto p = predicted(kSmall, {machine, batch, "training.offload={optimizer: host, gradients: host}",
                                        "framework={use: deepspeed-2021}"});
      REQUIRE(p.summary.offload_efficiency);
      CHECK(p.summary.offload_efficiency->together <= p.summary.offload_efficiency->simulated);
    }
}

// A Grace updates a billion parameters in .098 s with DeepSpeed's CPU-Adam (28 bytes each, configs/frameworks), where
// it serves one GPU; two share it, and a rack has 36.
TEST_CASE("a job on part of a rack has the hosts of its GPUs, and takes what their memory takes") {
  const auto host_seconds = [](int gpus) {
    const auto p = predicted(kSmall, {fmt::format("cluster={{use: gb200-nvl72, gpus: {}}}", gpus),
                                      fmt::format("parallelism={{data: {}, zero: 2}}", gpus),
                                      fmt::format("batch={{global: {}, micro: 2}}", 2 * gpus),
                                      "training.offload={optimizer: host, gradients: host}"});
    double parameters = 0, took = 0;
    const auto works = p.lowered->graph.works();
    for (std::size_t w = 0; w < works.size(); ++w)
      if (const auto* step = std::get_if<graph::HostStep>(&works[w]))
        parameters += step->parameters, took += to_seconds(p.lowered->durations[w]);
    return took / parameters * 1e9;
  };
  CHECK(host_seconds(1) == doctest::Approx(.098).epsilon(.02));
  CHECK(host_seconds(2) == doctest::Approx(28 / 225.).epsilon(.02));  // half of its cores
  CHECK(host_seconds(72) == doctest::Approx(host_seconds(2)).epsilon(1e-6));
}
