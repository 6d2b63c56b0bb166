#include "gpu/slots.hpp"

#include "base/error.hpp"

namespace rehearsal::gpu {

Address Slots::acquire(Bytes size, StreamId user) {
  auto& same = free_[size];
  Free slot;
  if (same.empty()) {
    slot.block = device_.allocate(pool_, size, user);
  } else {
    slot = same.front();
    same.pop_front();
    if (slot.released) device_.wait(user, *slot.released);
  }
  used_.emplace(slot.block, size);
  return slot.block;
}

void Slots::release(Address block, StreamId last_user) {
  const auto used = used_.find(block);
  INVARIANT(used != used_.end(), "a slot is released once");
  auto event = events_.find(block);
  if (event == events_.end()) event = events_.emplace(block, device_.make_event()).first;
  device_.record(event->second, last_user);
  free_[used->second].push_back({block, event->second});
  used_.erase(used);
}

void Slots::begin_iteration() {
  for (const auto& [block, size] : used_) free_[size].push_back({block, std::nullopt});
  used_.clear();
  for (auto& [size, list] : free_)
    for (Free& slot : list) slot.released.reset();
}

void Slots::clear(StreamId stream) {
  begin_iteration();
  for (auto& [size, list] : free_)
    for (const Free& slot : list) device_.free(slot.block, stream);
  free_.clear();
  events_.clear();
}

}  // namespace rehearsal::gpu
