#include "balance/search/state.hpp"

#include <algorithm>

namespace rehearsal::balance::search {

State::State(const Cell& cell) : cell_(cell), slots_of_(cell.experts()), share_(cell.experts()), mark_(cell.gpus()) {
  for (std::uint32_t g = 0; g < cell.gpus(); ++g) {
    first_.push_back(static_cast<std::uint32_t>(gpu_.size()));
    gpu_.insert(gpu_.end(), cell.room[g], g);
  }
  first_.push_back(static_cast<std::uint32_t>(gpu_.size()));
  place_.resize(gpu_.size());
}

void State::fill(const std::vector<std::uint32_t>& expert) {
  expert_ = expert;
  for (auto& slots : slots_of_) slots.clear();
  for (std::uint32_t slot = 0; slot < expert_.size(); ++slot) {
    auto& slots = slots_of_[expert_[slot]];
    place_[slot] = static_cast<std::uint32_t>(slots.size());
    slots.push_back(slot);
  }
  for (std::uint32_t e = 0; e < cell_.experts(); ++e) set_share(e);
  load_.assign(cell_.gpus(), 0.0);
  for (std::uint32_t slot = 0; slot < expert_.size(); ++slot) load_[gpu_[slot]] += share_[expert_[slot]];
}

void State::set_share(std::uint32_t e) { share_[e] = cell_.weights[e] / double(slots_of_[e].size()); }

std::uint32_t State::heaviest() const {
  return static_cast<std::uint32_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
}

void State::add(std::uint32_t gpu, double load, std::vector<Change>& changes) {
  if (!mark_[gpu]) {
    changes.push_back({gpu, load_[gpu]});
    mark_[gpu] = static_cast<std::uint32_t>(changes.size());
  }
  changes[mark_[gpu] - 1].load += load;
}

void State::after_replace(std::uint32_t q, std::uint32_t by, std::vector<Change>& changes) {
  const std::uint32_t gone = expert_[q];
  const double less = cell_.weights[by] / double(slots_of_[by].size() + 1);
  const double more = cell_.weights[gone] / double(slots_of_[gone].size() - 1);
  changes.clear();
  for (const auto slot : slots_of_[by]) add(gpu_[slot], less - share_[by], changes);
  for (const auto slot : slots_of_[gone])
    if (slot != q) add(gpu_[slot], more - share_[gone], changes);
  add(gpu_[q], less - share_[gone], changes);
  for (const auto& c : changes) mark_[c.gpu] = 0;
}

void State::swap(std::uint32_t p, std::uint32_t q) {
  const double d = share_[expert_[p]] - share_[expert_[q]];
  load_[gpu_[p]] -= d, load_[gpu_[q]] += d;
  std::swap(expert_[p], expert_[q]);
  std::swap(place_[p], place_[q]);
  slots_of_[expert_[p]][place_[p]] = p;
  slots_of_[expert_[q]][place_[q]] = q;
}

void State::replace(std::uint32_t q, std::uint32_t by) {
  const std::uint32_t gone = expert_[q];
  auto& from = slots_of_[gone];
  from[place_[q]] = from.back();
  place_[from.back()] = place_[q];
  from.pop_back();
  load_[gpu_[q]] -= share_[gone];
  for (const auto e : {gone, by}) {
    const double old = share_[e];
    if (e == by) {
      place_[q] = static_cast<std::uint32_t>(slots_of_[by].size());
      slots_of_[by].push_back(q);
    }
    set_share(e);
    for (const auto slot : slots_of_[e]) load_[gpu_[slot]] += share_[e] - (slot == q ? 0.0 : old);
  }
  expert_[q] = by;
}

}  // namespace rehearsal::balance::search
