// A collective that joins the shelf is simulated and performed: one description, no other code.
#include <doctest/doctest.h>

#include <memory>

#include "../collective_cases.hpp"
#include "cost/cost_model.hpp"
#include "engine/sim.hpp"
#include "graph/builder.hpp"
#include "loopback/loopback.hpp"
#include "scenario/cluster_file.hpp"

namespace rehearsal {
namespace {

constexpr std::uint32_t kMembers = 5;
constexpr std::size_t kElements = 1003;
constexpr double kToyTime = 1e-6;

// Everyone sends everything to rank 0, which adds it up and sends the sum back.
collective::Algorithm star() {
  collective::Algorithm star;
  star.name = "star-all-reduce";
  star.summary = "Rank 0 adds up what all others send, and sends it back.";
  star.kind = CollectiveKind::all_reduce;
  star.parts = 1;
  star.steps = [](collective::Shape) { return 2U; };
  star.bytes_sent_per_rank = [](collective::Shape s, Bytes size) { return size * (s.ranks - 1); };
  star.time = [](collective::Shape, Bytes, const collective::Wires&) { return kToyTime; };
  star.schedule = [](collective::Shape s) {
    std::vector<std::vector<collective::Transfer>> steps(2);
    for (std::uint32_t r = 1; r < s.ranks; ++r)
      steps[0].push_back({r, 0, 0, true}), steps[1].push_back({0, r, 0, false});
    return steps;
  };
  star.protocol = [](const cluster::Interconnect&) { return collective::Protocol{}; };
  return star;
}

// One all-reduce of all ranks.
graph::TaskGraph all_reduce() {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::Collective{.size = Bytes(kElements * 4), .group = {kMembers, 1}});
  graph::ProgramBuilder program("member");
  const auto group = program.endpoint(graph::EndpointKind::group);
  program.add({work, graph::Lane::data_comm, {}, group.value, {}});
  const ProgramId all = builder.add(std::move(program).finish());
  std::vector<graph::GroupMember> members;
  for (std::uint32_t r = 0; r < kMembers; ++r) members.push_back({builder.add_rank(all, 1, r), group});
  builder.add_group(Axis::data, std::move(members));
  return std::move(builder).finish();
}

// Lends its operands to the only task.
class Lender : public dispatch::Worker {
 public:
  explicit Lender(cases::Operands& operands) : operands_(operands) {}
  void begin_step(int) override {}
  void enter(LocalTask) override {}
  void perform(LocalTask) override {}
  std::span<std::byte> payload(LocalTask) override { return {}; }
  dispatch::Operands operands(LocalTask) override { return {operands_.in(), operands_.out()}; }
  void leave(LocalTask) override {}
  dispatch::Learned learned() override {
    dispatch::Learned nothing;
    nothing.loss = nothing.squared_gradients = {0};
    return nothing;
  }

 private:
  cases::Operands& operands_;
};

}  // namespace

TEST_CASE("an algorithm that joins the shelf is predicted, simulated and performed") {
  collective::Registry shelf("collective");
  for (const auto& [name, algorithm] : collective::registry()) shelf.add(algorithm);
  shelf.add(star());
  auto machine = scenario::load_named_cluster("this-machine").spec;
  machine.nodes = 1;
  machine.library.algorithms["star-all-reduce"] = {{1, 0}, {1, 0}};
  const cost::CostModel cost(machine, {}, {}, nullptr, shelf);
  const auto graph = all_reduce();
  const auto durations = cost.price(graph.works());
  const auto executions = cost.executions(graph.works());
  REQUIRE(executions.size() == 1);
  REQUIRE(executions.front().algorithm->name == "star-all-reduce");

  backend::RunOptions options;
  options.durations = durations;
  CHECK(engine::make_sim()->prepare(graph)->run(options).makespan() == seconds(kToyTime));

  const cases::Case wanted{CollectiveKind::all_reduce, Precision::fp32, kMembers, kElements};
  std::vector<std::unique_ptr<cases::Operands>> operands;
  for (std::uint32_t r = 0; r < kMembers; ++r) operands.push_back(std::make_unique<cases::Operands>(wanted, r));
  const auto loopback = loopback::make_loopback([&](const graph::TaskGraph&, RankId rank, const backend::RunOptions&) {
    return std::make_unique<Lender>(*operands[rank.index()]);
  });
  options.compute = backend::Compute::real;
  options.executions = executions;
  options.weights = false;
  loopback->prepare(graph)->run(options);
  // Rank 0 adds rank after rank to its own, which is not the order of any ring.
  for (std::uint32_t r = 0; r < kMembers; ++r) {
    CHECK(operands[r]->wrong() == "");
    CHECK(operands[r]->bits() == operands[0]->bits());
  }
  std::vector<float> sums(kElements);
  for (std::size_t e = 0; e < kElements; ++e)
    for (std::uint32_t r = 0; r < kMembers; ++r) sums[e] += cases::value(wanted, r, e);
  CHECK(std::memcmp(sums.data(), operands[0]->out().data(), kElements * 4) == 0);
}

TEST_CASE("what is performed is what was priced, across nodes too") {
  auto machine = scenario::load_named_cluster("dgx-a100-80g").spec;
  machine.nodes = 2;
  const cost::CostModel cost(machine, {}, {});
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                          CollectiveKind::all_to_all, CollectiveKind::shift}) {
    for (const std::int64_t size : {0, 1 << 10, 1 << 20, 1 << 28}) {
      for (const GroupShape group : {GroupShape{1, 1}, {4, 1}, {8, 1}, {16, 1}, {2, 8}}) {
        const graph::Work work = graph::Collective{.kind = kind, .size = Bytes(size), .group = group};
        const auto execution = cost.executions(std::span(&work, 1)).front();
        const auto choice = cost.choose(std::get<graph::Collective>(work));
        CAPTURE(name(kind));
        CAPTURE(size);
        CAPTURE(group.ranks);
        if (size > 0) CHECK(execution.algorithm == choice.algorithm);
        CHECK((execution.algorithm != nullptr) == (group.ranks > 1));
        if (!execution.algorithm) continue;
        CHECK(execution.shape.ranks == group.ranks);
        // Every member's routine can be made of it.
        for (std::uint32_t m = 0; m < group.ranks; ++m) CHECK(!collective::routine(execution, m).moves.empty());
      }
    }
  }
}

}  // namespace rehearsal
