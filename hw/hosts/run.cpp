// Commands on hosts, and the shell that mpirun calls in the place of ssh.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

constexpr const char* kMarker = "REHEARSAL_HOSTS_RUN";
constexpr const char* kAllAddresses = "10.77.0.0/16";
constexpr const char* kLargestEager = "4194304";
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

void suggest(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

// What mpirun, and what others start by themselves, need to find the hosts. Open MPI reads its options here.
void prepare_environment(const std::string& set, const std::vector<Host>& hosts, const std::string& marker) {
  const std::string program = launch::this_program();
  const char* path = std::getenv("PATH");
  const auto folder = std::filesystem::path(program).parent_path().string();
  setenv("PATH", path ? (folder + ":" + path).c_str() : folder.c_str(), 1);
  setenv("REHEARSAL_HOSTS", set.c_str(), 1);
  setenv(kMarker, marker.c_str(), 1);
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

class Running {
 public:
  Running(const std::string& set, const Command& command)
      : state_(require(set)), lock_(use(set)), marker_(std::to_string(getpid())) {
    const auto hosts = hosts_of(state_);
    const auto slots = static_cast<std::size_t>(state_.find("ranks_per_host")->real());
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // what loses its parent on the hosts becomes a child of this process
    const std::size_t ranks = command.every_rank ? hosts.size() * slots : 1;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const pid_t parent = getpid(), child = fork();
      if (child < 0) throw MachineError(fmt::format("cannot start a process: {}", std::strerror(errno)));
      if (child > 0) {
        children_.push_back(child);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(kMachine);
      pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
      std::signal(SIGPIPE, SIG_DFL);
      std::signal(SIGXFSZ, SIG_DFL);
      prepare_environment(set, hosts, marker_);
      if (command.every_rank)
        for (const auto& [name, value] : {std::pair{"RANK", rank},
                                          {"WORLD_SIZE", ranks},
                                          {"LOCAL_RANK", rank % slots},
                                          {"LOCAL_WORLD_SIZE", slots}})
          setenv(name, std::to_string(value).c_str(), 1);
      become(set, hosts[rank / slots], command.words);
    }
  }

  ~Running() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    try {
      end_those_with(fmt::format("{}={}", kMarker, marker_));
    } catch (const std::exception& error) {
      fmt::print(stderr, "rehearse: warning: {}\n", error.what());
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  int status() {
    int first = 0;
    std::optional<int> asked;  // a signal
    Time insist;
    while (!children_.empty()) {
      int status = 0;
      for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (std::erase(children_, ended) == 0 || status == 0) continue;
        if (first == 0) first = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (insist == Time{}) insist = end_the_others();
      }
      if (children_.empty()) break;
      if (const auto signal = signals_.ending()) {
        if (!asked) asked = signal, insist = end_the_others(*signal);
      }
      if (insist != Time{} && dispatch::now() > insist)
        for (const pid_t child : children_) kill(child, SIGKILL);
      dispatch::sleep_until(dispatch::now() + kLook);
    }
    if (asked) throw backend::Interrupted{*asked};
    return first;
  }

 private:
  // Asks them; returns when they will be killed.
  Time end_the_others(int signal = SIGTERM) const {
    for (const pid_t child : children_) kill(child, signal);
    return dispatch::now() + kGrace;
  }

  launch::HeldSignals signals_;
  const Json state_;
  const FolderLock lock_;
  const std::string marker_;
  std::vector<pid_t> children_;
};

}  // namespace

int run(const std::string& set, const Command& command) {
  require_rights();
  return Running(set, command).status();
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
