// The text of reports: for random trainings, in 80 columns. Units are valid, an interval contains its number, a share
// is at most one, no line is wider than the terminal, and text and JSON have the same headline.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "../rehearse.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "predicted.hpp"
#include "random_training.hpp"
#include "report/groups_report.hpp"
#include "report/run_report.hpp"

using namespace rehearsal;
using nlohmann::json;

namespace {

double amount(std::string digits, const std::string& unit) {
  digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
  static const std::map<std::string, double> kUnits{{"k", 1e3},    {"M", 1e6},   {"B", 1e9},   {"T", 1e12},
                                                    {"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                    {"min", 60},   {"h", 3600}};
  const auto known = kUnits.find(unit);
  return std::stod(digits) * (known == kUnits.end() ? 1 : known->second);
}

void check_words(const std::string& text, int width) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    CAPTURE(line);
    CHECK(page::columns(line) <= std::size_t(width));
    // "987.8 BB", "28.03 k MWh"; "9.792e-06 MWh".
    static const std::regex doubled(R"(\d BB\b|\d [kMBT] [kMGT]?(Wh|B|W|b|FLOP)\b)"),
        exponent(R"(\de[+-]?\d+ ?[A-Za-z%])");
    CHECK_FALSE(std::regex_search(line, doubled));
    CHECK_FALSE(std::regex_search(line, exponent));
    static const std::regex interval(R"(([-\d.,]+)(?: ([A-Za-z]+))? \.\. ([-\d.,]+)(?: ([A-Za-z%]+))?)");
    for (std::sregex_iterator it(line.begin(), line.end(), interval), end; it != end; ++it) {
      const auto& found = *it;
      // A unit that is printed once applies to both ends.
      const auto last = found[4].str(), first = found[2].matched ? found[2].str() : last;
      CHECK(amount(found[1], first) <= amount(found[3], last));
    }
    static const std::regex share(R"((-?[\d.]+) %(?! (longer|shorter|more|less)))");
    for (std::sregex_iterator it(line.begin(), line.end(), share), end; it != end; ++it) {
      CHECK(std::stod((*it)[1]) >= 0);
      CHECK(std::stod((*it)[1]) <= 100);
    }
  }
}

// Rejoins broken lines before searching.
bool tells(const std::string& text, const std::string& words) {
  static const std::regex spaces("\\s+");
  return contains(std::regex_replace(text, spaces, " "), words);
}

void check_headline(const std::string& text, const json& said) {
  CHECK(tells(text, "Iteration " + show(seconds(said["iteration_s"]))));
  CHECK(tells(text, fmt::format("Idle {:.1f} %", 100 * said["bubble_rate"].get<double>())));
  CHECK(tells(text, fmt::format("{:.2f} sequences/s", said["samples_per_s"].get<double>())));
  if (said["mfu"].is_number()) CHECK(tells(text, fmt::format("MFU {:.1f} %", 100 * said["mfu"].get<double>())));
  const auto& memory = said["peak_memory_bytes"];
  CHECK(tells(text, fmt::format("{} allocated, {} reserved, {} on the device", show(bytes(memory["allocated"])),
                                show(bytes(memory["reserved"])), show(bytes(memory["device"])))));
  for (const auto& [name, time] : said["breakdown_s"].items())
    if (time.get<double>() > 0) CHECK(tells(text, name + " " + show(seconds(time))));
}

std::string random_job(std::uint64_t seed) {
  Random random(seed);
  const auto one_of = [&](std::initializer_list<const char*> all) { return all.begin()[random.below(all.size())]; };
  const auto failures = random.below(3) == 0
                            ? std::string()
                            : fmt::format(", failures: {{per_1000_node_days: {}, restart: {}}}",
                                          one_of({"0.001", "4", "60", "500"}), one_of({"10s", "10min", "2h"}));
  return fmt::format(
      "job={{steps: {}, gpu_hour: {}, currency: USD, carbon: {}kg/kWh, checkpoint: {{rate: {}, async: "
      "false}}{}}}",
      one_of({"1", "1000", "1000000", "1B"}), one_of({"0.0001", "2.5", "1000"}), one_of({"0.001", "0.4"}),
      one_of({"1GB/s", "100GB/s", "10TB/s"}), failures);
}

void check_ends(const json& job) {
  if (!job["low"].is_object()) return;
  for (const auto& [key, low] : job["low"].items()) {
    if (!low.is_number()) continue;
    CAPTURE(key);
    CHECK(low.get<double>() <= job[key].get<double>());
    CHECK(job[key].get<double>() <= job["high"][key].get<double>());
  }
}

}  // namespace

TEST_CASE("reports of random trainings, in 80 columns and in 60") {
  std::size_t jobs = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const auto training = contract::RandomTraining(seed).text();
    CAPTURE(training);
    const auto ask = [&](const contract::Sets& sets) -> std::optional<answer::Result> {
      try {
        return contract::predicted(training, sets);
      } catch (const UserError&) {
        return std::nullopt;  // does not fit together, or trains less than a hundredth of the time
      }
    };
    const auto job = random_job(seed);
    CAPTURE(job);
    auto prediction = ask({job});
    jobs += prediction.has_value();
    if (!prediction && !(prediction = ask({}))) continue;
    for (const int width : {80, 60}) check_words(report::run_text(*prediction, {.width = width}, true), width);
    const auto said = json::parse(report::to_json(*prediction).dump(2));
    check_headline(report::run_text(*prediction, {.width = 80}), said);
    if (prediction->summary.job) check_ends(said["job"]);
  }
  CHECK(jobs > 10);
}

TEST_CASE("the band of a run that hardly ever fails holds what is expected, in units that fit") {
  // Of 16 GPUs for some hours: no run of twenty fails, so that both ends train more of the time than the mean does.
  const auto p = contract::predicted(
      "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 2}\nparallelism: {data: 16, zero: 1}\n"
      "batch: {global: 16}\njob: {tokens: 10B, failures: {per_1000_node_days: 6.5}, carbon: 0.4kg/kWh}\n",
      {});
  REQUIRE(p.summary.job);
  const auto& run = *p.summary.job;
  CHECK(run.low->goodput <= run.expected.goodput);
  CHECK(run.expected.goodput <= run.high->goodput);
  const auto text = report::run_text(p, {.width = 80});
  check_words(text, 80);
  CHECK(tells(text, "Checkpoints 112.4 GB each"));
  CHECK(tells(text, " h ("));  // not "0.7 days"
  CHECK(tells(text, " kWh, "));
  CHECK(tells(text, " kg of CO2"));
}
