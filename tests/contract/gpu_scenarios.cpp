// The scenarios of the GPU ladder: predicted as they stand, and performed by the rules as virtual stages when they are
// cut down to what a host can hold. Kernels are not computed here, only what they touch is checked.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "../program.hpp"
#include "base/error.hpp"
#include "explore/perform.hpp"
#include "gpu/gpu_backend.hpp"
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
  const auto rehearsed = explore::rehearse(what.scenario);
  explore::PerformOptions options;
  options.compute = what.compute;
  options.warmup = 1, options.iterations = 2;
  options.starts = rehearsed.timeline.start;
  options.recorded = replayed;
  test::World world({.seed = 11});
  const auto backend = gpu::make_backend(test::recording_platform(world));
  const auto performed = explore::perform(what.scenario, rehearsed.prepared, *backend, options);
  CHECK(performed.timeline.iteration_end.size() == 2);
  for (std::size_t r = 0; r < performed.timeline.peak_bytes.size(); ++r)
    CHECK(performed.timeline.peak_bytes[r] ==
          timeline::memory_peak(rehearsed.prepared.graph, rehearsed.timeline, RankId(r)).peak);
  CHECK((what.compute == backend::Compute::timed) == performed.timeline.peak_bytes.empty());
  CAPTURE(world.broken().empty() ? std::string() : world.broken().front());
  CHECK(world.broken().size() == 0);
  CHECK(world.waiting() == 0);
  CHECK(world.blocks() == 0);
}

}  // namespace

TEST_CASE("every scenario of the ladder is predicted, and fits the GPU that it names") {
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    const auto rehearsed = explore::rehearse(scenario::load(entry.path().string()));
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
  auto all = schedule::registry().names();
  // One cuts sequences, of which a timed scenario has none; two never end a step, which takes a model.
  for (const char* other : {"seq1f1b", "pipedream", "pipedream-2bw"}) std::erase(all, other);
  for (const auto& schedule : all) {
    CAPTURE(schedule);
    CHECK(performed.contains(schedule));
  }
}

TEST_CASE("gpu-check says in a line why it is skipped, and refuses what it does not know") {
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

}  // namespace rehearsal
