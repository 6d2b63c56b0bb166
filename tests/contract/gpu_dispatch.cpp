// What is dispatched to GPUs, held against the rules of streams, events, memory and NCCL, and against the training of
// one rank on the CPU: every schedule, ZeRO stage and tensor-parallel layout that the CPU tests train, as virtual
// stages on one GPU and with a GPU per process. Nothing here runs on a GPU; the kernels are the GPU's own sources, as
// host code.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../serially.hpp"
#include "base/error.hpp"
#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "gpu/gpu_backend.hpp"
#include "kernels/host.hpp"
#include "loopback/loopback.hpp"
#include "recorder/processes.hpp"
#include "recorder/recorder.hpp"
#include "schedule/registry.hpp"
#include "timeline/memory.hpp"

namespace rehearsal {
namespace {

using Sets = std::vector<std::string>;
using test::World;

const std::string kGpt = PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
const Sets kSmall{"model.hidden=32", "model.sequence=8",           "model.vocabulary=64",
                  "batch.micro=1",   "model.tie_embeddings=false", "training.optimizer=sgd"};

Sets with(Sets sets, std::initializer_list<std::string> more) {
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

// Trains on recorders in both places and once serially on the CPU.
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
    World world(host_kernels(seed));
    const auto performed = explore::perform(*rehearsed.question, *backend_at(place, world), options);
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
  CHECK(std::vector<std::string>(trained.begin(), trained.end()) == schedule::registry().names());
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
  const auto what = explore::load_performable(
      kGpt, with(kSmall, {"parallelism={pipeline: 2, data: 2}", "model.layers=2", "batch.global=8", "schedule=zb-h1"}),
      backend::Compute::real, "loopback");
  const auto rehearsed = answer::predict(what.scenario);
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  options.warmup = 0, options.iterations = 1;
  options.times_matter = false;
  options.starts = rehearsed.timeline.start;
  for (const Place place : {Place::virtual_stages, Place::processes}) {
    // Rules alone: no kernel needs to compute.
    const auto run = [&](std::uint64_t forgotten) {
      auto world =
          std::make_unique<World>(World::Manner{.seed = 5, .multiprocessors = 8 * 16, .forgets_wait = forgotten});
      explore::perform(*rehearsed.question, *backend_at(place, *world), options);
      return world;
    };
    const auto whole = run(0);
    REQUIRE(whole->broken().empty());
    const std::uint64_t waits = whole->calls["wait"];
    std::size_t found = 0, tried = 0;
    for (std::uint64_t n = 1; n <= waits; n += 7) found += !run(n)->broken().empty(), ++tried;
    CAPTURE(static_cast<int>(place));
    CAPTURE(waits);
    MESSAGE(fmt::format("{} of {} forgotten waits were found", found, tried));
    CHECK(3 * found >= tried);  // those that only say when something starts or ends protect no memory
  }
}

TEST_CASE("a recorded iteration, replayed, trains the same") {
  for (const char* optimizer : {"sgd", "adamw"})
    check_trains(with(kSmall, {"parallelism={pipeline: 2, data: 2, zero: 1}", "model.layers=2", "batch.global=8",
                               fmt::format("training.optimizer={}", optimizer)}),
                 7, true);
}

}  // namespace rehearsal
