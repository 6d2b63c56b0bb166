// Shared by the tests of the tiers: folders, contents that identify their position, children with any exit.
#pragma once
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tiers/file_store.hpp"

namespace tiers_test {

namespace fs = std::filesystem;
using namespace rehearsal;
using namespace rehearsal::tiers;

struct Folder {
  fs::path path;
  explicit Folder(const fs::path& under = fs::temp_directory_path()) {
    std::string name = (under / "tiers_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  FileOptions options() const {
    FileOptions options;
    options.directory = path.string();
    return options;
  }
};

// Contents that differ between regions, and between positions of a region.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  unsigned state = seed * 2654435761u + 1;
  for (auto& b : bytes) state = state * 1664525u + 1013904223u, b = std::byte(state >> 24);
  return bytes;
}

inline void put(Store& store, Region region, std::span<const std::byte> bytes, std::int64_t at = 0) {
  store.wait(store.write(region, bytes, Bytes(at)));
}
inline std::vector<std::byte> get(Store& store, Region region, std::size_t size, std::int64_t at = 0) {
  std::vector<std::byte> bytes(size, std::byte{0xee});
  store.wait(store.read(region, bytes, Bytes(at)));
  return bytes;
}

// The message of a fault; empty if there is none.
template <class Body>
std::string fault(Body&& body) {
  try {
    body();
  } catch (const MachineError& error) {
    return error.what();
  }
  return "";
}
inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The descriptor of this process's own file without a name in a folder: as another process finds it.
inline int descriptor_in(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const auto target = fs::read_symlink(entry.path(), none).string();
    if (target.starts_with(folder.string() + "/")) return std::stoi(entry.path().filename().string());
  }
  return -1;
}

// The exit status of a child that runs `body`, or 128 and its signal.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tiers_test
