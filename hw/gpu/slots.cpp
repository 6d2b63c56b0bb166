#include "gpu/slots.hpp"

#include "base/error.hpp"

namespace rehearsal::gpu {

Address Slots::acquire(Bytes size, StreamId user) {
  auto& same = free_[size];
  const std::size_t number = acquired_++;
  Address block = nullptr;
  if (!same.empty() && (!same.front().released || same.front().number + depth_ <= number)) {
    block = same.front().block;
    if (same.front().released) device_.wait(user, *same.front().released);
    same.pop_front();
  } else {
    block = device_.allocate(pool_, size, user);
  }
  used_.emplace(block, Used{size, number});
  return block;
}

void Slots::release(Address block, StreamId last_user) {
  const auto used = used_.find(block);
  INVARIANT(used != used_.end(), "a slot is released once");
  auto event = events_.find(block);
  if (event == events_.end()) event = events_.emplace(block, device_.make_event()).first;
  device_.record(event->second, last_user);
  free_[used->second.size].push_back({block, event->second, used->second.number});
  used_.erase(used);
}

void Slots::begin_iteration() {
  for (const auto& [block, used] : used_) free_[used.size].push_back({block, std::nullopt, 0});
  used_.clear();
  for (auto& [size, list] : free_)
    for (Free& slot : list) slot.released.reset();
  acquired_ = 0;
}

void Slots::clear(StreamId stream) {
  begin_iteration();
  for (auto& [size, list] : free_)
    for (const Free& slot : list) device_.free(slot.block, stream);
  free_.clear();
  events_.clear();
}

}  // namespace rehearsal::gpu
