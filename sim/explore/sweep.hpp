// Filling a store (store/store.hpp) with the rows of many points, on several threads, beside whoever else does.
//
// A thread claims a batch, computes it and writes it in one transaction. Batches hold as many points as take about a
// second, at most as many as asked for: what is lost by the end of a process is small, and nobody waits long for the
// last batch of another. It returns when every point has been finished, by whomever.
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
  std::size_t batch = 64;  // points of one transaction, at most
};

// The row of a point; nothing where the one that is there already is right, whose digest is `held`. Called from any
// thread, several at a time.
using Compute = std::function<std::optional<store::Row>(std::size_t point, const std::string& held)>;

struct SweepState {
  std::size_t computed = 0, kept = 0;  // points, by this process
};
// Called now and then, from one thread at a time.
using Watch = std::function<void(const SweepState&)>;

// Throws what the store and `compute` throw; what was computed before is written, where that is still possible.
SweepState sweep(store::Store& store, std::span<const store::Point> points, const SweepOptions& options,
                 const Compute& compute, const Watch& watch);

}  // namespace rehearsal::explore
