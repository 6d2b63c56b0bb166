// What performed runs add to the report: hand-made timelines, independent of the machine.
#include <doctest/doctest.h>

#include "graph/builder.hpp"
#include "report/measured_text.hpp"
#include "report/pages.hpp"
#include "report/validate_report.hpp"

using namespace rehearsal;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Two ranks, one forward each; nothing is modelled.
struct Subject {
  answer::Result real;
  timeline::Timeline predicted;

  Subject() {
    auto question = std::make_shared<answer::LoweredJob>();
    auto& scenario = question->scenario;
    scenario.name = "hand-made";
    scenario.abstract.emplace();
    scenario.parallelism.pipeline = 2;
    question->durations = {seconds(10e-3)};
    graph::GraphBuilder builder;
    graph::ProgramBuilder program("p");
    program.add({builder.intern(graph::FixedDelay{question->durations[0]}),
                 graph::Lane::compute,
                 {graph::Pass::forward, 0, graph::kNoLayer, 0},
                 graph::kNoEndpoint,
                 {}});
    const auto id = builder.add(std::move(program).finish());
    builder.add_rank(id, 1, 0), builder.add_rank(id, 1, 1);
    question->graph = std::move(builder).finish();
    answer::Result prediction;
    prediction.lowered = question;
    prediction.timeline = predicted = spans({10e-3, 10e-3});
    // Iterations of 12.5, 20 and 16 ms: the last is the median.
    auto timeline = spans({16e-3, 12e-3});
    for (const double length : {12.5e-3, 20e-3, 16e-3}) {
      const auto one = spans({length, length});
      timeline.iterations.push_back({one.start, one.end});
      timeline.iteration_end.push_back(seconds(length));
    }
    timeline.iteration_end.erase(timeline.iteration_end.begin());
    timeline.median_iteration = 2;
    timeline.backend = "loopback", timeline.fidelity = timeline::Fidelity::timed;
    real = answer::performed(prediction, std::move(timeline));
  }

  static timeline::Timeline spans(const std::vector<double>& ends) {
    timeline::Timeline t;
    for (const double end : ends) t.start.push_back({}), t.end.push_back(seconds(end));
    t.iteration_end = {*std::max_element(t.end.begin(), t.end.end())};
    return t;
  }
  std::string text() const { return report::run_text(real, {.width = 120}); }
};

}  // namespace

TEST_CASE("a prediction stands beside the measured iteration") {
  Subject s;
  // 10 / 16 - 1 = -37.5 %.
  CHECK(contains(s.text(), "Predicted    10.000 ms        37.5 % shorter than measured"));
  CHECK(report::iterations_note(s.real.measured->iterations) == "median of 3; p10 .. p90: 12.500 ms .. 20.000 ms");
  CHECK_FALSE(contains(s.text(), "Disturbed"));
  CHECK_FALSE(contains(s.text(), "High water"));  // timed: no buffers
  s.real.timeline.disturbances = {"somebody else computed"};
  CHECK(contains(s.text(), "Disturbed"));
  CHECK(contains(s.text(), "- somebody else computed"));
}

TEST_CASE("pages warn as the text does, and show the spread") {
  Subject s;
  const auto comparison = timeline::compare(s.real.graph(), s.predicted, s.real.timeline);
  const auto measured = [&] { return page::html(report::run_page(s.real, {"rehearse measure x", ""})); };
  const auto validated = [&] {
    const report::Validation v{s.real, s.predicted, comparison, "p.json", "00ff", .4};
    return page::html(report::validate_page(v, {"rehearse validate x", ""}));
  };
  for (const auto& html : {measured(), validated()}) {
    CHECK(contains(html, "median of 3; p10 .. p90: 12.500 ms .. 20.000 ms"));
    CHECK_FALSE(contains(html, report::kDisturbed));
  }
  CHECK(contains(validated(), "No disturbance of the machine was noticed"));
  s.real.timeline.disturbances = {"somebody else computed"};
  for (const auto& html : {measured(), validated()}) {
    CHECK(contains(html, report::kDisturbed));
    CHECK(contains(html, "somebody else computed"));
  }
}

TEST_CASE("memory: as predicted, or which rank was not") {
  Subject s;
  s.real.timeline.peak_bytes = {Bytes(1 << 20), Bytes(2 << 20)};
  s.real.measured->predicted_allocated = s.real.timeline.peak_bytes;
  CHECK(contains(s.text(), "as predicted, to the byte (worst 2.00 MiB)"));
  s.real.measured->predicted_allocated[1] = Bytes(3 << 20);
  CHECK(contains(s.text(), "rank 1 held 2.00 MiB at its peak, 3.00 MiB predicted; 1 of 2 ranks differ"));
}

TEST_CASE("a training that differs says so, and where") {
  Subject s;
  answer::Verification v;
  v.steps = 1, v.loss = {2}, v.reference_loss = {2.5}, v.gradient_norm = {1}, v.reference_gradient_norm = {1};
  v.max_relative_difference = .25, v.tolerance = 1e-5, v.worst_tensor = "layer 1 qkv_weight";
  v.failures = {"the loss differs"};
  s.real.measured->verification = v;
  CHECK(contains(s.text(), "NOT VERIFIED"));
  CHECK(contains(s.text(), "weights differ by at most 0.25 relative (layer 1 qkv_weight); allowed are 1e-05"));
  CHECK(contains(s.text(), "- the loss differs"));
  s.real.measured->verification->ok = true, s.real.measured->verification->failures.clear();
  CHECK(contains(s.text(), "Verified"));
  CHECK_FALSE(contains(s.text(), "What differs"));
}

TEST_CASE("validate: one table, both timelines, a tolerance") {
  const Subject s;
  CHECK(s.real.summary.iteration == seconds(16e-3));  // the median, not the last that ran
  const auto comparison = timeline::compare(s.real.graph(), s.predicted, s.real.timeline);
  report::Validation v{s.real, s.predicted, comparison, "p.json", "00ff", .4};
  CHECK(v.within_tolerance());  // 37.5 % off
  auto text = report::validate_text(v, {});
  CHECK(contains(text, "-37.5 %"));
  CHECK(contains(text, "holds"));
  CHECK(contains(text, "rank 0 predicted  F"));
  CHECK(contains(text, "  measured        F"));
  CHECK(contains(text, "no disturbance noticed"));
  v.tolerance = .37;
  CHECK_FALSE(v.within_tolerance());
  CHECK(contains(report::validate_text(v, {}), "DOES NOT HOLD"));
  CHECK(report::validate_csv(v).starts_with("class,in_sample,tasks,predicted_s,measured_s,sum_error,"));
}
