#include "hosts/tools.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace rehearsal::hosts {
namespace {

// A file in memory: what a process reads or writes through one, nobody has to carry meanwhile.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("rehearsal", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw MachineError(fmt::format("memfd_create: {}", std::strerror(errno)));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }

  void put(const std::string& text) const {
    for (std::size_t at = 0; at < text.size();) {
      const auto n = write(descriptor_, text.data() + at, text.size() - at);
      if (n < 0) throw MachineError(fmt::format("a file in memory: {}", std::strerror(errno)));
      at += static_cast<std::size_t>(n);
    }
    lseek(descriptor_, 0, SEEK_SET);
  }
  std::string text() const {
    lseek(descriptor_, 0, SEEK_SET);
    std::string all;
    std::array<char, 4096> some;
    for (ssize_t n = 0; (n = read(descriptor_, some.data(), some.size())) > 0;)
      all.append(some.data(), static_cast<std::size_t>(n));
    return all;
  }

 private:
  int descriptor_;
};

constexpr int kNotFound = 127;

}  // namespace

Said call(const std::vector<std::string>& command, const std::string& text) {
  const MemoryFile in, out, error;
  in.put(text);
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (dup2(in.descriptor(), 0) >= 0 && dup2(out.descriptor(), 1) >= 0 && dup2(error.descriptor(), 2) >= 0)
      execvp(argv[0], argv.data());
    _exit(kNotFound);
  }
  if (child < 0) throw MachineError(fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out.text(), error.text()};
}

std::string call_or_throw(const std::vector<std::string>& command, const std::string& text) {
  auto said = call(command, text);
  if (said.status == kNotFound)
    throw MachineError(
        fmt::format("hosts are made with '{}' of iproute2, which this machine lacks; install it (Debian: iproute2)",
                    command.front()));
  if (said.status == 0) return said.out;
  // "Command failed -:4": the line of the batch, which says what was asked for.
  std::string line;
  if (const auto at = said.error.rfind("Command failed -:"); at != std::string::npos) {
    std::size_t begin = 0;
    for (long number = std::strtol(said.error.c_str() + at + std::strlen("Command failed -:"), nullptr, 10);
         number > 1 && begin != std::string::npos; --number)
      begin = text.find('\n', begin) == std::string::npos ? std::string::npos : text.find('\n', begin) + 1;
    if (begin < text.size()) line = text.substr(begin, text.find('\n', begin) - begin);
  }
  throw MachineError(fmt::format("'{}'{} failed: {}", fmt::join(command, " "), line.empty() ? "" : ", '" + line + "',",
                                 said.error.substr(0, said.error.find("\nCommand failed"))));
}

}  // namespace rehearsal::hosts
