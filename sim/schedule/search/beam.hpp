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

// Of the bounds of a beam search: far enough to see a micro-batch through the pipeline and back beside those in flight.
std::uint32_t horizon(const Model& model);

// What a search of this width takes, in actions bounded (about 30 ns each).
std::uint64_t beam_work(const Model& model, std::uint32_t width);

// Looks for an order that costs less than `known`; `nodes` of the outcome counts the bounds computed, lower_bound is 0.
Outcome beam_search(const Model& model, Ticks known, const BeamWidth& width);

}  // namespace rehearsal::schedule::search
