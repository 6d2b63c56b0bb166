// The recorder finds violations: each rule is broken here exactly once, by nothing but its own violation.
#include "recorder/recorder.hpp"

#include <doctest/doctest.h>

#include "bench.hpp"

namespace rehearsal {
namespace {

using gpu::Direction;
using test::Bench;
using test::RecordingCommunicators;
using test::RecordingDevice;
using test::World;

constexpr Bytes kSize{64};

}  // namespace

TEST_CASE("what events order is allowed, whatever the order of execution") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Bench t({.seed = seed});
    const auto block = t.device.allocate(t.pool, kSize, t.a);
    t.device.fill(block, std::byte{7}, kSize, t.a);
    t.device.record(t.event, t.a);
    t.device.wait(t.b, t.event);
    const auto pinned = t.device.pinned(kSize);
    t.device.copy(pinned.data(), block, kSize, Direction::to_host, t.b);
    const auto read = t.device.make_event();
    t.device.record(read, t.b);
    t.device.wait(t.a, read);
    t.device.free(block, t.a);
    t.run();
    CHECK(pinned[63] == std::byte{7});
    CHECK(t.world.broken().empty());
    CHECK(t.world.blocks() == 0);
    CHECK(t.world.waiting() == 0);
  }
}

TEST_CASE("a missing wait is found, also where the order of execution happens to be right") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Bench t({.seed = seed});
    const auto block = t.device.allocate(t.pool, kSize, t.a);
    t.device.record(t.event, t.a);
    t.device.wait(t.b, t.event);
    t.device.fill(block, std::byte{7}, kSize, t.a);
    t.device.fill(block, std::byte{8}, kSize, t.b);  // nothing orders the two
    t.run();
    CHECK(t.complains("nothing orders 'fill' (writes) and 'fill' (writes)"));
  }
}

TEST_CASE("a release that a reader on another stream does not precede is found") {
  Bench t;
  const auto block = t.device.allocate(t.pool, kSize, t.a);
  t.device.fill(block, std::byte{1}, kSize, t.a);
  t.device.record(t.event, t.a);
  t.device.wait(t.b, t.event);
  t.device.copy(t.device.pinned(kSize).data(), block, kSize, Direction::to_host, t.b);
  t.device.free(block, t.a);
  t.run();
  CHECK((t.complains("nothing orders") || t.complains("after its release")));
}

TEST_CASE("use before allocation, after release and beyond the end are found") {
  Bench t;
  const auto late = t.device.allocate(t.pool, kSize, t.a);
  t.device.free(late, t.a);
  t.device.fill(late, std::byte{0}, kSize, t.a);
  const auto block = t.device.allocate(t.pool, kSize, t.a);
  t.device.fill(block, std::byte{0}, Bytes(65), t.a);
  t.run();
  CHECK(t.complains("touches a block before its allocation or after its release"));
  CHECK(t.complains("reaches 1 bytes beyond a block"));
  CHECK(t.world.blocks() == 1);  // a leak
}

TEST_CASE("what the host has seen precedes what it queues afterwards") {
  Bench t;
  const auto block = t.device.allocate(t.pool, kSize, t.a);
  t.device.fill(block, std::byte{1}, kSize, t.a);
  t.device.record(t.event, t.a);
  REQUIRE(t.device.reached(t.event));
  t.device.fill(block, std::byte{2}, kSize, t.b);
  t.device.free(block, t.b);
  t.run();
  CHECK(t.world.broken().empty());
}

TEST_CASE("waits that do nothing and pageable copies are found") {
  Bench t;
  t.device.wait(t.a, t.event);
  CHECK(t.complains("never recorded"));
  const auto block = t.device.allocate(t.pool, kSize, t.a);
  std::byte here[64];
  t.device.copy(here, block, kSize, Direction::to_host, t.a);
  CHECK(t.complains("not pinned"));
  t.device.free(block, t.a);
  t.run();
}

TEST_CASE("messages meet in order, with equal sizes, and nothing is buffered") {
  World world({.seed = 3});
  RecordingDevice one(world), two(world);
  RecordingCommunicators of_one(world, one), of_two(world, two);
  const auto id = of_one.make_id();
  const auto left = of_one.join(id, 2, 0, gpu::Traffic::messages, seconds(1));
  const auto right = of_two.join(id, 2, 1, gpu::Traffic::messages, seconds(1));
  const auto a = one.make_stream(0), b = two.make_stream(0);
  const auto from = one.allocate(one.make_pool(), kSize, a), into = two.allocate(two.make_pool(), kSize, b);
  one.fill(from, std::byte{5}, kSize, a);
  left->send(from, kSize, 1, a);
  while (world.progress()) {
  }
  CHECK(world.waiting() == 1);  // the send, until there is a receive
  right->receive(into, kSize, 0, b);
  while (world.progress()) {
  }
  CHECK(world.waiting() == 0);
  CHECK(into[63] == std::byte{5});
  CHECK(world.broken().empty());

  left->send(from, kSize, 1, a);
  right->receive(into, Bytes(32), 0, b);
  while (world.progress()) {
  }
  REQUIRE(world.broken().size() == 1);
  CHECK(world.broken().front() == "a send of 64 bytes meets a receive of 32");
  one.free(from, a), two.free(into, b);
}

TEST_CASE("two that send to each other first wait for ever; in a group, or with oneself in a group, they do not") {
  for (const bool grouped : {false, true}) {
    World world({});
    RecordingDevice one(world), two(world);
    RecordingCommunicators of_one(world, one), of_two(world, two);
    const auto id = of_one.make_id();
    const auto left = of_one.join(id, 2, 0, gpu::Traffic::messages, seconds(1));
    const auto right = of_two.join(id, 2, 1, gpu::Traffic::messages, seconds(1));
    const auto a = one.make_stream(0), b = two.make_stream(0);
    const auto mine = one.allocate(one.make_pool(), Bytes(128), a),
               theirs = two.allocate(two.make_pool(), Bytes(128), b);
    if (grouped) of_one.begin_group(), of_two.begin_group();
    left->send(mine, kSize, 1, a), right->send(theirs, kSize, 0, b);
    left->receive(mine + 64, kSize, 1, a), right->receive(theirs + 64, kSize, 0, b);
    if (grouped) of_one.end_group(), of_two.end_group();
    while (world.progress()) {
    }
    CHECK((world.waiting() == 0) == grouped);
    CHECK(world.broken().empty());
    one.free(mine, a), two.free(theirs, b);
  }
}

TEST_CASE("members that call different collectives are found") {
  World world({});
  RecordingDevice one(world), two(world);
  RecordingCommunicators of_one(world, one), of_two(world, two);
  const auto id = of_one.make_id();
  const auto left = of_one.join(id, 2, 0, gpu::Traffic::messages, seconds(1));
  const auto right = of_two.join(id, 2, 1, gpu::Traffic::messages, seconds(1));
  const auto a = one.make_stream(0), b = two.make_stream(0);
  const auto mine = one.allocate(one.make_pool(), kSize, a), theirs = two.allocate(two.make_pool(), kSize, b);
  one.fill(mine, std::byte{0}, kSize, a), two.fill(theirs, std::byte{0}, kSize, b);
  left->collective(CollectiveKind::all_reduce, Precision::fp32, mine, mine, 16, a);
  right->collective(CollectiveKind::all_reduce, Precision::fp32, theirs, theirs, 8, b);
  while (world.progress()) {
  }
  CHECK(world.broken().size() >= 1);
  one.free(mine, a), two.free(theirs, b);
}

TEST_CASE("with launches in order, a later call waits for the start of an earlier one") {
  // One queues: a receive, a send that comes after it, and a send that has nothing to wait for. Two answers the last
  // with what the first waits for. In the order of launches the last may not start before the second has, and the
  // second waits for the first.
  for (const bool ordered : {false, true}) {
    World world({.launch_order = ordered});
    RecordingDevice one(world), two(world);
    RecordingCommunicators of_one(world, one), of_two(world, two);
    struct Pair {
      std::unique_ptr<gpu::Communicator> one, two;
      gpu::StreamId at_one, at_two;
    };
    const auto pair = [&] {
      const auto id = of_one.make_id();
      return Pair{of_one.join(id, 2, 0, gpu::Traffic::messages, seconds(1)),
                  of_two.join(id, 2, 1, gpu::Traffic::messages, seconds(1)), one.make_stream(0), two.make_stream(0)};
    };
    const Pair first = pair(), second = pair(), third = pair();
    const auto mine = one.allocate(one.make_pool(), Bytes(192), first.at_one);
    const auto theirs = two.allocate(two.make_pool(), Bytes(192), first.at_two);
    while (world.progress()) {
    }
    first.one->receive(mine, kSize, 1, first.at_one);
    const auto received = one.make_event();
    one.record(received, first.at_one), one.wait(second.at_one, received);
    second.one->send(mine + 64, kSize, 1, second.at_one);
    third.one->send(mine + 128, kSize, 1, third.at_one);
    third.two->receive(theirs + 128, kSize, 0, third.at_two);
    const auto asked = two.make_event();
    two.record(asked, third.at_two), two.wait(first.at_two, asked);
    first.two->send(theirs, kSize, 0, first.at_two);
    second.two->receive(theirs + 64, kSize, 0, second.at_two);
    while (world.progress()) {
    }
    CHECK((world.waiting() == 0) == !ordered);
  }
}

}  // namespace rehearsal
