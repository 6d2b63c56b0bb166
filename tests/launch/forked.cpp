// Ranks started by this program, and ranks of a job that a user starts by hand: they meet in the store; one of them
// dies, fails, hangs or reports too little. No process and no file may remain.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "launch/launch.hpp"
#include "launch/launcher.hpp"
#include "launch/rank_process.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScratch = "REHEARSAL_TEST_SCRATCH";  // where ranks write their process ids
const Time kPatience = seconds(20);                         // on a loaded machine

void pause_for(double s) { dispatch::sleep_until(dispatch::now() + seconds(s)); }

// --- in a rank -----------------------------------------------------------------------------------------------------

// A backend's handling of its rank: meets the others, works, publishes. `what`: the case; it decides which rank
// misbehaves.
std::string work(const std::string& what, launch::RankProcess& job, dispatch::Progress& progress) {
  launch::Store& store = job.store();
  const bool culprit = store.rank() == 1;
  if (what == "user error") throw UserError("the scenario is wrong");
  gather_everywhere(store, "digest", "same");
  progress.heads = std::vector<std::atomic<std::uint32_t>>(2);
  static std::atomic<bool> stop{false};
  job.presence().begin(progress, seconds(1), stop);
  if (what == "fails" && culprit) throw MachineError("out of patience");
  if (what == "killed" && culprit) raise(SIGKILL);
  if (what == "exits" && culprit) std::fputs("NCCL WARN something", stderr), _exit(5);
  if (what == "silent" && culprit) _exit(0);
  progress.heads[1] = static_cast<std::uint32_t>(7 + store.rank());
  ++progress.moves;
  // Waits for the failing rank, as ranks do that poll between looks at their GPU.
  while (what != "runs") {
    store.throw_if_failed();
    if (what == "long") ++progress.moves;
    pause_for(0.01);
  }
  job.presence().end();
  return fmt::format("{} of rank {}", what, store.rank());
}

int rank_program(const std::string& what) {
  dispatch::Progress progress;  // the job reads it until its end
  launch::RankProcess job(kPatience);
  std::ofstream(fs::path(std::getenv(kScratch)) / fmt::format("{}.pid", job.membership().rank)) << getpid();
  try {
    const auto results = job.guarded([&] { return job.publish(work(what, job, progress)); });
    std::string joined;
    for (const auto& one : results) joined += one + "\n";
    if (launch::reports("cuda")) std::ofstream(fs::path(std::getenv(kScratch)) / "answer") << joined;
    return 0;
  } catch (const UserError&) {
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

// A whole command in a separate process, for signals.
int parent_program(const std::string& what) {
  try {
    run(what, 2);
    return 0;
  } catch (const launch::Interrupted& interrupted) {
    return 128 + interrupted.signal;
  }
}

// --- in the test ---------------------------------------------------------------------------------------------------

// A folder for everything that a case may leave behind.
class Traces {
 public:
  Traces() {
    std::string name = (fs::temp_directory_path() / "rehearse-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    fs::create_directory(temporary());
    setenv(kScratch, name.c_str(), 1);
    setenv("TMPDIR", temporary().c_str(), 1);
  }
  ~Traces() {
    unsetenv("TMPDIR");
    fs::remove_all(folder);
  }
  fs::path temporary() const { return folder / "tmp"; }
  std::string read(const std::string& name) const {
    std::ifstream in(folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<pid_t> pids() const {
    std::vector<pid_t> list;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".pid") {
        pid_t pid = 0;
        if (std::ifstream(entry.path()) >> pid) list.push_back(pid);
      }
    return list;
  }
  bool somebody_runs() const {
    bool any = false;
    for (const pid_t pid : pids()) any |= kill(pid, 0) == 0 || errno != ESRCH;
    return any;
  }
  void check_nothing_is_left(std::size_t ranks) const {
    CHECK(pids().size() == ranks);
    CHECK_FALSE(somebody_runs());
    CHECK(fs::is_empty(temporary()));
  }
  fs::path folder;
};

std::string failure(const std::string& what, std::size_t ranks) {
  try {
    run(what, ranks);
  } catch (const MachineError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

pid_t start(const std::string& how, const std::string& what) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "forked", how.c_str(), what.c_str(), nullptr);
    _exit(127);
  }
  return pid;
}

int ended(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void wait_for_pids(const Traces& traces, std::size_t count) {
  for (const Time until = dispatch::now() + kPatience; traces.pids().size() < count && dispatch::now() < until;)
    pause_for(0.01);
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

// A folder, and a free port of this machine: with alternatives, as under torchrun's agent.
std::vector<Settings> meeting_places(const Traces& traces) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET, where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&where), size) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size) == 0);
  close(fd);
  return {{{"REHEARSAL_STORE", traces.folder / "store"}},
          {{"MASTER_ADDR", "localhost"},
           {"MASTER_PORT", std::to_string(ntohs(where.sin_port))},
           {"TORCHELASTIC_RUN_ID", "test"},
           {"TORCHELASTIC_USE_AGENT_STORE", "True"}}};
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
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) setenv(name, "1", 1);
  setenv("MASTER_ADDR", "nowhere.invalid", 1);
  const Traces traces;
  CHECK(run("runs", 2) == std::vector<std::string>{"runs of rank 0", "runs of rank 1"});
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "MASTER_ADDR"})
    unsetenv(name);
}

TEST_CASE("a forked rank that dies is named, with how and with what it said") {
  {
    const Traces traces;
    const std::string message = failure("killed", 4);
    CHECK(message == fmt::format("rank 1 (pid {}) was killed by signal 9", traces.read("1.pid")));
    traces.check_nothing_is_left(4);
  }
  {
    const Traces traces;
    const std::string message = failure("exits", 3);
    CAPTURE(message);
    CHECK(contains(message, fmt::format("rank 1 (pid {}) ended with status 5", traces.read("1.pid"))));
    CHECK(contains(message, "it said:\nNCCL WARN something"));
    traces.check_nothing_is_left(3);
  }
  const Traces traces;  // these ranks succeed, but publish nothing
  const std::string message = failure("silent", 2);
  CHECK(message == fmt::format("rank 1 (pid {}) ended with status 0 and without a result", traces.read("1.pid")));
  traces.check_nothing_is_left(2);
}

TEST_CASE("an error of a forked rank is the error of the run; those who fail because of it say nothing") {
  {
    const Traces traces;
    CHECK(failure("fails", 4) == "rank 1: out of patience");
    traces.check_nothing_is_left(4);
  }
  const Traces traces;
  CHECK_THROWS_WITH_AS(run("user error", 2), "error: the scenario is wrong", UserError);  // reported once
  traces.check_nothing_is_left(2);
}

TEST_CASE("forked ranks that wait for each other are reported where they stand") {
  const Traces traces;
  CHECK(failure("hangs", 2) == "they stand at 7 8");
  traces.check_nothing_is_left(2);
}

TEST_CASE("SIGTERM and SIGINT end forked ranks with their parent, with status 128 + signal") {
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    const Traces traces;
    const pid_t parent = start("parent", "long");
    wait_for_pids(traces, 2);
    kill(parent, signal);
    CHECK(ended(parent) == 128 + signal);
    traces.check_nothing_is_left(2);
  }
}

TEST_CASE("a parent that is killed takes its forked ranks along") {
  const Traces traces;
  const pid_t parent = start("parent", "long");
  wait_for_pids(traces, 2);
  REQUIRE(traces.pids().size() == 2);
  kill(parent, SIGKILL);
  CHECK(ended(parent) == 128 + SIGKILL);
  for (const Time until = dispatch::now() + kPatience; traces.somebody_runs() && dispatch::now() < until;)
    pause_for(0.01);
  CHECK_FALSE(traces.somebody_runs());
  // No process was left to remove its folder: the next run does.
  CHECK_FALSE(fs::is_empty(traces.temporary()));
  CHECK(run("runs", 2).size() == 2);
  CHECK(fs::is_empty(traces.temporary()));
}

TEST_CASE("ranks without a parent meet; rank 0 has all results") {
  for (std::size_t place = 0; place < 2; ++place) {
    CAPTURE(place);
    const Traces traces;
    CHECK(by_hand("runs", 3, meeting_places(traces)[place]) == std::vector<int>(3));
    CHECK(traces.read("answer") == "runs of rank 0\nruns of rank 1\nruns of rank 2\n");
    traces.check_nothing_is_left(3);
    if (place == 0) CHECK(fs::is_empty(traces.folder / "store"));
  }
}

TEST_CASE("a rank without a parent that fails takes the others along; over TCP one that is killed too") {
  for (std::size_t place = 0; place < 2; ++place) {
    CAPTURE(place);
    const Traces traces;
    CHECK(by_hand("fails", 3, meeting_places(traces)[place]) == std::vector<int>(3, 3));
    traces.check_nothing_is_left(3);
  }
  const Traces traces;
  CHECK(by_hand("killed", 3, meeting_places(traces)[1]) == std::vector<int>{3, 128 + SIGKILL, 3});
}

// Run where there is an mpirun (tests/mpi/CMakeLists.txt).
TEST_CASE("ranks started by mpirun meet without MPI" * doctest::skip()) {
  const Traces traces;
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
      "{} -n 3 {} rank runs 2>/dev/null",
      launch::find_mpirun(), fs::read_symlink("/proc/self/exe").string());
  CHECK(WEXITSTATUS(std::system(command.c_str())) == 0);
  CHECK(traces.read("answer") == "runs of rank 0\nruns of rank 1\nruns of rank 2\n");
}

}  // namespace rehearsal

int main(int argc, char** argv) {
  using namespace rehearsal;
  if (argc == 3 && std::string(argv[1]) == "rank") return rank_program(argv[2]);
  if (argc == 3 && std::string(argv[1]) == "parent") return parent_program(argv[2]);
  return doctest::Context(argc, argv).run();
}
