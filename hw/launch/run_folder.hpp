// What a parent and the ranks it started share: a private folder with one file per rank and kind, and a board in shared
// memory on which every rank shows how far it is. One host.
//
// Files appear whole: they are written under another name and renamed.
//
// A parent holds a lock on the file `parent` of its folder for as long as it lives. The kernel releases it however the
// parent ends, so whoever makes the next folder finds those of parents that were killed, and removes them.
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

// One line of the board, written by its rank alone; lives in a mapped file, all zero at first.
struct Slot {
  enum State : std::int32_t { absent, present, running, finished };
  std::atomic<std::int32_t> state;
  std::atomic<std::int32_t> pid;
  // dispatch::Progress, copied now and then.
  std::atomic<std::uint64_t> moves;
  std::atomic<std::int64_t> busy_until;
  std::atomic<std::uint32_t> computing;
  std::atomic<std::uint32_t> iterations;
  std::atomic<std::uint32_t> lanes;
  std::array<std::atomic<std::uint32_t>, graph::kLanes> heads;
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

 private:
  Slot* slots_ = nullptr;
  std::size_t ranks_ = 0;
};

enum class Leaf : std::uint8_t { result, error };  // what the work gave, or why there is nothing: "3 message"

// The two parts of an error. Its status is that of the process, except for a rank that gave up because another did.
inline constexpr int kBecauseOfAnother = 0;
int status(const std::string& error);
std::string message(const std::string& error);

class RunFolder {
 public:
  // A new one below the folder for temporary files, removed with everything in it by the destructor. Removes those that
  // parents of this user have left there who are dead.
  static RunFolder make();
  // That of the parent of this rank.
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
  int lock_ = -1;  // a descriptor of the owner
};

}  // namespace rehearsal::launch
