// Plans with latency, chunks and NVLink, by hand; and the choice of `auto`.
#include "reshard/timing.hpp"

#include <doctest/doctest.h>

#include <array>

#include "reshard/answer.hpp"

using namespace rehearsal::reshard;
using doctest::Approx;

namespace {

Question question(Mesh from, const char* source, Mesh to, const char* destination, std::vector<std::int64_t> shape) {
  Question q;
  q.resharding = Resharding{{from, parse_spec(source)}, {to, parse_spec(destination)}, std::move(shape)};
  q.method.link = {100, 1000, 0.25};
  q.method.element_bytes = 1;
  q.method.chunks = 4;
  return q;
}

}  // namespace

TEST_CASE("messages from one NIC: latency shows once") {
  // 300 elements in three parts to three hosts, one sender: 3 x 1 s + 0.25 s.
  const auto q = question({1, 1}, "R", {3, 1}, "S0", {300});
  CHECK(answer(q).seconds == Approx(3.25));
}

TEST_CASE("a second broadcast starts while the first one drains") {
  // Two boxes of 200 bytes from one host (S1: one per GPU, same NIC) to 2 hosts x 1. Chunks of 50 bytes: 0.75 s per
  // hop. The sender is held for 4 x 0.75 = 3 s per box; the last chunk needs one more hop: 3 + 3 + 0.75.
  const auto q = question({1, 2}, "S1", {2, 1}, "R", {400});
  const auto a = answer(q);
  REQUIRE(a.transfers.size() == 2);
  CHECK(a.seconds == Approx(6.75));
  CHECK(a.plan.makespan == 400);
  // Bandwidth: 400 bytes over it; no plan beats 400 elements at 100 bytes/s and one latency.
  CHECK(a.bandwidth() == Approx(400 / 6.75));
  CHECK(a.bandwidth_bound == Approx(400 / 4.25));
}

TEST_CASE("without latency and NVLink, with endless chunks, time is the makespan") {
  for (const char* destination : {"S0RR", "RRS0", "S01RR", "RRR"}) {
    auto q = question({2, 4}, "RS0R", {2, 4}, destination, {64, 64, 64});
    q.method.link = {100};
    q.method.chunks = 64 * 64 * 64;
    const auto a = answer(q);
    CHECK(a.seconds == Approx(double(a.plan.makespan) / 100).epsilon(1e-3));
  }
}

TEST_CASE("parts of local all-gather end with the gather") {
  // 200 bytes to the 4 GPUs of a host: 4 messages of 0.5 s, 0.25 s, and 3 steps of 0.05 + 0.25 s.
  auto q = question({1, 1}, "R", {1, 4}, "R", {200});
  q.method.strategy = Strategy::local_allgather;
  CHECK(answer(q).seconds == Approx(2 + 0.25 + 3 * 0.3));
}

TEST_CASE("auto is never slower than any strategy for all tasks") {
  std::size_t faster = 0, cases = 0;
  for (const auto nic : {NicSharing::host, NicSharing::gpu})
    for (const char* source : {"RR", "S0R", "RS1", "S01R"})
      for (const char* destination : {"RR", "S0R", "RS1", "S1S0"})
        for (const std::int64_t side : {8, 64, 500}) {
          auto q = question({2, 2}, source, {2, 3}, destination, {side, side});
          q.method.nic = nic;
          q.method.link = {1000, 8000, 0.01};
          q.method.strategy = Strategy::automatic;
          const auto chosen = answer(q);
          bool beats_all = true;
          for (const auto fixed : std::array{Strategy::send_recv, Strategy::local_allgather, Strategy::alpa_allgather,
                                             Strategy::global_allgather, Strategy::broadcast}) {
            q.method.strategy = fixed;
            const double seconds = answer(q).seconds;
            CHECK(chosen.seconds <= seconds);
            beats_all = beats_all && chosen.seconds < seconds;
          }
          faster += beats_all;
          cases++;
        }
  CHECK(cases == 96);
  CHECK(faster > 0);
}

TEST_CASE("a NIC for every GPU: stripes let other tasks by") {
  // Four GPUs with a quarter each to two hosts of four, replicated: a broadcast holds all 8 receiving NICs for a
  // quarter, four times; stripes hold two, so that four run at once.
  auto q = question({1, 4}, "S1", {2, 4}, "R", {4096});
  q.method.nic = NicSharing::gpu;
  q.method.link = {100, 100'000, 0};
  q.method.chunks = 100;
  CHECK(answer(q).plan.makespan == 4096);
  q.method.strategy = Strategy::automatic;
  CHECK(answer(q).plan.makespan == 1024);
}
