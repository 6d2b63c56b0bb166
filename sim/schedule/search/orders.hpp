// From the moves of a search to programs of ranks, and what both plug-ins of searches share.
#pragma once
#include <functional>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/search/model.hpp"

namespace rehearsal::schedule::search {

using Programs = std::vector<std::vector<Action>>;

// A complete order: every move at the end of its rank's program.
Programs programs(const Model& model, const std::vector<Move>& moves);

// Actions beyond which bounds take too much memory to be worth it.
inline constexpr std::uint64_t kMostBounded = 6'000'000;

// No order of this problem costs less, whatever mix of split and full backwards it uses and within the memory limit.
Time lower_bound(const Problem& problem, Placement placement);

// True where a full backward is faster than its two halves: an order of halves is then no proof of anything.
bool full_backward_is_faster(const Problem& problem);

// Throws UserError when not even one micro-batch at a time fits into the memory limit.
void check_limit(const char* name, const Problem& problem, double least);

// A clock that started now; empty when there is no limit.
std::function<bool()> deadline(std::optional<Time> limit);

}  // namespace rehearsal::schedule::search
