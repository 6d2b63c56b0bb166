#include "launch/mpirun.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "launch/presence.hpp"
#include "launch/process.hpp"
#include "launch/run_folder.hpp"

extern char** environ;

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

const Time kLook = seconds(20e-3);
// From the start of mpirun to the first task of every rank.
const Time kStartTimeout = seconds(120);
constexpr std::size_t kShownOfStderr = 2000;
// Names of sockets below it must stay under 108 characters.
constexpr std::size_t kLongestSessionFolder = 40;

class Environment {
 public:
  Environment() {
    for (char** entry = environ; *entry != nullptr; ++entry) entries_.emplace_back(*entry);
  }
  void set(const std::string& name, const std::string& value) {
    std::erase_if(entries_, [&](const std::string& e) { return e.starts_with(name + "="); });
    entries_.push_back(name + "=" + value);
  }
  // Leaves what the user has set.
  void suggest(const std::string& name, const std::string& value) {
    if (std::getenv(name.c_str()) == nullptr) set(name, value);
  }
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::vector<std::string> entries_;
};

// OpenMPI takes its options from the environment too, where other launchers ignore them: one command line for all.
Environment environment(const Job& job, const RunFolder& folder) {
  Environment e;
  e.set(kFolderVariable, folder.path());
  e.set(kRanksVariable, std::to_string(job.ranks));
  if (geteuid() == 0) {
    e.suggest("OMPI_ALLOW_RUN_AS_ROOT", "1");
    e.suggest("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  e.suggest("OMPI_MCA_hwloc_base_binding_policy", "none");
  e.suggest("OMPI_MCA_rmaps_base_oversubscribe", "1");  // slots are counted in cores, threads do not matter to it
  if (job.ranks > cores()) e.suggest("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!single_copy_works()) e.suggest("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  if (folder.path().string().size() <= kLongestSessionFolder) e.suggest("OMPI_MCA_orte_tmpdir_base", folder.path());
  e.suggest("OPENBLAS_NUM_THREADS", "1");
  return e;
}

// The rank that mpirun says has died, and how. OpenMPI names the rank (its process number may be 0), MPICH the process.
std::optional<std::string> who_died(const std::string& said, const Board& board) {
  static const std::regex openmpi("process rank ([0-9]+) with PID"), mpich("PID ([0-9]+) RUNNING"),
      signal("signal ([0-9]+)|EXIT CODE: ([0-9]+)");
  std::smatch who, how;
  std::size_t rank = board.ranks();
  if (std::regex_search(said, who, openmpi)) {
    rank = std::strtoul(who[1].str().c_str(), nullptr, 10);
  } else if (std::regex_search(said, who, mpich)) {
    const auto pid = std::strtol(who[1].str().c_str(), nullptr, 10);
    for (rank = 0; rank < board.ranks() && board[rank].pid != pid;) ++rank;
  }
  if (rank >= board.ranks()) return std::nullopt;
  const std::string rest = who.suffix();
  const std::string cause = std::regex_search(rest, how, signal)
                                ? "was killed by signal " + (how[1].matched ? how[1] : how[2]).str()
                                : "died";
  return fmt::format("rank {} (pid {}) {}", rank, board[rank].pid.load(), cause);
}

std::string shown(const std::string& said) {
  if (said.empty()) return "";
  return "; it said:\n" + (said.size() > kShownOfStderr ? "..." + said.substr(said.size() - kShownOfStderr) : said);
}

// Throws what the ranks reported: errors of the machine and of the user as such, everything else as a bug.
void rethrow(const std::vector<std::optional<std::string>>& errors) {
  std::string text, first;
  int status = 0;
  bool same = true;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank]) continue;
    const auto space = errors[rank]->find(' ');
    const std::string message = errors[rank]->substr(std::min(space, errors[rank]->size() - 1) + 1);
    status = std::max(status, static_cast<int>(std::strtol(errors[rank]->c_str(), nullptr, 10)));
    if (text.empty()) first = message;
    same &= message == first;
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "\n", rank, message);
  }
  if (status == 0) return;
  if (same && std::ranges::count_if(errors, [](const auto& e) { return e.has_value(); }) > 1) text = first;
  if (status == 2) throw UserError(text);
  if (status == 3) throw MachineError(text);
  throw InternalError(text);
}

class Running {
 public:
  explicit Running(const Job& job)
      : job_(job),
        mpirun_(find_mpirun()),
        folder_(RunFolder::make()),
        board_(folder_.board(), job.ranks, true),
        process_(mpirun_, command(), environment(job, folder_).entries(), signals_) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  // No rank may outlive the run: mpirun ends them, and if it could not, we do. It does not wait for them, so they
  // become our children when it is gone.
  ~Running() {
    process_.end();
    const Time insist = dispatch::now() + seconds(1);
    for (int signal = 0; alive(signal);) {
      dispatch::sleep_until(dispatch::now() + seconds(1e-3));
      if (dispatch::now() > insist) signal = SIGKILL;
      if (dispatch::now() > insist + seconds(1)) break;  // not even that: the kernel holds it
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::vector<std::string> results() {
    while (!process_.ended()) {
      process_.wait(kLook);
      if (const auto signal = signals_.ending()) throw Interrupted{*signal};
      watch();
    }
    return collect();
  }

 private:
  std::vector<std::string> command() const {
    std::vector<std::string> all = {mpirun_, "-n", std::to_string(job_.ranks), fs::read_symlink("/proc/self/exe")};
    all.insert(all.end(), job_.arguments.begin(), job_.arguments.end());
    return all;
  }

  // Whether a rank still runs; `signal` goes to those that do. One that has ended and is our child by now is buried.
  bool alive(int signal) {
    bool any = false;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank)
      if (const pid_t pid = board_[rank].pid; pid > 0 && waitpid(pid, nullptr, WNOHANG) != pid)
        any |= kill(pid, signal) == 0;
    return any;
  }

  // A rank that ended without a result: others wait for it in vain, and mpirun is about to end them.
  std::optional<std::size_t> dead() {
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      const Slot& slot = board_[rank];
      if (folder_.read(rank, Leaf::error)) return rank;
      if (slot.pid > 0 && slot.state != Slot::finished && kill(slot.pid, 0) != 0) return rank;
    }
    return std::nullopt;
  }

  // Throws when nothing moves any more.
  void watch() {
    bool all_run = true, all_done = true;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      const Slot& slot = board_[rank];
      seen_[rank].moves = slot.moves + static_cast<std::uint64_t>(slot.state.load());
      seen_[rank].busy_until = slot.busy_until.load();
      seen_[rank].computing = slot.computing != 0;
      all_run &= slot.state >= Slot::running;
      all_done &= slot.state == Slot::finished;
    }
    const Time now = dispatch::now();
    const bool expired = running_.expired(watched_, now), start_expired = starting_.expired(watched_, now);
    if (!(all_run ? expired : start_expired)) return;
    if ((dead_ = dead())) return process_.end();
    if (all_done) throw MachineError("mpirun does not end although all ranks have finished" + shown(process_.said()));
    if (!all_run) throw MachineError(fmt::format("ranks {} have not started{}", waiting(), shown(process_.said())));
    std::vector<dispatch::Positions> positions(job_.ranks);
    for (std::size_t rank = 0; rank < job_.ranks; ++rank)
      for (std::uint32_t lane = 0; lane < std::min<std::uint32_t>(board_[rank].lanes, graph::kLanes); ++lane)
        positions[rank].push_back(board_[rank].heads[lane]);
    throw MachineError(job_.hang_report ? job_.hang_report(positions) : "the ranks make no progress");
  }

  std::string waiting() {
    std::string list;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank)
      if (board_[rank].state < Slot::running) list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
    return list;
  }

  std::vector<std::string> collect() {
    std::vector<std::optional<std::string>> errors;
    std::vector<std::string> results;
    std::string missing;
    for (std::size_t rank = 0; rank < job_.ranks; ++rank) {
      errors.push_back(folder_.read(rank, Leaf::error));
      if (auto result = folder_.read(rank, Leaf::result))
        results.push_back(std::move(*result));
      else
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    }
    rethrow(errors);
    if (process_.status() == 0 && missing.empty()) return results;
    if (const auto who = who_died(process_.said(), board_)) throw MachineError(*who);
    if (dead_) throw MachineError(fmt::format("rank {} (pid {}) died", *dead_, board_[*dead_].pid.load()));
    if (process_.status() != 0)
      throw MachineError(fmt::format("{} failed with status {}{}", mpirun_,
                                     WIFEXITED(process_.status()) ? WEXITSTATUS(process_.status()) : process_.status(),
                                     shown(process_.said())));
    throw MachineError(fmt::format("ranks {} ended without a result{}", missing, shown(process_.said())));
  }

  const Job& job_;
  // In this order: the signals are held until everything else is gone.
  HeldSignals signals_;
  std::string mpirun_;
  RunFolder folder_;
  Board board_;
  Process process_;
  std::vector<dispatch::Progress> seen_{job_.ranks};
  std::optional<std::size_t> dead_;
  std::vector<const dispatch::Progress*> watched_ = pointers();
  dispatch::Watchdog running_{job_.timeout}, starting_{std::max(job_.timeout, kStartTimeout)};

  std::vector<const dispatch::Progress*> pointers() const {
    std::vector<const dispatch::Progress*> list;
    for (const auto& progress : seen_) list.push_back(&progress);
    return list;
  }
};

}  // namespace

std::vector<std::string> run_ranks(const Job& job) {
  Running running(job);
  return running.results();
}

std::string find_mpirun() {
#ifdef REHEARSAL_MPIEXEC
  if (access(REHEARSAL_MPIEXEC, X_OK) == 0) return REHEARSAL_MPIEXEC;
#endif
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"mpirun", "mpiexec"})
      if (const auto file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0) return file;
  throw MachineError("no mpirun on this machine; install OpenMPI (Debian: openmpi-bin)");
}

unsigned cores() {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) return static_cast<unsigned>(CPU_COUNT(&mine));
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace rehearsal::launch
