// Fills a store (store/store.hpp) with the rows of many points, on several threads and beside other processes.
//
// The points are divided into batches, the same ones in every process. A thread claims a batch (store/claims.hpp),
// computes it and writes its rows: about every second, so that a killed process loses little.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "store/claims.hpp"
#include "store/store.hpp"

namespace rehearsal::explore {

struct SweepOptions {
  unsigned jobs = 1;
  std::size_t rows = 64;            // maximum per transaction
  std::size_t part = 0, parts = 1;  // the batches to begin with: every parts-th
  bool wait = true;                 // for what others have claimed, and take it over should they end
};

// The row of a point; nothing if the stored one, with digest `held`, is still right. Called from any thread, possibly
// concurrently.
using Compute = std::function<std::optional<store::Row>(std::size_t point, const std::string& held)>;

struct SweepState {
  std::size_t computed = 0, kept = 0;  // points, by this process
  std::size_t under_way = 0;           // computed or found right in it, but not yet written
  std::size_t others = 0;              // points finished by others since it began
};
// Called from time to time, from one thread at a time.
using Watch = std::function<void(const SweepState&)>;

// Identifies the points and how they are divided, for claims.
std::string sweep_key(const std::string& version, std::span<const store::Point> points);

// Returns when every point is finished, or, without waiting, claimed. Throws what the store and `compute` throw; rows
// computed before are written if still possible.
SweepState sweep(store::Store& store, store::Claims& claims, std::span<const store::Point> points,
                 const SweepOptions& options, const Compute& compute, const Watch& watch);

}  // namespace rehearsal::explore
