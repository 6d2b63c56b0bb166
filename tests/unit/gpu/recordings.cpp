// The rules of recordings: each is broken here exactly once, by nothing but its own violation.
#include "recorder/recording.hpp"

#include <doctest/doctest.h>

#include "bench.hpp"

namespace rehearsal {
namespace {

using test::Bench;
using test::RecordingDevice;
using test::World;

constexpr Bytes kRecorded{64};

// A number on the device, zero.
struct Counting : Bench {
  explicit Counting(World::Manner manner = {}) : Bench(std::move(manner)) {
    block = device.allocate(pool, Bytes(8), a);
    device.fill(block, std::byte{0}, Bytes(8), a);
    done();
  }
  // Until the host has seen the end of `a`.
  void done() {
    device.record(event, a);
    REQUIRE(device.reached(event));
  }
  // The other stream takes part in what is recorded.
  void fork() {
    const auto begun = device.make_event();
    device.record(begun, a), device.wait(b, begun);
  }
  void join() {
    const auto ended = device.make_event();
    device.record(ended, b), device.wait(a, ended);
  }
  std::int64_t* number() { return reinterpret_cast<std::int64_t*>(block); }
  gpu::Address block;
};

}  // namespace

TEST_CASE("a recording runs at every replay and not before, on all streams that joined it") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Counting t({.seed = seed});
    t.device.begin_recording(t.a);
    t.fork();
    const auto mine = t.device.allocate(t.pool, kRecorded, t.b);
    t.device.fill(mine, std::byte{1}, kRecorded, t.b);
    t.device.free(mine, t.b);
    t.join();
    t.device.count(t.number(), 3, t.a);
    t.fork();  // that only waits again needs no joining
    const auto recording = t.device.end_recording(t.a);
    t.run();
    CHECK(*t.number() == 0);
    t.device.replay(recording, t.a);
    t.device.replay(recording, t.a);
    t.device.count(t.number(), 10, t.a);  // after all of it
    t.run();
    CHECK(*t.number() == 16);
    CHECK(t.world.waiting() == 0);
    t.device.free(t.block, t.a);
    t.run();
    CHECK(t.world.blocks() == 0);
    CHECK(t.world.broken().empty());
  }
}

TEST_CASE("what a stream gets that has not joined runs at once, and once") {
  Counting t;
  t.device.begin_recording(t.a);
  t.device.count(t.number(), 1, t.b);
  t.device.record(t.event, t.b);
  CHECK(t.device.reached(t.event));  // no event of the recording
  CHECK(*t.number() == 1);
  t.device.wait(t.a, t.event);
  CHECK(t.complains("a recording waits for an event from outside"));
  const auto recording = t.device.end_recording(t.a);
  t.device.replay(recording, t.a);
  t.device.free(t.block, t.a);
  t.run();
  CHECK(t.world.broken().size() == 1);
}

TEST_CASE("an event of an earlier recording is one from outside") {
  Counting t;
  t.device.begin_recording(t.a);
  t.device.record(t.event, t.a);
  const auto first = t.device.end_recording(t.a);
  t.device.replay(first, t.a);
  t.device.begin_recording(t.a);
  t.device.wait(t.b, t.event);  // takes no part
  CHECK(t.world.broken().empty());
  t.device.wait(t.a, t.event);
  CHECK(t.complains("a recording waits for an event from outside"));
  t.device.end_recording(t.a);
  t.device.free(t.block, t.a);
}

TEST_CASE("streams that do not join again are found, whatever they do last") {
  for (const char* last : {"kernel", "event", "free", "nothing", "wait for another"}) {
    CAPTURE(last);
    const std::string what = last;
    Counting t;
    const auto c = t.device.make_stream(0);
    t.device.begin_recording(t.a);
    t.fork();
    const auto block = t.device.allocate(t.pool, kRecorded, t.a);
    if (what != "free") t.device.free(block, t.a);
    t.join();
    const auto over = t.device.make_event();
    if (what == "kernel") t.device.count(t.number(), 1, t.b);
    if (what == "event") t.device.record(over, t.b);
    if (what == "free") t.fork(), t.device.free(block, t.b);
    if (what == "wait for another") {
      t.device.record(over, t.a), t.device.wait(c, over);
      t.device.count(t.number(), 1, c);
      t.device.record(over, c), t.device.wait(t.b, over);  // which joins in turn
      t.join();
    }
    t.device.end_recording(t.a);
    CHECK(t.complains("stream 1 has not joined again") == (what == "kernel" || what == "event" || what == "free"));
    CHECK(t.world.broken().size() == (t.complains("joined") ? 1 : 0));
    t.device.free(t.block, t.a);
  }
}

TEST_CASE("a recording ends where it began, and there is one at a time") {
  Counting t;
  t.device.begin_recording(t.a);
  t.fork(), t.join();
  t.device.end_recording(t.b);
  CHECK(t.complains("ends on another stream"));
  t.device.begin_recording(t.a);
  t.device.begin_recording(t.a);
  CHECK(t.complains("a recording within a recording"));
  const auto recording = t.device.end_recording(t.a);
  t.device.begin_recording(t.a);
  t.device.replay(recording, t.b);
  CHECK(t.complains("a replay within a recording"));
  t.device.observe();
  CHECK(t.complains("waiting for the device within a recording"));
  t.device.end_recording(t.a);
  t.device.free(t.block, t.a);
  t.run();
  CHECK(t.world.broken().size() == 4);
}

TEST_CASE("a recording frees its own blocks, once, and only those") {
  Counting t;
  const auto outside = t.device.allocate(t.pool, kRecorded, t.a);
  const Bytes before = t.device.high_water(t.pool);
  t.device.begin_recording(t.a);
  const auto left = t.device.allocate(t.pool, kRecorded, t.a);
  const auto freed = t.device.allocate(t.pool, kRecorded, t.a);
  t.device.free(freed, t.a);
  CHECK(t.device.high_water(t.pool) == before);  // its memory is the graph's
  t.device.end_recording(t.a);
  CHECK(t.complains("a recording leaves 1 blocks that it allocated"));
  CHECK(t.world.broken().size() == 1);
  t.device.free(left, t.a);
  CHECK(t.complains("a block of a recording is freed outside of it"));

  t.device.begin_recording(t.a);
  t.device.free(outside, t.a);
  CHECK(t.complains("a recording frees what it did not allocate"));
  CHECK(t.world.broken().size() == 3);
  const auto twice = t.device.allocate(t.pool, kRecorded, t.a);
  t.device.free(twice, t.a), t.device.free(twice, t.a);
  CHECK(t.world.broken().size() == 4);
  t.device.end_recording(t.a);
}

TEST_CASE("an event of a recording tells nothing before a replay") {
  Counting t;
  t.device.begin_recording(t.a);
  t.device.record(t.event, t.a);
  t.device.reached(t.event);
  CHECK(t.complains("an event of a recording is asked for before a replay"));
  const auto recording = t.device.end_recording(t.a);
  const auto later = t.device.make_event();
  t.device.begin_recording(t.a);
  t.device.record(later, t.a);
  t.device.end_recording(t.a);
  t.device.wait(t.b, later);
  CHECK(t.complains("never recorded"));
  t.device.replay(recording, t.a);
  t.device.wait(t.b, t.event);
  t.device.free(t.block, t.b);
  t.run();
  CHECK(t.world.broken().size() == 2);
}

TEST_CASE("a replay knows its own stream and its earlier replays, and not the streams that were recorded") {
  const auto broken = [](bool before, bool after, bool elsewhere, unsigned seed) {
    Counting t({.seed = seed});
    t.device.begin_recording(t.a);
    t.fork();
    t.device.count(t.number(), 1, t.b);
    t.join();
    const auto recording = t.device.end_recording(t.a);
    if (before) t.device.count(t.number(), 1, t.b);
    t.device.replay(recording, t.a);
    if (elsewhere) t.device.replay(recording, t.b);
    if (after) t.device.count(t.number(), 1, t.b);
    t.run();
    t.done();
    t.device.free(t.block, t.a);
    t.run();
    return t.world.broken();
  };
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const bool before : {false, true}) {
      const auto rules = broken(before, !before, false, seed);
      CHECK(std::ranges::count_if(rules, [](const auto& s) { return s.find("nothing orders 'count'") == 0; }) > 0);
    }
    const auto rules = broken(false, false, true, seed);  // then the free, which knows of one of the two streams only
    CHECK(std::ranges::all_of(rules, [](const auto& s) { return s.find("'free'") != std::string::npos; }));
  }
}

TEST_CASE("a group of calls is one at every replay") {
  Counting t;
  test::RecordingCommunicators communicators(t.world, t.device);
  const auto alone = communicators.join(communicators.make_id(), 1, 0, gpu::Traffic::messages, seconds(1));
  const auto from = t.device.allocate(t.pool, kRecorded, t.a), into = t.device.allocate(t.pool, kRecorded, t.a);
  t.device.fill(from, std::byte{5}, kRecorded, t.a);
  t.device.begin_recording(t.a);
  communicators.begin_group();
  alone->send(from, kRecorded, 0, t.a), alone->receive(into, kRecorded, 0, t.a);  // either waits for the other
  communicators.end_group();
  const auto recording = t.device.end_recording(t.a);
  t.device.replay(recording, t.a), t.device.replay(recording, t.a);
  t.run();
  CHECK(t.world.waiting() == 0);
  CHECK(into[63] == std::byte{5});
  for (const auto block : {from, into, t.block}) t.device.free(block, t.a);
  t.run();
  CHECK(t.world.broken().empty());
}

TEST_CASE("a replay takes its time to begin") {
  Counting t({.launch = seconds(1)});
  const auto begun = t.device.make_event();
  t.device.begin_recording(t.a);
  t.device.record(begun, t.a);
  const auto recording = t.device.end_recording(t.a);
  for (int times = 0; times < 2; ++times) {
    t.device.record(t.event, t.a);
    t.device.replay(recording, t.a);
    t.run();
    CHECK(t.device.between(t.event, begun) == seconds(1));
  }
  t.device.free(t.block, t.a);
}

}  // namespace rehearsal
