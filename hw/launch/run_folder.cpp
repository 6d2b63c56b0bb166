#include "launch/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "launch/whole_file.hpp"

namespace rehearsal::launch {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, const fs::path& file) {
  throw MachineError(fmt::format("cannot {} {}: {}", what, file.string(), std::strerror(errno)));
}

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

int status(const std::string& error) { return static_cast<int>(std::strtol(error.c_str(), nullptr, 10)); }

std::string message(const std::string& error) {
  const auto space = error.find(' ');
  return space == error.npos ? "" : error.substr(space + 1);
}

RunFolder RunFolder::make() {
  std::error_code unknown;
  std::string name = (fs::temp_directory_path(unknown) / "rehearse-XXXXXX").string();
  if (unknown || mkdtemp(name.data()) == nullptr) fail("make a folder for temporary files", name);
  RunFolder folder{fs::path(name)};
  folder.owned_ = true;
  return folder;
}

RunFolder::~RunFolder() {
  std::error_code left_behind;
  if (owned_) fs::remove_all(path_, left_behind);
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
