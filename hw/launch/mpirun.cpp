// Ranks started by mpirun, which numbers them and ends all of them when one dies.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "launch/launcher.hpp"
#include "launch/machine.hpp"
#include "launch/whole_file.hpp"

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

// Socket names below this folder must stay under 108 characters.
constexpr std::size_t kLongestSessionFolder = 40;

// mpirun fills hosts one after the other, but a server, say, may sit beside a worker of another. So where `rehearse
// hosts` has listed the hosts, each rank is given that of its node. Empty where it has not.
std::vector<std::string> host_of_each_rank(const Start& start) {
  const char *set = std::getenv("REHEARSAL_HOSTS"), *listed = std::getenv("OMPI_MCA_orte_default_hostfile");
  if (!set || !listed || start.nodes.size() != start.ranks) return {};
  std::vector<std::string> hosts, each;
  std::ifstream lines(listed);
  for (std::string line; std::getline(lines, line);) hosts.push_back(line.substr(0, line.find(' ')));
  for (const auto node : start.nodes) {
    if (node >= hosts.size())
      throw MachineError(fmt::format(
          "a rank belongs on host {}, and the hosts '{}' are {}, counted from 0; make them of this scenario "
          "(rehearse hosts down, then up), or take fewer ranks",
          node, set, hosts.size()));
    each.push_back(hosts[node]);
  }
  return each;
}

void place_ranks(const std::vector<std::string>& hosts, const Start& start, ChildEnvironment& e) {
  if (hosts.empty()) return;
  const auto file = start.folder.path() / "hosts";
  write_whole(file, fmt::format("{}\n", fmt::join(hosts, "\n")));
  e.set("OMPI_MCA_orte_default_hostfile", file.string());
  e.set("OMPI_MCA_rmaps", "seq");
}

// Open MPI also takes options from the environment, which other launchers ignore: one command line for all.
ChildEnvironment environment(const Start& start, const std::vector<std::string>& hosts) {
  ChildEnvironment e(start);
  if (geteuid() == 0) {
    e.suggest("OMPI_ALLOW_RUN_AS_ROOT", "1");
    e.suggest("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  e.suggest("OMPI_MCA_hwloc_base_binding_policy", "none");
  e.suggest("OMPI_MCA_rmaps_base_oversubscribe", "1");  // slots are counted in cores, threads do not matter to it
  // hwloc looks up cores, but would also look for GPU displays: when a host name does not resolve, each rank waits five
  // seconds for an X server.
  e.suggest("HWLOC_COMPONENTS", "-gl");
  if (start.ranks > cores()) e.suggest("OMPI_MCA_mpi_yield_when_idle", "1");
  if (!single_copy_works()) e.suggest("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  place_ranks(hosts, start, e);
  const std::string folder = start.folder.path();
  if (folder.size() <= kLongestSessionFolder) e.suggest("OMPI_MCA_orte_tmpdir_base", folder);
  return e;
}

std::vector<std::string> command(const std::string& mpirun, const Start& start) {
  std::vector<std::string> all = {mpirun, "-n", std::to_string(start.ranks), this_program()};
  all.insert(all.end(), start.arguments.begin(), start.arguments.end());
  return all;
}

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Of IPv4, as the kernel's tables print it: in the order of the network.
std::optional<std::uint32_t> address_of(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const auto address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr;
  freeaddrinfo(found);
  return address;
}

class Mpirun : public Launcher {
 public:
  explicit Mpirun(const Start& start)
      : board_(start.board),
        path_(find_mpirun()),
        hosts_(host_of_each_rank(start)),
        process_(path_, command(path_, start), environment(start, hosts_).entries(), start.signals) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  // No rank may outlive the run: mpirun ends them, or else this process does. mpirun does not wait for them, so they
  // become children of this process once it is gone.
  ~Mpirun() override {
    process_.end();
    const Time insist = dispatch::now() + seconds(1);
    for (int signal = 0; alive(signal);) {
      dispatch::sleep_until(dispatch::now() + seconds(1e-3));
      if (dispatch::now() > insist) signal = SIGKILL;
      if (dispatch::now() > insist + seconds(1)) break;  // not even SIGKILL helped: the kernel holds it
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  std::string name() const override { return path_; }
  void wait(Time patience) override { process_.wait(patience); }
  bool ended() override { return process_.ended(); }
  void end() override { process_.end(); }
  std::string said() override { return quoted(process_.said()); }
  std::string on_host(std::size_t rank) const override { return hosts_.empty() ? "" : " on " + hosts_[rank]; }

  // mpirun starts no rank before all hosts have connected to it, and says nothing while it waits.
  std::string silent_hosts() const override {
    std::ifstream in("/proc/self/net/tcp");
    const std::string connections{std::istreambuf_iterator<char>(in), {}};
    std::set<std::string> silent;
    for (const auto& host : hosts_)
      if (const auto address = address_of(host); address && host != this_host())
        if (!std::regex_search(connections, std::regex(fmt::format(" {:08X}:[0-9A-F]{{4}} 01 ", *address))))
          silent.insert(host);
    return silent.empty() ? ""
                          : fmt::format("; {} {} not answered mpirun", fmt::join(silent, ", "),
                                        silent.size() == 1 ? "has" : "have");
  }

  // Open MPI names the rank (its process number may be 0), MPICH the process.
  std::optional<std::string> who_died() override {
    static const std::regex lost("Remote daemon: .* on node (\\S+)"), openmpi("process rank ([0-9]+) with PID"),
        mpich("PID ([0-9]+) RUNNING"), signal("signal ([0-9]+)|EXIT CODE: ([0-9]+)");
    const std::string& said = process_.said();
    std::smatch who, how;
    // A whole host is gone; which of its ranks mpirun names then is chance.
    if (std::regex_search(said, who, lost))
      return fmt::format("host {} is lost: its processes were ended, or its network is down", who[1].str());
    std::size_t rank = board_.ranks();
    if (std::regex_search(said, who, openmpi)) {
      rank = std::strtoul(who[1].str().c_str(), nullptr, 10);
    } else if (std::regex_search(said, who, mpich)) {
      const auto pid = std::strtol(who[1].str().c_str(), nullptr, 10);
      for (rank = 0; rank < board_.ranks() && board_[rank].pid != pid;) ++rank;
    }
    if (rank >= board_.ranks()) return std::nullopt;
    const std::string rest = who.suffix();
    const std::string cause = std::regex_search(rest, how, signal)
                                  ? "was killed by signal " + (how[1].matched ? how[1] : how[2]).str()
                                  : "died";
    return fmt::format("rank {} ({}) {}", rank, board_.process(rank), cause);
  }

  std::optional<std::string> failure() override {
    const int status = process_.status();
    if (status == 0) return std::nullopt;
    return fmt::format("{} failed with status {}", path_, WIFEXITED(status) ? WEXITSTATUS(status) : status);
  }

 private:
  // Whether any rank still runs; sends `signal` to those that do, and reaps those that have ended as our children.
  bool alive(int signal) {
    bool any = false;
    for (std::size_t rank = 0; rank < board_.ranks(); ++rank)
      if (const pid_t pid = board_[rank].pid; pid > 0 && waitpid(pid, nullptr, WNOHANG) != pid)
        any |= kill(pid, signal) == 0;
    return any;
  }

  const Board& board_;
  const std::string path_;
  const std::vector<std::string> hosts_;  // of each rank, or empty
  Process process_;
};

}  // namespace

std::unique_ptr<Launcher> start_with_mpirun(const Start& start) { return std::make_unique<Mpirun>(start); }

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

}  // namespace rehearsal::launch
