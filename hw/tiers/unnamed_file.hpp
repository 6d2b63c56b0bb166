// A file without a name in a directory of the user's choice: it ends with the process, however that ends, so a run that
// is killed leaves nothing behind (sim/design/real-tiers.md).
//
// Its length is taken before anything is written. Every fault is a MachineError that says which file, and what to do.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "base/units.hpp"

namespace rehearsal::tiers {

// $TMPDIR, else /tmp.
std::string usual_directory();

class UnnamedFile {
 public:
  // `direct`: past the page cache, where the file system does it. `whose`: "rank 3", for messages.
  UnnamedFile(const std::string& directory, const std::string& whose, bool direct);
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  ~UnnamedFile();

  int descriptor() const { return file_; }
  bool direct() const { return direct_; }
  const std::string& refused() const { return refused_; }  // why it is not direct; empty where it is or was not asked
  std::int64_t length() const { return length_; }

  // Takes room on the disk up to `length`; says how much is missing. A block behind it is never written: whatever is
  // written after somebody cut the file, it stays shorter than it was.
  void grow(std::int64_t length);
  // Whether it still is as it was left: not cut by somebody, its directory still there. A few calls of the kernel.
  void check() const;
  // How much of it the page cache holds.
  Bytes cached() const;

  // `doing`: "read" or "write"; `error`: an errno.
  [[noreturn]] void fail(const std::string& doing, int error) const;
  [[noreturn]] void fail_cut(std::int64_t ends) const;

 private:
  void open(bool direct);
  bool tried() const;  // whether aligned blocks go out and come back
  std::string name() const;

  std::string directory_, whose_, refused_;
  int folder_ = -1, file_ = -1;
  bool direct_ = false;
  std::atomic<std::int64_t> length_ = 0;  // copies that are under way look at it while it grows
};

}  // namespace rehearsal::tiers
