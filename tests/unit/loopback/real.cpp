// Real compute with a worker that only knows two kernels: the values sent are small integers, so every sum is exact and
// worked out by hand.
#include <doctest/doctest.h>

#include <map>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "graph/builder.hpp"
#include "loopback/loopback.hpp"
#include "loopback/reduce.hpp"

namespace rehearsal::loopback {
namespace {

using backend::RunOptions;
using graph::Access;
using graph::BufferUse;
using graph::EndpointKind;
using graph::Lane;

constexpr std::uint32_t kRanks = 3;
constexpr std::int64_t kElements = 6;  // divisible by the ranks
constexpr int kBreaks = 100;           // step at which the worker of rank 1 throws

// load_rows writes 10^rank x (step + 1) into all elements; add adds its first operand to its second.
class Adder : public dispatch::Worker {
 public:
  Adder(const graph::TaskGraph& graph, RankId rank)
      : graph_(graph), program_(graph.program_of(graph.ranks()[rank.index()])), rank_(rank) {
    for (std::size_t b = 0; b < program_.residents; ++b) allocate(b);
  }

  void begin_step(int step) override { step_ = step; }
  void enter(LocalTask task) override {
    for (const BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::allocate) allocate(use.id().index());
  }
  void perform(LocalTask task) override {
    if (step_ >= kBreaks && rank_.value == 1) throw MachineError("no memory for rows");
    const auto& kernel = std::get<Kernel>(graph_.work(program_.work[task.index()]));
    const auto buffers = used(task);
    if (kernel.kind == KernelKind::load_rows) {
      const int value[] = {1, 10, 100};
      for (float& x : *buffers.at(0)) x = float(value[rank_.index()] * (step_ + 1));
    } else {
      for (std::size_t i = 0; i < buffers.at(0)->size(); ++i) buffers.at(1)->at(i) += buffers.at(0)->at(i);
    }
  }
  std::span<std::byte> payload(LocalTask task) override {
    return std::as_writable_bytes(std::span<float>(*used(task).at(0)));
  }
  dispatch::Operands operands(LocalTask task) override {
    const auto buffers = used(task);
    return {std::as_bytes(std::span(*buffers.front())), std::as_writable_bytes(std::span(*buffers.back()))};
  }
  void leave(LocalTask task) override {
    for (const BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::free) live_.erase(use.id().index());
  }
  dispatch::Learned learned() override {
    dispatch::Learned learned;
    learned.loss = {double(rank_.value)};
    learned.parameters = {live_.at(0)};
    learned.peak = Bytes(peak_);
    CHECK(live_.size() == program_.residents);  // all else was freed
    return learned;
  }

 private:
  void allocate(std::size_t buffer) {
    live_[buffer].assign(static_cast<std::size_t>(program_.buffers[buffer].size.count()) / sizeof(float), -1e6f);
    std::int64_t bytes = 0;
    for (const auto& [id, values] : live_) bytes += std::int64_t(values.size() * sizeof(float));
    peak_ = std::max(peak_, bytes);
  }
  std::vector<std::vector<float>*> used(LocalTask task) {
    std::vector<std::vector<float>*> buffers;
    for (const BufferUse& use : program_.uses[task.index()])
      if (use.how() == Access::read || use.how() == Access::write) buffers.push_back(&live_.at(use.id().index()));
    return buffers;
  }

  const graph::TaskGraph& graph_;
  const graph::Program& program_;
  RankId rank_;
  int step_ = 0;
  std::int64_t peak_ = 0;
  std::map<std::size_t, std::vector<float>> live_;
};

BufferUse use(BufferId buffer, Access how) { return {buffer, how}; }

// Rank r loads its number, adds what rank r-1 sends, and sends the sum on; `messages` times. Then the sums are
// all-reduced, reduce-scattered and gathered again, which multiplies by the number of ranks; into the resident.
graph::TaskGraph chain(std::uint32_t messages) {
  graph::GraphBuilder graph;
  const Bytes whole(kElements * 4), part(kElements * 4 / kRanks);
  auto kernel = [&](KernelKind kind) { return graph.intern(Kernel{.kind = kind, .dims = {kElements}}); };
  const WorkId load = kernel(KernelKind::load_rows), add = kernel(KernelKind::add);
  const WorkId out = graph.intern(graph::StagingCopy{whole, false}), in = graph.intern(graph::StagingCopy{whole, true});
  const WorkId message = graph.intern(graph::Message{.size = whole, .gathered = {}});
  const WorkId receive = graph.intern(graph::Receive{});
  auto collective = [&](CollectiveKind kind) { return graph.intern(graph::Collective{kind, whole, {}}); };
  const WorkId reduce = collective(CollectiveKind::all_reduce), scatter = collective(CollectiveKind::reduce_scatter),
               gather = collective(CollectiveKind::all_gather);

  std::vector<RankId> ranks;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    graph::ProgramBuilder p("link");
    const auto from = r > 0 ? p.endpoint(EndpointKind::receive) : graph::EndpointId(9);
    const auto to = r + 1 < kRanks ? p.endpoint(EndpointKind::send) : graph::EndpointId(9);
    const auto group = p.endpoint(EndpointKind::group);
    constexpr auto kOpen = graph::kNoEndpoint;
    const BufferId result = p.resident({whole, graph::MemoryCategory::parameters});
    p.segment({.parameters = result,
               .elements = kElements,
               .tensors = {{.kind = graph::TensorKind::token_table, .slice = kElements, .extent = kElements}}});
    std::vector<LocalTask> last;
    for (std::uint32_t m = 0; m < messages; ++m) {
      const graph::Coordinates at{graph::Pass::forward, static_cast<std::uint16_t>(r), graph::kNoLayer, m};
      const BufferId sum = p.buffer({whole});
      p.add({load, Lane::compute, at, kOpen, {}}, {}, std::vector{use(sum, Access::allocate), use(sum, Access::write)});
      if (r > 0) {
        const BufferId got = p.buffer({whole});
        const LocalTask arrival = p.add({receive, Lane::receive, at, from.value, {}});
        p.add({in, Lane::compute, at, kOpen, {}}, std::vector{arrival},
              std::vector{use(got, Access::allocate), use(got, Access::write)});
        p.add({add, Lane::compute, at, kOpen, {}}, {},
              std::vector{use(got, Access::read), use(sum, Access::write), use(got, Access::free)});
      }
      if (r + 1 < kRanks) {
        const LocalTask posted = p.add({out, Lane::compute, at, kOpen, {}}, {}, std::vector{use(sum, Access::read)});
        p.add({message, Lane::send, at, to.value, {}}, std::vector{posted});
      }
      // result = sum of the last message only: every message of a step is the same
      if (m + 1 < messages) {
        const LocalTask freed =
            p.add({add, Lane::compute, at, kOpen, {}}, {},
                  std::vector{use(sum, Access::read), use(sum, Access::write), use(sum, Access::free)});
        last = {freed};
        continue;
      }
      const BufferId share = p.buffer({part});
      const LocalTask before(p.size() - 1);
      const LocalTask reduced = p.add({reduce, Lane::data_comm, at, group.value, {}}, std::vector{before},
                                      std::vector{use(sum, Access::write)});  // in place
      const LocalTask scattered = p.add({scatter, Lane::data_comm, at, group.value, {}}, std::vector{reduced},
                                        std::vector{use(share, Access::allocate), use(sum, Access::read),
                                                    use(share, Access::write), use(sum, Access::free)});
      p.add({gather, Lane::data_comm, at, group.value, {}}, std::vector{scattered},
            std::vector{use(share, Access::read), use(result, Access::write), use(share, Access::free)});
    }
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  // Endpoints in the order in which they were made: rank 0 send, group; rank 1 receive, send, group; rank 2 receive,
  // group.
  const graph::EndpointId e0(0), e1(1), e2(2);
  graph.connect(ranks[0], e0, ranks[1], e0);
  graph.connect(ranks[1], e1, ranks[2], e0);
  graph.add_group(Axis::data, {{ranks[0], e1}, {ranks[1], e2}, {ranks[2], e1}});
  return std::move(graph).finish();
}

std::unique_ptr<backend::Session> session(const graph::TaskGraph& graph) {
  return make_loopback(
             [](const graph::TaskGraph& g, RankId rank, const RunOptions&) { return std::make_unique<Adder>(g, rank); })
      ->prepare(graph);
}

RunOptions real(int warmup, int iterations) {
  RunOptions options;
  options.compute = backend::Compute::real;
  options.warmup = warmup;
  options.iterations = iterations;
  options.timeout = seconds(5);
  return options;
}

}  // namespace

TEST_CASE("integers travel through messages and collectives") {
  const graph::TaskGraph graph = chain(4);
  const auto run = session(graph);
  const backend::Timeline timeline = run->run(real(1, 4));  // the last step is step 4: factor 5
  const backend::TrainingResult trained = run->trained();

  // Rank 0 holds 5, rank 1 5 + 50 = 55, rank 2 55 + 500 = 555: together 615 after the all-reduce, on every rank; the
  // reduce-scatter adds three of them: 1845, which the all-gather spreads.
  REQUIRE(trained.tensors.size() == 1);
  CHECK(trained.tensors[0].values == std::vector<float>(kElements, 1845));
  CHECK(trained.tensors[0].replica_difference == 0);
  CHECK(trained.loss == std::vector<double>{0. + 1 + 2});

  CHECK(timeline.fidelity == backend::Fidelity::exact);
  REQUIRE(timeline.iterations.size() == 4);
  CHECK(timeline.start == timeline.iterations[timeline.median_iteration].start);
  // Rank 0 never holds more than its result, one sum and a share; rank 1 also what it received.
  CHECK(timeline.peak_bytes[0] == Bytes(24 + 24 + 8));
  CHECK(timeline.peak_bytes[1] == Bytes(24 + 24 + 24));
  for (const auto& spans : timeline.iterations)
    for (std::size_t r = 0; r < kRanks; ++r) {
      const graph::Program& program = graph.program_of(graph.ranks()[r]);
      Time lane_end;
      for (std::size_t i = 0; i < program.size(); ++i) {
        CAPTURE(graph.label(RankId(r), LocalTask(i)));
        const TaskId id = graph.task(RankId(r), LocalTask(i));
        CHECK(spans.end[id.index()] >= spans.start[id.index()]);
        for (LocalTask before : program.dependencies[i])
          CHECK(spans.end[graph.task(RankId(r), before).index()] <= spans.start[id.index()]);
        if (program.lane[i] == Lane::receive)
          CHECK(spans.end[graph.partner(RankId(r), LocalTask(i)).index()] <= spans.end[id.index()]);
        if (program.lane[i] != Lane::compute) continue;
        CHECK(lane_end <= spans.start[id.index()]);
        lane_end = spans.end[id.index()];
      }
    }
}

TEST_CASE("a handover that is left out shows in the sum, and does not shift the messages after it") {
  const graph::TaskGraph graph = chain(2);
  const auto run = session(graph);
  auto options = real(0, 1);
  // Rank 2's tasks: load, receive, take, add (first message), add that frees, load, receive, take, add, ...
  options.fault_injection.skip = [](RankId rank, LocalTask task, int) { return rank.value == 2 && task.value == 2; };
  run->run(options);
  // Only the second message counts: 1 + 11 + 111, three times.
  CHECK(run->trained().tensors[0].values == std::vector<float>(kElements, 3 * 123));

  options.fault_injection.skip = [](RankId rank, LocalTask task, int) { return rank.value == 2 && task.value == 7; };
  run->run(options);
  CHECK(run->trained().tensors[0].values != std::vector<float>(kElements, 3 * 123));
}

TEST_CASE("what a rank throws stops all of them and carries its name") {
  const graph::TaskGraph graph = chain(2);
  const auto run = session(graph);
  CHECK_THROWS_WITH_AS(run->run(real(kBreaks, 1)), "loopback, rank 1: no memory for rows", MachineError);
}

TEST_CASE("a handover that is never posted ends in a report") {
  const graph::TaskGraph graph = chain(1);
  auto options = real(0, 1);
  options.timeout = seconds(.05);
  options.fault_injection.skip = [](RankId rank, LocalTask task, int) { return rank.value == 0 && task.value == 1; };
  CHECK_THROWS_WITH_AS(session(graph)->run(options),
                       doctest::Contains("rank 1: F0 s1 receive waits for rank 0: F0 s0 send"), MachineError);
}

TEST_CASE("collectives in place and apart, summed in the order of the members") {
  // In fp32, 1e8 + 1 = 1e8: summed in order, (1e8 + 1) - 1e8 = 0; any other order gives 1.
  std::vector<std::vector<float>> values{{1e8f, 1, 2}, {1, 10, 20}, {-1e8f, 100, 200}};
  auto ins = [&](std::size_t from, std::size_t size) {
    std::vector<std::span<const std::byte>> spans;
    for (std::size_t m = 0; m < 3; ++m)
      spans.push_back(std::as_bytes(std::span(values[m]).subspan(from == 9 ? m : from, size)));
    return spans;
  };
  auto outs = [](std::vector<std::vector<float>>& all, bool own, std::size_t size) {
    std::vector<std::span<std::byte>> spans;
    for (std::size_t m = 0; m < 3; ++m)
      spans.push_back(std::as_writable_bytes(std::span(all[m]).subspan(own ? m : 0, size)));
    return spans;
  };
  std::vector<std::vector<float>> apart(3, std::vector<float>(3));
  SUBCASE("all-reduce") {
    combine(CollectiveKind::all_reduce, Precision::fp32, ins(0, 3), outs(apart, false, 3));
    combine(CollectiveKind::all_reduce, Precision::fp32, ins(0, 3), outs(values, false, 3));
    for (const auto& all : {apart, values})
      for (const auto& one : all) CHECK(one == std::vector<float>{0, 111, 222});
  }
  SUBCASE("reduce-scatter") {
    combine(CollectiveKind::reduce_scatter, Precision::fp32, ins(0, 3), outs(apart, false, 1));
    CHECK(apart[0][0] == 0);
    CHECK(apart[1][0] == 111);
    CHECK(apart[2][0] == 222);
    combine(CollectiveKind::reduce_scatter, Precision::fp32, ins(0, 3), outs(values, true, 1));
    CHECK(values[0][0] == 0);
    CHECK(values[1][1] == 111);
    CHECK(values[2][2] == 222);
  }
  SUBCASE("all-gather") {
    combine(CollectiveKind::all_gather, Precision::fp32, ins(9, 1), outs(apart, false, 3));  // member m gives element m
    combine(CollectiveKind::all_gather, Precision::fp32, ins(9, 1), outs(values, false, 3));
    for (const auto& all : {apart, values})
      for (const auto& one : all) CHECK(one == std::vector<float>{1e8f, 10, 200});
  }
  SUBCASE("all-to-all") {
    combine(CollectiveKind::all_to_all, Precision::fp32, ins(0, 3), outs(apart, false, 3));
    CHECK(apart[0] == std::vector<float>{1e8f, 1, -1e8f});
    CHECK(apart[1] == std::vector<float>{1, 10, 100});
    CHECK(apart[2] == std::vector<float>{2, 20, 200});
    CHECK_THROWS_AS(combine(CollectiveKind::all_to_all, Precision::fp32, ins(0, 3), outs(values, false, 3)),
                    InternalError);
    CHECK_THROWS_AS(combine(CollectiveKind::all_to_all, Precision::fp32, ins(0, 2), outs(apart, false, 2)),
                    InternalError);
  }
  SUBCASE("shift") {
    const auto before = values;
    combine(CollectiveKind::shift, Precision::fp32, ins(0, 3), outs(apart, false, 3));
    combine(CollectiveKind::shift, Precision::fp32, ins(0, 3), outs(values, false, 3));
    for (const auto& all : {apart, values})
      for (std::size_t m = 0; m < 3; ++m) CHECK(all[(m + 1) % 3] == before[m]);
  }
  SUBCASE("long arrays go block by block") {
    std::vector<float> a(5000), b(5000), sum(5000);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = float(i), b[i] = float(2 * i);
    const std::vector<std::span<const std::byte>> in{std::as_bytes(std::span(a)), std::as_bytes(std::span(b))};
    const std::vector<std::span<std::byte>> out{std::as_writable_bytes(std::span(a)),
                                                std::as_writable_bytes(std::span(b))};
    combine(CollectiveKind::all_reduce, Precision::fp32, in, out);
    for (std::size_t i = 0; i < a.size(); ++i) sum[i] = float(3 * i);
    CHECK(a == sum);
    CHECK(b == sum);
  }
  SUBCASE("lengths that do not fit") {
    CHECK_THROWS_AS(combine(CollectiveKind::all_reduce, Precision::fp32, ins(0, 3), outs(apart, false, 2)),
                    InternalError);
    CHECK_THROWS_AS(combine(CollectiveKind::reduce_scatter, Precision::fp32, ins(0, 2), outs(apart, false, 0)),
                    InternalError);
  }
}

// bf16 has 8 significant bits: 256 + 1 = 257 rounds to even, 256. Added as floats and rounded once, three members give
// 256 + 1 + 1 = 258, which it has; rounded after every sum they would give 256.
TEST_CASE("sums of bf16 are taken in fp32 and rounded once") {
  using Halves = std::vector<std::uint16_t>;
  const auto of = [](std::initializer_list<float> values) {
    Halves halves;
    for (const float v : values) halves.push_back(to_bf16(v));
    return halves;
  };
  std::vector<Halves> values{of({256, 1, -2}), of({1, 2, 3}), of({1, 3, 5})};
  const Halves sums = of({258, 6, 6});
  std::vector<std::span<const std::byte>> in;
  std::vector<std::span<std::byte>> whole, own;
  std::vector<Halves> parts(3, Halves(1));
  for (std::size_t m = 0; m < 3; ++m) {
    in.push_back(std::as_bytes(std::span(values[m])));
    whole.push_back(std::as_writable_bytes(std::span(values[m])));
    own.push_back(std::as_writable_bytes(std::span(parts[m])));
  }
  combine(CollectiveKind::reduce_scatter, Precision::bf16, in, own);
  for (std::size_t m = 0; m < 3; ++m) CHECK(parts[m][0] == sums[m]);
  combine(CollectiveKind::all_reduce, Precision::bf16, in, whole);
  for (const Halves& one : values) CHECK(one == sums);
  CHECK_THROWS_AS(combine(CollectiveKind::all_reduce, Precision::fp16, in, whole), InternalError);
  CHECK_THROWS_AS(combine(CollectiveKind::all_reduce, Precision::fp32, in, whole), InternalError);  // 6 bytes
}

}  // namespace rehearsal::loopback
