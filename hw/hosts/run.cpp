// Commands on hosts, and the shell that mpirun calls in the place of ssh.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "backend/interrupted.hpp"
#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "hosts/commands.hpp"
#include "hosts/hosts.hpp"
#include "hosts/namespaces.hpp"
#include "hosts/sets.hpp"
#include "launch/launcher.hpp"
#include "launch/process.hpp"

namespace rehearsal::hosts {
namespace {

constexpr const char* kAllAddresses = "10.77.0.0/16";
constexpr const char* kLargestEager = "16777216";  // bytes: buckets of gradients, whole tables
constexpr int kMasterPort = 29500;  // torchrun's
constexpr int kNoProgram = 127, kMachine = 3;
const Time kLook = seconds(20e-3), kGrace = seconds(5);

struct Host {
  std::string name, space, first_address;
};

std::vector<Host> hosts_of(const Json& state) {
  std::vector<Host> all;
  for (const auto& host : state.find("hosts")->items())
    all.push_back(
        {host.find("name")->text(), host.find("namespace")->text(), host.find("addresses")->items().front().text()});
  return all;
}

int status_of(int waited) { return WIFSIGNALED(waited) ? 128 + WTERMSIG(waited) : WEXITSTATUS(waited); }

void suggest(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

// What mpirun, and what others start by themselves, need to find the hosts. Open MPI reads its options here.
void prepare_environment(const std::string& set, const std::vector<Host>& hosts) {
  const std::string program = launch::this_program();
  const char* path = std::getenv("PATH");
  const auto folder = std::filesystem::path(program).parent_path().string();
  setenv("PATH", path ? (folder + ":" + path).c_str() : folder.c_str(), 1);
  setenv("REHEARSAL_HOSTS", set.c_str(), 1);
  setenv("OMPI_MCA_plm", "rsh", 1);
  setenv("OMPI_MCA_plm_rsh_agent", fmt::format("{} hosts enter {}", program, set).c_str(), 1);
  setenv("OMPI_MCA_plm_rsh_no_tree_spawn", "1", 1);
  setenv("OMPI_MCA_orte_default_hostfile", (folder_of(set) / "slots").c_str(), 1);
  setenv("OMPI_MCA_oob_tcp_if_include", kAllAddresses, 1);
  setenv("OMPI_MCA_btl_tcp_if_include", kAllAddresses, 1);
  suggest("OMPI_MCA_pml", "ob1");
  suggest("OMPI_MCA_btl", "self,vader,tcp");
  // Above its eager limit Open MPI asks before it sends, and imitates RDMA, which waits in the queue of what travels
  // the other way: two hosts that send each other 20 MB at 380 Mb/s get 20 MB/s each so, 46 with whole messages.
  suggest("OMPI_MCA_btl_tcp_flags", "0x1");
  for (const char* limit : {"eager_limit", "rndv_eager_limit", "max_send_size"})
    suggest(fmt::format("OMPI_MCA_btl_tcp_{}", limit).c_str(), kLargestEager);
  if (geteuid() == 0) suggest("OMPI_ALLOW_RUN_AS_ROOT", "1"), suggest("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  for (const char* library : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) suggest(library, "nic0");
  suggest("MASTER_ADDR", hosts.front().first_address);
  suggest("MASTER_PORT", std::to_string(kMasterPort));
}

// After fork: this process becomes the command.
[[noreturn]] void become(const std::string& set, const Host& host, const std::vector<std::string>& words) {
  try {
    hosts::enter(host.space, host.name, folder_of(set) / "names");
    std::vector<char*> argv;
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    fmt::print(stderr, "rehearse: error: cannot run {}: {}\n", words.front(), std::strerror(errno));
    _exit(kNoProgram);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rehearse: error: {}\n", error.what());
    _exit(kMachine);
  }
}

// The commands, and all that comes of them. They are in a space of process numbers whose first process makes this: when
// that ends, however it does, the kernel ends all others in it.
class Running {
 public:
  Running(const std::string& set, const Json& state, const Command& command, launch::HeldSignals& signals)
      : signals_(signals) {
    const auto hosts = hosts_of(state);
    const auto slots = static_cast<std::size_t>(state.find("ranks_per_host")->real());
    prepare_environment(set, hosts);
    const std::size_t ranks = command.every_rank ? hosts.size() * slots : 1;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const pid_t child = fork();
      if (child < 0) throw MachineError(fmt::format("cannot start a process: {}", std::strerror(errno)));
      if (child > 0) {
        children_.push_back(child);
        continue;
      }
      pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
      std::signal(SIGPIPE, SIG_DFL);
      std::signal(SIGXFSZ, SIG_DFL);
      if (command.every_rank)
        for (const auto& [name, value] : {std::pair{"RANK", rank},
                                          {"WORLD_SIZE", ranks},
                                          {"LOCAL_RANK", rank % slots},
                                          {"LOCAL_WORLD_SIZE", slots}})
          setenv(name, std::to_string(value).c_str(), 1);
      become(set, hosts[rank / slots], command.words);
    }
  }

  // Once they have ended: that of the first that failed.
  int status() {
    int first = 0;
    Time insist;
    while (!children_.empty()) {
      int status = 0;
      for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (std::erase(children_, ended) == 0 || status == 0) continue;
        if (first == 0) first = status_of(status);
        if (insist == Time{}) insist = end_the_others();
      }
      if (children_.empty()) break;
      if (const auto signal = signals_.ending(); signal && insist == Time{}) insist = end_the_others(*signal);
      if (insist != Time{} && dispatch::now() > insist)
        for (const pid_t child : children_) kill(child, SIGKILL);
      dispatch::sleep_until(dispatch::now() + kLook);
    }
    return first;
  }

 private:
  // Asks them; returns when they will be killed.
  Time end_the_others(int signal = SIGTERM) const {
    for (const pid_t child : children_) kill(child, signal);
    return dispatch::now() + kGrace;
  }

  launch::HeldSignals& signals_;
  std::vector<pid_t> children_;
};

// The process that leads the others ends with its parent. Numbers go on from its own outside, since Open MPI calls jobs
// and files by them and by the name of the host, which other sets have too.
void lead(pid_t outside) {
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 || mount("proc", "/proc", "proc", 0, nullptr) != 0)
    throw MachineError(fmt::format("cannot mount /proc for the hosts: {}", std::strerror(errno)));
  std::ofstream("/proc/sys/kernel/ns_last_pid") << outside << std::flush;  // not every kernel has it
}

}  // namespace

int run(const std::string& set, const Command& command) {
  require_rights();
  const auto state = require(set);
  const auto lock = use(set);
  launch::HeldSignals signals;
  int parent[2];  // at its end the parent is gone
  if (pipe2(parent, O_CLOEXEC) != 0) throw MachineError(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t outside = getpid();
  const auto leader = static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
  if (leader == 0) {
    try {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(parent[1]);
      pollfd gone{parent[0], POLLIN, 0};
      if (poll(&gone, 1, 0) != 0) _exit(kMachine);
      lead(outside);
      _exit(Running(set, state, command, signals).status());
    } catch (const std::exception& error) {
      fmt::print(stderr, "rehearse: error: {}\n", error.what());
      _exit(kMachine);
    }
  }
  close(parent[0]);
  std::optional<int> asked;  // a signal
  int status = 0;
  pid_t ended = leader < 0 ? -1 : 0;
  const int why = errno;
  for (; ended == 0; ended = waitpid(leader, &status, WNOHANG)) {
    dispatch::sleep_until(dispatch::now() + kLook);
    if (const auto signal = signals.ending(); signal && !asked) asked = signal, kill(leader, *signal);
  }
  close(parent[1]);
  if (ended < 0) throw MachineError(fmt::format("cannot start a process: {}", std::strerror(why)));
  if (asked)
    throw backend::Interrupted{*asked, fmt::format("'{}' on the hosts '{}' was ended, with all that it had started",
                                                   fmt::join(command.words, " "), set)};
  return status_of(status);
}

void enter(const std::string& set, const std::string& host, const std::vector<std::string>& words) {
  require_rights();
  const auto state = require(set);
  for (const auto& one : hosts_of(state)) {
    if (host != one.name && host != one.first_address) continue;
    const char* shell = "/bin/sh";
    if (words.empty()) become(set, one, {shell});
    become(set, one, {shell, "-c", fmt::format("{}", fmt::join(words, " "))});
  }
  throw UserError(fmt::format("'{}' is none of the hosts '{}'; they are called node0 to node{}", printable(host), set,
                              hosts_of(state).size() - 1));
}

}  // namespace rehearsal::hosts
