// One rank against a transport that only records: what it posts, takes and joins, and in which order.
#include "dispatch/rank_loop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "collective/registry.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/performable.hpp"
#include "dispatch/results.hpp"
#include "dispatch/watchdog.hpp"
#include "graph/builder.hpp"

namespace rehearsal::dispatch {
namespace {

using backend::RunOptions;
using graph::EndpointKind;
using graph::Lane;

// Every message arrives at once, and all other ranks have joined already.
class Recorder : public Transport {
 public:
  bool wire = true;
  std::vector<std::string> calls;

  bool has_wire() const override { return wire; }
  Posted post(graph::EndpointId, std::span<const std::byte> message, Time lasts) override {
    calls.push_back("post " + std::to_string(message.size()));
    const Time at = now();
    return {at, wire ? std::nullopt : std::optional(at + lasts)};
  }
  std::optional<Time> arrived(graph::EndpointId, std::uint32_t) override { return origin; }
  void take(graph::EndpointId, std::span<std::byte> into) override {
    calls.push_back("take " + std::to_string(into.size()));
  }
  void join(graph::EndpointId, CollectiveKind, Precision, const Operands& operands,
            const collective::Execution* by) override {
    calls.push_back("join " + std::to_string(operands.in.size()) + " " + std::to_string(operands.out.size()));
    performed_by = by;
    met = now();
  }
  const collective::Execution* performed_by = nullptr;
  std::optional<Meeting> joined(graph::EndpointId) override { return Meeting{met, met}; }
  void wait(Time deadline) override { sleep_until(deadline); }
  Time agree_on_start() override { return origin = now(); }

 private:
  Time origin, met;
};

constexpr std::uint32_t kOpen = graph::kNoEndpoint;

// Two ranks with the same program: receive from the other, compute, send to the other (64 bytes), then an all-gather
// and a reduce-scatter of 64 bytes over both. `of_waits`: the message is a Wait, as in abstract scenarios.
struct Exchange {
  graph::TaskGraph graph;
  std::vector<Time> durations;
};
Exchange exchange(Lane send_lane, bool of_waits) {
  graph::GraphBuilder graph;
  std::vector<Time> durations;
  auto intern = [&](const graph::Work& work, double ms) {
    const WorkId id = graph.intern(work);
    durations.push_back(seconds(ms * 1e-3));
    return id;
  };
  const WorkId receive = intern(graph::Receive{}, 0), compute = intern(Gemm{.m = 1, .n = 1, .k = 1}, 3);
  const WorkId message = of_waits ? intern(graph::FixedDelay{seconds(2e-3)}, 2)
                                  : intern(graph::Message{.size = Bytes(64), .gathered = {}}, 2);
  const WorkId gather = intern(graph::Collective{CollectiveKind::all_gather, Bytes(64), {}}, 4),
               scatter = intern(graph::Collective{CollectiveKind::reduce_scatter, Bytes(64), {}}, 1);
  graph::ProgramBuilder p("p");
  const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send),
             group = p.endpoint(EndpointKind::group);
  const LocalTask got = p.add({receive, Lane::receive, {}, in.value, {}});
  const LocalTask made = p.add({compute, Lane::compute, {}, kOpen, {}}, std::vector{got});
  p.add({message, send_lane, {}, out.value, {}}, std::vector{made});
  p.add({gather, Lane::data_comm, {}, group.value, {}}, std::vector{made});
  p.add({scatter, Lane::data_comm, {}, group.value, {}});
  const ProgramId program = graph.add(std::move(p).finish());
  const RankId a = graph.add_rank(program), b = graph.add_rank(program);
  graph.connect(a, out, b, in), graph.connect(b, out, a, in);
  graph.add_group(Axis::data, {{a, group}, {b, group}});
  return {std::move(graph).finish(), durations};
}

// A rank that sends to itself, without staging copies for the bytes.
graph::TaskGraph message_alone() {
  graph::GraphBuilder builder;
  graph::ProgramBuilder p("p");
  const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send);
  p.add({builder.intern(graph::Receive{}), Lane::receive, {}, in.value, {}});
  p.add({builder.intern(graph::Message{.size = Bytes(4), .gathered = {}}), Lane::send, {}, out.value, {}});
  const RankId rank = builder.add_rank(builder.add(std::move(p).finish()));
  builder.connect(rank, out, rank, in);
  return std::move(builder).finish();
}

timeline::Spans iterate(const Exchange& subject, Recorder& transport, const RunOptions& given = {}) {
  RunOptions options = given;
  options.durations = subject.durations;
  Progress progress;
  RankLoop loop(subject.graph, RankId(0), options, transport, nullptr, progress);
  const std::atomic<bool> stop{false};
  auto spans = loop.iterate(0, stop);
  CHECK(loop.heads().empty());
  CHECK(progress.moves == 2 * 5);
  return spans;
}

}  // namespace

TEST_CASE("timed compute over a wire sends dummies of the right size and takes what arrives") {
  Recorder transport;
  const Exchange subject = exchange(Lane::send, false);
  const auto spans = iterate(subject, transport);
  // 64 bytes over two ranks: an all-gather gives 32 and gets 64, a reduce-scatter the other way round.
  CHECK(transport.calls == std::vector<std::string>{"take 64", "post 64", "join 32 64", "join 64 32"});
  CHECK(spans.end[0] == Time{});  // everything had arrived at the start
  CHECK(spans.end[1] - spans.start[1] >= seconds(3e-3));
  CHECK(spans.end[2] == kSeenByReceiver);
  CHECK(spans.end[3] - spans.start[3] < seconds(4e-3));  // takes what it takes, which here is nothing
}

TEST_CASE("collectives are performed by the algorithm of their work, or by the library where it is asked for") {
  const Exchange subject = exchange(Lane::send, false);
  std::vector<collective::Execution> executions(subject.graph.works().size());
  executions.back() = {&collective::registry().at("ring-reduce-scatter"), 2, 1};  // of the last collective's work
  RunOptions options;
  options.executions = executions;
  Recorder own, library;
  iterate(subject, own, options);
  CHECK(own.performed_by == &executions.back());
  options.collectives = backend::Collectives::library;
  iterate(subject, library, options);
  CHECK(library.performed_by == nullptr);
}

TEST_CASE("a work without a size still sends something over a wire") {
  Recorder transport;
  iterate(exchange(Lane::send, true), transport);
  CHECK(transport.calls.front() == "take 1");
  CHECK(transport.calls.at(1) == "post 1");
}

TEST_CASE("without a wire nothing travels, and everything takes its predicted time") {
  Recorder transport;
  transport.wire = false;
  const Exchange subject = exchange(Lane::send, false);
  const auto spans = iterate(subject, transport);
  CHECK(transport.calls == std::vector<std::string>{"post 0", "join 0 0", "join 0 0"});
  CHECK(spans.end[2] - spans.start[2] >= seconds(2e-3));
  CHECK(spans.end[3] - spans.start[3] >= seconds(4e-3));
  CHECK(spans.start[3] < spans.end[2]);  // a message on its way keeps no lane
}

TEST_CASE("a send on the compute lane keeps the rank busy") {
  for (const bool wire : {false, true}) {
    Recorder transport;
    transport.wire = wire;
    const auto spans = iterate(exchange(Lane::compute, false), transport);
    CHECK(spans.end[2] - spans.start[2] >= seconds(2e-3));
    CHECK(spans.end[2] != kSeenByReceiver);
  }
}

TEST_CASE("a task that is left out takes no time and no part") {
  Recorder transport;
  RunOptions options;
  options.fault_injection.skip = [](RankId rank, LocalTask task, int) { return rank.value == 0 && task.value != 4; };
  const auto spans = iterate(exchange(Lane::send, false), transport, options);
  CHECK(transport.calls == std::vector<std::string>{"join 64 32"});
  CHECK(spans.end[1] == spans.start[1]);
}

TEST_CASE("real compute is refused where there is no kernel, by name") {
  const Exchange subject = exchange(Lane::send, false);
  const auto why = why_not_real(subject.graph);
  REQUIRE(why.has_value());
  CHECK(*why == "F0 s0 l0 gemm of rank 0 (gemm 1x1x1 bf16) cannot be computed for real; use --compute timed");
  Recorder transport;
  Progress progress;
  RunOptions options;
  options.compute = backend::Compute::real;
  CHECK_THROWS_AS(RankLoop(subject.graph, RankId(0), options, transport, nullptr, progress), UserError);
}

TEST_CASE("what can be computed for real: kernels, handovers with their messages, collectives; ranks for themselves") {
  auto graph = [](std::uint32_t multiplicity, bool staging_copies) {
    graph::GraphBuilder builder;
    graph::ProgramBuilder p("p");
    const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send),
               group = p.endpoint(EndpointKind::group);
    const WorkId take = builder.intern(graph::StagingCopy{Bytes(4), true}),
                 post = builder.intern(graph::StagingCopy{Bytes(4), false});
    const WorkId message = builder.intern(graph::Message{.size = Bytes(4), .gathered = {}});
    p.add({builder.intern(graph::FixedDelay{}), Lane::compute, {}, kOpen, {}});
    p.add({builder.intern(Kernel{.kind = KernelKind::clear, .dims = {1}}), Lane::compute, {}, kOpen, {}});
    if (staging_copies) {
      const LocalTask made = p.add({post, Lane::compute, {}, kOpen, {}});
      p.add({message, Lane::send, {}, out.value, {}}, std::vector{made});
      const LocalTask got = p.add({builder.intern(graph::Receive{}), Lane::receive, {}, in.value, {}});
      p.add({take, Lane::compute, {}, kOpen, {}}, std::vector{got});
    }
    p.add({builder.intern(graph::Collective{.size = Bytes(4), .group = {}}), Lane::compute, {}, group.value, {}});
    const RankId rank = builder.add_rank(builder.add(std::move(p).finish()), multiplicity);
    builder.connect(rank, out, rank, in);
    builder.add_group(Axis::data, {{rank, group}});
    return std::move(builder).finish();
  };
  const graph::TaskGraph good = graph(1, true);
  CHECK_FALSE(why_not_real(good).has_value());
  CHECK_FALSE(why_not_real(graph(1, false)).has_value());
  CHECK(why_not_real(graph(16, true)).value_or("").find("rank 0 stands for 16 ranks") == 0);

  const auto alone = why_not_real(message_alone());
  CHECK(alone.value_or("").find("F0 s0 l0 receive of rank 0 (receive) has no other half") == 0);

  const auto other = staging_copies(good, good.programs()[0]);
  CHECK(other == std::vector{kNoTask, kNoTask, LocalTask(3), LocalTask(2), LocalTask(5), LocalTask(4), kNoTask});
}

TEST_CASE("a watchdog expires when nothing moves, waits or computes") {
  Progress a, b;
  const std::vector<const Progress*> ranks{&a, &b};
  Watchdog dog(Time(10));
  CHECK_FALSE(dog.expired(ranks, Time(100)));  // the first look starts the clock
  CHECK_FALSE(dog.expired(ranks, Time(109)));
  ++b.moves;
  CHECK_FALSE(dog.expired(ranks, Time(110)));  // moved at 110
  CHECK_FALSE(dog.expired(ranks, Time(119)));
  a.busy_until = 130;
  CHECK_FALSE(dog.expired(ranks, Time(121)));
  CHECK_FALSE(dog.expired(ranks, Time(139)));  // nine after 130
  b.computing = true;
  CHECK_FALSE(dog.expired(ranks, Time(200)));
  b.computing = false;
  CHECK_FALSE(dog.expired(ranks, Time(209)));
  CHECK(dog.expired(ranks, Time(210)));
}

}  // namespace rehearsal::dispatch
