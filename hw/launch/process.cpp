#include "launch/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::launch {
namespace {

constexpr std::size_t kKept = 64 << 10;
const Time kGrace = seconds(3), kEndedLook = seconds(20e-3);

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&held, signal);
  descriptor_ = signalfd(-1, &held, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw MachineError(fmt::format("signalfd: {}", std::strerror(errno)));
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() {
  close(descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> HeldSignals::ending() {
  signalfd_siginfo info{};
  while (read(descriptor_, &info, sizeof info) == sizeof info)
    if (static_cast<int>(info.ssi_signo) != SIGCHLD) return static_cast<int>(info.ssi_signo);
  return std::nullopt;
}

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, HeldSignals& signals, std::optional<int> inherited)
    : signals_(signals) {
  const auto argv = pointers(arguments), envp = pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw MachineError(fmt::format("pipe: {}", std::strerror(errno)));
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // Only what is safe between fork and exec. A group of its own: its parent passes Ctrl-C on. It must not outlive us.
    setsid();  // a group to be killed as one, and a session whose share of processors can be raised
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    if (inherited) fcntl(*inherited, F_SETFD, 0);  // survives exec
    if (getppid() == parent && null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(ends[1], 2) >= 0)
      execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  const int why = errno;
  close(ends[1]);
  if (null >= 0) close(null);
  messages_ = ends[0];
  if (pid_ < 0) {
    close(messages_);
    throw MachineError(fmt::format("cannot start {}: {}", program, std::strerror(why)));
  }
  fcntl(messages_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  end();
  close(messages_);
}

void Process::listen() {
  char text[4096];
  for (ssize_t n = 0; (n = read(messages_, text, sizeof text)) > 0;) {
    said_.append(text, static_cast<std::size_t>(n));
    if (said_.size() > 2 * kKept) said_.erase(0, said_.size() - kKept);
  }
}

void Process::wait(Time patience) {
  Process* const self = this;
  launch::wait({&self, 1}, signals_, patience);
}

void wait(std::span<Process* const> some, HeldSignals& signals, Time patience, std::vector<pollfd> others) {
  std::vector<pollfd> events = {{signals.descriptor(), POLLIN, 0}};
  for (const Process* process : some) events.push_back({process->messages_, POLLIN, 0});
  events.insert(events.end(), others.begin(), others.end());
  poll(events.data(), events.size(), static_cast<int>(to_seconds(patience) * 1e3));
  bool closed = false;
  for (std::size_t i = 0; i < some.size(); ++i) {
    some[i]->listen();
    closed |= (events[i + 1].revents & (POLLHUP | POLLIN)) == POLLHUP;
  }
  // At the end of a pipe poll() returns at once each time, until the process has ended too.
  if (closed) dispatch::sleep_until(dispatch::now() + seconds(1e-3));
}

bool Process::ended() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) {
    ended_ = true;
    listen();
  }
  return ended_;
}

void Process::end() {
  Process* const self = this;
  launch::end({&self, 1});
}

void end(std::span<Process* const> some) {
  auto all_ended = [&] {
    bool all = true;
    for (Process* process : some) all &= process->ended();
    return all;
  };
  for (Process* process : some)
    if (!process->ended()) kill(process->pid_, SIGTERM);
  const Time insist = dispatch::now() + kGrace;
  while (!all_ended() && dispatch::now() < insist) dispatch::sleep_until(dispatch::now() + kEndedLook);
  for (Process* process : some) {
    if (process->ended()) continue;
    if (kill(-process->pid_, SIGKILL) != 0) kill(process->pid_, SIGKILL);  // not yet a group of its own
    while (waitpid(process->pid_, &process->status_, 0) < 0 && errno == EINTR) {
    }
    process->ended_ = true;
    process->listen();
  }
}

}  // namespace rehearsal::launch
