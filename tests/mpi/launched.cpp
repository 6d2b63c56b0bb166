// The MPI backend from outside: this program starts itself as ranks that perform a chain of stages; one of them dies,
// fails, hangs or has another graph.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "../launch/processes.hpp"
#include "chain.hpp"
#include "modules/module.hpp"

namespace rehearsal {
namespace {

// --- in every process: what a command does -------------------------------------------------------------------------

struct Answer {
  timeline::Timeline timeline;
  Chain subject;
};

// `what`: the case; in a rank it decides which rank misbehaves.
Answer perform(const std::string& what, std::size_t ranks) {
  const std::size_t me = launch::is_rank() ? launch::membership(launch::Launchers::mpi).value().rank : ranks;
  Answer answer{{}, what == "other" && me == 1 ? chain(ranks, Bytes(2000)) : chain(ranks)};
  auto backend = launch::open("mpi", {"perform", what, std::to_string(ranks)});
  auto session = backend->prepare(answer.subject.graph);
  backend::RunOptions options;
  options.durations = answer.subject.durations;
  options.warmup = 1;
  options.iterations = what == "long" ? 10000 : 3;
  options.timeout = seconds(1);
  options.fault_injection.skip = [&](RankId rank, LocalTask task, int step) {
    const bool last = step == 2 && task.value == 3;
    if (what == "killed" && rank.value == 1 && last) raise(SIGKILL);
    if (what == "fails" && rank.value == 1 && last) throw MachineError("out of patience");
    const auto& program = answer.subject.graph.program_of(answer.subject.graph.ranks()[rank.index()]);
    return what == "hangs" && rank.value == 0 && last && program.lane[task.index()] == graph::Lane::send;
  };
  answer.timeline = session->run(options);
  return answer;
}

int rank_program(const std::string& what, std::size_t ranks) {
  leave_pid(launch::membership(launch::Launchers::mpi).value().rank);
  try {
    perform(what, ranks);
    return 0;
  } catch (const MachineError& error) {
    leave(fmt::format("{}.caught", launch::membership(launch::Launchers::mpi).value().rank), error.what());
    return 3;
  }
}

// A rank of a job that a user started: rank 0 has the answer, or the error.
int job_program(const std::string& what, std::size_t ranks) {
  try {
    const Answer answer = perform(what, ranks);
    if (launch::reports("mpi"))
      leave("answer",
            fmt::format("{} iterations, {} tasks", answer.timeline.iterations.size(), answer.timeline.start.size()));
    return 0;
  } catch (const MachineError& error) {
    if (launch::reports("mpi")) leave("answer", error.what());
    return 3;
  }
}

void run(const std::string& what, std::size_t ranks) { perform(what, ranks); }

}  // namespace

TEST_CASE("a chain of 2 and of 4 ranks keeps its order, and collectives start together") {
  for (const std::size_t ranks : {2u, 4u}) {
    CAPTURE(ranks);
    const Traces traces;
    const auto [timeline, subject] = perform("runs", ranks);
    const graph::TaskGraph& graph = subject.graph;
    CHECK(timeline.backend == "mpi");
    REQUIRE(timeline.iterations.size() == 3);
    REQUIRE(timeline.iteration_end.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      const timeline::Spans& spans = timeline.iterations[i];
      auto start = [&](TaskId task) { return spans.start[task.index()]; };
      auto end = [&](TaskId task) { return spans.end[task.index()]; };
      CHECK(timeline.iteration_end[i] >= shortest(ranks));
      Time together;
      for (std::size_t r = 0; r < ranks; ++r) {
        const graph::Program& program = graph.program_of(graph.ranks()[r]);
        for (std::size_t t = 0; t < program.size(); ++t) {
          const TaskId task = graph.task(RankId(r), LocalTask(t));
          CAPTURE(graph.label(RankId(r), LocalTask(t)));
          CHECK(start(task) >= Time{});
          for (LocalTask before : program.dependencies[t]) CHECK(end(graph.task(RankId(r), before)) <= start(task));
          if (program.lane[t] == graph::Lane::compute) CHECK(end(task) - start(task) >= kForward);
          if (program.lane[t] == graph::Lane::receive) CHECK(end(graph.partner(RankId(r), LocalTask(t))) <= end(task));
        }
        const TaskId reduce = graph.task(RankId(r), LocalTask(program.size() - 1));
        if (r == 0) together = start(reduce);
        CHECK(start(reduce) == together);
        // The last stage computes last, and the others wait for it.
        CHECK(start(reduce) >= shortest(ranks));
      }
    }
    // Loose: other programs may use the cores for a while.
    CHECK(*std::min_element(timeline.iteration_end.begin(), timeline.iteration_end.end()) < 4 * shortest(ranks));
    traces.check_nothing_is_left(ranks);
  }
}

TEST_CASE("a rank with another graph is found before the first launch") {
  const Traces traces;
  const std::string message = failure(run, "other", 4);
  CAPTURE(message);
  CHECK(contains(message, "rank 1 would perform another task graph than rank 0"));
  // Thrown inside the module, caught outside with its type. The first rank to end ends the others.
  std::string caught;
  for (const char* name : {"0.caught", "1.caught", "2.caught", "3.caught"}) caught += traces.read(name);
  CHECK(contains(caught, "rank 1 would perform another task graph"));
  traces.check_nothing_is_left(4);
}

TEST_CASE("a rank that is killed ends the run and is named; an error of a rank is the error of the run") {
  check_faults_are_named(run);
}

TEST_CASE("a message that is never sent is reported with the lanes that wait for it") {
  const Traces traces;
  const std::string message = failure(run, "hangs", 2);
  CAPTURE(message);
  CHECK(contains(message, "nothing has moved for 1"));
  CHECK(contains(message, "rank 1, lane receive"));
  traces.check_nothing_is_left(2);
}

TEST_CASE("SIGTERM and SIGINT end the ranks with their parent, with status 128 + signal") {
  check_signals_end_ranks_with_their_parent();
}

TEST_CASE("a parent that is killed takes its ranks along") { check_killed_parent_takes_ranks_along(run); }

TEST_CASE("started by mpirun directly, rank 0 has the whole timeline; a job of another size is refused") {
  // 14 tasks in a chain of 2: 3 forwards each, 3 messages with their receives, 2 ends of a collective.
  for (const auto& [ranks, status, answer] :
       {std::tuple("2", 0, "3 iterations, 14 tasks"), {"3", 3, "the MPI job has 2 ranks and the scenario needs 3"}}) {
    const Traces traces;
    CHECK(mpirun(2, fmt::format("job runs {}", ranks)) == status);
    CHECK(traces.read("answer") == answer);
  }
}

TEST_CASE("timing real compute with more ranks than cores is refused before anything is started") {
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  CHECK_NOTHROW(launch::refuse_crowding(options, launch::cores()));
  CHECK_THROWS_AS(launch::refuse_crowding(options, launch::cores() + 1), MachineError);
  options.times_matter = false;
  CHECK_NOTHROW(launch::refuse_crowding(options, launch::cores() + 1));
  options.times_matter = true;
  options.compute = backend::Compute::timed;
  CHECK_NOTHROW(launch::refuse_crowding(options, launch::cores() + 1));
}

TEST_CASE("a module of another build, a file that is no module and a missing one are refused with the reason") {
  const fs::path file = fs::path(MODULE_FOLDER) / "librehearsal_mpi.so";
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(module != nullptr);
  const auto entry = reinterpret_cast<modules::ModuleEntry>(dlsym(module, modules::kModuleEntry));
  REQUIRE(bool(entry != nullptr));
  backend::Backend* made = nullptr;
  modules::ModuleError error{};
  CHECK(entry("another", &made, &error) != 0);
  CHECK(made == nullptr);
  CHECK(contains(error.message, "different builds"));

  const Traces traces;
  std::ofstream(traces.temporary() / "librehearsal_none.so") << "text";
  CHECK_THROWS_AS(modules::load_module("none", traces.temporary() / "librehearsal_none.so"), MachineError);
  const auto why = modules::why_unavailable("nowhere");
  REQUIRE(why.has_value());
  CHECK(contains(*why, "librehearsal_nowhere.so was not built"));
  CHECK_FALSE(modules::why_unavailable("mpi").has_value());
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  setenv("REHEARSAL_MODULES", MODULE_FOLDER, 1);
  if (argc == 4 && launch::is_rank()) return rank_program(argv[2], std::strtoul(argv[3], nullptr, 10));
  if (argc == 4 && launch::in_job("mpi")) return job_program(argv[2], std::strtoul(argv[3], nullptr, 10));
  if (argc == 4 && std::string(argv[1]) == "parent") return parent_program(run, argv[2], argv[3]);
  if (const auto why = launch::why_unavailable("mpi")) {
    std::printf("skipped: %s\n", why->c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
