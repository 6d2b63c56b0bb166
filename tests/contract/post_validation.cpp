// Post-validation on every shipped scenario, and on random pipelines of every schedule: it works, or is refused at its
// place in the scenario. Numbers worked out by hand: tests/unit/answer/post_validation.cpp.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/random.hpp"
#include "predicted.hpp"
#include "schedule/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;
namespace fs = std::filesystem;

namespace {

const Sets kAsked{"training.optimizer_sync=post-validation"};

Time period(const answer::Result& p) { return p.summary.iteration; }

}  // namespace

TEST_CASE("every scenario that ships works without a barrier, or says why not at the key") {
  int works = 0, refused = 0;
  for (const char* folder : {"", "runs", "measure", "plan"})
    for (const auto& file : fs::directory_iterator(fs::path(PROJECT_ROOT) / "scenarios" / folder)) {
      if (file.path().extension() != ".yaml") continue;
      CAPTURE(file.path().string());
      try {
        const auto prediction = predicted_file(fs::path(folder) / file.path().filename(), kAsked);
        CHECK(period(prediction) > Time{});
        ++works;
      } catch (const UserError& error) {
        ++refused;
        CAPTURE(error.what());
        CHECK(says(error.what(), "post-validation"));
      }
    }
  CHECK(works > 10);
  CHECK(refused > 3);
}

TEST_CASE("stages that send by plans of their own are refused") {
  const auto why = [](const std::string& file) {
    try {
      predicted_file(file, kAsked);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* file : {"u-transformer-resharding-p3-8xlarge.yaml", "gpt-resharding-p3-8xlarge.yaml"})
    CHECK(says(why(file),
               "'optimizer_sync: post-validation' is simulated for one rank per stage, but with 'resharding'"));
}

TEST_CASE("a V of stages whose ranks wait for each other both ways") {
  // A rank may receive a gradient before the forward under which it validates: the state must not wait behind it.
  const auto overlapped = predicted_file("deepseek-v3-2048xh800.yaml", kAsked);
  const auto barrier = predicted_file("deepseek-v3-2048xh800.yaml", {});
  CHECK(period(overlapped) <= period(barrier) + Time(1'000'000'000));  // a millisecond of messages
}

TEST_CASE("random pipelines of every schedule that flushes: no rank waits for itself") {
  settle();
  Random random(11);
  int trained = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto names = schedule::registry().names();
    const auto& name = names[random.below(names.size())];
    const auto& schedule = schedule::registry().at(name);
    if (schedule.updates != schedule::Updates::at_flush || schedule.plan || schedule.cuts_sequences) continue;
    const auto p = 2 + random.below(7), m = p * (1 + random.below(3)) + random.below(2) * 2;
    const auto v =
        std::max<std::uint64_t>(schedule.min_chunks, std::min<std::uint64_t>(schedule.max_chunks, 1 + random.below(3)));
    std::vector<std::string> times;
    for (std::uint64_t s = 0; s < p * v; ++s) times.push_back(fmt::format("{}ms", 1 + random.below(20)));
    const Sets sets{fmt::format("schedule={}", name), fmt::format("parallelism={{pipeline: {}, chunks: {}}}", p, v),
                    fmt::format("batch.microbatches={}", m),
                    fmt::format("costs={{forward: [{0}], backward: [{0}], weight: [{0}], transfer: {1}ms}}",
                                fmt::join(times, ", "), random.below(12))};
    CAPTURE(fmt::format("{}", fmt::join(sets, " ")));
    try {
      const auto overlapped = predicted_file("teaching-1f1b-8-stages.yaml", with(sets, kAsked));
      CHECK(period(overlapped) > Time{});
      ++trained;
    } catch (const UserError&) {  // not supported by the schedule
    }
  }
  CHECK(trained > 100);
}

TEST_CASE("a tied embedding is named as what leaves nothing to gain") {
  const auto warned = [](const char* tied) {
    const auto run =
        predicted_file("llama3-8b-dgx-h100.yaml", with(kAsked, {"batch.global=16", "parallelism={pipeline: 4, data: 2}",
                                                                std::string("model.tie_embeddings=") + tied}));
    return std::any_of(run.warnings.begin(), run.warnings.end(),
                       [](const auto& w) { return says(w, "the embedding is tied (model.tie_embeddings)"); });
  };
  CHECK(warned("true"));
  CHECK_FALSE(warned("false"));
}
