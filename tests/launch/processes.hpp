// What the tests of ranks that are processes share. The program starts itself as ranks, of which one may misbehave, or
// as `parent CASE RANKS`, a whole command of its own for signals. No process and no file may remain.
#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "launch/launch.hpp"
#include "launch/launcher.hpp"

namespace rehearsal {

namespace fs = std::filesystem;

constexpr const char* kScratch = "REHEARSAL_TEST_SCRATCH";  // where ranks write
inline const Time kPatience = seconds(20);                  // on a loaded machine

inline void pause_for(double s) { dispatch::sleep_until(dispatch::now() + seconds(s)); }
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// --- in every process ----------------------------------------------------------------------------------------------

inline void leave(const std::string& name, const std::string& text) {
  std::ofstream(fs::path(std::getenv(kScratch)) / name) << text;
}
inline void leave_pid(std::size_t rank) { leave(fmt::format("{}.pid", rank), std::to_string(getpid())); }

using Run = std::function<void(const std::string& what, std::size_t ranks)>;

inline int parent_program(const Run& run, const std::string& what, const char* ranks) {
  try {
    run(what, std::strtoul(ranks, nullptr, 10));
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
  void wait_for_pids(std::size_t count) const {
    for (const Time until = dispatch::now() + kPatience; pids().size() < count && dispatch::now() < until;)
      pause_for(0.01);
    REQUIRE(pids().size() == count);
  }
  bool any_runs() const {
    bool any = false;
    for (const pid_t pid : pids()) any |= kill(pid, 0) == 0 || errno != ESRCH;
    return any;
  }
  void check_none_runs_soon() const {
    for (const Time until = dispatch::now() + kPatience; any_runs() && dispatch::now() < until;) pause_for(0.01);
    CHECK_FALSE(any_runs());
  }
  void check_nothing_is_left(std::size_t ranks) const {
    CHECK(pids().size() == ranks);
    CHECK_FALSE(any_runs());
    CHECK(fs::is_empty(temporary()));
  }
  fs::path folder;
};

inline std::string failure(const Run& run, const std::string& what, std::size_t ranks) {
  try {
    run(what, ranks);
  } catch (const MachineError& error) {
    return error.what();
  }
  return "";
}

// This program once more.
inline pid_t start(const char* how, const std::string& what, const char* ranks = nullptr) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "test", how, what.c_str(), ranks, nullptr);
    _exit(127);
  }
  return pid;
}

inline int ended(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The exit status of an mpirun that starts this program.
inline int mpirun(int ranks, const std::string& arguments) {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
      "OMPI_MCA_hwloc_base_binding_policy=none {} -n {} {} {} 2>/dev/null",
      launch::find_mpirun(), ranks, fs::read_symlink("/proc/self/exe").string(), arguments);
  return WEXITSTATUS(std::system(command.c_str()));
}

// --- the cases that all launchers share ----------------------------------------------------------------------------

// Rank 1 of "killed" dies; that of "fails" throws.
inline void check_faults_are_named(const Run& run) {
  {
    const Traces traces;
    const std::string message = failure(run, "killed", 4);
    CHECK(message == fmt::format("rank 1 (pid {}) was killed by signal 9", traces.read("1.pid")));
    traces.check_nothing_is_left(4);
  }
  const Traces traces;
  CHECK(failure(run, "fails", 4) == "rank 1: out of patience");
  traces.check_nothing_is_left(4);
}

// "long" ends by a signal alone.
inline void check_signals_end_ranks_with_their_parent() {
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    const Traces traces;
    const pid_t parent = start("parent", "long", "2");
    traces.wait_for_pids(2);
    kill(parent, signal);
    CHECK(ended(parent) == 128 + signal);
    traces.check_nothing_is_left(2);
  }
}

inline void check_killed_parent_takes_ranks_along(const Run& run) {
  const Traces traces;
  const pid_t parent = start("parent", "long", "2");
  traces.wait_for_pids(2);
  kill(parent, SIGKILL);
  CHECK(ended(parent) == 128 + SIGKILL);
  traces.check_none_runs_soon();
  // No process was left to remove its folder: the next run does.
  CHECK_FALSE(fs::is_empty(traces.temporary()));
  run("runs", 2);
  CHECK(fs::is_empty(traces.temporary()));
}

}  // namespace rehearsal
