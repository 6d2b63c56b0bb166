// `job`: from a step to a whole training. Its numbers worked out by hand: tests/unit/job.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "predicted.hpp"
#include "report/run_report.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const job::WholeRun& run_of(const answer::Result& p) {
  REQUIRE(p.summary.job);
  return *p.summary.job;
}

std::string refused(const std::string& job) {
  try {
    predicted_file("llama3-8b-dgx-h100.yaml", {"job=" + job});
  } catch (const UserError& e) {
    return e.diagnostics()[0].message;
  }
  return "";
}

}  // namespace

TEST_CASE("days are steps times the step, with the step's band") {
  const auto p = predicted_file("llama3-8b-dgx-h100.yaml",
                                {"job={tokens: 1T, gpu_hour: 2, currency: USD, carbon: 0.4kg/kWh, power: {pue: 1}}"});
  const auto& run = run_of(p);
  const auto& batch = p.scenario().batch;
  CHECK(run.steps == std::ceil(1e12 / double(batch.global * batch.sequence)));
  const double days = run.steps * to_seconds(p.summary.iteration) / 86400;
  CHECK(run.expected.days == doctest::Approx(days));
  CHECK(*run.expected.cost == doctest::Approx(days * 24 * 2 * double(p.summary.gpus)));
  CHECK(run.low->days == doctest::Approx(days * *p.summary.error_band.low));
  CHECK(run.high->days == doctest::Approx(days * *p.summary.error_band.high));
  // The limit of the GPUs is 700 W; the rest of a node draws 2 kW by default.
  CHECK(*run.expected.energy_mwh == doctest::Approx(days * 24 * (double(p.summary.gpus) * 700 + 2000) * 1e-6));
  CHECK(*run.expected.carbon_t == doctest::Approx(*run.expected.energy_mwh * .4));
}

TEST_CASE("JSON has what the contract names, and nothing of a job where there is none") {
  const auto json = [](const Sets& sets) {
    return report::to_json(predicted_file("llama3-8b-dgx-h100.yaml", sets), "1").dump(2);
  };
  CHECK(json({}).find("\"job\"") == std::string::npos);
  const auto all = json({"job={steps: 10000, failures: {per_1000_node_days: 100}}"});
  const auto with = all.substr(all.find("\"job\""));
  for (const char* key : {"steps", "days", "gpu_hours", "cost", "energy_mwh", "goodput", "failures",
                          "checkpoint_interval_s", "low", "high"}) {
    CAPTURE(key);
    CHECK(with.find(fmt::format("\"{}\":", key)) != std::string::npos);
  }
  CHECK(with.find("\"steps\": 10000,") != std::string::npos);
  CHECK(with.find("\"cost\": null") != std::string::npos);  // no price was given
}

TEST_CASE("published runs beside what is predicted of them") {
  // 419 interruptions in 54 days, more than 90 % effective (arXiv 2407.21783, section 3.3.4).
  const auto llama = predicted_file("runs/llama3-405b-16384xh100.yaml", {});
  const auto& run = run_of(llama);
  CHECK(run.failures / run.expected.days == doctest::Approx(419. / 54).epsilon(.05));
  CHECK(run.expected.goodput > .9);
  CHECK(run.expected.goodput < .95);
  // 117 days and 1.08 M GPU-hours without spares; the band contains both.
  const auto bloom = predicted_file("runs/bloom-176b-384xa100.yaml", {});
  const auto& b = run_of(bloom);
  CHECK(b.low->days < 117);
  CHECK(b.high->days > 117);
  CHECK(b.failures / (b.expected.days / 7) == doctest::Approx(1.5).epsilon(.1));  // one or two a week
  // Opt: 33 days of computing took 56; the divergence in its logbook is not part of a failure rate.
  const auto opt = predicted_file("runs/opt-175b-992xa100.yaml", {});
  CHECK(run_of(opt).expected.goodput < .85);
  CHECK(run_of(opt).failures / run_of(opt).expected.days == doctest::Approx(2).epsilon(.15));  // two machines a day
}

TEST_CASE("a wrong question says what is missing") {
  CHECK(refused("{gpu_hour: 2}").find("one of 'tokens', 'steps' and 'samples'") != std::string::npos);
  CHECK(refused("{tokens: 1T, steps: 5}").find("found more") != std::string::npos);
  CHECK(refused("{tokens: 1T, gpu_hour: 2}").find("has no unit") != std::string::npos);
  CHECK(refused("{tokens: 1T, deadline: 30}").find("has no unit") != std::string::npos);
  CHECK(refused("{tokens: 1T, deadline: -1d}").find("negative") != std::string::npos);
  CHECK(refused("{tokens: 1T, deadline: 0}").find("above zero") != std::string::npos);
  CHECK(refused("{tokens: 1T, budget: 1M, currency: USD}").find("'gpu_hour'") != std::string::npos);
  CHECK(refused("{tokens: 1T, power: {gpu: 700}}").find("has no unit") != std::string::npos);
  CHECK(refused("{tokens: 1T, carbon: 0.4}").find("has no unit") != std::string::npos);
  CHECK(refused("{tokens: 1T, spares: 3}").find("'failures'") != std::string::npos);
  CHECK(refused("{tokens: 1T, failures: {}}").find("how often") != std::string::npos);
  CHECK(refused("{tokens: 1T, failures: {per_1000_node_days: 4, repair: 2h}}").find("'spares'") != std::string::npos);
  CHECK(refused("{tokens: 1T, failures: {per_1000_node_days: 1000000, restart: 1d}}").find("less than 1 %") !=
        std::string::npos);
  CHECK(refused("{tokens: 1T, failure: {}}").find("failures") != std::string::npos);  // the nearest spelling
}
