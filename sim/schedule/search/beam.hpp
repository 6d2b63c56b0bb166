// Beam search: the partial orders of equally many actions side by side, of which only the most promising are kept.
// Finds good orders fast and proves nothing. The same model and width give the same order on every machine.
#pragma once
#include <cstdint>
#include <functional>

#include "schedule/search/branch_and_bound.hpp"

namespace rehearsal::schedule::search {

struct BeamWidth {
  std::uint32_t states = 16;
  std::function<bool()> out_of_time = {};  // asked once per action; empty = never
};

// Looks for an order that costs less than `known`; `nodes` of the outcome counts the bounds computed, lower_bound is 0.
Outcome beam_search(const Model& model, Ticks known, const BeamWidth& width);

}  // namespace rehearsal::schedule::search
