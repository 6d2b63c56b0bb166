// A filling under modification, and the effect of each move on the loads. Loads are updated incrementally, which
// accumulates rounding errors: to compare worst loads, use worst_load() of the filling.
#pragma once
#include <cstdint>
#include <vector>

#include "balance/search/cell.hpp"

namespace rehearsal::balance::search {

class State {
 public:
  explicit State(const Cell& cell);
  void fill(const std::vector<std::uint32_t>& expert);

  std::uint32_t expert(std::uint32_t slot) const { return expert_[slot]; }
  std::uint32_t gpu(std::uint32_t slot) const { return gpu_[slot]; }
  std::uint32_t first(std::uint32_t gpu) const { return first_[gpu]; }
  std::uint32_t copies(std::uint32_t e) const { return static_cast<std::uint32_t>(slots_of_[e].size()); }
  std::uint32_t slot_of(std::uint32_t e, std::uint32_t copy) const { return slots_of_[e][copy]; }
  double share(std::uint32_t e) const { return share_[e]; }
  double load(std::uint32_t gpu) const { return load_[gpu]; }
  std::uint32_t heaviest() const;
  const std::vector<std::uint32_t>& filling() const { return expert_; }

  // The effect of a move: the GPUs whose load changes, with their new loads.
  struct Change {
    std::uint32_t gpu;
    double load;
  };
  // Slots p and q on different GPUs exchange their experts.
  void after_swap(std::uint32_t p, std::uint32_t q, std::vector<Change>& changes) const {
    const double d = share_[expert_[p]] - share_[expert_[q]];
    changes.clear();
    changes.push_back({gpu_[p], load_[gpu_[p]] - d});
    changes.push_back({gpu_[q], load_[gpu_[q]] + d});
  }
  // Slot q, whose expert has at least two copies, becomes another copy of a different expert. The shares of all copies
  // of both experts change.
  void after_replace(std::uint32_t q, std::uint32_t by, std::vector<Change>& changes);

  void swap(std::uint32_t p, std::uint32_t q);
  void replace(std::uint32_t q, std::uint32_t by);

 private:
  void set_share(std::uint32_t e);
  void add(std::uint32_t gpu, double load, std::vector<Change>& changes);

  const Cell& cell_;
  std::vector<std::uint32_t> expert_, gpu_, first_, place_;  // place_[slot] = its index in slots_of_
  std::vector<std::vector<std::uint32_t>> slots_of_;
  std::vector<double> share_, load_;
  std::vector<std::uint32_t> mark_;  // 1 + index in changes, for moves that touch a GPU twice
};

}  // namespace rehearsal::balance::search
