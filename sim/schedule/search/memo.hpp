// States that a search has visited, by the actions done in them: a later state with the same actions done is dropped if
// an earlier one was at least as early everywhere.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "schedule/search/state.hpp"

namespace rehearsal::schedule::search {

class Memo {
 public:
  Memo(const Model& model, std::size_t bytes);

  // True if a remembered state is at least as good as this one in every respect; else remembers it (while there is
  // room).
  bool seen(const State& state);
  void clear();

 private:
  void describe(const State& state);

  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Entry {
    std::uint64_t check;  // a second hash of what is done
    std::uint64_t times;  // where the times begin
    std::uint32_t next;
  };

  const Model& model_;
  std::size_t capacity_;  // numbers in times_
  std::unordered_map<std::uint64_t, std::uint32_t> first_;
  std::vector<Entry> entries_;
  std::vector<Ticks> times_;
  std::vector<Ticks> now_;  // the times of the state at hand: the smaller, the better
  std::uint64_t key_ = 0, check_ = 0;
};

}  // namespace rehearsal::schedule::search
