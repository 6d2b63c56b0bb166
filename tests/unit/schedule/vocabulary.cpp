// A vocabulary split over the pipeline's ranks (arXiv 2411.05288): two ranks and two micro-batches, solved by hand.
#include <algorithm>

#include "listed.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

// Layers: F 2, B 4. Parts of the vocabulary: F 1, I 1, W 1. Every hop 1.
Problem two_ranks() {
  Problem problem = uniform_problem(2, 2, 2, Time(2), Time(3), Time(1), Time(1));
  for (const std::uint32_t part : {2, 3})
    problem.forward[part] = problem.input_gradient[part] = problem.weight_gradient[part] = Time(1);
  return problem;
}

}  // namespace

TEST_CASE("two barriers: parts, then their gradients, then the gradient of the last stage") {
  // 0F0 0-2, 0F1 2-4; 1F0 3-5; parts 3F0 5-6 and 2F0 6-7. Rank 0 knows of rank 1 at 7: 2B0 7-9; rank 1 of rank 0 at 8:
  // 1F1 6-8, 3F1 8-9, 3B0 9-11. 2F1 (fed at 9) 9-10, 2B1 10-12. 1B0 11-15, 0B0 16-20. 3B1 15-17, 1B1 17-21, 0B1 22-26.
  const Problem problem = two_ranks();
  const Schedule& schedule = registry().at("vocab-1");
  CHECK(order_text(schedule, problem) ==
        std::vector<std::string>{"0F0,0F1,2F0,2B0,2F1,2B1,0B0,0B1", "1F0,3F0,1F1,3F1,3B0,1B0,3B1,1B1"});
  const Replay got = replay(schedule, problem);
  CHECK(got.cost == Time(26));
  CHECK(got.busy == std::vector<Time>{Time(18), Time(18)});
  CHECK_NOTHROW(check_zero_buffer(schedule, problem));
}

TEST_CASE("one barrier: a part makes its input gradient at once, and nobody waits for gradients of weights") {
  // 1F0 3-5, part of rank 1 5-7, of rank 0 6-8. 1F1 7-9, parts 9-11 and 10-12. The last stage's gradient waits for both
  // parts, 8 and a hop, and here for weights of its rank, 11-12: 1B0 12-16, 3W1 16-17, 1B1 17-21, 0B0 17-21, 0B1 22-26.
  const Problem problem = two_ranks();
  const Schedule& schedule = registry().at("vocab-2");
  CHECK(order_text(schedule, problem) ==
        std::vector<std::string>{"0F0,0F1,2F0,2I0,2W0,2F1,2I1,2W1,0B0,0B1", "1F0,3F0,3I0,1F1,3F1,3I1,3W0,1B0,3W1,1B1"});
  CHECK(replay(schedule, problem).cost == Time(26));
}

TEST_CASE("interlaced: parts and their gradients at once on all ranks") {
  // 0F0 0-2, 1F0 3-5, 3F0 5-6, 2F0 6-7, 2B0 7-9, 3B0 8-10. 0F1 9-11, 1B0 10-14, 1F1 14-16, 3F1 16-17, 2F1 17-18, 2B1
  // 18-20, 3B1 19-21. 0B0 20-24, 1B1 21-25, 0B1 26-30.
  const Problem problem = two_ranks();
  const Schedule& schedule = registry().at("interlaced");
  CHECK(order_text(schedule, problem) ==
        std::vector<std::string>{"0F0,2F0,2B0,0F1,2F1,2B1,0B0,0B1", "1F0,3F0,3B0,1B0,1F1,3F1,3B1,1B1"});
  CHECK(replay(schedule, problem).cost == Time(30));
}

TEST_CASE("with many micro-batches no rank idles, and each barrier keeps one more of them in flight") {
  // 8 ranks, as many passes as fit: a micro-batch takes 3 + 6 of layers and 1 + 2 of its part on every rank.
  Problem problem = uniform_problem(8, 128, 2, Time(3), Time(3), Time(3), Time(0));
  for (std::uint32_t part = 8; part < 16; ++part) {
    problem.forward[part] = problem.input_gradient[part] = problem.weight_gradient[part] = Time(1);
    problem.activation[part] = 0;
  }
  const auto peak = [&](const char* name) {
    const Replay got = replay(registry().at(name), problem);
    CHECK(got.bubble_rate() < .09);  // filling takes 7 x 12 of 128 x 12
    return *std::max_element(got.peak_memory.begin(), got.peak_memory.end());
  };
  CHECK(peak("vocab-1") == 10);
  CHECK(peak("vocab-2") == 9);
  CHECK(peak("interlaced") == 12);
}

TEST_CASE("a limit of memory is not theirs to keep") {
  Problem problem = two_ranks();
  problem.memory_limit = 4;
  check_contains(user_error([&] { check(registry().at("vocab-1"), problem); }), "takes no memory_limit");
}
