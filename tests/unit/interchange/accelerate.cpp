#include <doctest/doctest.h>

#include "interchange/import.hpp"

using namespace rehearsal;
using namespace rehearsal::interchange;

namespace {

Imported made(const std::string& yaml, std::vector<std::string> sets = {"model=llama3-8b"}) {
  return import({.files = {"a.yaml"}, .sets = std::move(sets)}, scenario::LaidOver({{"a.yaml", yaml}}));
}

std::string refused(const std::string& yaml) {
  try {
    made(yaml);
  } catch (const UserError& error) {
    return format(error.diagnostics()) + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("FSDP of Accelerate: GPUs, shards and copies, recomputation") {
  const auto imported = made(
      "distributed_type: FSDP\n"
      "mixed_precision: bf16\n"
      "num_processes: 16\n"
      "fsdp_config:\n"
      "  fsdp_activation_checkpointing: true\n"
      "  fsdp_reshard_after_forward: true\n"
      "  fsdp_colour: red\n"
      "parallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n"
      "  parallelism_config_dp_shard_size: 4\n"
      "  parallelism_config_tp_size: 2\n");
  const auto& scenario = *imported.scenario;
  CHECK(scenario.parallelism.tensor == 2);
  CHECK(scenario.parallelism.data == 8);
  CHECK(scenario.parallelism.shard == 4);
  CHECK(scenario.parallelism.zero == 3);
  REQUIRE(imported.draft.unknown().size() == 1);
  CHECK(imported.draft.unknown()[0].what.find("fsdp_config.fsdp_colour") == 0);
  CHECK(imported.draft.unknown()[0].where.line == 7);
  CHECK(imported.yaml.find("# a.yaml:2 mixed_precision") != std::string::npos);
  CHECK(imported.draft.origin("parallelism.data")->basis == Basis::derived);
  CHECK(imported.draft.origin("cluster.use")->basis == Basis::assumed);
}

TEST_CASE("files that contradict themselves are refused with both places") {
  const auto text = refused(
      "distributed_type: FSDP\nnum_processes: 12\nparallelism_config: {parallelism_config_tp_size: 8}\n"
      "fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n");
  CHECK(text.find("a.yaml:2") != std::string::npos);
  CHECK(text.find("12 GPUs are no multiple of tensor 8") != std::string::npos);
  CHECK(refused("distributed_type: FSDP\nnum_processes: many\n").find("'num_processes' must be a whole number") !=
        std::string::npos);
  CHECK(refused("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: z.json}\n")
            .find("z.json: the value is in that file") != std::string::npos);
}

TEST_CASE("the user goes before files, and a key that nobody knows is refused by its origin") {
  const std::string yaml = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {}\n";
  CHECK(made(yaml, {"model=llama3-8b", "parallelism.zero=2"}).scenario->parallelism.zero == 2);
  try {
    made(yaml, {"model=llama3-8b", "batch.mirco=2"});
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(format(error.diagnostics()).find("--set batch.mirco=2") != std::string::npos);
  }
}
