// Orders as text: `3F0` = forward of stage 3, micro-batch 0; I, W, B likewise (the form of
// torch.distributed.pipelining).
#pragma once
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

void append(std::string& text, Action action);
std::string to_text(Action action);

// One string per rank, actions separated by commas.
std::vector<std::string> order_text(const Schedule& schedule, const Problem& problem);

// SHA-256 of the rank strings joined by one newline, without a trailing one. Streams: an order is never stored whole.
std::string order_sha256(const Schedule& schedule, const Problem& problem);

}  // namespace rehearsal::schedule
