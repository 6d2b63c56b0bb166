// Shared by a parent and the ranks that it started, on one host: a private folder with one file per rank and kind, and
// a board in shared memory where every rank shows its progress.
//
// Files appear atomically: they are written under another name and renamed.
//
// A parent holds a lock on the file `parent` of its folder as long as it lives. The kernel releases it however the
// parent ends, so the next parent to make a folder finds and removes those of parents that were killed.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "graph/task_graph.hpp"

namespace rehearsal::launch {

// One rank's line of the board, which only that rank writes; it lives in a mapped file, initially zero.
struct Slot {
  enum State : std::int32_t { absent, present, running, finished };
  std::atomic<std::int32_t> state;
  std::atomic<std::int32_t> pid;
  // A copy of dispatch::Progress, updated now and then.
  std::atomic<std::uint64_t> moves;
  std::atomic<std::int64_t> busy_until;
  std::atomic<std::uint32_t> computing;
  std::atomic<std::uint32_t> iterations;
  std::atomic<std::uint32_t> lanes;
  std::array<std::atomic<std::uint32_t>, graph::kLanes> heads;
  std::array<char, 64> host;  // its name, ended by 0; written before `state` says that the rank is present
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock would not be shared between processes");

class Board {
 public:
  Board(const std::filesystem::path& file, std::size_t ranks, bool create);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  Slot& operator[](std::size_t rank) { return slots_[rank]; }
  const Slot& operator[](std::size_t rank) const { return slots_[rank]; }
  std::size_t ranks() const { return ranks_; }
  // "pid 4711", and its host where ranks are on several: "pid 4711 on node2".
  std::string process(std::size_t rank) const;
  // "rank 0 on node0, rank 1 on node1"; empty if all ranks that are present are on one host.
  std::string hosts() const;

 private:
  Slot* slots_ = nullptr;
  std::size_t ranks_ = 0;
};

enum class Leaf : std::uint8_t { result, error };  // what the work returned, or the reason for its failure: "3 message"

// The two parts of an error. Its status is the exit status of the process.
int status(const std::string& error);
std::string message(const std::string& error);

class RunFolder {
 public:
  // Makes a new folder below the one for temporary files; the destructor removes it with its contents. Also removes
  // folders that dead parents of this user left there.
  static RunFolder make();
  // The folder of this rank's parent.
  explicit RunFolder(std::filesystem::path of_parent) : path_(std::move(of_parent)) {}
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path board() const { return path_ / "board"; }
  void write(std::size_t rank, Leaf leaf, std::string_view bytes) const;  // throws MachineError
  std::optional<std::string> read(std::size_t rank, Leaf leaf) const;
  bool has(std::size_t rank, Leaf leaf) const;

 private:
  std::filesystem::path file(std::size_t rank, Leaf leaf) const;
  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of the lock, held by the folder's owner
};

}  // namespace rehearsal::launch
