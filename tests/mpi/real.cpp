// The same training by MPI ranks and by loopback threads: kernels, bytes and sums are real on both sides, and neither
// knows of the other.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "explore/perform.hpp"
#include "explore/verify.hpp"
#include "launch/launch.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {
namespace {

constexpr int kSteps = 3;

using Sets = std::vector<std::string>;

scenario::Scenario load(const std::string& file, const Sets& sets, const std::string& backend) {
  return explore::load_performable(PROJECT_ROOT "/scenarios/measure/" + file, sets, backend::Compute::real, backend)
      .scenario;
}

// The first argument of a rank, which every process is started with.
constexpr const char* kOwn = "own";

backend::RunOptions steps(const std::string& collectives = kOwn) {
  backend::RunOptions options;
  options.collectives = collectives == kOwn ? backend::Collectives::own : backend::Collectives::library;
  options.compute = backend::Compute::real;
  options.times_matter = false;
  options.warmup = 0;
  options.iterations = kSteps;
  return options;
}

explore::Performed train(const scenario::Scenario& scenario, backend::Backend& backend,
                         const backend::RunOptions& options = steps()) {
  return explore::perform(answer::prepare(scenario), backend, options);
}

// By MPI, by threads, and by one rank alone: the same network, and with threads the same peaks.
void check_same(const std::string& file, const Sets& sets, const std::string& collectives = kOwn) {
  CAPTURE(file);
  CAPTURE(collectives);
  std::string all;
  for (const auto& set : sets) all += set + " ";
  CAPTURE(all);
  Sets arguments{collectives, file};
  arguments.insert(arguments.end(), sets.begin(), sets.end());
  const auto processes = launch::open("mpi", arguments);
  const auto threads = loopback::make_loopback();
  const auto scenario = load(file, sets, "mpi");
  const explore::Performed ours = train(scenario, *processes, steps(collectives)),
                           reference = train(scenario, *threads);
  const auto limits = explore::limits(scenario);
  const auto alone = train(explore::serial_reference(scenario), *threads, explore::serial_options(steps(), scenario));
  if (ours.collectives) CHECK(backend::name(*ours.collectives) == collectives);
  REQUIRE(ours.trained.loss.size() == kSteps);
  REQUIRE(!ours.trained.tensors.empty());
  const auto same = explore::verify(ours.trained, alone.trained, limits);
  std::string failures;
  for (const std::string& failure : same.failures) failures += failure + "; ";
  CAPTURE(failures);
  CAPTURE(same.max_relative_difference);
  CHECK(same.ok);
  CHECK(ours.trained.loss.back() < ours.trained.loss.front());
  CHECK(ours.timeline.iterations.size() == kSteps);
  CHECK(ours.timeline.peak_bytes == reference.timeline.peak_bytes);
  CHECK(ours.timeline.beyond_bytes == reference.timeline.beyond_bytes);
}

}  // namespace

TEST_CASE("a pipeline of matrix products, and a GPT cut all three ways, train as they do in one process") {
  check_same("mlp-gemm-pipeline-2-ranks.yaml", {});
  check_same("gpt-tiny-pp2-tp2-dp2-this-machine.yaml", {});
}

TEST_CASE("two and four ranks train what one rank trains: schedules, ZeRO, tensor parallelism, recomputation") {
  const std::string gpt = "gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
  for (const Sets& sets : std::vector<Sets>{
           {"parallelism={pipeline: 2}", "schedule=zb-h2", "training.optimizer=adamw", "simulate.iterations=2",
            "training.optimizer_sync=post-validation", "training.rollback_probability=1"},
           {"parallelism={pipeline: 2}", "schedule=seq1f1b"},
           {"parallelism={pipeline: 4}", "schedule=zb-auto"},
           {"parallelism={pipeline: 4}", "schedule=dualpipe"},
           {"parallelism={pipeline: 2, chunks: 2}", "schedule=interleaved-1f1b"},
           {"parallelism={pipeline: 2, chunks: 2}", "schedule=zb-v", "training.recompute=full"},
           {"parallelism={pipeline: 4}", "schedule=pipedream", "model.tie_embeddings=false"},
           {"parallelism={data: 2}"},
           {"parallelism={data: 2, zero: 1}"},
           {"parallelism={data: 2, zero: 2}"},
           {"parallelism={data: 4, zero: 3}", "training.recompute=selective"},
           {"parallelism={tensor: 2}"},
           {"parallelism={tensor: 2, data: 2, zero: 3}", "training.optimizer=adamw"},
       }) {
    Sets with_sgd{"training.optimizer=sgd"};
    with_sgd.insert(with_sgd.end(), sets.begin(), sets.end());
    check_same(gpt, with_sgd);
  }
}

TEST_CASE("collectives of the library train what one rank trains, too") {
  const std::string gpt = "gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
  for (const char* layout : {"{data: 2, zero: 1}", "{data: 2, zero: 2}", "{data: 4, zero: 3}", "{tensor: 2, data: 2}"})
    check_same(gpt, {"training.optimizer=sgd", std::string("parallelism=") + layout}, "library");
}

TEST_CASE("workers and servers train what one rank trains, with a delay what it trains as late") {
  const std::string gpt = "gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
  for (const char* servers :
       {"{kind: parameter-server, servers: 2, placement: colocated}", "{kind: parameter-server, servers: 1, delay: 1}",
        "{kind: parameter-server, servers: 2, update: worker, delay: 2}"})
    check_same(gpt, {"parallelism={data: 2}", "training.optimizer=adamw", "simulate.iterations=4",
                     std::string("data_parallel=") + servers});
}

TEST_CASE("states that leave the device for the host and for files train what one rank trains that keeps them") {
  const Sets small{"model.hidden=32",          "model.sequence=16",       "batch.micro=1",
                   "training.optimizer=adamw", "training.recompute=full", "model.tie_embeddings=false"};
  for (const auto& [layout, offload] : std::vector<std::pair<const char*, const char*>>{
           {"{data: 2, zero: 1}", "{optimizer: host}"},
           {"{data: 2, zero: 1}", "{optimizer: nvme, activations: host}"},
           {"{data: 2, zero: 2}", "{optimizer: host, gradients: host}"},
           {"{data: 2, zero: 2}", "{optimizer: nvme, gradients: nvme}"},
           {"{data: 2, zero: 2}", "{optimizer: host, gradients: host, delayed_update: true}"},
           {"{data: 2, zero: 3}", "{optimizer: nvme, gradients: nvme, delayed_update: true}"},
           {"{data: 2, zero: 3}", "{optimizer: host, parameters: host}"},
           {"{data: 2, zero: 3}", "{optimizer: nvme, gradients: host, parameters: host, activations: nvme}"},
           {"{data: 2, zero: 3}", "{optimizer: nvme, gradients: nvme, parameters: nvme, activations: nvme}"},
           {"{pipeline: 2}", "{optimizer: nvme, gradients: nvme, parameters: nvme, activations: host}"},
           {"{tensor: 2}", "{optimizer: host, gradients: host, parameters: host, activations: nvme}"},
           {"{tensor: 2, data: 2, zero: 3}", "{optimizer: nvme, gradients: nvme, parameters: nvme}"}}) {
    Sets sets = small;
    sets.insert(sets.end(), {std::string("parallelism=") + layout, std::string("training.offload=") + offload});
    check_same("gpt-tiny-pp2-tp2-dp2-this-machine.yaml", sets);
  }
  check_same("gpt-tiny-pp2-tp2-dp2-this-machine.yaml",
             {"parallelism={tensor: 2}", "training.recompute=full", "training.partition_activations=host"});
}

TEST_CASE("stages with layouts of their own, and skip connections over four stages, train what one rank trains") {
  const std::string gpt = "gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
  const Sets small{"model.hidden=32",        "model.sequence=16", "model.tie_embeddings=false",
                   "training.optimizer=sgd", "parallelism={}",    "batch.micro=4"};
  for (const Sets& sets : std::vector<Sets>{
           {"stages=[{}, {parallelism: {tensor: 2}}]", "resharding={strategy: broadcast, chunks: 3}"},
           {"stages=[{parallelism: {tensor: 2}}, {parallelism: {data: 2}}]", "resharding.strategy=local-allgather"},
           {"stages=[{parallelism: {tensor: 2, sequence: true}}, {parallelism: {data: 2}}]"},
           {"stages=[{parallelism: {tensor: 2}}, {}, {parallelism: {data: 2}}]", "resharding.strategy=send-recv"},
           {"parallelism={pipeline: 4}", "model.family=u-transformer", "batch.micro=1"}}) {
    Sets all = small;
    all.insert(all.end(), sets.begin(), sets.end());
    check_same(gpt, all);
  }
}

TEST_CASE("experts over four ranks, and two of each over two stages, train what one rank trains") {
  const std::string mixture = "mixtral-tiny-ep4-this-machine.yaml";
  check_same(mixture, {});
  check_same(mixture, {"parallelism={pipeline: 2, data: 4, expert: 2, zero: 1}", "schedule=zb-h1",
                       "training.optimizer=sgd", "training.recompute=full"});
}

TEST_CASE("tokens over the ranks of context and tensor groups train what one rank trains") {
  const std::string gpt = "gpt-tiny-pp2-tp2-dp2-this-machine.yaml", mixture = "mixtral-tiny-ep4-this-machine.yaml";
  for (const char* form : {"ring", "all-to-all"})
    check_same(gpt, {"parallelism={context: 2, data: 2, zero: 1}", std::string("training.context=") + form,
                     "training.optimizer=sgd"});
  check_same(gpt, {"parallelism={tensor: 2, context: 2, sequence: true}", "training.optimizer=sgd"});
  check_same(mixture, {"parallelism={tensor: 2, data: 2, expert: 2, expert_tensor: 2, sequence: true, zero: 2}",
                       "training.optimizer=sgd"});
}

TEST_CASE("layers with a state, over tensor and context ranks and in pieces, train what one rank trains") {
  const std::string states = "{kind: mamba2, heads: 8, kv_heads: 4, head_dim: 5, value_dim: 16}";
  const std::string model =
      "model={family: llama, layers: [{repeat: 1, mixer: " + states + "}, {repeat: 1}, {repeat: 1, mixer: " + states +
      "}, {repeat: 1}], hidden: 64, heads: 4, kv_heads: 4, ffn: 48, vocabulary: 101, sequence: 16}";
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={tensor: 2, pipeline: 2}"},
           {"parallelism={context: 2, data: 2, zero: 1}", "training.context=all-gather"},
           {"parallelism={pipeline: 2, data: 2}", "schedule={name: seq1f1b, pieces: 4}"},
       }) {
    Sets sets{model, "training.optimizer=sgd", "training.learning_rate=0.0005", "batch.micro=1", "batch.global=8"};
    sets.insert(sets.end(), layout.begin(), layout.end());
    check_same("gpt-tiny-pp2-tp2-dp2-this-machine.yaml", sets);
  }
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  setenv("REHEARSAL_MODULES", MODULE_FOLDER, 1);
  if (argc >= 3 && launch::is_rank()) {
    try {
      train(load(argv[2], {argv + 3, argv + argc}, "mpi"), *launch::open("mpi", {}), steps(argv[1]));
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 3;
    }
  }
  if (const auto why = launch::why_unavailable("mpi")) {
    std::printf("skipped: %s\n", why->c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
