// Work dispatched to GPUs, checked against the rules of streams, events, memory and NCCL, and against the training of
// one rank on the CPU: every schedule, ZeRO stage and tensor-parallel layout that the CPU tests train, as virtual
// stages on one GPU and with one GPU per process. Nothing here runs on a GPU; the kernels are the GPU's own sources,
// compiled for the host.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../serially.hpp"
#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/zero_buffer.hpp"
#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "gpu/copy_fabric.hpp"
#include "gpu/device_executor.hpp"
#include "gpu/gpu_backend.hpp"
#include "kernels/host.hpp"
#include "loopback/loopback.hpp"
#include "performed_schedules.hpp"
#include "recorder/processes.hpp"
#include "recorder/recorder.hpp"
#include "schedule/registry.hpp"
#include "timeline/memory.hpp"

namespace rehearsal {
namespace {

using Sets = std::vector<std::string>;
using test::RecordingDevice;
using test::World;

const std::string kGpt = PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
const Sets kSmall{"model.hidden=32", "model.sequence=8",           "model.vocabulary=64",
                  "batch.micro=1",   "model.tie_embeddings=false", "training.optimizer=sgd"};

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

enum class Place { virtual_stages, processes };

void check_rules(const World& world) {
  CAPTURE(world.broken().empty() ? std::string() : world.broken().front());
  CHECK(world.broken().size() == 0);
  CHECK(world.waiting() == 0);
  CHECK(world.blocks() == 0);
}

World::Manner host_kernels(unsigned seed) {
  return {
      .seed = seed, .launch_order = seed % 2 == 1, .multiprocessors = 8 * 16, .perform = [](const kernels::Call& call) {
        kernels::perform_on_host(call);
      }};
}

std::unique_ptr<backend::Backend> backend_at(Place place, World& world) {
  return place == Place::processes ? test::processes_in_one_thread(world)
                                   : gpu::make_backend(test::recording_platform(world));
}

// Trains on recorders in both ways, and once serially on the CPU. Collectives are performed by their steps and by the
// library in turn.
void check_trains(const Sets& sets, unsigned seed, bool recorded = false) {
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto rehearsed = answer::predict(what.scenario);
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  options.warmup = 0, options.iterations = 2;
  options.times_matter = false;
  options.starts = rehearsed.timeline.start;
  options.recorded = recorded;
  const auto& reference = trained_serially(what.scenario, options);
  for (const Place place : {Place::virtual_stages, Place::processes}) {
    CAPTURE(static_cast<int>(place));
    options.collectives = (seed + unsigned(place)) % 2 == 0 ? backend::Collectives::own : backend::Collectives::library;
    World world(host_kernels(seed));
    const auto performed = explore::perform(*rehearsed.lowered, *backend_at(place, world), options);
    const auto verified = explore::verify(performed.trained, reference, explore::limits(what.scenario));
    CAPTURE(verified.worst_tensor);
    CAPTURE(verified.max_relative_difference);
    CAPTURE(verified.failures.empty() ? std::string() : verified.failures.front());
    CHECK(verified.ok);
    CHECK(verified.replica_difference == 0);
    for (std::size_t r = 0; r < performed.timeline.peak_bytes.size(); ++r)
      CHECK(performed.timeline.peak_bytes[r] ==
            timeline::memory_peak(rehearsed.graph(), rehearsed.timeline, RankId(r)).peak);
    CHECK(performed.timeline.peak_bytes.size() == rehearsed.graph().ranks().size());
    check_rules(world);
  }
}

// A step checked only by the rules: no kernel computes.
struct Unperformed {
  Unperformed(const Sets& sets, int iterations, bool recorded)
      : rehearsed(answer::predict(
            explore::load_performable(kGpt, with(with(kSmall, {"model.layers=2", "batch.global=8"}), sets),
                                      backend::Compute::real, "loopback")
                .scenario)) {
    options.compute = backend::Compute::real;
    options.warmup = 0, options.iterations = iterations;
    options.times_matter = false;
    options.starts = rehearsed.timeline.start;
    options.recorded = recorded;
  }
  std::unique_ptr<World> run(Place place, World::Manner manner) const {
    manner.seed = 5, manner.multiprocessors = 8 * 16;
    auto world = std::make_unique<World>(manner);
    explore::perform(*rehearsed.lowered, *backend_at(place, *world), options);
    return world;
  }
  answer::Result rehearsed;
  backend::RunOptions options;
};

// For the waits that join a rank's streams at the end, in order: whether no other wait implies it. A dependent task
// already waits for the last task of its dependency's stream, and is waited for in turn.
std::vector<bool> decisive_joins(const graph::Program& program) {
  std::vector<bool> awaited(program.size(), false), decisive;
  for (std::size_t task = 0; task < program.size(); ++task)
    for (const LocalTask before : program.dependencies[task]) awaited[before.index()] = true;
  for (const dispatch::Queue& queue : dispatch::queues(program).queues)
    if (queue.lane != graph::Lane::compute && !queue.tasks.empty())
      decisive.push_back(!awaited[queue.tasks.back().index()]);
  decisive.push_back(true);  // the rank itself
  return decisive;
}

std::size_t frees(const graph::Program& program) {
  std::size_t frees = 0;
  for (std::size_t task = 0; task < program.size(); ++task)
    for (const graph::BufferUse& use : program.uses[task]) frees += use.how() == graph::Access::free;
  return frees;
}

}  // namespace

TEST_CASE("every schedule trains what one rank trains, by the rules") {
  std::set<std::string> trained;
  unsigned seed = 1;
  for (const std::string& schedule : schedule::registry().names())
    for (const int chunks : {1, 2}) {
      CAPTURE(schedule);
      CAPTURE(chunks);
      try {
        check_trains(with(kSmall, {fmt::format("parallelism={{pipeline: {}, chunks: {}}}", chunks == 1 ? 4 : 2, chunks),
                                   "model.layers=4", "batch.global=8", "schedule=" + schedule}),
                     ++seed);
        trained.insert(schedule);
      } catch (const UserError& error) {
        const std::string why = error.what();
        const bool chunks_do_not_fit = why.find("chunk") != std::string::npos;
        CHECK_MESSAGE(chunks_do_not_fit, why);
      }
    }
  CHECK(std::vector<std::string>(trained.begin(), trained.end()) == performed_schedules());
}

TEST_CASE("tensor parallelism, ZeRO, recomputation and optimizers train what one rank trains, by the rules") {
  unsigned seed = 100;
  for (const char* layout : {"{tensor: 2}", "{data: 3}", "{tensor: 2, pipeline: 2, data: 2}"})
    for (const int zero : {0, 1, 2, 3}) {
      if (zero > 0 && std::string(layout).find("data") == std::string::npos) continue;
      const char* recompute = zero % 3 == 0 ? "none" : zero == 1 ? "selective" : "full";
      CAPTURE(layout);
      CAPTURE(zero);
      check_trains(with(kSmall, {fmt::format("parallelism={}", layout), fmt::format("parallelism.zero={}", zero),
                                 fmt::format("training.recompute={}", recompute), "model.layers=2", "batch.global=12",
                                 zero % 2 ? "training.optimizer=adamw" : "training.optimizer=sgd"}),
                   ++seed);
    }
  check_trains(with(kSmall, {"parallelism={pipeline: 2, data: 2}", "training.optimizer=lomo", "batch.global=4",
                             "batch.micro=2", "model.layers=2"}),
               ++seed);
  check_trains(with(kSmall, {"parallelism={pipeline: 2, data: 2}", "training.optimizer=adalomo", "batch.global=4",
                             "batch.micro=2", "model.layers=2"}),
               ++seed);
  check_trains(with(kSmall, {"parallelism={data: 2}", "training.optimizer=lomo", "training.gradient_clipping=norm",
                             "model.tie_embeddings=false", "batch.global=4", "batch.micro=2", "model.layers=2"}),
               ++seed);
}

TEST_CASE("bf16 trains what one rank trains in bf16, by the rules") {
  unsigned seed = 200;
  for (const char* layout : {"{pipeline: 2, data: 2, zero: 1}", "{tensor: 2, data: 2, zero: 3}", "{pipeline: 4}"})
    check_trains(with(kSmall, {fmt::format("parallelism={}", layout), "model.layers=4", "batch.global=8",
                               "training.precision=bf16", "training.optimizer=adamw", "schedule=1f1b"}),
                 ++seed);
}

TEST_CASE("groups of context, tensor and expert ranks train what one rank trains, by the rules") {
  unsigned seed = 300;
  const Sets mixture = {
      "model={family: moe, layers: 2, dense_layers: 1, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, experts: 4, "
      "experts_per_token: 2, expert_ffn: 24, shared_experts: 1, vocabulary: 101, sequence: 16}"};
  for (const char* form : {"ring", "all-gather", "all-to-all"})
    check_trains(with(kSmall, {"parallelism={context: 2, data: 2, zero: 1}", "model.layers=2", "batch.global=8",
                               std::string("training.context=") + form}),
                 ++seed);
  check_trains(with(kSmall, {"parallelism={tensor: 2, context: 2, sequence: true, zero: 3}", "model.layers=2",
                             "batch.global=8"}),
               ++seed);
  for (const char* layout : {"{data: 4, expert: 4}", "{tensor: 2, data: 2, expert: 2, sequence: true, zero: 1}",
                             "{tensor: 2, data: 2, expert: 2, expert_tensor: 2, zero: 2}"}) {
    CAPTURE(layout);
    check_trains(with(kSmall, {mixture.front(), std::string("parallelism=") + layout, "batch.global=8"}), ++seed);
  }
}

TEST_CASE("a wait that is forgotten is found, unless another one says the same") {
  const Unperformed what({"parallelism={pipeline: 2, data: 2}", "schedule=zb-h1"}, 1, false);
  for (const Place place : {Place::virtual_stages, Place::processes}) {
    const auto whole = what.run(place, {});
    REQUIRE(whole->broken().empty());
    const std::uint64_t waits = whole->calls["wait"];
    std::size_t found = 0, tried = 0;
    for (std::uint64_t n = 1; n <= waits; n += 7)
      found += !what.run(place, {.forgets_wait = n})->broken().empty(), ++tried;
    CAPTURE(static_cast<int>(place));
    CAPTURE(waits);
    MESSAGE(fmt::format("{} of {} forgotten waits were found", found, tried));
    CHECK(3 * found >= tried);  // those that only time the start or end of a task protect no memory
  }
}

TEST_CASE("a recorded iteration, replayed, trains the same") {
  for (const char* optimizer : {"sgd", "adamw"})
    for (const unsigned seed : {7, 8})
      check_trains(with(kSmall, {"parallelism={pipeline: 2, data: 2, zero: 1}", "model.layers=2", "batch.global=8",
                                 fmt::format("training.optimizer={}", optimizer)}),
                   seed, true);
}

TEST_CASE("timed tasks keep to their memory, by the rules") {
  const Sets mixture = {
      "model={family: moe, layers: 2, hidden: 32, heads: 4, ffn: 48, experts: 4, experts_per_token: 2, vocabulary: "
      "101, sequence: 16}",
      "parallelism={data: 4, expert: 4}", "batch.global=8"};
  for (const Sets& sets : {mixture, Sets{"parallelism={data: 3, zero: 3}", "model.layers=2", "batch.global=12"},
                           Sets{"parallelism={tensor: 2, context: 2, sequence: true}", "model.layers=2"}})
    for (const auto how : {backend::Collectives::own, backend::Collectives::library})
      for (const Place place : {Place::virtual_stages, Place::processes}) {
        CAPTURE(sets.front());
        const auto what = explore::load_performable(kGpt, with(kSmall, sets), backend::Compute::timed, "loopback");
        const auto rehearsed = answer::predict(what.scenario);
        backend::RunOptions options;
        options.collectives = how;
        options.starts = rehearsed.timeline.start;
        World world({.seed = 11, .multiprocessors = 8 * 16});
        explore::perform(*rehearsed.lowered, *backend_at(place, world), options);
        check_rules(world);
      }
}

TEST_CASE(
    "a recording with a mistake is found: a stream that does not join, a block that stays, a free behind the end") {
  std::size_t joins = 0, decisive = 0, all_frees = 0, freed = 0;
  const std::vector<Sets> layouts{
      {"parallelism={pipeline: 2, data: 2}", "schedule=1f1b"},
      {"parallelism={pipeline: 2}", "schedule=zb-h1"},
      {"parallelism={pipeline: 2, chunks: 2}", "model.layers=4", "schedule=interleaved-1f1b"},
      {"parallelism={data: 2, zero: 1}"},
      {"parallelism={data: 2, zero: 3}"},
      {"parallelism={tensor: 2, pipeline: 2}", "schedule=gpipe"}};
  for (const Sets& sets : layouts) {
    CAPTURE(sets.front());
    const Unperformed what(sets, 2, true);
    const graph::TaskGraph& graph = what.rehearsed.graph();
    for (const Place place : {Place::virtual_stages, Place::processes}) {
      CAPTURE(static_cast<int>(place));
      const auto whole = what.run(place, {});
      check_rules(*whole);
      const bool one_each = place == Place::processes;
      REQUIRE(whole->recordings.size() == (one_each ? graph.ranks().size() : 1));
      const auto finds = [&](World::Manner manner, const char* rule) {
        const auto world = what.run(place, manner);
        return std::ranges::any_of(world->broken(), [&](const auto& s) { return s.find(rule) != std::string::npos; });
      };
      for (std::size_t recording = 0; recording < whole->recordings.size(); ++recording) {
        auto& [before, after] = whole->recordings[recording];
        std::vector<bool> expected;
        std::size_t frees_of_graph = 0;
        for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
          if (one_each && r != recording) continue;
          const graph::Program& program = graph.program_of(graph.ranks()[r]);
          std::ranges::copy(decisive_joins(program), std::back_inserter(expected));
          frees_of_graph += frees(program);
        }
        for (std::size_t j = 0; j < expected.size(); ++j) {
          const std::uint64_t wait = after["wait"] - expected.size() + 1 + j;
          CAPTURE(j);
          CHECK(finds({.forgets_wait = wait}, "has not joined again") == expected[j]);
          ++joins, decisive += expected[j];
        }
        CHECK(after["free"] - before["free"] == frees_of_graph);
        all_frees += frees_of_graph;
        const std::uint64_t stride = std::max<std::uint64_t>(frees_of_graph / 5, 1);
        for (std::uint64_t n = before["free"] + 1; n <= after["free"]; n += stride) {
          CAPTURE(n);
          CHECK(finds({.forgets_free = n}, "a recording leaves 1 blocks"));
          CHECK(finds({.late_free = n}, "has not joined again"));
          ++freed;
        }
      }
    }
  }
  MESSAGE(fmt::format("{} of {} joins are decisive; {} of {} frees were forgotten, and late", decisive, joins, freed,
                      all_frees));
  CHECK(decisive >= 60);
  CHECK(freed >= 60);
}

TEST_CASE("an iteration is dated by when the device comes to it, however long after the probe of the clocks") {
  const Unperformed what({"parallelism={pipeline: 2}", "schedule=1f1b"}, 2, true);
  const graph::TaskGraph& graph = what.rehearsed.graph();
  const Time late = seconds(100);
  World world({.multiprocessors = 8 * 16, .launch = late});
  RecordingDevice device(world);
  device.partition(graph.ranks().size());
  gpu::CopyFabric fabric(graph, device, dispatch::message_depth(graph));
  gpu::DeviceExecutor executor(graph, {RankId(0), RankId(1)}, what.options, device, fabric,
                               dispatch::message_depth(graph));
  for (int step = 0; step < 4; ++step) {
    CAPTURE(step);
    if (step == 1) executor.record(step);
    const Time origin = dispatch::now();
    executor.issue(step);
    executor.finish([] {});
    const Time lag = step == 0 ? Time{} : late;
    CHECK(executor.began() - origin >= lag);
    CHECK(executor.began() - origin < lag + seconds(10));  // of the host
    for (const timeline::Spans& spans : executor.spans(origin))
      CHECK(std::ranges::min(spans.start) >= executor.began() - origin);
    CHECK(std::ranges::min(executor.spans(executor.began()).front().start) < late);
  }
}

}  // namespace rehearsal
