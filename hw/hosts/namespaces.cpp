#include "hosts/namespaces.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::hosts {
namespace {

namespace fs = std::filesystem;

const fs::path kNamespaceFolder = "/run/netns";
const Time kInsist = seconds(5), kLookForEnd = seconds(5e-3);

[[noreturn]] void fail(const std::string& what) {
  throw MachineError(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The rights of this process as bits (linux/capability.h).
std::uint64_t effective_rights() {
  const std::string status = content("/proc/self/status");
  const auto at = status.find("CapEff:");
  return at == status.npos ? 0 : std::strtoull(status.c_str() + at + std::strlen("CapEff:"), nullptr, 16);
}

// The number of a namespace; nothing if the file is none.
std::optional<ino_t> number_of(const fs::path& file) {
  struct stat seen {};
  if (stat(file.c_str(), &seen) != 0) return std::nullopt;
  return seen.st_ino;
}

// Numbers of processes, for whom `wanted` is true of the folder in /proc.
std::vector<pid_t> processes(const std::function<bool(const fs::path&)>& wanted) {
  std::vector<pid_t> all;
  std::error_code gone;
  for (fs::directory_iterator at("/proc", gone), end; !gone && at != end; at.increment(gone)) {
    const std::string name = at->path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size()) continue;
    if (pid != getpid() && wanted(at->path())) all.push_back(pid);
  }
  return all;
}

// One that has ended, and waits for its parent to notice.
bool ended(const fs::path& process) {
  const std::string stat = content(process / "stat");
  const auto name = stat.rfind(") ");
  return name == stat.npos || stat[name + 2] == 'Z' || stat[name + 2] == 'X';
}

// Kills until none is left.
void end_all(const std::function<bool(const fs::path&)>& wanted) {
  const Time insist = dispatch::now() + kInsist;
  for (;;) {
    const auto left = processes([&](const fs::path& process) { return wanted(process) && !ended(process); });
    if (left.empty()) return;
    if (dispatch::now() > insist)
      throw MachineError(fmt::format("process {} on one of the hosts does not end", left.front()));
    for (const pid_t pid : left) kill(pid, SIGKILL);
    dispatch::sleep_until(dispatch::now() + kLookForEnd);
  }
}

}  // namespace

void require_rights() {
  struct Right {
    const char* name;
    unsigned bit;
  };
  constexpr std::array kNeeded{Right{"CAP_NET_ADMIN", 12}, Right{"CAP_SYS_ADMIN", 21}};
  const auto has = effective_rights();
  for (const auto& right : kNeeded)
    if ((has >> right.bit & 1) == 0)
      throw UserError(
          fmt::format("hosts are network namespaces, and this process lacks the right to make them ({}); run it as "
                      "root: sudo rehearse hosts ... (in a container also --cap-add NET_ADMIN --cap-add SYS_ADMIN)",
                      right.name));
  // A sandbox may forbid what the rights would allow.
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID) == 0 ? 0 : errno);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || status != 0)
    throw MachineError(
        fmt::format("this machine allows no network namespaces, though the rights are there: unshare says '{}'; a "
                    "container needs --privileged or a profile that allows unshare and mount",
                    std::strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EPERM)));
}

std::vector<std::string> namespaces_with(const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator at(kNamespaceFolder, none), end; !none && at != end; at.increment(none))
    if (const std::string name = at->path().filename(); name.starts_with(prefix)) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void remove(const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::set<ino_t> numbers;
  for (const auto& name : names)
    if (const auto number = number_of(kNamespaceFolder / name)) numbers.insert(*number);
  const auto within = [&](const fs::path& process) {
    const auto number = number_of(process / "ns/net");
    return number && numbers.contains(*number);
  };
  if (within("/proc/self"))
    throw MachineError("this process runs on one of the hosts that it should remove; call it from outside");
  end_all(within);
  for (const auto& name : names) {
    const auto file = kNamespaceFolder / name;
    umount2(file.c_str(), MNT_DETACH);  // not mounted where another mount namespace made it: the name remains to go
    if (unlink(file.c_str()) != 0 && errno != ENOENT) fail(fmt::format("cannot remove {}", file.string()));
  }
}

void inside(const std::string& name, const std::function<void()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t child = fork();
  if (child == 0) {
    std::string why;
    try {
      const int place = open((kNamespaceFolder / name).c_str(), O_RDONLY | O_CLOEXEC);
      if (place < 0 || setns(place, CLONE_NEWNET) != 0) fail("cannot enter " + name);
      work();
    } catch (const std::exception& error) {
      why = error.what();
    }
    const bool told = why.empty() || write(ends[1], why.data(), why.size()) > 0;
    _exit(why.empty() && told ? 0 : 1);
  }
  close(ends[1]);
  std::string why;
  std::array<char, 512> some;
  for (ssize_t n = 0; (n = read(ends[0], some.data(), some.size())) > 0;)
    why.append(some.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || status != 0) throw MachineError(why.empty() ? "a process in " + name + " died" : why);
}

void enter(const std::string& name, const std::string& host, const fs::path& hosts_file) {
  const int place = open((kNamespaceFolder / name).c_str(), O_RDONLY | O_CLOEXEC);
  if (place < 0) fail(fmt::format("there is no host {}", host));
  if (setns(place, CLONE_NEWNET) != 0)
    throw MachineError(
        fmt::format("cannot enter host {}: {} (hosts are seen where 'hosts up' was called, not in other mount "
                    "namespaces)",
                    host, std::strerror(errno)));
  close(place);
  // A name of its own: MPI takes processes of one name for processes of one machine, and gives them shared memory.
  if (unshare(CLONE_NEWUTS | CLONE_NEWNS) != 0) fail("unshare");
  if (sethostname(host.data(), host.size()) != 0) fail("sethostname");
  // What is mounted outside later is seen here, what is mounted here is not seen there.
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) fail("mount");
  if (mount(hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) fail("cannot replace /etc/hosts");
}

}  // namespace rehearsal::hosts
