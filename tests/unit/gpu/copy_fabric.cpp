// Collectives among virtual stages, by the steps of every algorithm, against sums computed here.
#include "gpu/copy_fabric.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "../../collective_cases.hpp"
#include "gpu/gpu_worker.hpp"
#include "graph/builder.hpp"
#include "recorder/recorder.hpp"

namespace rehearsal {
namespace {

using gpu::CopyFabric;
using test::RecordingDevice;
using test::World;

// `n` ranks with one group and no tasks.
graph::TaskGraph group_of(std::size_t n) {
  graph::GraphBuilder builder;
  graph::ProgramBuilder program("member");
  const auto endpoint = program.endpoint(graph::EndpointKind::group);
  const auto work = builder.intern(graph::Collective{});
  program.add({.work = work, .lane = graph::Lane::data_comm, .coordinates = {}, .endpoint = endpoint.value});
  const auto id = builder.add(std::move(program).finish());
  std::vector<graph::GroupMember> members;
  for (std::size_t r = 0; r < n; ++r) members.push_back({builder.add_rank(id), endpoint});
  builder.add_group(Axis::data, members);
  return std::move(builder).finish();
}

void check(const cases::Case& c, const collective::Execution* by, unsigned seed) {
  CAPTURE(c.text());
  CAPTURE((by ? by->algorithm->name : "as usual"));
  const auto graph = group_of(c.members);
  const bool in_place = c.in_place();
  const std::size_t block = c.length * c.width();
  World world({.seed = seed});
  {
    RecordingDevice device(world);
    CopyFabric fabric(graph, device, 1);
    const auto pool = device.make_pool();
    fabric.begin_iteration();
    std::vector<cases::Operands> operands;
    std::vector<CopyFabric::Member> members;
    std::vector<gpu::Address> blocks;
    for (std::size_t r = 0; r < c.members; ++r) {
      operands.emplace_back(c, r);
      const auto stream = device.make_stream(0);
      const std::size_t whole =
          std::max({c.whole() * c.width(), operands.back().in().size(), operands.back().out().size()});
      const auto memory = [&] {
        return blocks.emplace_back(device.allocate(pool, Bytes(static_cast<std::int64_t>(whole)), stream));
      };
      const auto first = memory(), second = in_place ? first : memory();
      const auto from = c.kind == CollectiveKind::all_gather ? first + r * block : first;
      const auto to = c.kind == CollectiveKind::reduce_scatter && in_place ? second + r * block : second;
      const auto in = operands.back().in();
      device.copy(from, in.data(), Bytes(static_cast<std::int64_t>(in.size())), gpu::Direction::to_device, stream);
      members.push_back({RankId(r), graph::EndpointId(0), from, to, stream, c.blocks(r)});
    }
    const bool parts = c.has_blocks();
    fabric.collective({c.kind, c.precision, static_cast<std::int64_t>(parts ? c.length : c.whole()), by}, members);
    for (std::size_t r = 0; r < c.members; ++r) {
      drain(device, members[r].stream, device.make_event());
      std::memcpy(operands[r].out().data(), members[r].out, operands[r].out().size());
      CHECK(operands[r].wrong() == "");
      if (c.kind == CollectiveKind::all_reduce) CHECK(operands[r].bits() == operands[0].bits());
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) device.free(blocks[i], members[in_place ? i : i / 2].stream);
  }
  CHECK(world.broken().empty());
  CHECK(world.blocks() == 0);
}

}  // namespace

TEST_CASE("unless told otherwise, collectives are rings, for every number of members, length and place") {
  using enum CollectiveKind;
  unsigned seed = 0;
  for (const CollectiveKind kind : {all_reduce, reduce_scatter, all_gather, all_to_all, shift, broadcast})
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for (const std::uint32_t n : {1, 2, 3, 5})
        for (const std::size_t length : {1, 7, 24})
          for (const auto form : cases::forms(kind)) check({kind, precision, n, length, form}, nullptr, ++seed);
}

TEST_CASE("every algorithm of the shelf is performed by its steps, whole and in pieces") {
  unsigned seed = 0;
  for (const std::uint32_t n : {2, 4, 5})
    for (const auto& by : cases::executions(n))
      for (const std::size_t length : {2, 37})
        for (const auto form : cases::forms(by.algorithm->kind))
          check({by.algorithm->kind, Precision::fp32, n, length, form}, &by, ++seed);
}

}  // namespace rehearsal
