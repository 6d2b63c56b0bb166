// Workers that may run ahead of each other (Ho et al., NeurIPS 2013): messages in flight while they compute, and the
// age of the parameters that they compute with.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "engine/sim.hpp"
#include "lower/delayed.hpp"
#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// One GPU per node, one bucket, and nearly free messages: only the order of completion matters.
const std::string kTwo = R"(version: 1
model: {family: gpt, layers: 12, hidden: 1024, heads: 8, vocabulary: 1024, sequence: 2048}
cluster: {use: dgx-a100-80g, nodes: 2, gpus_per_node: 1,
          links: {scale_out: {per_node: 1, bandwidth: 100000GB/s, message_efficiency: 1}}}
parallelism: {data: 2}
data_parallel: {kind: parameter-server}
batch: {global: 2, micro: 1}
training: {precision: bf16, bucket: 100GB}
framework: {use: megatron-2021, gradient_overlap: never}
)";

std::string delay(const std::string& d) { return "data_parallel.delay=" + d; }
const Sets kSlow = {"faults=[{gpu: 1, slowdown: 2}]"};
double iteration(const answer::Result& run) { return to_seconds(run.summary.iteration); }
const answer::Served& served(const answer::Result& run) {
  REQUIRE(run.summary.served);
  return *run.summary.served;
}

}  // namespace

TEST_CASE("two workers, one of them half as fast, by hand") {
  // The slow worker takes 2, the fast one 1; a message arrives at once, but after its sender has gone on.
  const auto one = predicted(kTwo, with(kSlow, {delay("0")}));
  CHECK(served(one).staleness_mean == 0);
  CHECK(served(one).staleness_max == 0);
  CHECK(served(one).versions == 1);
  CHECK(served(one).updates_per_sample == .5);

  // delay 1: iteration i begins with the sums of all iterations before i - 1. The slow one goes on at 2i, just before
  // its own gradients of i - 1 are in the sum; the fast one waits for that sum and is ahead by one: both are 1 behind.
  const auto ahead = predicted(kTwo, with(kSlow, {delay("1")}));
  CHECK(served(ahead).staleness_mean == 1);
  CHECK(served(ahead).staleness_max == 1);
  CHECK(served(ahead).versions == 2);

  // delay 2: the slow one as before; the fast one is one more iteration ahead and does not wait for it.
  const auto further = predicted(kTwo, with(kSlow, {delay("2")}));
  CHECK(served(further).staleness_mean == 1.5);
  CHECK(served(further).staleness_max == 2);
  // Even so it cannot go faster than its slowest worker.
  CHECK(iteration(further) == doctest::Approx(iteration(ahead)).epsilon(1e-6));

  // Unbounded: in a time of 2 there are 2 updates of the fast one and 1 of the slow one. Each computes with what came
  // back of its iteration before the last, made 2 of its own iterations before its gradients arrive. Meanwhile the slow
  // one has pushed once itself and the fast one 4 times; the fast one once, and the slow one once: (5 + 2 + 2) / 3
  // updates of one worker, of which 2 are a step.
  const auto free = predicted(kTwo, with(kSlow, {delay("unbounded")}));
  CHECK(served(free).staleness_mean == doctest::Approx(1.5).epsilon(.05));
  CHECK(served(free).staleness_max == 2.5);
  CHECK(served(free).updates_per_sample == 1);
  // As many steps as 1 + 1/2 workers make, by the times that they compute (the slow one's host is as fast as any).
  double rate = 0;
  for (const auto& rank : free.summary.ranks)
    if (rank.rank < 2) rate += 1 / to_seconds(rank.busy);
  CHECK(served(free).steps_per_s == doctest::Approx(rate / 2).epsilon(.03));
}

TEST_CASE("workers that update wait for sums as old as the delay") {
  for (const int d : {1, 2, 3}) {
    CAPTURE(d);
    const auto run = predicted(kTwo, with(kSlow, {delay(std::to_string(d)), "data_parallel.update=worker"}));
    CHECK(served(run).staleness_mean == d);
    CHECK(served(run).staleness_max == d);
  }
}

TEST_CASE("the gain of a delay: waiting that disappears") {
  const Sets wires = {"cluster.links.scale_out.bandwidth=25GB/s"};
  SUBCASE("a slow worker") {
    const Sets faster = {"cluster.links.scale_out.bandwidth=100GB/s"};
    const auto sync = predicted(kTwo, with(with(faster, kSlow), {delay("0")}));
    const auto ahead = predicted(kTwo, with(with(faster, kSlow), {delay("1")}));
    const auto free = predicted(kTwo, with(with(faster, kSlow), {delay("unbounded")}));
    CHECK(iteration(ahead) < .8 * iteration(sync));
    CHECK(iteration(free) < .9 * iteration(ahead));
  }
  SUBCASE("communication, where all are alike") {
    const auto sync = predicted(kTwo, with(wires, {delay("0")})), ahead = predicted(kTwo, with(wires, {delay("1")}));
    CHECK(iteration(ahead) < .7 * iteration(sync));
    // Either the workers always compute, or the server's links are always busy.
    const auto& program = ahead.graph().program_of(ahead.graph().ranks().front());
    Time computed;
    for (std::size_t i = 0; i < program.size(); i++)
      if (program.lane[i] == graph::Lane::compute)
        computed = computed + ahead.lowered->durations[program.work[i].index()];
    double busiest = 0;
    for (const auto& link : ahead.summary.traffic.links) busiest = std::max(busiest, link.busy_share);
    CHECK(std::max(busiest, to_seconds(computed) / iteration(ahead)) == doctest::Approx(1).epsilon(.02));
  }
  SUBCASE("more of it is never slower") {
    double before = 1e9;
    for (const char* d : {"0", "1", "2", "4", "unbounded"}) {
      CAPTURE(d);
      const auto now = iteration(predicted(kTwo, with(with(wires, kSlow), {delay(d)})));
      CHECK(now <= before * 1.001);
      before = now;
    }
  }
}

TEST_CASE("iterations without delay, one after the other in one graph, are as long as one behind a barrier") {
  const Sets sets = {"cluster.links.scale_out.bandwidth=25GB/s", "data_parallel.placement=colocated",
                     "data_parallel.servers=2", "training.bucket=25MB"};
  for (const char* update : {"server", "worker"}) {
    CAPTURE(update);
    const auto one = predicted(kTwo, with(sets, {std::string("data_parallel.update=") + update}));
    const auto& question = *one.lowered;
    const auto several = lower::delayed(question.graph, question.scenario.data_parallel, 3);
    backend::RunOptions run;
    run.durations = question.durations, run.held = question.held, run.footprints = question.footprints;
    run.places = &question.resource_map->places;
    const auto three = engine::make_sim()->prepare(several.graph)->run(run);
    CHECK(to_seconds(three.makespan()) == doctest::Approx(3 * iteration(one)).epsilon(1e-6));
  }
}

TEST_CASE("what a delay costs of memory") {
  using graph::MemoryCategory;
  const auto held = [](const answer::Result& run, bool server, MemoryCategory category) {
    for (const auto& rank : run.summary.ranks)
      if ((rank.rank >= run.summary.gpus) == server) return double(rank.memory[std::size_t(category)].count());
    return -1.;
  };
  const auto sync = predicted(kTwo, {delay("0")});
  const auto gradients = [&](const std::string& d, bool server, const char* update) {
    const auto run = predicted(kTwo, {delay(d), std::string("data_parallel.update=") + update});
    return held(run, server, MemoryCategory::gradients) / held(sync, server, MemoryCategory::gradients);
  };
  // A sum for each iteration that may be open; on a worker what is on its way and what is made.
  CHECK(gradients("1", true, "server") == 2);
  CHECK(gradients("3", true, "server") == 4);
  CHECK(gradients("3", false, "server") == 2);
  CHECK(gradients("3", false, "worker") == 5);
  CHECK(gradients("unbounded", true, "server") == 0);
}

TEST_CASE("a report with a delay says that it is no convergence") {
  const auto says = [](const answer::Result& run) {
    for (const auto& warning : run.warnings)
      if (warning.find("more steps per second are not more convergence") != std::string::npos) return true;
    return false;
  };
  CHECK_FALSE(says(predicted(kTwo, {})));
  CHECK(says(predicted(kTwo, {delay("1")})));
  CHECK(says(predicted(kTwo, {delay("unbounded")})));
}
