// The files of this machine (scenario/files.hpp), for scenarios: the one room of the simulator that asks the system.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "base/own_folders.hpp"
#include "scenario/diagnostics.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {
namespace fs = std::filesystem;
namespace {

bool is_home(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path / "configs" / "clusters", ignored) && fs::is_directory(path / "models" / "zoo", ignored);
}

[[noreturn]] void refuse(const std::string& path, const std::string& message) {
  throw UserError(std::vector{Diagnostic{{path, 0, 0}, message}});
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class Disk : public Files {
 public:
  std::string read(const std::string& path, std::size_t limit) const override;
  bool exists(const std::string& path) const override { return ::access(path.c_str(), F_OK) == 0; }
  std::vector<std::string> names_in(const std::string& folder) const override;
  std::string home() const override;
  std::string profiles() const override;
};

// A regular file or a pipe.
std::string Disk::read(const std::string& path, std::size_t limit) const {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) refuse(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(file.fd, &status) == 0;
  if (known && S_ISDIR(status.st_mode)) refuse(path, "is a directory, not a file");
  std::string text;
  // A file says how long it is, a pipe does not. Blocks are cleared before they are read into: no larger than needed.
  constexpr std::size_t kBlock = 1 << 16, kRest = 64;
  const bool sized = known && S_ISREG(status.st_mode) && status.st_size > 0;
  std::size_t block = sized ? std::min(static_cast<std::size_t>(status.st_size), limit) + 1 : kBlock;
  for (;; block = sized ? kRest : kBlock) {
    const auto before = text.size();
    text.resize(before + block);
    const auto got = ::read(file.fd, text.data() + before, block);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (text.size() > limit)
      refuse(path, fmt::format("is larger than {} MiB, the most that is read of such a file", limit >> 20));
    if (got == 0) break;
  }
  return text;
}

std::vector<std::string> Disk::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// $REHEARSAL_HOME, else above the library or the running program, else the source tree.
std::string Disk::home() const {
  if (const char* given = std::getenv("REHEARSAL_HOME"); given && *given) {
    if (is_home(given)) return given;
    throw UserError(std::vector{Diagnostic{
        {"REHEARSAL_HOME", 0, 0},
        fmt::format("{} holds no configs/clusters and models/zoo; unset it or correct it", in_quotes(given))}});
  }
  for (fs::path up : own_folders())
    for (;; up = up.parent_path()) {
      if (is_home(up)) return up.string();
      if (is_home(up / "share" / "rehearsal")) return (up / "share" / "rehearsal").string();
      if (up == up.parent_path()) break;
    }
  const auto source_tree = fs::path(__FILE__).parent_path().parent_path().parent_path();
  if (is_home(source_tree)) return source_tree.string();
  throw UserError("cannot find the folder with configs/ and models/zoo/; set REHEARSAL_HOME to it");
}

// $REHEARSAL_PROFILES, else $XDG_CONFIG_HOME/rehearsal, else ~/.config/rehearsal.
std::string Disk::profiles() const {
  if (const auto folder = variable("REHEARSAL_PROFILES"); !folder.empty()) return folder;
  if (const auto config = variable("XDG_CONFIG_HOME"); !config.empty()) return config + "/rehearsal";
  if (const auto user = variable("HOME"); !user.empty()) return user + "/.config/rehearsal";
  return "";
}

}  // namespace

const Files& disk() {
  static const Disk kDisk;
  return kDisk;
}

}  // namespace rehearsal::scenario
