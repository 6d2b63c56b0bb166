// The core alone, as in a browser page or a library: no modules, no hardware, no files. This program links only the
// rooms from base to answer; only the test itself reads files, to have texts to pass from memory.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "answer/predict.hpp"
#include "base/error.hpp"

using namespace rehearsal;
namespace fs = std::filesystem;

namespace {

const std::string kScenario = "scenarios/llama3-8b-dgx-h100.yaml";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// configs/ and models/zoo/, by their paths below the root.
std::map<std::string, std::string> house() {
  std::map<std::string, std::string> texts;
  for (const char* folder : {"configs", "models/zoo"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PROJECT_ROOT) / folder))
      if (entry.path().extension() == ".yaml")
        texts[fs::relative(entry.path(), PROJECT_ROOT).generic_string()] = text_of(entry.path());
  return texts;
}

answer::Result predict(const scenario::Files& files, const std::vector<std::string>& sets = {}) {
  const auto text = text_of(fs::path(PROJECT_ROOT) / kScenario);
  return answer::predict(scenario::load_text(text, kScenario, sets, files));
}

}  // namespace

TEST_CASE("a scenario is predicted from texts in memory") {
  const scenario::MemoryFiles files(house());
  const auto prediction = predict(files);
  CHECK(prediction.summary.iteration > Time());
  CHECK(prediction.summary.iteration == prediction.timeline.makespan());
  CHECK(prediction.summary.mfu.value() > 0);
  CHECK(prediction.summary.fits.has_value());
  CHECK(prediction.summary.file == kScenario);
  CHECK_FALSE(prediction.assumptions.empty());
  CHECK(prediction.graph().tasks() == prediction.timeline.end.size());
  CHECK_FALSE(prediction.measured);
  // Twice the sequences at the same micro-batch are twice the micro-batches.
  const auto batch = prediction.scenario().batch.global;
  const auto doubled = predict(files, {"batch.global=" + std::to_string(2 * batch)});
  CHECK(doubled.summary.microbatches == 2 * prediction.summary.microbatches);
  CHECK(doubled.summary.digest != prediction.summary.digest);
}

TEST_CASE("an answer outlives what it was asked with, and a brief one its graph") {
  auto prediction = [] {
    const scenario::MemoryFiles files(house());
    return predict(files);
  }();
  const auto copy = prediction;
  const auto brief = std::move(prediction).brief();
  CHECK(copy.graph().tasks() > 0);
  CHECK(brief.lowered == nullptr);
  CHECK(brief.timeline.end.empty());
  CHECK(brief.summary.iteration == copy.summary.iteration);
  CHECK(brief.assumptions == copy.assumptions);
}

TEST_CASE("what memory does not hold is an error with its place") {
  auto texts = house();
  REQUIRE(texts.erase("models/zoo/llama3-8b.yaml") == 1);
  const scenario::MemoryFiles files(std::move(texts));
  try {
    predict(files);
    FAIL("loaded a model that is not there");
  } catch (const UserError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    CHECK(error.diagnostics()[0].where.file == kScenario);
    CHECK(error.diagnostics()[0].where.line > 0);
    CHECK(error.diagnostics()[0].message.starts_with("unknown model 'llama3-8b'"));
  }
  CHECK_FALSE(files.exists("models/zoo/llama3-8b.yaml"));
  CHECK(files.exists(files.home() + "/models/zoo/llama3-70b.yaml"));
  CHECK_THROWS_AS(files.read("models/zoo/llama3-8b.yaml", 1000), UserError);
  CHECK_THROWS_AS(files.read("models/zoo/llama3-70b.yaml", 10), UserError);
}
