// Collectives among virtual stages: rings of copies and additions, against sums computed here.
#include "gpu/copy_fabric.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "base/bf16.hpp"
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

// Whole numbers that are exact in bf16, so that sums are.
float value(std::size_t rank, std::size_t i) { return float((rank * 3 + i * 5) % 16); }

void check(CollectiveKind kind, Precision precision, std::size_t n, std::int64_t part, bool in_place, unsigned seed) {
  CAPTURE(static_cast<int>(kind));
  CAPTURE(n);
  CAPTURE(part);
  CAPTURE(in_place);
  const auto graph = group_of(n);
  World world({.seed = seed});
  {
    RecordingDevice device(world);
    CopyFabric fabric(graph, device, 1);
    const auto pool = device.make_pool();
    const auto width = static_cast<std::size_t>(bytes_per_element(precision));
    const auto count = static_cast<std::size_t>(part);
    const bool blocks_of_all = kind == CollectiveKind::all_to_all, passes = kind == CollectiveKind::shift;
    const std::size_t in = blocks_of_all || kind == CollectiveKind::reduce_scatter ? count * n : count;
    const std::size_t out = blocks_of_all || kind == CollectiveKind::all_gather ? count * n : count;
    const auto put = [&](std::vector<std::byte>& bytes, std::size_t i, float v) {
      const std::uint16_t half = to_bf16(v);
      std::memcpy(&bytes[i * width], width == 2 ? static_cast<const void*>(&half) : &v, width);
    };
    const auto get = [&](const std::byte* bytes, std::size_t i) {
      float v = 0;
      std::uint16_t half = 0;
      std::memcpy(width == 2 ? static_cast<void*>(&half) : &v, bytes + i * width, width);
      return width == 2 ? from_bf16(half) : v;
    };
    fabric.begin_iteration();
    std::vector<CopyFabric::Member> members;
    std::vector<gpu::Address> blocks;
    for (std::size_t r = 0; r < n; ++r) {
      const auto stream = device.make_stream(0);
      const std::size_t whole = std::max(in, out) * width;
      const auto first = device.allocate(pool, Bytes(static_cast<std::int64_t>(whole)), stream);
      const auto second = in_place ? first : device.allocate(pool, Bytes(static_cast<std::int64_t>(whole)), stream);
      blocks.push_back(first);
      if (!in_place) blocks.push_back(second);
      const std::size_t own = in_place && kind != CollectiveKind::all_reduce && !passes ? r * count * width : 0;
      const gpu::Address from = kind == CollectiveKind::all_gather ? first + own : first;
      const gpu::Address to = kind == CollectiveKind::reduce_scatter ? second + own : second;
      std::vector<std::byte> bytes(in * width);
      for (std::size_t i = 0; i < in; ++i) put(bytes, i, value(r, i));
      device.copy(from, bytes.data(), Bytes(static_cast<std::int64_t>(bytes.size())), gpu::Direction::to_device,
                  stream);
      members.push_back({RankId(r), graph::EndpointId(0), from, to, stream});
    }
    fabric.collective({kind, precision, part}, members);
    for (std::size_t r = 0; r < n; ++r) {
      drain(device, members[r].stream, device.make_event());
      for (std::size_t i = 0; i < out; ++i) {
        float expected = 0;
        if (kind == CollectiveKind::all_gather)
          expected = value(i / count, i % count);
        else if (blocks_of_all)
          expected = value(i / count, r * count + i % count);
        else if (passes)
          expected = value((r + n - 1) % n, i);
        else
          for (std::size_t from = 0; from < n; ++from)
            expected += value(from, kind == CollectiveKind::all_reduce ? i : r * count + i);
        REQUIRE(get(members[r].out, i) == expected);
      }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) device.free(blocks[i], members[in_place ? i : i / 2].stream);
  }
  CHECK(world.broken().empty());
  CHECK(world.blocks() == 0);
}

}  // namespace

TEST_CASE("rings add up and gather for every number of members, length and place") {
  unsigned seed = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather})
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for (const std::size_t n : {1, 2, 3, 5})
        for (const std::int64_t part : {1, 2, 7, 24})
          for (const bool in_place : {false, true}) check(kind, precision, n, part, in_place, ++seed);
}

TEST_CASE("blocks change places, and buffers move on to the next member") {
  unsigned seed = 0;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const std::size_t n : {1, 2, 3, 5})
      for (const std::int64_t part : {1, 7, 24}) {
        check(CollectiveKind::all_to_all, precision, n, part, false, ++seed);
        for (const bool in_place : {false, true}) check(CollectiveKind::shift, precision, n, part, in_place, ++seed);
      }
}

}  // namespace rehearsal
