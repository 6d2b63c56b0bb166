// Parameter servers (Li et al., OSDI 2014) against the capacity of their links: with negligible computation the step
// takes the time of the servers' NICs. The program has no formula for that: it follows from the shared links.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// 1.2 billion parameters in small tensors behind slow NICs: the last bucket and all computation are below 1 % of a
// step.
const std::string kWorkers = R"(version: 1
model: {family: gpt, layers: 96, hidden: 1024, heads: 8, vocabulary: 1024, sequence: 8}
cluster: {use: dgx-a100-80g, nodes: 8, links: {scale_out: {bandwidth: 0.1GB/s, message_efficiency: 1}}}
parallelism: {data: 64}
data_parallel: {kind: parameter-server}
batch: {global: 64, micro: 1}
training: {precision: bf16, bucket: 1MB}
framework: {use: megatron-2021, gradient_overlap: always}
)";
constexpr double kNic = 1e8, kGradient = 4, kParameter = 2;  // bytes/s, bytes

std::string set(const char* key, const std::string& value) { return std::string("data_parallel.") + key + "=" + value; }

double parameters(const answer::Result& run) {  // of a synchronous worker
  return held(run.summary.ranks.front(), graph::MemoryCategory::parameters) / kParameter;
}
const answer::RankSummary& server(const answer::Result& run) {
  for (const auto& rank : run.summary.ranks)
    if (rank.rank >= run.summary.gpus) return rank;
  FAIL("there is no server");
  return run.summary.ranks.front();
}

}  // namespace

TEST_CASE("a step takes what servers take in through their NICs: k Psi / (S bw)") {
  for (const int servers : {1, 2, 8, 64})
    for (const std::string update : {"server", "worker"}) {
      CAPTURE(servers);
      CAPTURE(update);
      const auto run = predicted(kWorkers, {set("servers", std::to_string(servers)), set("update", update)});
      const double bound = 64 * parameters(run) * kGradient / (servers * kNic);
      CHECK(to_seconds(run.summary.iteration) > bound);
      CHECK(to_seconds(run.summary.iteration) < 1.01 * bound);
    }
}

TEST_CASE("in one bucket, gradients come in and then parameters go out") {
  for (const int servers : {1, 8, 64}) {
    CAPTURE(servers);
    const auto run = predicted(kWorkers, {set("servers", std::to_string(servers)), "training.bucket=100GB"});
    const double bound = 64 * parameters(run) * (kGradient + kParameter) / (servers * kNic);
    CHECK(to_seconds(run.summary.iteration) > bound);
    CHECK(to_seconds(run.summary.iteration) < 1.01 * bound);
  }
}

TEST_CASE("without sharing a server is held back by its own sends alone, one after the other") {
  const auto shared = predicted(kWorkers, {}), alone = predicted(kWorkers, {"simulate.contention=off"});
  CHECK(to_seconds(alone.summary.iteration) < .51 * to_seconds(shared.summary.iteration));
}

TEST_CASE("a server beside each worker moves what a ring all-reduce moves: 2 (k - 1) / k Psi") {
  const Sets nodes = {"cluster.gpus_per_node=1", "cluster.links.scale_out.per_node=1", "parallelism.data=8",
                      "batch.global=8"};
  const auto run =
      predicted(kWorkers, with(nodes, {set("servers", "8"), set("placement", "colocated"), set("update", "worker")}));
  const auto ring = predicted(kWorkers, with(nodes, {"data_parallel=all-reduce"}));
  const double moved = 2 * 7 / 8. * parameters(run) * kGradient;
  REQUIRE(ring.summary.traffic.data_parallel);
  CHECK(ring.summary.traffic.data_parallel->closed_form_bytes == doctest::Approx(moved).epsilon(1e-6));
  CHECK(run.summary.traffic.all_gpus.data == doctest::Approx(8 * moved).epsilon(1e-6));
  CHECK(to_seconds(run.summary.iteration) > moved / kNic);
  CHECK(to_seconds(run.summary.iteration) < 1.01 * moved / kNic);
}

TEST_CASE("beside workers of whole nodes servers are not asked by a node at once") {
  const auto run = predicted(kWorkers, {set("servers", "64"), set("placement", "colocated"), set("update", "worker")});
  // Each GPU has a NIC, which 56 of 64 servers are behind.
  const double bound = 2 * 56 / 64. * parameters(run) * kGradient / kNic;
  CHECK(to_seconds(run.summary.iteration) > bound);
  CHECK(to_seconds(run.summary.iteration) < 1.05 * bound);
}

TEST_CASE("who updates holds the optimizer's states") {
  using graph::MemoryCategory;
  const auto at_server = predicted(kWorkers, {set("servers", "2")});
  const auto at_worker = predicted(kWorkers, {set("servers", "2"), set("update", "worker")});
  const double psi = parameters(at_server), half = psi / 2;
  const auto& worker = at_server.summary.ranks.front();
  CHECK(held(worker, MemoryCategory::optimizer) == 0);
  CHECK(held(worker, MemoryCategory::gradients) == doctest::Approx(4 * psi).epsilon(1e-6));
  CHECK(held(server(at_server), MemoryCategory::parameters) == doctest::Approx(2 * half).epsilon(1e-6));
  CHECK(held(server(at_server), MemoryCategory::gradients) == doctest::Approx(4 * half).epsilon(1e-6));
  CHECK(held(server(at_server), MemoryCategory::optimizer) == doctest::Approx(12 * half).epsilon(1e-6));
  CHECK(held(at_worker.summary.ranks.front(), MemoryCategory::optimizer) == doctest::Approx(12 * psi).epsilon(1e-6));
  CHECK(held(server(at_worker), MemoryCategory::parameters) == 0);
  CHECK(held(server(at_worker), MemoryCategory::gradients) == doctest::Approx(4 * half).epsilon(1e-6));
  CHECK(held(server(at_worker), MemoryCategory::optimizer) == 0);
}

TEST_CASE("every rank by itself takes the time of its class") {
  for (const std::string place : {"dedicated", "colocated"})
    for (const int servers : {3, 16}) {
      CAPTURE(place);
      CAPTURE(servers);
      const Sets sets = {"model.layers=4",
                         "parallelism.data=16",
                         "batch.global=16",
                         "cluster.nodes=2",
                         set("servers", std::to_string(servers)),
                         set("placement", place)};
      const auto folded = predicted(kWorkers, sets);
      const auto whole = predicted(kWorkers, with(sets, {"simulate.symmetry=off"}));
      CHECK(to_seconds(folded.summary.iteration) == to_seconds(whole.summary.iteration));
      if (servers == 16) CHECK(folded.graph().ranks().size() < whole.graph().ranks().size());
      CHECK(folded.summary.traffic.all_gpus.data == whole.summary.traffic.all_gpus.data);
    }
}

TEST_CASE("gradients go out under the backward where the framework overlaps, after it where it does not") {
  const Sets fast = {"cluster.links.scale_out.bandwidth=25GB/s", "model.layers=24", "batch.sequence=2048",
                     set("servers", "64"), "training.bucket=25MB"};
  const auto under = predicted(kWorkers, with(fast, {"training.overlap.gradients=true"}));
  const auto after = predicted(kWorkers, with(fast, {"training.overlap.gradients=false"}));
  CHECK(under.summary.iteration < after.summary.iteration);
}

TEST_CASE("a slow worker holds up all others") {
  const Sets sets = {"cluster.links.scale_out.bandwidth=25GB/s", "model.layers=16", "batch.sequence=2048",
                     set("servers", "64")};
  const auto sound = predicted(kWorkers, sets);
  const auto slow = predicted(kWorkers, with(sets, {"faults=[{gpu: 13, slowdown: 2}]"}));
  CHECK(to_seconds(slow.summary.iteration) > 1.3 * to_seconds(sound.summary.iteration));
}

TEST_CASE("what a job pays for and what draws power are the same machines") {
  const Sets job{"data_parallel.servers=4",
                 "job={steps: 1000, gpu_hour: 2, currency: USD, power: {gpu: 500W, node: 0W, pue: 1}}"};
  const auto total = [&](const Sets& more) {
    const auto run = predicted(kWorkers, with(job, more));
    REQUIRE(run.summary.job);
    const auto& all = run.summary.job->expected;
    CHECK(*all.energy_mwh == doctest::Approx(all.gpu_hours * 500e-6));
    CHECK(*all.cost == doctest::Approx(2 * all.gpu_hours));
    return all.gpu_hours / (all.days * 24);
  };
  CHECK(total({}) == doctest::Approx(64 + 4 * 8));  // each server on a node of its own
  CHECK(total({"data_parallel.placement=colocated"}) == doctest::Approx(64));
}

TEST_CASE("servers of this program's own kernels take in no more than their NICs let through") {
  const std::string own = R"(version: 1
model: {family: gpt, layers: 4, hidden: 256, heads: 4, vocabulary: 8192, sequence: 64}
cluster:
  gpu: assumed-cpu
  gpus_per_node: 1
  nodes: 4
  links:
    scale_up: {bandwidth: 5GB/s}
    scale_out: {bandwidth: 400Mb/s, latency: 60us, per_node: 1, efficiency: 0.95, message_efficiency: 0.95}
  topology: one-switch
parallelism: {data: 4}
data_parallel: {kind: parameter-server, placement: colocated}
batch: {global: 16, micro: 2}
training: {precision: fp32, optimizer: sgd}
framework: native
)";
  constexpr double kStream = 400e6 / 8 * .95;
  for (const int servers : {1, 2, 4}) {
    CAPTURE(servers);
    const auto run = predicted(own, {set("servers", std::to_string(servers))});
    const double gradients = held(run.summary.ranks.front(), graph::MemoryCategory::gradients);
    CHECK(to_seconds(run.summary.iteration) > 3 * gradients / (servers * kStream));
  }
}
