// A resharding plan as a task graph: it moves what was planned, and takes what the plan says, which was computed from
// the plan's order alone.
#include <doctest/doctest.h>

#include <variant>

#include "engine/sim.hpp"
#include "lower/resharded.hpp"
#include "reshard/routes.hpp"
#include "scenario/reshard_file.hpp"

using namespace rehearsal;

namespace {

reshard::Question paper_case(int number, const std::string& strategy) {
  return scenario::load_reshard(PROJECT_ROOT "/scenarios/reshard/case" + std::to_string(number) + ".yaml",
                                {"tensor.shape=[1024, 1024, 16]", "link.nic=100MB/s", "strategy=" + strategy});
}

Time simulated(const lower::Alone& made) {
  backend::RunOptions run;
  run.durations = made.durations, run.held = made.held;
  return engine::make_sim()->prepare(made.graph)->run(run).makespan();
}

}  // namespace

TEST_CASE("the paper's cases take as long as messages as they do as plans") {
  for (int number = 1; number <= 9; ++number)
    for (const std::string strategy : {"broadcast", "send-recv", "local-allgather"}) {
      CAPTURE(number);
      CAPTURE(strategy);
      const auto question = paper_case(number, strategy);
      const auto answer = reshard::answer(question);
      const auto time = to_seconds(simulated(lower::resharded(question, answer)));
      // A message that says that a NIC is free, and the last chunk's way down its chain, take time of their own.
      CHECK(time > .99 * answer.seconds);
      CHECK(time < 1.06 * answer.seconds);
    }
}

TEST_CASE("every byte of the plan is sent once, and one more for each NIC that is handed over") {
  for (int number = 1; number <= 9; ++number) {
    CAPTURE(number);
    const auto question = paper_case(number, "broadcast");
    const auto answer = reshard::answer(question);
    const auto made = lower::resharded(question, answer);
    std::int64_t planned = 0, sent = 0, notes = 0;
    for (const auto& carry : reshard::carries(answer, reshard::Chunks::each))
      planned += carry.count * question.method.element_bytes;
    for (const auto& rank : made.graph.ranks())
      for (const auto work : made.graph.program_of(rank).work)
        if (const auto* message = std::get_if<graph::Message>(&made.graph.work(work)))
          (message->size == Bytes(1) ? notes : sent) += message->size.count();
    CHECK(sent == planned);
    CHECK(notes <= static_cast<std::int64_t>(2 * answer.plan.schedule.size()));
  }
}

TEST_CASE("without a NIC's word that it is free, chains of one sender would share it") {
  // Case 8: four devices of a host each have a quarter, and their chains go over two hosts.
  const auto question = paper_case(8, "broadcast");
  const auto answer = reshard::answer(question);
  const auto made = lower::resharded(question, answer);
  std::vector<int> waits;  // of the senders, for others
  for (std::uint32_t device = 0; device < 4; ++device) {
    const auto& program = made.graph.program_of(made.graph.ranks()[device]);
    waits.push_back(0);
    for (const auto lane : program.lane) waits.back() += lane == graph::Lane::receive;
  }
  CHECK(waits == std::vector{0, 1, 1, 1});
}
