// `rehearse measure` and `rehearse validate` through the command line: reports, files, exit statuses.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../program.hpp"
#include "base/sha256.hpp"
#include "explore/perform.hpp"
#include "loopback/loopback.hpp"
#include "timeline/compare.hpp"

using namespace rehearsal;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

Output rehearse(const std::string& arguments) {
  return shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY "' " + arguments);
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "rehearse_measure_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

// Four ranks, 1F1B, 5 ms and 10 ms: 8 micro-batches take (8 + 3) x 15 ms and six messages of 1 ms on the way in and
// out.
const std::string kTeaching =
    "scenarios/teaching-1f1b-8-stages.yaml --set parallelism.pipeline=4 --set "
    "batch.microbatches=8 --set 'costs={forward: 5ms, backward: 5ms, weight: 5ms, transfer: "
    "1ms}' ";
const std::string kLoopback = kTeaching + "--backend loopback --warmup 1 ";
const std::string kGpt = "scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml --backend loopback ";

}  // namespace

TEST_CASE("timed tasks keep to the graph and are never faster than rehearsed") {
  const auto [scenario, compute] =
      explore::load_performable(PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml",
                                {"parallelism.pipeline=4", "batch.microbatches=8",
                                 "costs={forward: 5ms, backward: 5ms, weight: 5ms, transfer: 1ms}"},
                                std::nullopt, "loopback");
  CHECK(compute == backend::Compute::timed);
  const auto rehearsed = answer::predict(scenario);
  const auto& graph = rehearsed.graph();
  const auto loopback = loopback::make_loopback();
  backend::RunOptions options;
  options.warmup = 1, options.iterations = 3;
  const auto real = explore::perform(*rehearsed.lowered, *loopback, options).timeline;
  CHECK(real.fidelity == timeline::Fidelity::timed);
  CHECK(real.iterations.size() == 3);
  CHECK(timeline::spread(real).iterations == 3);
  for (const auto& iteration : real.iterations)
    for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
      const auto& program = graph.program_of(graph.ranks()[r]);
      for (std::size_t i = 0; i < program.size(); ++i) {
        const auto task = graph.task(RankId(r), LocalTask(i)).index();
        for (const LocalTask before : program.dependencies[i])
          CHECK(iteration.end[graph.task(RankId(r), before).index()] <= iteration.start[task]);
        // In a schedule without free choices no task can end before its rehearsed end; 1 % of the whole for clocks.
        CHECK(double(iteration.end[task].count()) >=
              double(rehearsed.timeline.end[task].count()) - .01 * double(rehearsed.timeline.makespan().count()));
      }
    }
}

TEST_CASE("measure says what run says, and how the iterations spread") {
  const auto run = rehearse("measure " + kLoopback + "--iterations 4 --format json");
  REQUIRE(run.status == 0);
  const auto j = json::parse(run.out);
  const auto predicted = json::parse(rehearse("run " + kTeaching + "--format json").out);
  for (const auto& [key, value] : predicted.items()) CHECK_MESSAGE(j.contains(key), key);
  CHECK(j["rehearsal"]["backend"] == "loopback");
  CHECK(j["rehearsal"]["fidelity"] == "timed");
  CHECK(j["scenario"]["digest"] == predicted["scenario"]["digest"]);
  CHECK(j["ranks"].size() == 4);
  for (const auto& rank : j["ranks"]) CHECK(rank["count"] == 1);
  const auto& iterations = j["iterations"];
  CHECK(iterations["measured"] == 4);
  CHECK(iterations["each_s"].size() == 4);
  CHECK(iterations["median_s"] == j["iteration_s"]);
  CHECK(iterations["predicted_s"] == predicted["iteration_s"]);
  CHECK(iterations["p10_s"] <= iterations["median_s"]);
  CHECK(iterations["median_s"] <= iterations["p90_s"]);
  CHECK(iterations["disturbed"] == !iterations["disturbances"].empty());
  CHECK(j["iteration_s"].get<double>() >= .99 * predicted["iteration_s"].get<double>());
  double sum = 0;
  for (const auto& [part, seconds] : j["breakdown_s"].items()) sum += seconds.get<double>();
  CHECK(sum == doctest::Approx(j["iteration_s"].get<double>()));
}

TEST_CASE("a verified training in JSON, with the memory of every rank") {
  const auto run = rehearse("measure " + kGpt + "--verify --steps 2 --format json");
  REQUIRE(run.status == 0);
  const auto j = json::parse(run.out);
  CHECK(j["rehearsal"]["fidelity"] == "exact");
  const auto& v = j["verify"];
  CHECK(v["steps"] == 2);
  for (const char* list : {"loss", "reference_loss", "gradient_norm", "reference_gradient_norm"})
    CHECK(v[list].size() == 2);
  CHECK(v["ok"] == true);
  CHECK(v["max_unexplained_difference"] <= v["tolerance"]);
  CHECK(v["tolerance"] == 1e-5);
  CHECK(j["memory"]["equal"] == true);
  CHECK(j["memory"]["measured"].size() == 8);
  CHECK(j["memory"]["measured"] == j["memory"]["predicted_allocated"]);
  CHECK(j["iterations"]["measured"] == 2);
}

TEST_CASE("validate compares classes, ends and iterations with a prediction that was written before") {
  const Folder folder;
  const auto run =
      rehearse("validate " + kLoopback + "--iterations 3 --format json --prediction " + (folder / "prediction.json") +
               " --trace " + (folder / "trace.json") + " --timeline " + (folder / "timeline.json"));
  REQUIRE(run.status == 0);
  const auto j = json::parse(run.out);
  const auto& v = j["validate"];
  // Not touched after the run.
  const auto text = read(folder / "prediction.json");
  CHECK(v["prediction"]["file"] == folder / "prediction.json");
  CHECK(v["prediction"]["sha256"] == sha256(text));
  const auto prediction = json::parse(text);
  CHECK(prediction["backend"] == "sim");
  CHECK(prediction["digest"] == j["scenario"]["digest"]);
  REQUIRE(prediction["ranks"].size() == 4);
  const auto& first = prediction["ranks"][0];
  CHECK(first["work"].size() == first["end_ps"].size());
  std::set<std::int64_t> durations;
  for (const auto& work : prediction["works"]) durations.insert(work["duration_ps"].get<std::int64_t>());
  CHECK(durations.count(5'000'000'000) == 1);   // forward 5 ms
  CHECK(durations.count(10'000'000'000) == 1);  // backward 5 + 5 ms

  CHECK(v["iteration"]["predicted_s"] == double(prediction["iteration_end_ps"][0].get<std::int64_t>()) / 1e12);
  CHECK(v["iteration"]["measured_s"] == j["iteration_s"]);
  CHECK(v["iteration"]["compared"] == 3);
  CHECK(v["iteration"]["median_error"].get<double>() ==
        doctest::Approx(v["iteration"]["predicted_s"].get<double>() / j["iteration_s"].get<double>() - 1));
  // 4 ranks x 8 micro-batches of each pass; 3 hops x 8 messages each way.
  std::map<std::string, std::int64_t> tasks;
  for (const auto& c : v["classes"]) tasks[c["class"]] = c["tasks"];
  CHECK(tasks == std::map<std::string, std::int64_t>{
                     {"forward", 32}, {"backward", 32}, {"send, forward", 24}, {"send, backward", 24}});
  for (const auto& c : v["classes"])
    for (const char* key : {"predicted_s", "measured_s", "median_error", "p90_absolute_error", "sum_error"})
      CHECK_MESSAGE(c[key].is_number(), key);
  const auto& ends = v["task_ends"];
  CHECK(ends["tasks"] == 32 + 32 + 2 * (24 + 24));  // messages have a receive each
  REQUIRE(ends["ranks"].size() == 4);
  CHECK(ends["ranks"][0]["predicted_s"].size() == first["end_ps"].size());
  CHECK(ends["ranks"][0]["measured_s"].size() == first["end_ps"].size());
  CHECK(v["tolerance"].is_null());
  CHECK(v["ok"].is_null());

  std::set<std::string> tracks;
  const auto trace = json::parse(read(folder / "trace.json"));
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name" && event["pid"] == 0) tracks.insert(event["args"]["name"].get<std::string>());
  CHECK(tracks.count("compute, predicted") == 1);
  CHECK(tracks.count("compute, measured") == 1);
  const auto measured = json::parse(read(folder / "timeline.json"));
  CHECK(measured["graph"] == prediction["graph"]);
  CHECK(measured["iteration_end_ps"].size() == 3);
  CHECK(measured.contains("disturbances"));
}

TEST_CASE("a tolerance decides the exit status") {
  // Nothing real is as fast as the prediction to the picosecond.
  const auto tight = rehearse("validate " + kLoopback + "--iterations 1 --tolerance 0% --format json");
  CHECK(tight.status == 1);
  const auto j = json::parse(tight.out);
  CHECK(j["validate"]["ok"] == false);
  // No file was named, so only the digest of the prediction remains, which anyone can reproduce.
  CHECK(j["validate"]["prediction"]["file"].is_null());
  const Folder folder;
  const auto wide =
      rehearse("validate " + kLoopback + "--iterations 1 --tolerance 100000% --prediction " + (folder / "p.json"));
  CHECK(wide.status == 0);
  CHECK(sha256(read(folder / "p.json")) == j["validate"]["prediction"]["sha256"].get<std::string>());
  CHECK(contains(wide.out, "rank 0 predicted"));
  CHECK(contains(wide.out, "  measured"));
  CHECK(contains(wide.out, "holds"));
}

TEST_CASE("only a terminal shows the expected time and the progress") {
  // An iteration is predicted to take 181 ms: 165 of compute, and 16 exposed messages.
  const std::string line = "measure " + kLoopback + "--iterations 3";
  const auto piped = rehearse(line + " 2>&1 >/dev/null");
  CHECK(piped.status == 0);
  CHECK(piped.out.empty());
  // bsdutils makes a terminal, where the system has any to give (a bare chroot has no /dev/pts).
  if (shell("script -qec true /dev/null 2>/dev/null").status != 0) return;
  const auto on_terminal = [](const std::string& arguments) {
    return shell("cd '" PROJECT_ROOT "' && script -qec \"'" REHEARSE_BINARY "' " + arguments +
                 " >/dev/null\" /dev/null");
  };
  const auto shown = on_terminal(line);
  CHECK(shown.status == 0);
  CHECK(contains(shown.out, "0 of 4 iterations"));
  CHECK(contains(shown.out, "expected, 181.000 ms each"));
  CHECK(shown.out.ends_with("\r\033[K"));  // the line is gone when the answer comes
  CHECK(on_terminal(line + " --quiet").out.empty());
  // What is predicted for another machine says nothing of this one.
  const auto elsewhere = on_terminal("measure " + kGpt + "--verify --steps 1 --set cluster=dgx-a100-80g");
  CHECK(contains(elsewhere.out, "predicted is dgx-a100-80g, not this machine"));
}

TEST_CASE("what cannot be performed says why") {
  const auto check = [](const std::string& line, int status, const std::string& hint) {
    CAPTURE(line);
    const auto run = rehearse(line + " 2>&1");
    CHECK(run.status == status);
    CHECK_MESSAGE(contains(run.out, hint), run.out);
  };
  check("measure " + kTeaching, 2, "--backend loopback");
  check("measure --backend loopback", 2, "scenario file");
  check("measure " + kTeaching + "--backend lopback", 2, "did you mean 'loopback'?");
  check("measure " + kTeaching + "--backend sim", 2, "rehearse run");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // a GPU of this machine is not to be seen
  check("measure " + kTeaching + "--backend cuda", 3, "backend cuda unavailable");
  check("measure " + kLoopback + "--compute fast", 2, "real, timed");
  check("measure " + kLoopback + "--compute real", 2, "--compute timed");
  check("measure " + kLoopback + "--verify", 2, "--warmup has no meaning");
  check("measure " + kTeaching + "--backend loopback --verify", 2, "gives times instead of a model");
  check("measure " + kLoopback + "--steps 2", 2, "--verify");
  check("measure " + kGpt + "--verify --compute timed", 2, "--compute real");
  check("measure " + kLoopback + "--iterations 0", 2, "--iterations");
  check("measure " + kLoopback + "--timeout 5", 2, "--timeout");
  check("measure scenarios/llama3-8b-dgx-h100.yaml --backend loopback --set training.attention=unfused", 2,
        "never stores attention scores");
  check("measure scenarios/gpt3-175b-1024xa100.yaml --backend loopback", 3, "of memory for their buffers");
  check("measure " + kGpt + "--set parallelism.data=256 --set batch.global=512 --compute real", 3, "core");
  check("measure " + kLoopback + "--weights /tmp/never-written.safetensors", 2, "--compute real");
  check("validate " + kLoopback + "--tolerance 5", 2, "such as 5%");
  check("validate " + kLoopback + "--tolerance -5%", 2, "such as 5%");
  // A disk that is full leaves nothing half written.
  check("measure " + kLoopback + "--iterations 1 --timeline /dev/full", 3, "No space left");
  check("validate " + kLoopback + "--iterations 1 --prediction /dev/full", 3, "No space left");
  check("measure " + kLoopback + "--iterations 1 --trace /no/such/folder/x.json", 2, "cannot write");
}

TEST_CASE("the list of backends says what each is worth and why one is missing") {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // a GPU of this machine is not to be seen
  const auto j = json::parse(rehearse("list backends --format json").out);
  std::map<std::string, json> by_name;
  for (const auto& backend : j) by_name[backend["name"]] = backend;
  REQUIRE(by_name.size() == 4);
  CHECK(by_name["sim"]["available"] == true);
  CHECK(by_name["loopback"]["available"] == true);
  CHECK(contains(by_name["loopback"]["summary"], "exact"));
  CHECK(by_name["cuda"]["available"] == false);
  for (const auto& [name, backend] : by_name)
    CHECK(contains(backend["summary"], backend["available"] == true ? "Available: " : "Unavailable: "));
}
