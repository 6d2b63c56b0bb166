// Every published run that a scenario can express, predicted and scored table by table: what `rehearse validate
// --against` prints. Data: training_runs.csv and vtrain_single_node.csv, with the source of every row. Which tables
// were used in a fit of a constant, and which only judge: models/README.md, section 7.
//
// Limits: per table the error of a constant-per-generation model of the same form plus half a point. Larger limits are
// explained in sim/design/published-runs.md.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "../document_pages.hpp"
#include "published/against.hpp"
#include "published/report.hpp"
#include "published/widths.hpp"

using namespace rehearsal;
using published::FrameworkDetail;

namespace {

std::vector<published::Run> runs() {
  auto all = published::read_runs(TEST_DATA "/fidelity/training_runs.csv");
  for (const char* more : {"vtrain_single_node", "recipes"})
    for (auto& run : published::read_runs(fmt::format(TEST_DATA "/fidelity/{}.csv", more)))
      all.push_back(std::move(run));
  return all;
}

published::ValidationRun against(FrameworkDetail detail) {
  published::ValidationRun options;
  options.framework = detail;
  options.forecast = detail == FrameworkDetail::knobs;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  return options;
}

std::vector<published::Prediction> predictions(FrameworkDetail detail) {
  return published::predict(runs(), against(detail));
}

const std::vector<published::Prediction>& with_all_knobs() {
  static const auto all = predictions(FrameworkDetail::knobs);
  return all;
}
const published::Widths& their_widths() {
  static const auto all = published::widths(with_all_knobs(), against(FrameworkDetail::knobs));
  return all;
}

// Limits of a table's mean error.
const std::map<std::string, double> kLimits{
    {"megatron21_t1", .024},
    {"megatron21_t2", .043},
    {"megatron21_fig11", .062},
    {"megatron21_fig12", .022},
    {"megatron21_fig13", .044},
    {"megatron21_fig14", .030},
    {"megatron21_fig15", .083},
    {"megatron21_fig16", .032},
    {"megatron21_fig17", .059},
    {"megatron21_fig18", .031},
    {"megatron20_mp", .0331},
    {"megatron20_mpdp", .019},
    {"mtnlg", .182},
    {"vtrain_multi", .085},
    {"vtrain_single", .094},
    {"zerobubble_t4", .035},
    {"mosaic_mpt", .054},
    {"titan_t1", .057},
    {"titan_t2", .150},  // with 4 and 8 ranks to a sequence a quarter slower than here
    {"titan_t3", .050},
    {"titan_asynctp", .129},  // .126 where a rotation had a result of its own, which checkpoints of products repeat
    {"dlperf_v100", .111},
    {"jz_1b3_v100", .060},
    {"mbridge_dense", .032},
    // Of recipes, to which nothing was fitted. Those of frameworks that have no fitted constant are not explained
    // (sim/design/forecasts.md) and have no limit.
    {"dgxc_nemotron15b_h100", .040},
    {"mlperf_llama31_8b_b200", .058},
    {"mlperf_llama31_8b_b300", .034},
    {"mlperf_llama31_8b_gb200", .028},
    {"mbridge_dense_b200", .026},
    {"mbridge_dense_gb200", .065},
    {"nemo2407_longseq", .032},
};

// Rows of the tables with a test of their own, each predicted once per process. Without memory.
const std::vector<published::Prediction>& of_others(const std::string& table) {
  static std::map<std::string, std::vector<published::Prediction>> known;
  const auto found = known.find(table);
  if (found != known.end()) return found->second;
  auto options = against(FrameworkDetail::knobs);
  options.memory = false;
  const auto runs = published::read_runs(fmt::format(TEST_DATA "/fidelity/{}.csv", table));
  return known[table] = published::predict(runs, options);
}

}  // namespace

TEST_CASE("published runs, with what their tables tell of the framework") {
  const auto& all = with_all_knobs();
  MESSAGE("\n" << published::against_text(all, false, their_widths()));
  const auto scores = published::score(all);
  std::size_t judged = 0, below_constant = 0;
  for (const auto& s : scores) {
    const auto limit = kLimits.find(s.table);
    if (limit == kLimits.end()) continue;
    CAPTURE(s.table);
    CHECK(s.mean <= limit->second);
    judged++;
    below_constant += s.mean < s.constant;
  }
  CHECK(judged == kLimits.size());
  // A model that does not beat one fitted rate per table has learned nothing from it. mtnlg's three rows have one rate.
  CHECK(below_constant >= judged - 1);
  const auto overall = published::overall(scores);
  CHECK(overall.rows > 1800);
  CHECK(overall.mean < overall.constant / 2.3);
  // With constants fitted without the row's own family.
  CHECK(overall.forecast < .067);
  CHECK(overall.forecast > overall.mean / 2);
  CHECK(overall.fits_right > .97);
  // Bands from other families: 80 % of comparable runs, and wider bands for runs that resemble none of them.
  const auto coverage = published::coverage(all, their_widths());
  CHECK(coverage.inside > .8);
  CHECK(coverage.width < 1.2);
}

TEST_CASE("docs/accuracy.md shows what these runs come to") {
  std::size_t shown = 0;
  for (const auto& command : documents::commands_of("docs/accuracy.md", read(documents::kTop / "docs/accuracy.md")))
    if (command.text.starts_with("rehearse validate --against") && !command.answer.empty()) {
      const auto text = published::against_text(with_all_knobs(), false, their_widths());
      documents::compare_or_bless(command, text, "fidelity_published_runs");
      ++shown;
    }
  CHECK(shown == 1);
}

TEST_CASE("the README says what all shipped tables come to") {
  auto scores = published::score(with_all_knobs());
  for (const char* more : {"adapters", "context_training", "moe_training"})
    for (auto& score : published::score(of_others(more))) scores.push_back(std::move(score));
  const auto all = published::overall(scores);
  const auto says =
      fmt::format("{},{:03} published runs in {} tables, {:.1f} % in the mean of the tables, {:.1f} % forecast",
                  all.rows / 1000, all.rows % 1000, all.tables, 100 * all.mean, 100 * all.forecast);
  const auto page = documents::kTop / "README.md";
  auto text = read(page);
  static const std::regex sentence(
      R"([\d,]+ published runs in \d+ tables,\s[\d.]+ % in the mean of the\stables, [\d.]+ % forecast)");
  std::smatch match;
  REQUIRE(std::regex_search(text, match, sentence));
  static const std::regex spaces("\\s+");
  const auto said = std::regex_replace(match.str(), spaces, " ");
  if (documents::blessing() && said != says) {
    std::ofstream(page, std::ios::binary) << text.replace(std::size_t(match.position()), match.str().size(), says);
    return;
  }
  INFO("if this was meant: REHEARSAL_BLESS=1 tools/test -R fidelity_published_runs");
  CHECK(said == says);
}

TEST_CASE("the error bands are those of these runs, and of mixtures of experts") {
  auto all = with_all_knobs();
  for (const auto& mixture : of_others("moe_training")) all.push_back(mixture);
  const auto bands = published::bands_yaml(all, their_widths());
  std::ifstream file(PROJECT_ROOT "/configs/error_bands.yaml");
  std::stringstream text;
  text << file.rdbuf();
  INFO(
      "if this was meant: rehearse validate --against tests/fidelity/training_runs.csv "
      "tests/fidelity/vtrain_single_node.csv tests/fidelity/recipes.csv tests/fidelity/moe_training.csv --bands");
  CHECK(std::move(text).str().ends_with(bands));
}

TEST_CASE("published runs, with the profile of their framework alone") {
  const auto overall = published::overall(published::score(predictions(FrameworkDetail::profile)));
  MESSAGE(fmt::format("mean of {} tables: {:.1f} %, constant rate {:.1f} %", overall.tables, overall.mean * 100,
                      overall.constant * 100));
  CHECK(overall.mean < overall.constant / 2.5);
}
