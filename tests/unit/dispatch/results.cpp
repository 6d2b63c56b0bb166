// One timeline and one network from the results of the ranks; all numbers by hand.
#include "dispatch/results.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "graph/builder.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;
using graph::Lane;
using graph::Segment;
using graph::Split;
using graph::TensorKind;
using timeline::Spans;

std::vector<Time> times(std::initializer_list<std::int64_t> counts) {
  std::vector<Time> all;
  for (const std::int64_t count : counts) all.push_back(count < 0 ? kSeenByReceiver : Time(count));
  return all;
}

// Rank 0: compute, send; rank 1: receive, compute. `lane`: of the send.
graph::TaskGraph pair(Lane lane) {
  graph::GraphBuilder graph;
  const WorkId wait = graph.intern(graph::FixedDelay{Time(5)}), receive = graph.intern(graph::Receive{});
  const WorkId message = graph.intern(graph::Message{.size = Bytes(8), .gathered = {}});
  graph::ProgramBuilder a("a"), b("b");
  const auto out = a.endpoint(EndpointKind::send);
  const auto in = b.endpoint(EndpointKind::receive);
  const LocalTask made = a.add({wait, Lane::compute, {}, graph::kNoEndpoint, {}});
  a.add({message, lane, {}, out.value, {}}, std::vector{made});
  const LocalTask got = b.add({receive, Lane::receive, {}, in.value, {}});
  b.add({wait, Lane::compute, {}, graph::kNoEndpoint, {}}, std::vector{got});
  const RankId r0 = graph.add_rank(graph.add(std::move(a).finish()));
  const RankId r1 = graph.add_rank(graph.add(std::move(b).finish()));
  graph.connect(r0, out, r1, in);
  return std::move(graph).finish();
}

// Ranks without tasks that hold the given segments, each with its place.
struct Holder {
  std::uint32_t tensor = 0, data = 0;
  std::vector<Segment> segments;
  std::uint32_t expert = 0, expert_data = 0;
};
graph::TaskGraph holders(const std::vector<Holder>& ranks) {
  graph::GraphBuilder graph;
  std::uint32_t number = 0;
  for (const Holder& holder : ranks) {
    graph::ProgramBuilder p("holder " + std::to_string(number));
    for (Segment segment : holder.segments) {
      segment.parameters = p.resident({Bytes(segment.elements * 4), graph::MemoryCategory::parameters});
      p.segment(segment);
    }
    graph.add_rank(
        graph.add(std::move(p).finish()), 1, number++, 0,
        RankPlace{
            {holder.tensor, 0, holder.data, 0, 0, holder.expert, holder.expert_data}, holder.expert_data, holder.data});
  }
  return std::move(graph).finish();
}

backend::TrainingResult train(const std::vector<Holder>& ranks,
                              const std::vector<std::vector<std::vector<float>>>& held) {
  std::vector<RankResult> results(held.size());
  for (std::size_t r = 0; r < held.size(); ++r) results[r].learned.parameters = held[r];
  return trained(holders(ranks), results);
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("sends end when their receive saw them, and the spans are those of the median iteration") {
  const graph::TaskGraph graph = pair(Lane::send);
  std::vector<RankResult> ranks(2);
  // Three iterations that end at 40, 20 and 30: the median is the last. Only the receiver knows of the first arrival;
  // in the second the sender's idea (9) is earlier than what the lane of the receiver saw (12), in the third later.
  ranks[0].iterations = {
      {times({0, 5}), times({5, -1})}, {times({0, 5}), times({5, 9})}, {times({0, 5}), times({5, 19})}};
  ranks[1].iterations = {
      {times({17, 20}), times({17, 40})}, {times({12, 13}), times({12, 20})}, {times({11, 12}), times({11, 30})}};
  ranks[1].learned.peak = Bytes(7);
  const timeline::Timeline timeline = assemble(graph, ranks, "somewhere", backend::Compute::timed);
  CHECK(timeline.iteration_end == times({40, 20, 30}));
  CHECK(timeline.median_iteration == 2);
  CHECK(timeline.makespan() == Time(30));
  CHECK(timeline.iterations[0].end == times({5, 17, 17, 40}));
  CHECK(timeline.iterations[1].end == times({5, 9, 12, 20}));
  CHECK(timeline.end == times({5, 11, 11, 30}));
  CHECK(timeline.start == times({0, 5, 11, 12}));
  CHECK(timeline.fidelity == timeline::Fidelity::timed);
  CHECK(timeline.backend == "somewhere");
  CHECK(timeline.peak_bytes.empty());  // nothing was allocated
  // p10 = 20, p90 = 40.
  REQUIRE(!timeline.disturbances.empty());
  CHECK(timeline.disturbances[0] == "iterations spread by 100 % (p90 over p10)");

  const timeline::Timeline real = assemble(graph, ranks, "somewhere", backend::Compute::real);
  CHECK(real.fidelity == timeline::Fidelity::exact);
  CHECK(real.peak_bytes == std::vector{Bytes(0), Bytes(7)});
}

TEST_CASE("of an even number of iterations the lower median is shown, and clocks that disagree do no harm") {
  const graph::TaskGraph graph = pair(Lane::send);
  std::vector<RankResult> ranks(2);
  ranks[0].iterations = {{times({0, 5}), times({5, -1})}, {times({0, 5}), times({5, -1})}};
  ranks[1].iterations = {{times({4, 5}), times({4, 12})}, {times({6, 7}), times({6, 11})}};
  const timeline::Timeline timeline = assemble(graph, ranks, "x", backend::Compute::timed);
  CHECK(timeline.median_iteration == 1);
  CHECK(timeline.iterations[0].end[1] == Time(5));  // not before it began
}

TEST_CASE("two clocks may be off from that of rank 0 to different sides: the two worst add up") {
  const graph::TaskGraph graph = pair(Lane::send);
  std::vector<RankResult> ranks(2);
  for (auto& rank : ranks) rank.iterations = {{times({0, 5}), times({5, 9})}};
  CHECK(assemble(graph, ranks, "x", backend::Compute::timed).clock_error == Time{});
  ranks[1].clock_error = Time(30);
  CHECK(assemble(graph, ranks, "x", backend::Compute::timed).clock_error == Time(30));
  ranks[0].clock_error = Time(12);
  CHECK(assemble(graph, ranks, "x", backend::Compute::timed).clock_error == Time(42));
}

TEST_CASE("what disturbs a run") {
  // Two cores, ten iterations; processor seconds of others, of the hypervisor and of the ranks in one second of wall
  // time.
  auto around = [](std::vector<Time> lengths, double others, double stolen, double own, std::size_t computing = 0) {
    return disturbances({std::move(lengths), seconds(1), seconds(others), seconds(stolen), seconds(own), 2, computing});
  };
  std::vector<Time> calm(10, Time(1000)), restless = calm;
  restless[3] = Time(1230);  // one of ten: neither p10 nor p90 sees it
  CHECK(around(calm, 0, 0, 2, 2).empty());
  CHECK(around(restless, 0.05, 0.05, 2, 2).empty());
  restless[7] = Time(1230);  // nearest rank of 0.9 x 9 is the ninth of ten: the second largest
  CHECK(around(restless, 0, 0, 2) == std::vector<std::string>{"iterations spread by 23 % (p90 over p10)"});
  CHECK(around(calm, 0.5, 0, 1.5, 2) == std::vector<std::string>{"other programs used 0.50 of 2 cores"});
  CHECK(around(calm, 0.5, 0, 0.2).empty());  // no core was lacking, and timed tasks need no memory
  CHECK(around(calm, 0.5, 0, 0.2, 1) == std::vector<std::string>{"other programs used 0.50 of 2 cores"});
  CHECK(around(calm, 0.2, 0, 0.9, 1).empty());
  CHECK(around(calm, 0, 0.3, 1.7, 2) == std::vector<std::string>{"the hypervisor took 0.30 of 2 cores"});
  CHECK(contains(around(calm, 0, 0, 2, 3).at(0), "3 ranks computed on 2 cores"));
  CHECK(around({Time(1), Time(100)}, 0, 0, 0).empty());  // two are no distribution
  // Ordinary priority is worth a word where something went wrong, and ticks of a hundredth of a second where they
  // count.
  CHECK(disturbances({calm, seconds(1), seconds(0.5), {}, seconds(1.5), 2, 2, true}).size() == 2);
  CHECK(disturbances({calm, seconds(1), {}, {}, seconds(2), 2, 2, true}).empty());
  CHECK(disturbances({calm, seconds(0.1), seconds(0.05), {}, seconds(0.15), 2, 2}).empty());
}

TEST_CASE("a rank that waits for a core is noticed, in runs too short for processor ticks too") {
  // Ten iterations of 2.6 ms, of which a rank stands 7 ms in the run queue (made up: a run too short for ticks).
  const std::vector<Time> steady(10, seconds(2.6e-3));
  const auto waiting = [&](double waited, std::size_t computing) {
    return disturbances({.lengths = steady,
                         .wall = seconds(26e-3),
                         .own = seconds(19e-3),
                         .cores = 2,
                         .computing_ranks = computing,
                         .waited = seconds(waited)});
  };
  CHECK(waiting(7e-3, 1) == std::vector<std::string>{"a rank waited 27 % of the time for a core that others had"});
  CHECK(waiting(.5e-3, 1).empty());
  CHECK(waiting(7e-3, 0).empty());        // timed tasks sleep
  REQUIRE(waiting(7e-3, 3).size() == 1);  // of three ranks on two cores one always waits for the others
  CHECK(contains(waiting(7e-3, 3)[0], "3 ranks computed on 2 cores"));
}

TEST_CASE("results survive the way as bytes, and a cut is noticed at every place") {
  RankResult result;
  result.iterations = {{times({1, 2}), times({3, -1})}, {times({-1, 5}), {Time(-6), Time(7)}}};
  result.learned.loss = {1.5, -0.25};
  result.learned.squared_gradients = {1e300};
  result.learned.parameters = {{1.f, -2.f, 3e-40f}, {}, {std::nanf("")}};
  result.learned.peak = Bytes(123456789012);
  result.learned.beyond = {Bytes(0), Bytes(77)};
  result.learned.disk = {"io_uring", Bytes(4096), Bytes(1)};
  result.used = {Time(-3), Time(4), Time(5), Time(6)};
  result.raised_priority = true;
  result.clock_error = Time(8);
  result.learned.devices = {{.kernels = 3, .kernel_time = Time(9), .unavailable = "no", .taken = Bytes(5)}};
  const std::string bytes = write(result);
  // 8 bytes for each length (1 + 4 + 1 + 1 + 1 + 3, of three lists that are empty, of two lists and two texts = 18) and
  // each of the 11 times, 3 doubles, 14 integers and a yes or no; 4 for each of the 4 floats; 10 letters.
  CHECK(bytes.size() == 8 * (18 + 11 + 3 + 15) + 4 * 4 + 10);
  const RankResult back = read(bytes);
  REQUIRE(back.learned.devices.size() == 1);
  CHECK(back.learned.devices.front().kernels == 3);
  CHECK(back.learned.devices.front().unavailable == "no");
  CHECK(back.learned.devices.front().taken == Bytes(5));
  REQUIRE(back.iterations.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(back.iterations[i].start == result.iterations[i].start);
    CHECK(back.iterations[i].end == result.iterations[i].end);
  }
  CHECK(back.learned.loss == result.learned.loss);
  CHECK(back.learned.squared_gradients == result.learned.squared_gradients);
  REQUIRE(back.learned.parameters.size() == 3);
  CHECK(back.learned.parameters[0] == result.learned.parameters[0]);
  CHECK(back.learned.parameters[1].empty());
  CHECK(std::isnan(back.learned.parameters[2].at(0)));
  CHECK(back.learned.peak == result.learned.peak);
  CHECK(back.learned.beyond == result.learned.beyond);
  CHECK(back.learned.disk.means == "io_uring");
  CHECK(back.learned.disk.length == Bytes(4096));
  CHECK(back.learned.disk.cached == Bytes(1));
  CHECK(back.clock_error == Time(8));
  CHECK(back.used.own == Time(-3));
  CHECK(back.used.machine == Time(4));
  CHECK(back.used.stolen == Time(5));
  CHECK(back.used.waited == Time(6));
  CHECK(back.raised_priority);
  CHECK(write(back) == bytes);

  for (std::size_t n = 0; n < bytes.size(); ++n)
    CHECK_THROWS_AS(read(std::string_view(bytes).substr(0, n)), MachineError);
  CHECK_THROWS_AS(read(bytes + "x"), MachineError);
  CHECK_THROWS_AS(read(std::string(8, '\xff')), MachineError);  // a length beyond all memory
}

TEST_CASE("ranks with another graph are named") {
  CHECK_NOTHROW(compare_digests({}));
  CHECK_NOTHROW(compare_digests(std::vector<std::string>{"a", "a", "a"}));
  CHECK_THROWS_WITH_AS(compare_digests(std::vector<std::string>{"a", "b", "a", "c"}), doctest::Contains("ranks 1, 3"),
                       MachineError);
}

TEST_CASE("a tensor is put together from slices, without padding") {
  // The whole is [2, 3, 1] = 1 2 3 / 4 5 6; slices of two rows of the middle dimension: rank 0 holds 1 2 / 4 5, rank 1
  // 3 and padding / 6 and padding. Beside it a gain that both hold whole.
  const Segment segment{.parameters = {},
                        .elements = 6,
                        .tensors = {{.kind = TensorKind::up_weight,
                                     .layer = 1,
                                     .offset = 0,
                                     .outer = 2,
                                     .slice = 2,
                                     .extent = 3,
                                     .split = Split::tensor},
                                    {.kind = TensorKind::norm_gain, .offset = 4, .slice = 2, .extent = 2}}};
  const auto result = train({{0, 0, {segment}}, {1, 0, {segment}}}, {{{1, 2, 4, 5, 7, 8}}, {{3, -9, 6, -9, 7, 8.5}}});
  REQUIRE(result.tensors.size() == 2);
  CHECK(result.tensors[0].kind == TensorKind::norm_gain);  // layer 0 comes first
  CHECK(result.tensors[0].values == std::vector<float>{7, 8});
  CHECK(result.tensors[0].replica_difference == .5f);
  CHECK(result.tensors[1].kind == TensorKind::up_weight);
  CHECK(result.tensors[1].layer == 1);
  CHECK(result.tensors[1].values == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(result.tensors[1].replica_difference == 0);
}

TEST_CASE("experts are put together from the ranks that hold them, and sharded among their own replicas") {
  // Four experts of one row of one column each over two expert ranks, two each. Every part is divided among two
  // replicas.
  const Segment segment{.parameters = {},
                        .elements = 2,
                        .shards = 2,
                        .sharded_parameters = true,
                        .tensors = {{.kind = TensorKind::expert_down_weight, .outer = 2, .outer_extent = 4}}};
  std::vector<Holder> ranks;
  std::vector<std::vector<std::vector<float>>> held;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back({0, rank, {segment}});
    ranks.back().expert = rank % 2, ranks.back().expert_data = rank / 2;
    held.push_back({{float(2 * (rank % 2) + rank / 2)}});
  }
  const auto result = train(ranks, held);
  REQUIRE(result.tensors.size() == 1);
  CHECK(result.tensors[0].values == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("a tensor is put together from shards, whose ends fall anywhere") {
  // Five elements and one of padding over two data-parallel ranks: 3 + 3; the second tensor begins inside shard 0.
  const Segment segment{.parameters = {},
                        .elements = 6,
                        .shards = 2,
                        .sharded_parameters = true,
                        .tensors = {{.kind = TensorKind::norm_gain, .offset = 0, .slice = 2, .extent = 2},
                                    {.kind = TensorKind::norm_bias, .offset = 2, .slice = 3, .extent = 3}}};
  const auto result = train({{0, 0, {segment}}, {0, 1, {segment}}}, {{{1, 2, 3}}, {{4, 5, -9}}});
  REQUIRE(result.tensors.size() == 2);
  CHECK(result.tensors[0].values == std::vector<float>{1, 2});
  CHECK(result.tensors[1].values == std::vector<float>{3, 4, 5});
  CHECK(result.tensors[1].replica_difference == 0);
  // A rank that is missing leaves a hole.
  CHECK_THROWS_AS(train({{0, 0, {segment}}}, {{{1, 2, 3}}}), InternalError);
  // A buffer that is not the shard.
  CHECK_THROWS_AS(train({{0, 0, {segment}}}, {{{1, 2, 3, 4, 5, 6}}}), InternalError);
}

TEST_CASE("replicas and tied copies are compared, the original counts") {
  Segment original{
      .parameters = {}, .elements = 2, .tensors = {{.kind = TensorKind::token_table, .slice = 2, .extent = 2}}};
  Segment copy = original;
  copy.copy = true;
  // The copy comes first among the ranks; three values of an entry spread by 0.75.
  auto result = train({{0, 0, {copy}}, {0, 0, {original}}, {0, 1, {original}}}, {{{1, 2.5}}, {{1, 2}}, {{1, 2.75}}});
  CHECK(result.tensors.at(0).values == std::vector<float>{1, 2});
  CHECK(result.tensors.at(0).replica_difference == .75f);
  // What is not a number is equal to nothing.
  result = train({{0, 0, {original}}, {0, 1, {original}}}, {{{1, 2}}, {{1, std::nanf("")}}});
  CHECK(std::isinf(result.tensors.at(0).replica_difference));
}

TEST_CASE("losses add up, gradient norms as squares") {
  std::vector<RankResult> ranks(2);
  ranks[0].learned.loss = {0, 0}, ranks[1].learned.loss = {2, 1.5};
  ranks[0].learned.squared_gradients = {9, 1}, ranks[1].learned.squared_gradients = {16, 0};
  const auto result = trained(holders({{}, {}}), ranks);
  CHECK(result.loss == std::vector<double>{2, 1.5});
  CHECK(result.gradient_norm == std::vector<double>{5, 1});  // sqrt(9 + 16)
  CHECK(result.tensors.empty());
}

}  // namespace rehearsal::dispatch
