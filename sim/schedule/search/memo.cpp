#include "schedule/search/memo.hpp"

#include <algorithm>

namespace rehearsal::schedule::search {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

// A remembered state costs its times, an entry and a node of the table: count 64 bytes for the latter two.
Memo::Memo(const Model& model, std::size_t bytes) : model_(model), capacity_(bytes / sizeof(Ticks)) {}

void Memo::clear() {
  first_.clear();
  entries_.clear();
  times_.clear();
}

// Two states with the same actions done have equally many numbers: when every rank is free, and the earliest times at
// which results that are produced and not yet consumed can be consumed.
void Memo::describe(const State& state) {
  const Model& m = model_;
  now_.clear();
  key_ = 1, check_ = 2;
  for (const auto& stage : state.stage)
    for (std::uint32_t n : stage.done) {
      key_ = mix(key_ ^ n);
      check_ = mix(check_ + n * 0x2545f4914f6cdd1du);
    }
  for (const auto& rank : state.rank)
    if (rank.waiting) key_ = mix(key_ ^ (rank.waiting << 1)), check_ = mix(check_ + rank.waiting);
  for (std::uint32_t r = 0; r < m.ranks; ++r) now_.push_back(state.rank[r].free);
  for (std::uint32_t s = 0; s < m.stages; ++s) {
    const Ticks free = state.rank[m.rank[s]].free;  // a copy: now_ grows below
    if (s > 0) {
      Ticks earliest = free;
      for (std::uint32_t k = state.done(s, Kind::forward); k < state.done(s - 1, Kind::forward); ++k) {
        earliest = std::max(earliest, state.forward_end[m.at(s - 1, k)] + m.hop[s - 1]);
        now_.push_back(earliest);
        earliest += m.forward[s];
      }
    }
    if (s + 1 < m.stages) {
      Ticks earliest = free;
      for (std::uint32_t k = state.done(s, Kind::input); k < state.done(s + 1, Kind::input); ++k) {
        earliest = std::max(earliest, state.input_end[m.at(s + 1, k)] + m.hop[s]);
        now_.push_back(earliest);
        earliest += m.input[s];
      }
    }
  }
}

bool Memo::seen(const State& state) {
  describe(state);
  const auto [it, inserted] = first_.try_emplace(key_, kNone);
  for (std::uint32_t e = it->second; e != kNone; e = entries_[e].next) {
    if (entries_[e].check != check_) continue;
    const Ticks* old = &times_[entries_[e].times];
    if (std::equal(now_.begin(), now_.end(), old, [](Ticks now, Ticks then) { return then <= now; })) return true;
  }
  if (times_.size() + now_.size() + 8 * entries_.size() > capacity_ || entries_.size() >= kNone) return false;
  entries_.push_back({check_, times_.size(), it->second});
  it->second = static_cast<std::uint32_t>(entries_.size() - 1);
  times_.insert(times_.end(), now_.begin(), now_.end());
  return false;
}

}  // namespace rehearsal::schedule::search
