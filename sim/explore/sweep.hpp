// Fills a store (store/store.hpp) with the rows of many points, on several threads and alongside other processes.
//
// A thread claims a batch of points, computes it and writes it in one transaction. A batch takes about a second and has
// at most `batch` points, so a killed process loses little and others do not wait long for its last batch. Returns when
// every point has been finished, by any process.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "store/store.hpp"

namespace rehearsal::explore {

struct SweepOptions {
  unsigned jobs = 1;
  std::size_t batch = 64;  // maximum points per transaction
};

// The row of a point; nothing if the stored one, with digest `held`, is still right. Called from any thread, possibly
// concurrently.
using Compute = std::function<std::optional<store::Row>(std::size_t point, const std::string& held)>;

struct SweepState {
  std::size_t computed = 0, kept = 0;  // points, by this process
};
// Called from time to time, from one thread at a time.
using Watch = std::function<void(const SweepState&)>;

// Throws what the store and `compute` throw; rows computed before are written if still possible.
SweepState sweep(store::Store& store, std::span<const store::Point> points, const SweepOptions& options,
                 const Compute& compute, const Watch& watch);

}  // namespace rehearsal::explore
