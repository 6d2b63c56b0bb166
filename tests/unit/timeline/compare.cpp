#include "timeline/compare.hpp"

#include <doctest/doctest.h>

#include "small.hpp"

namespace rehearsal::timeline {
namespace {

Spans measured(const std::vector<std::pair<int, int>>& times) {
  const Timeline t = spans(times);
  return {t.start, t.end};
}

// One rank: a forward, a message, a backward of two kernels.
graph::TaskGraph small_graph() {
  graph::GraphBuilder builder;
  const WorkId forward = builder.intern(graph::FixedDelay{Time(10)});
  const WorkId linear = builder.intern(Kernel{KernelKind::linear_input_gradient, {4, 4, 4, 0, 0}, {}});
  const WorkId wide = builder.intern(Kernel{KernelKind::linear_input_gradient, {8, 4, 4, 0, 0}, {}});
  graph::ProgramBuilder program("p");
  program.add(task(forward, Lane::compute, Pass::forward));
  program.add(task(linear, Lane::compute, Pass::input_gradient));
  program.add(task(wide, Lane::compute, Pass::input_gradient));
  builder.add_rank(builder.add(std::move(program).finish()));
  return std::move(builder).finish();
}

}  // namespace

TEST_CASE("quantiles are values that occurred") {
  CHECK(quantile({}, .5) == 0);
  CHECK(quantile({7}, .1) == 7);
  CHECK(quantile({4, 1, 3, 2}, .5) == 2);   // 2 of 4 do not exceed 2
  CHECK(quantile({4, 1, 3, 2}, .51) == 3);  // needs 3 of 4
  CHECK(quantile({4, 1, 3, 2}, .9) == 4);
  CHECK(quantile({5, 1, 2, 3, 4}, 1) == 5);
}

TEST_CASE("a comparison, solved by hand") {
  const auto graph = small_graph();
  const Timeline predicted = spans({{0, 10}, {10, 14}, {14, 20}});
  // Three iterations. Forward 10, 20, 16; kernels 5 + 5, 4 + 8, 8 + 6; lengths 20, 32, 30.
  Timeline real = spans({{0, 16}, {16, 24}, {24, 30}});
  real.iterations = {measured({{0, 10}, {10, 15}, {15, 20}}), measured({{0, 20}, {20, 24}, {24, 32}}),
                     measured({{0, 16}, {16, 24}, {24, 30}})};
  real.iteration_end = {Time(20), Time(32), Time(30)};
  real.median_iteration = 2;

  const Comparison c = compare(graph, predicted, real);
  CHECK(c.iterations.iterations == 3);
  CHECK(c.iterations.median == Time(30));
  CHECK(c.iterations.minimum == Time(20));
  CHECK(c.iterations.p10 == Time(20));
  CHECK(c.iterations.p90 == Time(32));
  // 20 predicted against 20, 32, 30: errors 0, -0.375, -1/3.
  CHECK(c.iteration.predicted == Time(20));
  CHECK(c.iteration.measured == Time(30));
  CHECK(c.iteration.median_error == doctest::Approx(-1. / 3));
  CHECK(c.iteration.p90_error == doctest::Approx(.375));
  CHECK(c.iteration.compared == 3);

  // Ends: predicted 10, 14, 20. First iteration (20 long): 0, -1/20, 0. Second (32): -10/32, -10/32, -12/32. Third
  // (30): -6/30, -10/30, -10/30. In order: -.375 -.333 -.333 -.3125 -.3125 -.2 -.05 0 0; the fifth of nine is -.3125;
  // of the absolutes the ninth (ceil of 8.1) is .375.
  CHECK(c.end_median_error == doctest::Approx(-.3125));
  CHECK(c.end_p90_error == doctest::Approx(.375));
  CHECK(c.measured_end == std::vector<Time>{Time(16), Time(24), Time(30)});

  // Kernels measured 10, 12, 14 in all, forwards 10, 20, 16: the forwards are longer.
  REQUIRE(c.classes.size() == 2);
  const auto& forward = c.classes[0];
  CHECK(forward.name == "forward");
  CHECK(forward.tasks == 1);
  CHECK(forward.of_tasks.predicted == Time(10));
  CHECK(forward.of_tasks.measured == Time(16));
  CHECK(forward.sum_error == doctest::Approx(10. / 16 - 1));
  CHECK(forward.of_tasks.median_error == doctest::Approx(10. / 16 - 1));
  CHECK(forward.of_tasks.p90_error == doctest::Approx(.5));
  const auto& kernels = c.classes[1];
  CHECK(kernels.name == "linear_input_gradient, input_gradient");
  CHECK(kernels.tasks == 2);
  CHECK(kernels.of_tasks.predicted == Time(10));
  CHECK(kernels.of_tasks.measured == Time(12));
  CHECK(kernels.sum_error == doctest::Approx(10. / 12 - 1));
  // 4 against 5, 4, 8 and 6 against 5, 8, 6: -.2, 0, -.5, .2, -.25, 0. Third of six in order (-.5 -.25 -.2 0 0 .2):
  // -.2.
  CHECK(kernels.of_tasks.median_error == doctest::Approx(-.2));
  CHECK(kernels.of_tasks.p90_error == doctest::Approx(.5));
  CHECK(kernels.of_tasks.compared == 6);
}

TEST_CASE("a message of given time is no part of the pass it belongs to") {
  graph::GraphBuilder builder;
  const WorkId given = builder.intern(graph::FixedDelay{Time(10)});
  graph::ProgramBuilder from("p"), to("q");
  const auto out = from.endpoint(graph::EndpointKind::send), in = to.endpoint(graph::EndpointKind::receive);
  from.add(task(given, Lane::compute, Pass::backward));
  from.add(task(given, Lane::send, Pass::backward, out.value));
  to.add(task(builder.intern(graph::Receive{}), Lane::receive, Pass::backward, in.value));
  const RankId sender = builder.add_rank(builder.add(std::move(from).finish()));
  builder.connect(sender, out, builder.add_rank(builder.add(std::move(to).finish())), in);
  const auto graph = std::move(builder).finish();
  CHECK(task_class(graph, graph.programs()[0], 0) == "backward");
  CHECK(task_class(graph, graph.programs()[0], 1) == "send, backward");
  const Timeline both = spans({{0, 10}, {10, 20}, {20, 20}});
  CHECK(compare(graph, both, both).classes.size() == 2);  // the receive has none
}

TEST_CASE("what takes no time has no relative error; a timeline without iterations is one") {
  const auto graph = small_graph();
  const Timeline predicted = spans({{0, 10}, {10, 14}, {14, 20}});
  const Timeline real = spans({{0, 8}, {8, 8}, {8, 14}});
  const Comparison c = compare(graph, predicted, real);
  CHECK(c.iterations.iterations == 1);
  CHECK(c.iteration.median_error == doctest::Approx(20. / 14 - 1));
  REQUIRE(c.classes.size() == 2);
  CHECK(c.classes[1].of_tasks.compared == 1);  // 6 against 6
  CHECK(c.classes[1].of_tasks.median_error == 0);
  CHECK(c.classes[1].sum_error == doctest::Approx(10. / 6 - 1));  // 4 + 6 against 0 + 6
}

TEST_CASE("shapes that were sampled and shapes that were not are two entries") {
  const auto graph = small_graph();
  const Timeline predicted = spans({{0, 10}, {10, 14}, {14, 20}}), real = spans({{0, 8}, {8, 12}, {12, 17}});
  // Works in order: the wait, the kernel (4 against 4), the wide kernel (6 against 5).
  const Sampling sampling[] = {Sampling::unknown, Sampling::in_sample, Sampling::out_of_sample};
  const Comparison c = compare(graph, predicted, real, sampling);
  REQUIRE(c.classes.size() == 3);
  CHECK(c.classes[0].sampling == Sampling::unknown);
  CHECK(c.classes[1].name == c.classes[2].name);
  CHECK(c.classes[1].sampling == Sampling::out_of_sample);
  CHECK(c.classes[1].sum_error == doctest::Approx(.2));
  CHECK(c.classes[2].sampling == Sampling::in_sample);
  CHECK(c.classes[2].sum_error == 0);
}

}  // namespace rehearsal::timeline
