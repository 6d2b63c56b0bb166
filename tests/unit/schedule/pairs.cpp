// Overlapped pairs, two chains in opposite directions, waves, pieces of micro-batches, schedules without a flush: small
// cases solved by hand.
#include <algorithm>
#include <numeric>

#include "listed.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

TEST_CASE("an overlapped pair is one block of its own length") {
  // One rank with both stages, F = 3, B = 3, a pair 5: 0F0 0-3, 1F0 3-6, pair 6-11, 1F1 11-14, 0B0 -17, 1B1 -20, 0B1
  // -23.
  const std::string row = "0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1";
  const Schedule schedule = listed({row}, Placement::vee);
  Problem problem = uniform_problem(1, 2, 2, Time(3), Time(2), Time(1), Time(0));
  problem.overlapped = {Time(5), Time(9)};  // that of the forward's stage counts
  std::vector<Time> starts, ends;
  ReplayOptions options;
  options.visit = [&](const ReplayedAction& a) {
    starts.push_back(a.start);
    ends.push_back(a.end);
  };
  const Replay got = replay(schedule, problem, options);
  CHECK(got.cost == Time(23));
  CHECK(got.busy == std::vector<Time>{Time(23)});
  CHECK(starts == std::vector<Time>{Time(0), Time(3), Time(6), Time(6), Time(11), Time(14), Time(17), Time(20)});
  CHECK(ends == std::vector<Time>{Time(3), Time(6), Time(11), Time(11), Time(14), Time(17), Time(20), Time(23)});
  // Held: 1, 2, then 3 inside the pair before its backward gives one back, 3 again with 1F1.
  CHECK(got.in_flight_FB == std::vector<std::int64_t>{3});
  CHECK(got.actions == 8);
  CHECK(order_text(schedule, problem) == std::vector<std::string>{row});
  CHECK(to_text(parse_list(row)[2]) == "0F1");

  problem.overlapped.clear();  // one after the other
  CHECK(replay(schedule, problem).cost == Time(24));
}

TEST_CASE("a pair waits for what both of its halves need, and gives both results at its end") {
  // F = 2, B = 3, C = 1, a pair 4. 0F0 0-2, 1F0 3-5, 1B0 5-8, its gradient on rank 0 at 9. The forward 0F1 could have
  // run at 2: as half of a pair it runs 9-13, 1F1 14-16, 1B1 16-19, 0B1 20-23.
  const Schedule schedule = listed({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"});
  Problem problem = uniform_problem(2, 2, 1, Time(2), Time(3), Time(0), Time(1));
  problem.overlapped.assign(2, Time(4));
  const Replay got = replay(schedule, problem);
  CHECK(got.cost == Time(23));
  CHECK(got.busy == std::vector<Time>{Time(9), Time(10)});
  CHECK_NOTHROW(check_zero_buffer(schedule, problem));
  // Blocking sends: 0F0 0-2 and send -3, 1F0 3-5, 1B0 5-8 and send -9, pair 9-13 and send -14, 1F1 14-16, 1B1 16-19,
  // send -20, 0B1 20-23: nobody had anything else to do.
  CHECK(replay(schedule, problem, {.transfers = Transfers::blocking, .visit = {}}).cost == Time(23));
}

TEST_CASE("a pair is a forward and one backward that do not need each other") {
  const Problem problem = uniform_problem(1, 2, 1, Time(1), Time(1), Time(1), Time(0));
  const auto error = [&](const char* row) { return user_error([&] { replay(listed({row}), problem); }); };
  check_contains(error("(0F0;0B0)OVERLAP_F_B,0F1,0B1"), "cell 0 (0B0): runs before its forward");
  check_contains(error("0F0,(0F1;0F1)OVERLAP_F_B"), "cell 1: 0F1 is marked to overlap with 0F1; only a forward");
  check_contains(error("0F0,0I0,(0F1;0W0)OVERLAP_F_B"), "0F1 is marked to overlap with 0W0");
  check_contains(error("0F0,(0F1"), "0F1 is marked to overlap with the end of the program");
  check_contains(error("0F0,(0B0;0F1)OVERLAP_F_B"), "0B0 is marked to overlap with 0F1");
}

TEST_CASE("a pair that waits for ever is named") {
  const Problem problem = uniform_problem(2, 2, 1, Time(1), Time(1), Time(0), Time(0));
  const std::string message = user_error([&] {
    replay(listed({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1F1,1B0,1B1"}), problem);
  });
  check_contains(message, "rank 0 at cell 1: 0B0 waits for the gradient of micro-batch 0 from stage 1 on rank 1");
  check_contains(message, "rank 1 at cell 1: 1F1 waits for the activation");
}

TEST_CASE("two directions are two chains") {
  // Stages 0, 1 go down the ranks, stages 2, 3 up: rank 0 holds 0 and 3. F = B = 1, no transfer: the four slots of each
  // rank are full. What stands between stages 1 and 2 in the list of transfers belongs to nobody.
  const Schedule schedule = listed({"0F0,3F0,3B0,0B0", "2F0,1F0,1B0,2B0"}, Placement::bidirectional);
  Problem problem = uniform_problem(2, 2, 2, Time(1), Time(1), Time(0), Time(0));
  problem.transfer[1] = Time(1000);
  const Replay got = replay(schedule, problem);
  CHECK(got.cost == Time(4));
  CHECK(got.makespan == Time(4));
  CHECK(got.in_flight_FB == std::vector<std::int64_t>{2, 2});
  CHECK_NOTHROW(check_zero_buffer(schedule, problem));
  CHECK(uniform_times(Placement::bidirectional, problem)->transfer == Time(0));
  CHECK(order_text(registry().at("chimera"), problem) == order_text(schedule, problem));

  const auto ends = [&](auto end) {
    std::vector<bool> is;
    for (std::uint32_t s = 0; s < 4; ++s) is.push_back(end(Placement::bidirectional, problem, s));
    return is;
  };
  CHECK(ends(first_of_chain) == std::vector<bool>{true, false, true, false});
  CHECK(ends(last_of_chain) == std::vector<bool>{false, true, false, true});
  problem.microbatches = 3;
  check_contains(user_error([&] { check(schedule, problem); }), "3 micro-batches cannot be split evenly");
}

TEST_CASE("a wave goes down and up the ranks") {
  const Problem problem = uniform_problem(3, 1, 4, Time(1), Time(1), Time(0), Time(0));
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t s = 0; s < 12; ++s) ranks.push_back(rank_of(Placement::wave, problem, s));
  CHECK(ranks == std::vector<std::uint32_t>{0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0});
  for (std::uint32_t s = 0; s < 12; ++s) CHECK(stage_of(Placement::wave, problem, ranks[s], s / 3) == s);
}

TEST_CASE("hanayo: one micro-batch rides the wave; more follow as the turn leaves gaps") {
  Problem problem = uniform_problem(2, 1, 4, Time(1), Time(1), Time(1), Time(0));
  const Schedule& hanayo = registry().at("hanayo");
  CHECK(order_text(hanayo, problem) ==
        std::vector<std::string>{"0F0,3F0,4F0,7F0,7B0,4B0,3B0,0B0", "1F0,2F0,5F0,6F0,6B0,5B0,2B0,1B0"});
  // A wave of two stages, F = 1, B = 2, two micro-batches. 0F0 0-1 | 1F0 1-2, 2F0 2-3 | 0F1 1-2, 3F0 3-4, 3B0 4-6. Rank
  // 1 has 1F1 at 3-4, 2F1 4-5; rank 0 is free again at 6: 3F1 6-7, while rank 1 runs 2B0 6-8, and so on.
  problem = uniform_problem(2, 2, 2, Time(1), Time(1), Time(1), Time(0));
  CHECK(order_text(hanayo, problem) ==
        std::vector<std::string>{"0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1", "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1"});
  problem.waves = 2;
  check_contains(user_error([&] { check(hanayo, problem); }), "2 waves take 4 chunks per rank, not 2");
}

TEST_CASE("pieces of a micro-batch share its time and its memory exactly") {
  CHECK(share(Time(10), 3, 0) == Time(4));
  CHECK(share(Time(10), 3, 7) == Time(3));
  CHECK(share(Time(11), 3, 4) == Time(4));
  CHECK(share(Time(11), 3, 5) == Time(3));
  // One rank, one micro-batch in two pieces: everything one after the other, F = 5 as 3 + 2, B = 7 as 4 + 3.
  Problem problem = uniform_problem(1, 1, 1, Time(5), Time(6), Time(1), Time(0));
  problem.pieces = 2;
  const Schedule& schedule = registry().at("seq1f1b");
  const Replay got = replay(schedule, problem);
  CHECK(got.cost == Time(12));
  CHECK(got.in_flight_FB == std::vector<std::int64_t>{2});
  CHECK(got.peak_memory == std::vector<double>{1});
  CHECK(order_text(schedule, problem) == std::vector<std::string>{"0F0.0,0F0.1,0B0.1,0B0.0"});
  // Two ranks: 0F0.0 0-3, 0F0.1 3-5 | 1F0.0 3-6, 1F0.1 6-8, 1B0.1 8-11, 1B0.0 11-15 | 0B0.1 11-14, 0B0.0 15-19. Whole
  // micro-batches take 5 + 5 + 7 + 7 = 24.
  problem = uniform_problem(2, 1, 1, Time(5), Time(6), Time(1), Time(0));
  problem.pieces = 2;
  CHECK(replay(schedule, problem).makespan == Time(19));
  problem.pieces = 1;
  CHECK(replay(schedule, problem).makespan == Time(24));
  CHECK(order_text(schedule, problem) == order_text(registry().at("1f1b"), problem));
  problem.pieces = 0;
  check_contains(user_error([&] { check(schedule, problem); }), "pieces is 0");
}

TEST_CASE("pieces run forwards in order and backwards against it") {
  Problem problem = uniform_problem(1, 1, 1, Time(4), Time(4), Time(0), Time(0));
  problem.pieces = 2;
  const auto error = [&](const char* row) {
    Schedule schedule = listed({row});
    schedule.cuts_sequences = true;
    return user_error([&] { replay(schedule, problem); });
  };
  CHECK(error("0F0,0F1,0B1,0B0") == "");
  check_contains(error("0F1,0F0,0B1,0B0"), "cell 0 (0F1): runs before the forward of the previous piece");
  check_contains(error("0F0,0F1,0B0,0B1"), "cell 2 (0B0): runs before the gradient of the next piece");
}

TEST_CASE("without a flush: versions, staleness and the pace of the full pipeline") {
  Problem problem = uniform_problem(4, 8, 1, Time(10), Time(12), Time(8), Time(0));
  const Asynchrony eager = registry().at("pipedream").asynchrony(problem);
  CHECK(eager.weight_versions == std::vector<std::uint32_t>{4, 3, 2, 1});
  CHECK(eager.staleness == std::vector<std::uint32_t>{3, 2, 1, 0});
  CHECK(eager.steady_state == Time(30));
  const Asynchrony buffered = registry().at("pipedream-2bw").asynchrony(problem);
  CHECK(buffered.weight_versions == std::vector<std::uint32_t>(4, 2));
  CHECK(buffered.staleness == std::vector<std::uint32_t>(4, 1));
  // A round trip of all four ranks: 4 x 30 + 2 x 3 transfers of 2, for 4 micro-batches.
  problem.transfer.assign(3, Time(2));
  CHECK(registry().at("pipedream").asynchrony(problem).steady_state == Time(33));
  // A slow rank in the middle sets the pace: 60 alone, 60 + 30 + 2 x 2 = 94 for two would be 47.
  problem.forward[2] = Time(40);
  CHECK(registry().at("pipedream").asynchrony(problem).steady_state == Time(60));
  problem.microbatches = 3;
  check_contains(user_error([&] { check(registry().at("pipedream-2bw"), problem); }), "use at least 4");
}

TEST_CASE("the pace of the full pipeline is what long runs settle at") {
  const Schedule& pipedream = registry().at("pipedream");
  for (std::uint32_t p = 1; p <= 6; ++p)
    for (std::uint32_t variant = 0; variant < 12; ++variant) {
      CAPTURE(p);
      CAPTURE(variant);
      Problem problem = uniform_problem(p, 1, 1, Time(10), Time(12), Time(8), Time(variant));
      for (std::uint32_t s = 0; s < p; ++s) {
        problem.forward[s] = Time(10 + s * variant * 7 % 5);
        if (s + 1 < p) problem.transfer[s] = Time(s * variant * 5 % 13 + variant);
      }
      // The cycles that could set the pace advance 1 to p micro-batches: after the start, each 60 take the same time.
      const auto run = [&](std::uint32_t m) {
        problem.microbatches = m;
        return replay(pipedream, problem).makespan;
      };
      const Time sixty = run(1260) - run(1200), pace = pipedream.asynchrony(problem).steady_state;
      CHECK(sixty >= 60 * pace - Time(30));  // the pace is rounded to a picosecond
      CHECK(sixty <= 60 * pace + Time(30));
    }
}
