// Ranks started by this program, and ranks of a job that a user starts by hand or with mpirun: they meet; one of them
// dies, fails, hangs or reports too little.
#define DOCTEST_CONFIG_IMPLEMENT
#include <map>

#include "launch/rank_process.hpp"
#include "processes.hpp"

namespace rehearsal {
namespace {

// --- in a rank -----------------------------------------------------------------------------------------------------

// A backend's handling of its rank: meets the others, works, publishes. `what`: the case; it decides which rank
// misbehaves.
std::string work(const std::string& what, launch::RankProcess& job, dispatch::Progress& progress) {
  launch::Bootstrap& all = job.bootstrap();
  const bool culprit = all.rank() == 1;
  if (what == "user error") throw UserError("the scenario is wrong");
  all.gather_everywhere("digest", "same");
  progress.heads = std::vector<std::atomic<std::uint32_t>>(2);
  static std::atomic<bool> stop{false};
  job.presence().begin(progress, seconds(1), stop);
  if (what == "fails" && culprit) throw MachineError("out of patience");
  if (what == "killed" && culprit) raise(SIGKILL);
  if (what == "exits" && culprit) std::fputs("NCCL WARN something", stderr), _exit(5);
  if (what == "silent" && culprit) _exit(0);
  progress.heads[1] = static_cast<std::uint32_t>(7 + all.rank());
  ++progress.moves;
  // Waits for the failing rank, as ranks do that poll between looks at their GPU.
  while (what != "runs") {
    all.throw_if_failed();
    if (what == "long") ++progress.moves;
    pause_for(0.01);
  }
  job.presence().end();
  return fmt::format("{} of rank {}", what, all.rank());
}

int rank_program(const std::string& what) {
  dispatch::Progress progress;  // the job reads it until its end
  launch::RankProcess job;
  leave_pid(job.membership().rank);
  try {
    const auto results = job.guarded([&] { return job.publish(work(what, job, progress)); });
    std::string joined;
    for (const auto& one : results) joined += one + "\n";
    if (launch::reports("cuda")) leave("answer", joined);
    return 0;
  } catch (const UserError& error) {
    if (launch::reports("cuda")) leave("answer", error.what());
    return 2;
  } catch (const MachineError&) {
    return 3;
  }
}

std::vector<std::string> run(const std::string& what, std::size_t ranks) {
  launch::Job job{.starter = launch::Starter::fork,
                  .ranks = ranks,
                  .arguments = {"rank", what},
                  .timeout = seconds(1),
                  .hang_report = [](const std::vector<dispatch::Positions>& at) {
                    std::string text = "they stand at";
                    for (const auto& one : at) text += fmt::format(" {}", one.at(1));
                    return text;
                  }};
  return run_ranks(job);
}

using Settings = std::map<std::string, std::string>;

// The ranks of a job started by hand: their exit statuses.
std::vector<int> by_hand(const std::string& what, std::size_t ranks, Settings settings) {
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    settings["RANK"] = settings["LOCAL_RANK"] = std::to_string(rank), settings["WORLD_SIZE"] = std::to_string(ranks);
    for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
    children.push_back(start("rank", what));
  }
  for (const auto& [name, value] : settings) unsetenv(name.c_str());
  std::vector<int> statuses;
  for (const pid_t pid : children) statuses.push_back(ended(pid));
  return statuses;
}

}  // namespace

TEST_CASE("forked ranks meet and publish, in rank order") {
  for (const std::size_t ranks : {1u, 4u}) {
    CAPTURE(ranks);
    const Traces traces;
    const auto results = run("runs", ranks);
    REQUIRE(results.size() == ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) CHECK(results[rank] == fmt::format("runs of rank {}", rank));
    traces.check_nothing_is_left(ranks);
  }
}

TEST_CASE("what an image or an outer job exports does not renumber forked ranks") {
  const auto exported = {"RANK", "OMPI_COMM_WORLD_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "REHEARSAL_RENDEZVOUS"};
  for (const char* name : exported) setenv(name, "1", 1);
  const Traces traces;
  CHECK(run("runs", 2) == std::vector<std::string>{"runs of rank 0", "runs of rank 1"});
  for (const char* name : exported) unsetenv(name);
}

TEST_CASE("a forked rank that is killed or fails is named; those that fail because of it say nothing") {
  check_faults_are_named(run);
  const Traces traces;
  CHECK_THROWS_WITH_AS(run("user error", 2), "error: the scenario is wrong", UserError);  // reported once
  traces.check_nothing_is_left(2);
}

TEST_CASE("a forked rank that ends too early is named, with how and with what it said") {
  {
    const Traces traces;
    const std::string message = failure(run, "exits", 3);
    CAPTURE(message);
    CHECK(contains(message, fmt::format("rank 1 (pid {}) ended with status 5", traces.read("1.pid"))));
    CHECK(contains(message, "it said:\nNCCL WARN something"));
    traces.check_nothing_is_left(3);
  }
  const Traces traces;  // these ranks succeed, but publish nothing
  const std::string message = failure(run, "silent", 2);
  CHECK(message == fmt::format("rank 1 (pid {}) ended with status 0 and without a result", traces.read("1.pid")));
  traces.check_nothing_is_left(2);
}

TEST_CASE("forked ranks that wait for each other are reported where they stand") {
  const Traces traces;
  CHECK(failure(run, "hangs", 2) == "they stand at 7 8");
  traces.check_nothing_is_left(2);
}

TEST_CASE("SIGTERM and SIGINT end forked ranks with their parent, with status 128 + signal") {
  check_signals_end_ranks_with_their_parent();
}

TEST_CASE("a parent that is killed takes its forked ranks along") { check_killed_parent_takes_ranks_along(run); }

TEST_CASE("ranks without a parent meet in a folder; rank 0 has all results, and a failure is known to all") {
  {
    const Traces traces;
    CHECK(by_hand("runs", 3, {{"REHEARSAL_RENDEZVOUS", traces.folder / "meeting"}}) == std::vector<int>(3));
    CHECK(traces.read("answer") == "runs of rank 0\nruns of rank 1\nruns of rank 2\n");
    traces.check_nothing_is_left(3);
    CHECK(fs::is_empty(traces.folder / "meeting"));
  }
  {
    const Traces traces;
    CHECK(by_hand("fails", 3, {{"REHEARSAL_RENDEZVOUS", traces.folder / "meeting"}}) == std::vector<int>(3, 3));
    traces.check_nothing_is_left(3);
  }
  const Traces traces;
  CHECK(by_hand("runs", 2, {}) == std::vector<int>(2, 2));
  CHECK(contains(traces.read("answer"), "set REHEARSAL_RENDEZVOUS=/path"));
}

// Run where there is an MPI module (tests/mpi/CMakeLists.txt).
TEST_CASE("ranks started by mpirun meet through MPI; one that fails ends all" * doctest::skip()) {
  {
    const Traces traces;
    CHECK(mpirun(3, "rank runs") == 0);
    CHECK(traces.read("answer") == "runs of rank 0\nruns of rank 1\nruns of rank 2\n");
  }
  for (const char* what : {"fails", "killed"}) {
    CAPTURE(what);
    const Traces traces;
    CHECK(mpirun(3, fmt::format("rank {}", what)) != 0);
    CHECK(traces.pids().size() == 3);
    traces.check_none_runs_soon();
  }
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  if (argc == 3 && std::string(argv[1]) == "rank") return rank_program(argv[2]);
  if (argc == 4 && std::string(argv[1]) == "parent") return parent_program(run, argv[2], argv[3]);
  return doctest::Context(argc, argv).run();
}
