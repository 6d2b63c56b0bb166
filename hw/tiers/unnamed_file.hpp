// An unnamed file in a directory of the user's choice: it disappears with the process, however that ends, so a run that
// is killed leaves nothing behind (sim/design/real-tiers.md).
//
// Its space is reserved before anything is written. Every fault is a MachineError with the file and a remedy.
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
  // `direct`: bypass the page cache if the file system can. `whose`: "rank 3", for messages.
  UnnamedFile(const std::string& directory, const std::string& whose, bool direct);
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  ~UnnamedFile();

  int descriptor() const { return file_; }
  bool direct() const { return direct_; }
  const std::string& refused() const { return refused_; }  // why it is not direct; empty if it is or was not requested
  std::int64_t length() const { return length_; }

  // Reserves disk space up to `length`, or says how much is missing. The block behind it is never written: so after
  // another program truncated the file, no later write can restore its length.
  void grow(std::int64_t length);
  // Checks that the file was not truncated and its directory still exists. A few system calls.
  void check() const;
  // The part of it in the page cache.
  Bytes cached() const;

  // `doing`: "read" or "write"; `error`: an errno.
  [[noreturn]] void fail(const std::string& doing, int error) const;
  [[noreturn]] void fail_cut(std::int64_t ends) const;

 private:
  void open(bool direct);
  bool tried() const;  // whether aligned blocks can be written and read back
  std::string name() const;

  std::string directory_, whose_, refused_;
  int folder_ = -1, file_ = -1;
  bool direct_ = false;
  std::atomic<std::int64_t> length_ = 0;  // read by concurrent copies while it grows
};

}  // namespace rehearsal::tiers
