#include "traces/comparison.hpp"

#include <doctest/doctest.h>

#include "graph/builder.hpp"
#include "made_up.hpp"

namespace rehearsal::traces {
namespace {

using graph::Category;

plan::Mesh mesh_with(std::uint32_t tensor, std::uint32_t data, std::uint32_t pipeline) {
  plan::Mesh::Sizes sizes{};
  sizes[index(Axis::tensor)] = tensor, sizes[index(Axis::context)] = 1;
  sizes[index(Axis::data)] = data, sizes[index(Axis::pipeline)] = pipeline;
  return plan::Mesh(sizes);
}

struct Asked {
  Trace trace;
  LaunchedKernel kernel;
};
Asked asked(std::int64_t rank, const std::string& name, const std::string& ranks, std::int64_t size) {
  Asked one;
  one.trace.rank = rank;
  one.trace.transfers = {{name, "Float", "1", "", ranks, 8, 8, size}};
  one.kernel.fact = 0, one.kernel.moves = true;
  return one;
}

// Eight ranks, tensor innermost: tensor pairs 0 1, data 0 2, stages 0 4.
TEST_CASE("a collective belongs to the axis whose group has its ranks") {
  const auto group_of = groups_of(mesh_with(2, 2, 2));
  const auto of = [&](std::int64_t rank, const char* name, const char* ranks, std::int64_t size) {
    const auto one = asked(rank, name, ranks, size);
    return group_of(one.trace, one.kernel);
  };
  CHECK(of(0, "allreduce", "[0, 1]", 2) == Category::tensor_comm);
  CHECK(of(5, "allreduce", "[4, 5]", 2) == Category::tensor_comm);
  CHECK(of(0, "_reduce_scatter_base", "[0, 2]", 2) == Category::data_comm);
  CHECK(of(0, "allreduce", "[0, 4]", 2) == Category::pipeline_comm);
  CHECK(of(0, "allreduce", "[0, 3]", 2) == std::nullopt);
  CHECK(of(0, "allreduce", "[0, 1, 2, 3, 4, 5, 6, 7]", 8) == std::nullopt);
  CHECK(of(0, "send", "[0, 4]", 2) == Category::pipeline_comm);
  CHECK(of(0, "allreduce", "", 2) == std::nullopt);  // three axes have groups of two
  CHECK(of(9, "allreduce", "[8, 9]", 2) == std::nullopt);
}

TEST_CASE("without ranks, the only axis of that size") {
  const auto group_of = groups_of(mesh_with(4, 2, 1));
  const auto of = [&](std::int64_t size) {
    const auto one = asked(0, "allreduce", "", size);
    return group_of(one.trace, one.kernel);
  };
  CHECK(of(4) == Category::tensor_comm);
  CHECK(of(2) == Category::data_comm);
  CHECK(of(8) == std::nullopt);
  CHECK(of(1) == std::nullopt);
}

// A task of two products of 3, one of which runs beside a collective of 4 that lasts 5 with it, and a host that is 2
// behind: alone 3 + 5 + 2 = 10, and predicted to last 20, so that every kernel takes twice its time.
TEST_CASE("kernels of a coarse task are those that it consists of, as long as it lasts") {
  graph::GraphBuilder builder;
  const WorkId gemm = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId reduce = builder.intern(graph::Collective{.size = Bytes(8), .group = {}});
  const WorkId both = builder.intern(graph::Overlapped{gemm, reduce});
  const WorkId host = builder.intern(graph::HostBound{Time(2), gemm});
  const WorkId step = builder.intern(graph::Sequence{{{gemm, 1}, {both, 1}, {host, 1}}});
  graph::ProgramBuilder program("all");
  graph::TaskSpec spec;
  spec.work = step, spec.lane = graph::Lane::compute;
  program.add(spec);
  builder.add_rank(builder.add(std::move(program).finish()));
  const auto graph = std::move(builder).finish();
  std::vector<Time> durations(graph.works().size());
  durations[gemm.index()] = Time(3), durations[reduce.index()] = Time(4), durations[both.index()] = Time(5);
  durations[host.index()] = Time(2), durations[step.index()] = Time(10);
  timeline::Timeline timeline;
  timeline.start = {Time(0)}, timeline.end = {Time(20)}, timeline.iteration_end = {Time(20)};
  const auto predicted = predicted_step(graph, timeline, RankId(0), durations);
  CHECK(predicted.by_kind[traces::index(Kind::gemm)] == Time(12));
  CHECK(predicted.by_kind[traces::index(Kind::collective)] == Time(8));
  CHECK(predicted.groups[std::size_t(Category::tensor_comm)].total == Time(8));
  CHECK(predicted.parts.step == Time(20));
  const auto& p = predicted.parts;
  CHECK(p.computing + p.exposed + p.offload + p.idle == p.step);
  CHECK(p.exposed == Time(2));  // 5 - 3
  CHECK(p.idle == Time(2));     // the host; what lasts longer than alone is contention, and computing
}

}  // namespace
}  // namespace rehearsal::traces
