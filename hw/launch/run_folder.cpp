#include "launch/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "launch/whole_file.hpp"

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

}  // namespace

Board::Board(const fs::path& file, std::size_t ranks, bool create) : ranks_(ranks) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (fd < 0) fail("open", file);
  const std::size_t size = ranks * sizeof(Slot);
  void* at = MAP_FAILED;
  if (!create || ftruncate(fd, static_cast<off_t>(size)) == 0)
    at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) fail("map", file);
  slots_ = static_cast<Slot*>(at);
}

Board::~Board() { munmap(slots_, ranks_ * sizeof(Slot)); }

std::string Board::process(std::size_t rank) const {
  const Slot& slot = slots_[rank];
  return fmt::format("pid {}{}", slot.pid.load(), hosts().empty() ? "" : fmt::format(" on {}", slot.host.data()));
}

std::string Board::hosts() const {
  std::string all;
  std::string_view first;
  bool several = false;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (slots_[rank].state < Slot::present) continue;
    const std::string_view here = slots_[rank].host.data();
    if (all.empty()) first = here;
    several |= here != first;
    all += fmt::format("{}rank {} on {}", all.empty() ? "" : ", ", rank, here);
  }
  return several ? all : "";
}

int status(const std::string& error) { return static_cast<int>(std::strtol(error.c_str(), nullptr, 10)); }

std::string message(const std::string& error) {
  const auto space = error.find(' ');
  return space == error.npos ? "" : error.substr(space + 1);
}

namespace {

constexpr const char* kPrefix = "rehearse-";
constexpr std::size_t kRandom = 6;  // characters appended to it

// Takes the folder's lock and returns its descriptor; nothing if another process holds it or there is none. `flags`:
// O_CREAT.
std::optional<int> hold(const fs::path& folder, int flags) {
  const int file = ::open((folder / "parent").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  struct stat seen {};
  // Between open() and flock() another process may have removed the folder as that of a dead parent.
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &seen) == 0 && seen.st_nlink > 0) return file;
  if (file >= 0) ::close(file);
  return std::nullopt;
}

void remove_those_of_dead_parents(const fs::path& temporary) {
  std::error_code over, left_behind;
  for (fs::directory_iterator at(temporary, over), end; !over && at != end; at.increment(over)) {
    const std::string name = at->path().filename().string();
    struct stat folder {};
    if (!name.starts_with(kPrefix) || name.size() != std::strlen(kPrefix) + kRandom ||
        lstat(at->path().c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode) || folder.st_uid != geteuid())
      continue;
    const auto lock = hold(at->path(), 0);
    if (!lock) continue;
    fs::remove_all(at->path(), left_behind);
    ::close(*lock);
  }
}

}  // namespace

RunFolder RunFolder::make() {
  std::error_code unknown;
  const fs::path temporary = fs::temp_directory_path(unknown);
  if (!unknown) remove_those_of_dead_parents(temporary);
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::string name = (temporary / (kPrefix + std::string(kRandom, 'X'))).string();
    if (unknown || mkdtemp(name.data()) == nullptr) fail("make a folder for temporary files", name);
    RunFolder folder{fs::path(name)};
    if (const auto lock = hold(name, O_CREAT)) {
      folder.lock_ = *lock;
      return folder;
    }
    if (fs::exists(name, unknown)) fail("lock", fs::path(name) / "parent");
  }
  throw MachineError(fmt::format("folders for temporary files disappear from {}", temporary.string()));
}

RunFolder::~RunFolder() {
  if (lock_ < 0) return;
  std::error_code left_behind;
  fs::remove_all(path_, left_behind);
  ::close(lock_);
}

fs::path RunFolder::file(std::size_t rank, Leaf leaf) const {
  return path_ / fmt::format("{}.{}", rank, leaf == Leaf::result ? "result" : "error");
}

void RunFolder::write(std::size_t rank, Leaf leaf, std::string_view bytes) const {
  write_whole(file(rank, leaf), bytes);
}

bool RunFolder::has(std::size_t rank, Leaf leaf) const {
  std::error_code unknown;
  return fs::exists(file(rank, leaf), unknown);
}

std::optional<std::string> RunFolder::read(std::size_t rank, Leaf leaf) const { return read_whole(file(rank, leaf)); }

}  // namespace rehearsal::launch
