// The program with GPUs through the command line: its processes, reports and exit statuses, with a stand-in GPU behind
// our own interfaces (tests/standin). Real GPU behaviour is not tested here.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "../program.hpp"

using nlohmann::json;

namespace {

const std::string kGpt = "scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml ";
const std::string kSmall =
    "--set model.hidden=32 --set model.sequence=8 --set model.vocabulary=64 --set model.layers=2 --set batch.micro=1 "
    "--set batch.global=8 ";

struct Machine {
  explicit Machine(int gpus) : gpus_(gpus) {}
  Output rehearse(const std::string& arguments, const std::string& settings = "") const {
    return shell(fmt::format(
        "cd '{}' && REHEARSAL_MODULES='{}' REHEARSAL_STANDIN_GPUS={} REHEARSAL_STANDIN_FOLDER='{}' "
        "{} '{}' {} 2>&1",
        PROJECT_ROOT, STANDIN_FOLDER, gpus_, folder_.folder.string(), settings, REHEARSE_BINARY, arguments));
  }
  int gpus_;
  Scratch folder_;
};

json parsed(const Output& output) {
  CAPTURE(output.out);
  REQUIRE(json::accept(output.out));
  return json::parse(output.out);
}

}  // namespace

TEST_CASE("a job trains on one GPU as virtual stages and on a GPU per rank as processes") {
  for (const int gpus : {1, 4})
    for (const char* layout : {"{pipeline: 2, data: 2}", "{pipeline: 2, tensor: 2}"}) {
      CAPTURE(gpus);
      CAPTURE(layout);
      const Machine machine(gpus);
      const auto run = machine.rehearse(
          fmt::format("measure {} {} --set 'parallelism={}' --backend cuda --verify --steps 2 --format json", kGpt,
                      kSmall, layout));
      CHECK(run.status == 0);
      const json result = parsed(run);
      CHECK(result["verify"]["ok"] == true);
      CHECK(result["rehearsal"]["backend"] == "cuda");
      CHECK(result["rehearsal"]["engine"] == (gpus == 1 ? "virtual stages on one GPU" : "processes"));
      CHECK(result["rehearsal"]["fidelity"] == (gpus == 1 ? "emulated" : "exact"));
    }
}

TEST_CASE("a single rank goes the way of many where it is told to, and is observed there too") {
  const auto run = Machine(1).rehearse(
      fmt::format("measure {} {} --set 'parallelism={{}}' --backend cuda --verify --steps 2 --observe --format json",
                  kGpt, kSmall),
      "REHEARSAL_ONE_RANK_APART=1");
  CHECK(run.status == 0);
  const json result = parsed(run);
  CHECK(result["verify"]["ok"] == true);
  CHECK(result["rehearsal"]["engine"] == "processes");
  REQUIRE(result["devices"].size() == 1);
  CHECK(result["devices"][0]["profiler"] == "a stand-in has no profiler");
}

TEST_CASE("ranks of torchrun's environment meet; rank 0 reports for all") {
  const Machine machine(2);
  const std::string command =
      fmt::format("measure {} {} --set 'parallelism={{pipeline: 2}}' --backend cuda --verify --steps 2 --format json",
                  kGpt, kSmall);
  Scratch store;
  const auto settings = [&](int rank) {
    return fmt::format("REHEARSAL_STORE='{}' RANK={} LOCAL_RANK={} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2",
                       (store.folder / "s").string(), rank, rank);
  };
  const std::string other = (store.folder / "other").string();
  std::thread second([&] {
    const auto run = machine.rehearse(command, settings(1));
    CHECK(run.status == 0);
    CHECK(run.out.empty());
  });
  const auto first = machine.rehearse(command, settings(0));
  second.join();
  CHECK(first.status == 0);
  CHECK(parsed(first)["verify"]["ok"] == true);
}

TEST_CASE("bf16 trains by the rules of its own tolerance") {
  const Machine machine(1);
  const auto run = machine.rehearse(
      fmt::format("measure {} {} --set 'parallelism={{pipeline: 2, data: 2, zero: 1}}' --set training.precision=bf16 "
                  "--backend cuda --verify --steps 2 --format json",
                  kGpt, kSmall));
  CHECK(run.status == 0);
  CHECK(parsed(run)["verify"]["ok"] == true);
}

TEST_CASE("timed tasks run on streams, and validate compares them with the prediction") {
  const Machine machine(1);
  const std::string teaching =
      "scenarios/teaching-1f1b-8-stages.yaml --set parallelism.pipeline=2 --set batch.microbatches=2 --set "
      "'costs={forward: "
      "5ms, backward: 5ms, weight: 5ms, transfer: 0ms}' ";
  const auto run = machine.rehearse("validate " + teaching + "--backend cuda --warmup 0 --iterations 1 --format json");
  CHECK(run.status == 0);
  const json result = parsed(run);
  CHECK(result["validate"].is_object());
}

TEST_CASE("what a machine lacks, or a rank that dies, ends the run with status 3 and says so") {
  {
    const auto none = Machine(0).rehearse("measure " + kGpt + kSmall + "--backend cuda");
    CHECK(none.status == 3);
  }
  {  // 17 partitions of 8 multiprocessors are more than 132 have
    const auto crowded = Machine(1).rehearse(
        "measure scenarios/teaching-1f1b-8-stages.yaml --set parallelism.pipeline=17 --backend cuda --iterations 1");
    CHECK(crowded.status == 3);
    CHECK(contains(crowded.out, "17 virtual stages"));
  }
  const Scratch store;
  const auto too_few =
      Machine(1).rehearse("measure " + kGpt + kSmall + "--set 'parallelism={pipeline: 2}' --backend cuda",
                          fmt::format("REHEARSAL_STORE='{}' RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2",
                                      (store.folder / "s").string()));
  CHECK(too_few.status == 3);
  CHECK(contains(too_few.out, "2 ranks of a host want a GPU each, and it has 1"));
}
