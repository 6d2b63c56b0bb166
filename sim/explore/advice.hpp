// What to change: every change of one choice of a scenario that trains the same model on the same batch and the same
// GPUs, predicted in full (sim/design/explain.md).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "explore/sensitivity.hpp"

namespace rehearsal::explore {

using Change = std::vector<std::string>;  // KEY=VALUE; more than one where the keys only go together

// Degrees traded by factors of two, micro-batches, chunks, schedules, recomputation, ZeRO, sequence parallelism,
// offloading, overlaps, kernels, attention, buckets, partition, placement of the axes: legal or not. No change of what
// is learned, such as precision, optimizer or delayed updates, and none of the machine.
std::vector<Change> changes(const scenario::Scenario& scenario);

struct Advice {
  Change set;
  Time iteration;
  double memory = 0, memory_change = 0;  // bytes of the fullest GPU: on the device, given times: in their unit
  bool fits = true;
};

struct Advised {
  std::vector<Advice> all;     // shortest step first, those that do not fit last
  std::size_t illegal = 0;     // changes that the scenario forbids
  std::size_t same = 0;        // changes that change nothing
  std::vector<Change> failed;  // met a bug of ours, as `run` with them would; one change does not end the others
};

Advised advise(const Asked& asked, unsigned jobs, const Done& done = {});

}  // namespace rehearsal::explore
