// The scenarios of the GPU ladder: predicted as they stand, and performed by the rules as virtual stages when they are
// cut down to what a host can hold. Kernels are not computed here, only what they touch is checked.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../program.hpp"
#include "base/error.hpp"
#include "explore/perform.hpp"
#include "gpu/gpu_backend.hpp"
#include "performed_schedules.hpp"
#include "recorder/recorder.hpp"
#include "schedule/registry.hpp"
#include "timeline/memory.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;
using Sets = std::vector<std::string>;

const fs::path kFolder = PROJECT_ROOT "/scenarios/gpu";
const Sets kSmall{"model.hidden=32", "model.heads=4", "batch.sequence=8", "model.vocabulary=64"};

// In a world of its own; `replayed` as `--replay`.
void perform_by_the_rules(const std::string& file, const Sets& sets, bool replayed) {
  const auto what = explore::load_performable(file, sets, std::nullopt, "cuda");
  const auto rehearsed = answer::predict(what.scenario);
  backend::RunOptions options;
  options.compute = what.compute;
  options.warmup = 1, options.iterations = 2;
  options.starts = rehearsed.timeline.start;
  options.recorded = replayed;
  test::World world({.seed = 11});
  const auto backend = gpu::make_backend(test::recording_platform(world));
  const auto performed = explore::perform(*rehearsed.lowered, *backend, options);
  CHECK(performed.timeline.iteration_end.size() == 2);
  for (std::size_t r = 0; r < performed.timeline.peak_bytes.size(); ++r)
    CHECK(performed.timeline.peak_bytes[r] ==
          timeline::memory_peak(rehearsed.graph(), rehearsed.timeline, RankId(r)).peak);
  CHECK((what.compute == backend::Compute::timed) == performed.timeline.peak_bytes.empty());
  CAPTURE(world.broken().empty() ? std::string() : world.broken().front());
  CHECK(world.broken().size() == 0);
  CHECK(world.waiting() == 0);
  CHECK(world.blocks() == 0);
}

bool without_python() {
  if (shell("python3 --version > /dev/null 2>&1").status == 0) return false;
  MESSAGE("there is no python3: tools/gpu-check was not tried");
  return true;
}

}  // namespace

TEST_CASE("every scenario of the ladder is predicted, and fits the GPU that it names") {
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    const auto rehearsed = answer::predict(scenario::load(entry.path().string()));
    CHECK(rehearsed.timeline.makespan() > Time());
    const auto run = shell("REHEARSAL_PROFILES=/nowhere '" REHEARSE_BINARY "' run --require-fit '" +
                           entry.path().string() + "' 2>&1");
    CHECK_MESSAGE(run.status == 0, run.out);
    ++found;
  }
  CHECK(found == 6);
}

TEST_CASE("every scenario of the ladder is performed by the rules, queued anew and replayed") {
  for (const bool replayed : {false, true}) {
    CAPTURE(replayed);
    for (const char* name : {"block-bf16", "block-fp32", "stages-4", "replicas-4", "tensor-4"}) {
      CAPTURE(name);
      perform_by_the_rules((kFolder / name).string() + ".yaml", kSmall, replayed);
    }
    perform_by_the_rules((kFolder / "timed-4.yaml").string(), {}, replayed);
  }
}

TEST_CASE("the variants that tools/gpu-check asks for are performed by the rules") {
  const auto with = [](Sets more) {
    more.insert(more.begin(), kSmall.begin(), kSmall.end());
    return more;
  };
  for (const char* recompute : {"selective", "full"})
    perform_by_the_rules((kFolder / "block-bf16.yaml").string(),
                         with({"model.layers=3", std::string("training.recompute=") + recompute}), true);
  for (const int zero : {1, 2, 3})
    perform_by_the_rules((kFolder / "replicas-4.yaml").string(), with({fmt::format("parallelism.zero={}", zero)}),
                         true);
}

TEST_CASE("timed virtual stages take every schedule, in one layout of two") {
  std::set<std::string> performed;
  for (const std::string& schedule : schedule::registry().names())
    for (const char* layout : {"{pipeline: 4}", "{pipeline: 4, chunks: 2}"}) {
      if (performed.contains(schedule)) continue;
      CAPTURE(schedule);
      CAPTURE(layout);
      try {
        perform_by_the_rules((kFolder / "timed-4.yaml").string(),
                             {"schedule=" + schedule, std::string("parallelism=") + layout}, true);
        performed.insert(schedule);
      } catch (const UserError&) {  // not this layout
      }
    }
  auto all = performed_schedules();
  for (const char* other : {"pipedream", "pipedream-2bw"}) std::erase(all, other);  // never end a step: takes a model
  for (const auto& schedule : all) {
    CAPTURE(schedule);
    CHECK(performed.contains(schedule));
  }
}

TEST_CASE("gpu-check says in a line why it is skipped, and refuses what it does not know") {
  if (without_python()) return;
  const Scratch scratch;
  const std::string tool =
      "cd '" + scratch.folder.string() + "' && CUDA_VISIBLE_DEVICES= '" PROJECT_ROOT "/tools/gpu-check' --build '" +
      fs::path(REHEARSE_BINARY).parent_path().string() + "' --out '" + scratch.folder.string() + "' ";
  const auto skipped = shell(tool + "2>&1");
  CHECK_MESSAGE(skipped.status == 77, skipped.out);
  CHECK_MESSAGE(skipped.out.starts_with("gpu-check: skipped: "), skipped.out);
  CHECK(std::count(skipped.out.begin(), skipped.out.end(), '\n') == 1);
  CHECK(fs::is_empty(scratch.folder));
  CHECK(shell(tool + "--rows 9 2>&1").status == 2);
  const auto nothing = shell("'" PROJECT_ROOT "/tools/gpu-check' --build '" + scratch.folder.string() + "' 2>&1");
  CHECK(nothing.status == 77);
  CHECK(contains(nothing.out, "no program"));
}

// The program with a stand-in for the GPU, scenarios cut down to what a host computes in seconds. A whole GPU cannot be
// measured there: its report is made up. `calibrate` is what the program does when it is asked for that.
std::string tiny_program(const fs::path& folder, const std::string& calibrate) {
  const fs::path program = folder / "rehearse";
  std::ofstream(program) << R"(#!/usr/bin/env python3
import os, sys
given = sys.argv[1:]
if given[0] == "calibrate" and not any("scenarios/" in word for word in given):
    )" << calibrate << R"(
small = ["model.hidden=32", "model.heads=4", "batch.sequence=8", "model.vocabulary=64"]
words, at = [], 0
while at < len(given):
    skip = given[at] == "--set" and given[at + 1].split("=")[0] in [s.split("=")[0] for s in small]
    if not skip:
        words.append(given[at])
    at += 2 if skip else 1
if any("scenarios/gpu/" in word and "timed" not in word for word in given):
    words += [word for s in small for word in ("--set", s)]
os.environ.update(REHEARSAL_MODULES=")" STANDIN_FOLDER R"(", REHEARSAL_STANDIN_FOLDER=")"
                         << folder.string() << R"(")
os.execv(")" REHEARSE_BINARY R"(", ["rehearse", *words])
)";
  fs::permissions(program, fs::perms::owner_all);
  return "'" PROJECT_ROOT "/tools/gpu-check' --quick --build '" + folder.string() + "' --out '" +
         (folder / "out").string() + "' ";
}

TEST_CASE("gpu-check judges what was measured, keeps it with its origin, and ends with what fell short") {
  if (without_python()) return;
  const Scratch scratch;
  const std::string tool = tiny_program(scratch.folder, R"(
    open(given[given.index("--output") + 1], "w").write("profile")
    print("""{"digest": "0123456789abcdef", "gpu": {"name": "NVIDIA H200", "driver": "580", "runtime": "13.0",
      "libraries": {"NCCL": "2.28.9"}, "type": "h200-sxm"}, "left_out": [], "interference": {"duplex": 0.9},
      "accuracy": [{"section": "gemm bf16", "fitted": {"samples": 9, "median": 0.02, "p90": 0.05},
                    "held_out": {"samples": 5, "median": 0.04, "p90": 0.19}},
                   {"section": "host_link to_host", "fitted": {"samples": 9, "median": 0.02, "p90": 0.06},
                    "held_out": {"samples": 0, "median": 0, "p90": 0}}],
      "nccl": [{"bytes": 4096, "all_reduce_s": [1, 1, 1], "in_place_s": [1, 1, 1], "to_itself_s": [1, 1, 1],
                "called_s": [2, 2, 2]}], "pairs": [{"rows": 512, "width": 4096, "product_s": [2, 2, 2],
                "activation_s": [1, 1, 1], "both_s": [2.5, 2.5, 2.5]}],
      "two_ranks_on_one_gpu": "Duplicate GPU detected"}""")
    sys.exit(0))");
  const auto run = shell(tool + "--rows 1,3,4,7 2>&1");
  CHECK_MESSAGE(run.status == 1, run.out);  // 6 % of the host link are more than 5 %
  std::string csv;
  for (const auto& entry : fs::directory_iterator(scratch.folder / "out")) {
    CHECK_MESSAGE(entry.path().filename().string().starts_with("gpu-check-nvidia-h200-20"), entry.path());
    if (entry.path().extension() == ".csv") {
      std::ifstream in(entry.path());
      csv.assign(std::istreambuf_iterator<char>(in), {});
    }
  }
  std::size_t passed = 0, fell_short = 0, to_the_byte = 0;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    passed += contains(line, ",yes,"), fell_short += contains(line, ",no,");
    to_the_byte += contains(line, "512 B a block\",yes");
  }
  CAPTURE(csv);
  CHECK(fell_short == 1);
  CHECK(to_the_byte == 7);     // three policies of recomputation, four schedules
  CHECK(passed == 2 + 7 + 3);  // and held-out products twice, NCCL and its neighbours three times
  CHECK(contains(csv, "NVIDIA H200,580,13.0,NCCL 2.28.9,0123456789ab,4,host_link to_host,fitted p90"));
  CHECK(contains(csv, "Duplicate GPU detected"));
}

TEST_CASE("gpu-check goes on after a failure and after a hang") {
  if (without_python()) return;
  const Scratch scratch;
  const auto failed = shell(tiny_program(scratch.folder, R"(sys.exit("no such luck"))") + "--rows 1,3 2>&1");
  CHECK(failed.status == 1);
  CHECK_MESSAGE(contains(failed.out, "no such luck"), failed.out);
  CHECK_MESSAGE(contains(failed.out, "the GPU could not be calibrated"), failed.out);
  CHECK_MESSAGE(contains(failed.out, "to the byte"), failed.out);
  // Of a program that hangs, only what had its whole limit failed; what the end of all time cuts short was not reached.
  const std::string hangs = tiny_program(scratch.folder, "import time; time.sleep(600)");
  const auto late = shell(hangs + "--rows 1 --seconds 4 2>&1");
  CHECK_MESSAGE(late.status == 75, late.out);
  CHECK_MESSAGE(contains(late.out, "2 were not reached"), late.out);
  const auto hung = shell(hangs + "--rows 1,3 --calibration-seconds 2 2>&1");
  CHECK_MESSAGE(hung.status == 1, hung.out);
  CHECK_MESSAGE(contains(hung.out, "took more than 2 s"), hung.out);
  CHECK_MESSAGE(contains(hung.out, "the GPU could not be calibrated"), hung.out);
  CHECK_MESSAGE(contains(hung.out, "to the byte"), hung.out);
}

}  // namespace rehearsal
