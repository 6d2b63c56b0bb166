// The order of 1F1B, which schedules without a flush share.
#pragma once
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

// One chunk per rank: p-1-rank forwards ahead, then a forward and a backward in turn, then the backwards that are left.
Order one_f_one_b_order(const Problem& problem, std::uint32_t rank);

}  // namespace rehearsal::schedule
