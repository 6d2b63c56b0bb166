// Sets of hosts that are up: a folder each in /run/rehearsal-hosts, with what the set is (state.json), the names of its
// hosts as in /etc/hosts (names), and as mpirun wants them (slots).
//
// state.json is written last: a folder without one is of an `up` that was killed, and goes with the next call. Whoever
// makes or removes sets holds a lock on the folder of all; who uses one shares a lock on its own. The kernel releases
// them however a process ends.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace rehearsal::hosts {

// A lock on a folder, as long as it lives.
class FolderLock {
 public:
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  friend class Sets;
  friend FolderLock use(const std::string& set);
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

std::filesystem::path folder_of(const std::string& set);

// Small letters, digits and '-', up to 24 of them. Throws UserError.
void check_name(const std::string& set);

// What a set is; nothing if there is none, or it is not complete.
std::optional<Json> state_of(const std::string& set);
std::vector<std::string> sets_up();  // sorted

// Keeps a set from being removed while it is used. Throws MachineError if it is being removed.
FolderLock use(const std::string& set);

// The right to make and remove sets, which one process has at a time; others wait for it. Removes what processes that
// were killed have left, and at the end the folder of all sets, if there are none.
class Sets {
 public:
  Sets();
  ~Sets();
  Sets(const Sets&) = delete;
  Sets& operator=(const Sets&) = delete;

  // An empty folder for a new set. An old one of that name is removed; throws MachineError if it is in use.
  void begin(const std::string& set);
  void put(const std::string& set, const std::string& file, const std::string& text);  // appears whole
  // With all processes on its hosts; false if there was none. Throws MachineError if it is in use.
  bool remove(const std::string& set);

 private:
  void sweep();
  void remove_all_of(const std::string& set);
  std::optional<FolderLock> all_;
};

}  // namespace rehearsal::hosts
