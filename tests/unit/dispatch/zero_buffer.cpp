// Orders that only run with buffered messages, and orders that always run.
#include "dispatch/zero_buffer.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/validate.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

// 1F1B of two stages and `m` micro-batches: rank 0 F0 F1 B0 F2 B1 ... B, rank 1 F0 B0 F1 B1 ...; a send follows the
// pass that produces its data, a receive, on the given lane, precedes the pass that needs its data.
graph::TaskGraph one_f_one_b(std::uint32_t m, Lane sends, Lane receives) {
  graph::GraphBuilder graph;
  const WorkId compute = graph.intern(graph::FixedDelay{Time(1)}), receive = graph.intern(graph::Receive{});
  const WorkId message = graph.intern(graph::Message{.size = Bytes(8), .gathered = {}});
  std::vector<RankId> ranks;
  for (std::uint16_t stage = 0; stage < 2; ++stage) {
    graph::ProgramBuilder p("stage");
    const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send);
    auto step = [&](Pass pass, std::uint32_t microbatch) {
      const graph::Coordinates at{pass, stage, graph::kNoLayer, microbatch};
      std::vector<LocalTask> after;
      if ((pass == Pass::forward) == (stage == 1)) after = {p.add({receive, receives, at, in.value, {}})};
      const LocalTask done = p.add({compute, Lane::compute, at, graph::kNoEndpoint, {}}, after);
      if ((pass == Pass::forward) == (stage == 0)) p.add({message, sends, at, out.value, {}}, std::vector{done});
    };
    const std::uint32_t warm = stage == 0 ? 1 : 0;
    for (std::uint32_t i = 0; i < warm; ++i) step(Pass::forward, i);
    for (std::uint32_t i = 0; i < m; ++i) {
      if (i + warm < m) step(Pass::forward, i + warm);
      step(Pass::backward, i);
    }
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  const graph::EndpointId in(0), out(1);
  graph.connect(ranks[0], out, ranks[1], in);
  graph.connect(ranks[1], out, ranks[0], in);
  return std::move(graph).finish();
}

}  // namespace

TEST_CASE("1F1B runs without buffers when every channel is a stream of its own") {
  CHECK_NOTHROW(check_zero_buffer(one_f_one_b(6, Lane::send, Lane::receive)));
  // Sends that keep the rank busy are met by receives that were posted ahead.
  CHECK_NOTHROW(check_zero_buffer(one_f_one_b(6, Lane::compute, Lane::receive)));
}

TEST_CASE("1F1B with one stream for everything stalls: both ranks send and neither receives") {
  // Rank 0 sends F1 while rank 1, which needs F1 next, first sends the gradient of B0, which rank 0 takes after F1.
  const graph::TaskGraph graph = one_f_one_b(6, Lane::compute, Lane::compute);
  CHECK_NOTHROW(graph::validate(graph));  // no cycle: with buffers it runs
  try {
    check_zero_buffer(graph);
    FAIL("must not pass");
  } catch (const MachineError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find("needs buffered messages") != std::string::npos);
    CHECK(text.find("rank 0: F1 s0 send waits for rank 1: F1 s1 receive, which is not posted") != std::string::npos);
    CHECK(text.find("rank 1: B0 s1 send waits for rank 0: B0 s0 receive, which is not posted") != std::string::npos);
  }
}

TEST_CASE("groups meet, and a member that waits for a message of another member stalls") {
  // Rank 0 joins, then sends; rank 1 receives first (legal order: false) or joins first (true).
  auto graph = [](bool join_first) {
    graph::GraphBuilder builder;
    const WorkId message = builder.intern(graph::Message{.size = Bytes(8), .gathered = {}});
    const WorkId receive = builder.intern(graph::Receive{});
    const WorkId reduce = builder.intern(graph::Collective{.size = Bytes(8), .group = {}});
    graph::ProgramBuilder a("a"), b("b");
    const auto out = a.endpoint(EndpointKind::send), in = b.endpoint(EndpointKind::receive);
    const auto group_a = a.endpoint(EndpointKind::group), group_b = b.endpoint(EndpointKind::group);
    a.add({reduce, Lane::compute, {}, group_a.value, {}});
    a.add({message, Lane::compute, {}, out.value, {}});
    if (join_first) b.add({reduce, Lane::compute, {}, group_b.value, {}});
    b.add({receive, Lane::compute, {}, in.value, {}});
    if (!join_first) b.add({reduce, Lane::compute, {}, group_b.value, {}});
    const RankId r0 = builder.add_rank(builder.add(std::move(a).finish()));
    const RankId r1 = builder.add_rank(builder.add(std::move(b).finish()));
    builder.connect(r0, out, r1, in);
    builder.add_group(Axis::data, {{r0, group_a}, {r1, group_b}});
    return std::move(builder).finish();
  };
  CHECK_NOTHROW(check_zero_buffer(graph(true)));
  CHECK_THROWS_WITH_AS(check_zero_buffer(graph(false)),
                       doctest::Contains("all-reduce waits for member 1 of group 'data'"), MachineError);
}

}  // namespace rehearsal::dispatch
