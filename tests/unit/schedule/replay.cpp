#include "schedule/replay.hpp"

#include "listed.hpp"
#include "schedule/registry.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

using Counts = std::vector<std::int64_t>;
using Amounts = std::vector<double>;

// 2 ranks, 2 micro-batches, F = 2, I = 3, W = 1, C = 1.
Problem small() { return uniform_problem(2, 2, 1, Time(2), Time(3), Time(1), Time(1)); }

}  // namespace

TEST_CASE("1f1b on two ranks, transfers free") {
  // rank 0: F0 0-2, F1 2-4,                     B0 10-14 (arrives 9+1), B1 16-20 (arrives 15+1)
  // rank 1: F0 3-5 (arrives 2+1), B0 5-9, F1 9-11, B1 11-15
  const Replay got = replay(registry().at("1f1b"), small());
  CHECK(got.cost == Time(20));
  CHECK(got.makespan == Time(20));
  CHECK(got.busy == std::vector<Time>{Time(12), Time(12)});
  CHECK(got.bubble_rate() == doctest::Approx(8.0 / 20));
  CHECK(got.in_flight_FW == Counts{2, 1});
  CHECK(got.in_flight_FB == Counts{2, 1});
  CHECK(got.peak_memory == Amounts{2, 1});
  CHECK(got.actions == 8);
}

TEST_CASE("1f1b on two ranks, a send occupies the sender") {
  // rank 0: F0 0-2 +1, F1 3-5 +1,                  B0 10-14, B1 17-21 (nobody before rank 0: no send)
  // rank 1: F0 3-5, B0 5-9 +1, F1 10-12, B1 12-16 +1
  std::vector<ReplayedAction> seen;
  const Replay got =
      replay(registry().at("1f1b"), small(),
             {.transfers = Transfers::blocking, .visit = [&](const ReplayedAction& a) { seen.push_back(a); }});
  CHECK(got.cost == Time(21));
  CHECK(got.makespan == Time(21));
  CHECK(got.busy == std::vector<Time>{Time(12), Time(12)});
  REQUIRE(seen.size() == 8);
  std::string rank1;
  for (const ReplayedAction& a : seen)
    if (a.rank == 1)
      rank1 += to_text(a.action) + " " + std::to_string(a.start.count()) + "-" + std::to_string(a.end.count()) + ";";
  CHECK(rank1 == "1F0 3-5;1B0 5-10;1F1 10-12;1B1 12-17;");
}

TEST_CASE("two messages on one wire: the second leaves when the first has left") {
  // F = 2, C = 7 of which 6 hold the wire: activations are ready at 2 and 4, leave at 2 and 8 and arrive at 9 and 15.
  // rank 1: F0 9-11, B0 11-15, F1 15-17, B1 17-21; gradients leave at 15 and 21 and arrive at 22 and 28.
  // rank 0: F0 0-2, F1 2-4, B0 22-26, B1 28-32.
  Problem problem = small();
  problem.transfer = {Time(7)}, problem.held = {Time(6)}, problem.wire = {1};
  const Replay got = replay(registry().at("1f1b"), problem);
  CHECK(got.makespan == Time(32));
  CHECK(got.end == std::vector<Time>{Time(32), Time(21)});
  // Nothing held: the second activation arrives at 11, where rank 1 is busy until 15 anyway; gradients as before.
  problem.held = {Time()};
  CHECK(replay(registry().at("1f1b"), problem).makespan == Time(32));
  // GPipe waits for the last activation: F1 of rank 1 15-17 (else 11-13), B0 17-21, B1 21-25; gradients leave at 21 and
  // 27 (else 17 and 21), arrive at 28 and 34, and rank 0 ends at 38 (else 32).
  CHECK(replay(registry().at("gpipe"), problem).makespan == Time(32));
  problem.held = {Time(6)};
  CHECK(replay(registry().at("gpipe"), problem).makespan == Time(38));
}

TEST_CASE("two wires of a rank do not wait for each other") {
  // Three ranks, two micro-batches: rank 1 sends activations to rank 2 and gradients to
  // rank 0. F = 1, I + W = 4, C = 10, all of it on the wire.
  // Forth: rank 0 ends at 1, 2; arrivals at 11, 21; rank 1 ends at 12, 22; arrivals at 22, 32; rank 2 ends at 23, 33.
  // Back: rank 2 ends at 37, 41; arrivals at 47, 57; rank 1 ends at 51, 61; arrivals at 61, 71; rank 0 ends at 75.
  Problem problem = uniform_problem(3, 2, 1, Time(1), Time(3), Time(1), Time(10));
  problem.held = problem.transfer, problem.wire = {0, 0};
  CHECK(replay(registry().at("gpipe"), problem).makespan == Time(75));
  // With B of micro-batch 0 before F of micro-batch 1 a gradient and an activation of rank 1 meet.
  const auto schedule = listed({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "2F0,2B0,2F1,2B1"});
  // rank 2: F0 22-23, B0 23-27, gradient at 37; rank 1: B0 37-41, its gradient leaves at 41 and arrives at 51, F1
  // 41-42. One wire: the activation leaves at 51 and arrives at 61: rank 2 F1 61-62, B1 62-66, 76; rank 1 76-80, 90;
  // 90-94.
  CHECK(replay(schedule, problem).makespan == Time(94));
  // Two wires: it leaves at 42, so everything after it is 9 earlier.
  problem.wire = {0, 1};
  CHECK(replay(schedule, problem).makespan == Time(85));
}

TEST_CASE("cost leaves out the wait before a rank's first action, makespan does not") {
  // rank 0: F 0-1,             I 5-6, W 6-7      7 long
  // rank 1:        F 2-3, I 3-4, W 4-14          12 long, ends at 14
  Problem problem = uniform_problem(2, 1, 1, Time(1), Time(1), Time(1), Time(1));
  problem.weight_gradient[1] = Time(10);
  const Replay got = replay(listed({"0F0,0I0,0W0", "1F0,1I0,1W0"}), problem);
  CHECK(got.cost == Time(12));
  CHECK(got.makespan == Time(14));
  CHECK(got.busy == std::vector<Time>{Time(3), Time(12)});
  CHECK(got.bubble_rate() == 0);
}

TEST_CASE("a full backward frees the next rank only at its end, an input gradient earlier") {
  // One micro-batch, F = 1, I = 2, W = 4, C = 0. B: rank 1 F 1-2, B 2-8, rank 0 B 8-14. Split: I 2-4, rank 0 I 4-6 W
  // 6-10.
  const Problem problem = uniform_problem(2, 1, 1, Time(1), Time(2), Time(4), Time(0));
  CHECK(replay(listed({"0F0,0B0", "1F0,1B0"}), problem).makespan == Time(14));
  CHECK(replay(listed({"0F0,0I0,0W0", "1F0,1I0,1W0"}), problem).makespan == Time(10));
  // A full backward with a time of its own: rank 1 F 1-2, B 2-7, rank 0 B 7-12; the split one does not change.
  Problem fused = problem;
  fused.backward = {Time(5), Time(5)};
  CHECK(replay(listed({"0F0,0B0", "1F0,1B0"}), fused).makespan == Time(12));
  CHECK(replay(listed({"0F0,0I0,0W0", "1F0,1I0,1W0"}), fused).makespan == Time(10));
}

TEST_CASE("on the V the turn is free of transfers") {
  // Stages 0 and 3 on rank 0, 1 and 2 on rank 1; F = 1, B = 2, C = 10.
  // 0F 0-1, 1F 11-12, 2F 12-13 (same rank), 3F 23-24, 3B 24-26, 2B 36-38, 1B 38-40, 0B 50-52
  const Problem problem = uniform_problem(2, 1, 2, Time(1), Time(1), Time(1), Time(10));
  const Schedule vee = listed({"0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"}, Placement::vee);
  const Replay got = replay(vee, problem);
  CHECK(got.cost == Time(52));
  CHECK(got.busy == std::vector<Time>{Time(6), Time(6)});
  // Blocking adds nothing here: no rank has other work during a send.
  CHECK(replay(vee, problem, {.transfers = Transfers::blocking, .visit = {}}).cost == Time(52));
}

TEST_CASE("memory follows the program order") {
  // A forward adds its activation, I turns it into the weight hold, W frees that.
  const Schedule late = listed({"0F0,0F1,0I0,0I1,0W0,0W1"});
  Problem problem = uniform_problem(1, 2, 1, Time(1), Time(1), Time(1), Time(0));
  problem.activation = {3};
  problem.weight_hold = {2};
  CHECK(replay(late, problem).peak_memory == Amounts{6});  // 3 6 5 4 2 0
  problem.activation = {2};
  problem.weight_hold = {5};
  const Replay got = replay(late, problem);
  CHECK(got.peak_memory == Amounts{10});  // 2 4 7 10 5 0
  CHECK(got.in_flight_FW == Counts{2});
  CHECK(got.in_flight_FB == Counts{2});
  CHECK(replay(listed({"0F0,0I0,0F1,0W0,0I1,0W1"}), problem).in_flight_FB == Counts{1});
}

TEST_CASE("results may be used in another order than they were sent, over a wide window") {
  // Rank 1 takes the last of 100 micro-batches first: it waits until 100 and never again.
  std::string first, second;
  for (int k = 0; k < 100; ++k) first += "0F" + std::to_string(k) + ",", second += "1F" + std::to_string(99 - k) + ",";
  for (int k = 0; k < 100; ++k)
    first += "0B" + std::to_string(k) + (k < 99 ? "," : ""), second += "1B" + std::to_string(k) + (k < 99 ? "," : "");
  const Problem problem = uniform_problem(2, 100, 1, Time(1), Time(1), Time(0), Time(0));
  // rank 1: F 100-200, B 200-300; rank 0's last B follows at 301.
  CHECK(replay(listed({first, second}), problem).makespan == Time(301));
}

TEST_CASE("illegal orders name rank, cell and action") {
  const Problem two = small();
  const auto message = [](const std::vector<std::string>& ranks, const Problem& problem) {
    return user_error([&] { replay(listed(ranks), problem); });
  };
  const std::string good1 = "1F0,1B0,1F1,1B1";
  check_contains(message({"0F0,0F0", good1}, two), "rank 0, cell 1 (0F0): this forward is already done");
  check_contains(message({"0F0,0F1,0B0,0B0", good1}, two), "rank 0, cell 3 (0B0): this gradient is already done");
  check_contains(message({"0F0,0F1,0B0,0W0", good1}, two),
                 "rank 0, cell 3 (0W0): this weight gradient is already done");
  check_contains(message({"0B0", good1}, two), "rank 0, cell 0 (0B0): runs before its forward 0F0");
  check_contains(message({"0F0,0W0", good1}, two), "rank 0, cell 1 (0W0): runs before its input gradient 0I0");
  check_contains(message({"0F0,1F0", good1}, two), "rank 0, cell 1 (1F0): stage 1 is on rank 1");
  check_contains(message({"0F2", good1}, two), "rank 0, cell 0 (0F2): there is no micro-batch 2; the last one is 1");
  check_contains(message({"7F0", good1}, two), "rank 0, cell 0 (7F0): there is no stage 7; the last one is 1");

  const Problem chunks = uniform_problem(1, 1, 2, Time(1), Time(1), Time(1), Time(0));
  check_contains(message({"1F0"}, chunks), "rank 0, cell 0 (1F0): runs before 0F0 on the same rank");
  check_contains(message({"0F0,1F0,0B0"}, chunks), "(0B0): runs before the gradient of stage 1 on the same rank");
}

TEST_CASE("incomplete orders") {
  const auto message = [](const std::vector<std::string>& ranks) {
    return user_error([&] { replay(listed(ranks), small()); });
  };
  check_contains(message({"0F0,0F1,0B0", "1F0,1B0,1F1,1B1"}),
                 "rank 0 ends at cell 3 without the backward of stage 0, micro-batch 1");
  check_contains(message({"0F0,0F1,0B0,0I1", "1F0,1B0,1F1,1B1"}),
                 "without the weight gradient of stage 0, micro-batch 1");
  check_contains(message({"0F0,0B0", "1F0,1B0"}), "without the forward of stage 0, micro-batch 1");
  check_contains(message({"0F0,0B0", "1F0,1B0,1F1,1B1"}),
                 "rank 1 at cell 2: 1F1 waits for the activation of micro-batch 1 from stage 0 on rank 0, which ends "
                 "without running it");
}

TEST_CASE("a deadlock names what every rank waits for") {
  // Rank 0 wants its gradient before it sends the second activation, rank 1 wants both activations first.
  const std::string message = user_error([] { replay(listed({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}), small()); });
  check_contains(message, "deadlock, 2 of 2 ranks wait");
  check_contains(message, "rank 0 at cell 1: 0B0 waits for the gradient of micro-batch 0 from stage 1 on rank 1");
  check_contains(message, "rank 1 at cell 1: 1F1 waits for the activation of micro-batch 1 from stage 0 on rank 0");
}

TEST_CASE("without buffers both ends must hand over in the same order") {
  const std::string first = "0F0,0F1,0B0,0B1";
  CHECK_NOTHROW(check_zero_buffer(listed({first, "1F0,1B0,1F1,1B1"}), small()));
  // With buffers rank 1 may take micro-batch 1 first; without, its receive meets the send of micro-batch 0.
  const Schedule swapped = listed({first, "1F1,1F0,1B0,1B1"});
  CHECK_NOTHROW(replay(swapped, small()));
  check_contains(user_error([&] { check_zero_buffer(swapped, small()); }),
                 "rank 1, cell 0 (1F1): deadlock without buffers: activation number 0 from rank 0 is for stage 1, "
                 "micro-batch 0");
  check_contains(user_error([&] {
                   check_zero_buffer(listed({first, "1F0,1F1,1B1,1B0"}), small());
                 }),
                 "gradient number 0 from rank 1 is for stage 0, micro-batch 1");
  check_contains(user_error([] {
                   check_zero_buffer(listed({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}), small());
                 }),
                 "deadlock, 2 of 2 ranks wait");
}
