// Recommended changes: every change of a single choice that trains the same model on the same batch and GPUs, each
// fully predicted (sim/design/explain.md).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "explore/sensitivity.hpp"

namespace rehearsal::explore {

using Change = std::vector<std::string>;  // KEY=VALUE; several if the keys must change together

// Degrees traded by factors of two, micro-batches, chunks, schedules, recomputation, ZeRO, sequence parallelism,
// offloading, overlaps, kernels, attention, buckets, partition, placement of the axes: legal or not. Changes that
// affect what is learned (precision, optimizer, delayed updates) or the machine are excluded.
std::vector<Change> changes(const scenario::Scenario& scenario);

struct Advice {
  Change set;
  Time iteration;
  double memory = 0, memory_change = 0;  // bytes on the device of the fullest GPU; with given times, in their unit
  bool fits = true;
};

struct Advised {
  std::vector<Advice> all;     // shortest step first; those that do not fit come last
  std::size_t illegal = 0;     // changes that the scenario forbids
  std::size_t same = 0;        // changes without effect
  std::vector<Change> failed;  // ended in an internal error, as `run` with them would; the others are still tried
};

Advised advise(const Asked& asked, unsigned jobs, const Done& done = {});

}  // namespace rehearsal::explore
