// Which slot a row has at an expert: how slots are stored, and what forced routings choose. Shared by all rooms that
// perform kernels.
#pragma once
#include <cstdint>

#include "base/kernels.hpp"
#include "kernels/device.hpp"

namespace rehearsal::kernels {

// Parameters of `route` and its gradient.
struct Gating {
  std::int64_t rows = 0, experts = 0, choices = 0, capacity = 0;
  bool renormalised = false;
  Routing routing = Routing::by_logits;
};

inline Gating gating(const Kernel& kernel) {
  const auto [rows, experts, choices, capacity, renormalised, routing, d7, d8] = kernel.dims;
  return {rows, experts, choices, capacity, renormalised != 0, static_cast<Routing>(routing)};
}

// Stored instead of a slot for a row beyond its expert's capacity: the gradient still needs the expert's index.
REHEARSAL_BOTH std::int64_t dropped(std::int64_t expert) { return -1 - expert; }
REHEARSAL_BOTH std::int64_t expert_of(std::int64_t slot, std::int64_t capacity) {
  return slot < 0 ? -1 - slot : slot / capacity;
}

// The `choice`-th of `choices` experts of a row when logits do not decide: round-robin, so that all experts get equally
// many rows, or the first experts for every row.
REHEARSAL_BOTH std::int64_t forced_expert(Routing routing, std::int64_t row, std::int64_t choice, std::int64_t choices,
                                          std::int64_t experts) {
  return routing == Routing::balanced ? (row * choices + choice) % experts : choice;
}

}  // namespace rehearsal::kernels
