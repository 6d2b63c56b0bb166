// Numbers of any size: an answer is exact, or it is refused with the limit that it leaves. Time is counted in int64
// picoseconds, 2^63 of which are 9,223,372 s; memory in int64 bytes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "../program.hpp"
#include "answer/estimate.hpp"
#include "answer/predict.hpp"
#include "base/error.hpp"
#include "report/run_report.hpp"

using namespace rehearsal;
using nlohmann::json;

namespace {

constexpr double kMostSeconds = 0x1p63 / 1e12;

scenario::Scenario load(const std::string& text) { return scenario::load_text(text, "test.yaml"); }

// The whole answer, as a user of --format json gets it.
json told(const scenario::Scenario& scenario) {
  const std::vector<answer::Result> answers{answer::predict(scenario)};
  report::run_text(answers[0], {});
  return json::parse(report::run_json(answers));
}

// Visits every number of the answer, with the path to it.
void each_number(const json& value, const std::string& path,
                 const std::function<void(const std::string&, double)>& act) {
  if (value.is_number()) act(path, value.get<double>());
  if (value.is_structured())
    for (const auto& [key, item] : value.items()) each_number(item, path + "/" + key, act);
}

void check_no_negative(const json& answer) {
  each_number(answer, "", [](const std::string& path, double number) {
    CAPTURE(path);
    CHECK(number >= 0);
    CHECK(std::isfinite(number));
  });
}

bool names_a_limit(const std::string& what) {
  return contains(what, "a time beyond 9,223,372 s") || contains(what, "a size beyond 9.2e18 bytes (2^63)");
}

// A random number of a scenario: log-uniform between two bounds.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  double magnitude(double low, double high) { return low * std::pow(high / low, double(random_() % 1'000'001) / 1e6); }
  std::int64_t whole(double low, double high) { return std::max<std::int64_t>(1, std::llround(magnitude(low, high))); }
  bool one_in(unsigned n) { return random_() % n == 0; }

 private:
  std::mt19937 random_;
};

}  // namespace

// 150 micro-batches of 3 hours on 4 stages: (150 + 3) x 3 h = 1,652,400 s. 900 of them would take (900 + 3) x 3 h =
// 9,752,400 s, but 2^63 ps are 9,223,372 s.
TEST_CASE("a step is exact up to 106 days, and refused beyond") {
  const auto pipeline = [](int microbatches) {
    return load(
        fmt::format("version: 1\nparallelism: {{pipeline: 4}}\nbatch: {{microbatches: {}}}\n"
                    "costs: {{forward: 1h, backward: 1h, weight: 1h}}\nschedule: 1f1b\n",
                    microbatches));
  };
  const auto exact = told(pipeline(150));
  CHECK(exact["iteration_s"] == 1'652'400);
  check_no_negative(exact);
  CHECK_THROWS_WITH_AS(answer::predict(pipeline(900)), doctest::Contains("9,223,372 s"), UserError);
}

TEST_CASE("sequences, links and memory beyond what can be counted are refused by name") {
  const std::string binary = "'" REHEARSE_BINARY "' ", null = " 2>&1";
  const std::string t1 = "'" PROJECT_ROOT "/scenarios/megatron21-t1/gpt-1.7b-32xa100.yaml' ";
  const std::string gpt3 = "'" PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml' ";
  for (const auto& command : {"run " + gpt3 + "--set cluster.links.scale_out.bandwidth=200B/s",
                              "run " + t1 + "--set batch.sequence=5414093"}) {
    CAPTURE(command);
    const auto run = shell(binary + command + null);
    CHECK(run.status == 2);
    CHECK_MESSAGE(contains(run.out, "a time beyond 9,223,372 s"), run.out);
  }
  const auto large = shell(binary + "run " + t1 + "--set batch.sequence=1000000000" + null);
  CHECK(large.status == 2);
  CHECK_MESSAGE(names_a_limit(large.out), large.out);
}

// With F = I = W on every stage and no transfers a step of 1f1b takes (m + p - 1) x 3 F.
TEST_CASE("given times of any magnitude: by the formula, or refused") {
  Dice dice(4);
  int answered = 0, beyond = 0;
  for (int n = 0; n < 300; ++n) {
    const std::int64_t time = dice.whole(dice.one_in(2) ? 1 : 1e15, 3.6e15);
    const std::int64_t m = dice.one_in(3) ? dice.whole(800, 3000) : dice.whole(1, 100), p = dice.whole(1, 4);
    const auto text = fmt::format(
        "version: 1\nparallelism: {{pipeline: {}}}\nbatch: {{microbatches: {}}}\n"
        "costs: {{forward: {}ps, backward: {}ps, weight: {}ps}}\nschedule: 1f1b\n",
        p, m, time, time, time);
    CAPTURE(text);
    const auto expected = __int128(m + p - 1) * 3 * time;
    try {
      const auto makespan = answer::predict(load(text)).timeline.makespan();
      CHECK(makespan.count() == static_cast<std::int64_t>(expected));
      CHECK(expected < __int128(1) << 63);
      ++answered;
    } catch (const UserError& error) {
      // Refused answers exceed the limit, or might by what is known before the walk: the sum of all stages.
      CHECK(expected * p >= __int128(9'200'000) * 1'000'000'000'000);
      CHECK(contains(error.what(), "9,223,372 s"));
      ++beyond;
    }
  }
  CHECK(answered > 100);
  CHECK(beyond > 20);
}
