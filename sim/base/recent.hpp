// What was made last, by what it was made of: for callers that make the same things again and again, such as a search
// over layouts that differ little. A thread has its own; nothing is locked.
#pragma once
#include <cstddef>
#include <list>
#include <utility>

namespace rehearsal {

// Key has operator==, which should compare first what differs most.
template <class Key, class Value>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  // Valid until the next call.
  template <class Make>
  const Value& of(Key key, const Make& make) {
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->first == key) {
        kept_.splice(kept_.begin(), kept_, at);
        return kept_.front().second;
      }
    auto made = make();
    if (kept_.size() == most_) kept_.pop_back();
    kept_.emplace_front(std::move(key), std::move(made));
    return kept_.front().second;
  }

 private:
  std::size_t most_;
  std::list<std::pair<Key, Value>> kept_;  // the last one first
};

}  // namespace rehearsal
