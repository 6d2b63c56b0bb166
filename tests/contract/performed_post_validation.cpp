// Steps that are taken at once and validated during the next iteration train what a barrier trains; also when every
// step is rolled back and retaken, and the forwards in between are repeated.
#include <algorithm>
#include <set>

#include "performed_schedules.hpp"
#include "performing.hpp"

namespace rehearsal {
namespace {

Sets validated(const Sets& network, const char* rolled_back, std::initializer_list<std::string> more) {
  Sets sets = with(network, {"training.optimizer=adamw", "training.optimizer_sync=post-validation",
                             std::string("training.rollback_probability=") + rolled_back, "simulate.iterations=2",
                             "batch.global=8"});
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

}  // namespace

TEST_CASE("every schedule with a flush trains through steps that are validated, or taken back, afterwards") {
  std::set<std::string> trained;
  for (const std::string& schedule : performed_schedules())
    for (const int chunks : {1, 2})
      for (const char* rolled_back : {"0", "1"}) {
        if (schedule::registry().at(schedule).updates != schedule::Updates::at_flush) continue;
        CAPTURE(schedule);
        CAPTURE(chunks);
        CAPTURE(rolled_back);
        const int ranks = chunks == 1 ? 4 : 2;
        try {
          check_trains(kGpt, validated(kSmall, rolled_back,
                                       {fmt::format("parallelism={{pipeline: {}, chunks: {}}}", ranks, chunks),
                                        "schedule=" + schedule}));
          trained.insert(schedule);
        } catch (const UserError& error) {
          const std::string why = error.what();
          CHECK_MESSAGE(why.find("chunk") != std::string::npos, why);
        }
      }
  for (const std::string& schedule : performed_schedules())
    CHECK(trained.count(schedule) == (schedule::registry().at(schedule).updates == schedule::Updates::at_flush));
}

TEST_CASE("with other parallelism, too") {
  for (const char* rolled_back : {"0", "1"})
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={pipeline: 2, data: 2, tensor: 2}", "schedule=zb-h1"},
             {"parallelism={pipeline: 2, tensor: 2, sequence: true}", "schedule=zb-h2", "training.recompute=full"},
             {"parallelism={pipeline: 2, context: 2}", "schedule=1f1b"},
             {"parallelism={data: 2}", "schedule=1f1b"}}) {
      CAPTURE(layout.front());
      CAPTURE(rolled_back);
      Sets sets = validated(kSmallLlama, rolled_back, {});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
}

TEST_CASE("a step that is not taken back, or not taken again, and a forward that is not repeated, are found out") {
  const Sets sets = validated(kSmall, "1", {"parallelism={pipeline: 2}", "schedule=zb-h2"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
  const auto found = [&](std::size_t t) {
    CAPTURE(t);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId rank, LocalTask task, int step) -> bool {
      return rank == RankId(0) && step == 0 && task == LocalTask(t);
    };
    return !train(kGpt, sets, fault_injection).verified.ok;
  };
  std::vector<std::size_t> back, again;
  for (std::size_t t = 0; t < program.size(); ++t) {
    const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
    if (kernel && kernel->kind == KernelKind::adamw_rollback) back.push_back(t);
    if (kernel && kernel->kind == KernelKind::adamw) again.push_back(t);
  }
  REQUIRE(back.size() == again.size());
  REQUIRE(back.size() % 2 == 0);  // two iterations
  for (const std::size_t t : {back.front(), back.back(), again.front(), again.back()}) CHECK(found(t));
  // The first kernel behind the first validation belongs to a forward that runs for the second time.
  std::size_t repeated = again[again.size() / 2 - 1] + 1;
  while (!std::holds_alternative<Kernel>(prepared.graph.work(program.work[repeated]))) ++repeated;
  CHECK(program.coordinates[repeated].pass == graph::Pass::forward);
  CHECK(found(repeated));
}

TEST_CASE("what cannot be validated afterwards is refused") {
  const auto refusal = [](const Sets& more) -> std::string {
    Sets sets = validated(kSmall, "1", {"parallelism={pipeline: 2}"});
    sets.insert(sets.end(), more.begin(), more.end());
    try {
      train(kGpt, sets);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const auto says = [&](const Sets& more, const char* part) { return refusal(more).find(part) != std::string::npos; };
  CHECK(says({"training.rollback_probability=0.5"}, "set training.rollback_probability to 0 or 1"));
  CHECK(says({"parallelism={pipeline: 2, data: 2, zero: 1}"}, "set parallelism.zero to 0"));
  CHECK(says({"training.optimizer=sgd"}, "cannot roll back a step of sgd"));
}

}  // namespace rehearsal
