// One function for many indices, some at a time.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/stopping.hpp"

namespace rehearsal {

// Hears how many of how many are done, none at first; from any thread, one call at a time.
using Done = std::function<void(std::size_t done, std::size_t of)>;

// Calls each(i) once for every i < count, from `threads` threads including the caller's (fewer if the system has no
// more). The results must not depend on the order. Once a call has thrown, no new one begins; of the exceptions, the
// one of the lowest index is rethrown to the caller.
template <class Each>
void in_parallel(std::size_t count, unsigned threads, const Each& each, const Done& done = {}) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  std::mutex telling;
  std::size_t ended = 0;
  if (done) done(0, count);
  std::atomic<bool> failed{false};
  const auto& asked_to_stop = Stoppable::here();
  const auto work = [&] {
    const Stoppable stoppable(asked_to_stop);
    for (std::size_t i; !failed && (i = next++) < count;) try {
        each(i);
        if (!done) continue;
        const std::scoped_lock lock(telling);
        done(++ended, count);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the block
    helpers.reserve(threads);
    try {
      for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // the others do it all
    }
    work();
  }
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace rehearsal
