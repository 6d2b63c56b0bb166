// Who computes which batch, among processes that may share nothing but a folder: no lock, no common clock.
//
// A claim is a file that only one process can create (O_EXCL), with the name of its owner in it. Beside the claims
// every process has a log, to which it alone appends what it has finished, and a sign of life. A claim is valid while
// its owner works: on this host the end of a process is detected; on another host it counts as ended when its log has
// not grown for kLease while this process was watching. If a batch is computed twice after all, its rows are the same
// bytes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/workers.hpp"

namespace rehearsal::store {

inline constexpr std::chrono::milliseconds kLease{60'000}, kBeat{10'000};

// Whether a store is a folder (it is one, or its name ends with a slash) rather than a file.
bool is_folder(const std::string& store);
// Throws UserError if no store can have this name: '/', a device.
void check_name(const std::string& store);

// All functions may be called from several threads.
class Claims {
 public:
  // `sweep` identifies what is divided into batches: processes with another one have other batches.
  Claims(const std::string& store, std::string sweep, std::chrono::milliseconds lease = kLease);
  ~Claims();  // releases what is not finished; the last process removes claims and logs

  // Inherited: ours, and its owner has ended without finishing it. Done: by another process, since this one began.
  enum class State : std::uint8_t { ours, inherited, taken, done };
  State take(std::size_t batch);
  void finish(std::size_t batch);   // its rows are in the store
  void beat();                      // reports that this process lives
  std::vector<std::size_t> news();  // batches that others have finished since the last call

  // Claims the whole store. Throws UserError, with `why`, if another process has it.
  void take_all(const std::string& why);
  const std::string& name() const { return name_; }  // host, process and start: no other process has it

 private:
  using Clock = std::chrono::steady_clock;
  struct Other {
    std::optional<Worker> worker;  // nothing until its log has been read
    std::streamoff read = 0;       // bytes of its log
    Clock::time_point grown = Clock::now();
    bool ended = false;
  };
  void enlist();
  void append(const std::string& line);
  void look();
  void read(const std::string& name);
  bool works(const std::string& name);
  std::optional<std::string> hold(const std::string& claim);  // its owner if that is another process
  void remove_remains();

  std::string store_, sweep_, name_;
  std::filesystem::path folder_;
  std::chrono::milliseconds lease_;
  std::mutex mutex_;
  std::map<std::string, Other> others_;
  std::set<std::size_t> done_;
  std::vector<std::size_t> news_;
  std::set<std::string> held_;
};

}  // namespace rehearsal::store
