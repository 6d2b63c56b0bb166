// The replay of orders that are seen often: of a search, which tries the same order with other times again and again.
// An order that is the rule of a schedule depends on sizes alone. At its second replay it is recorded as one list in
// which every action comes after what it waits for; from then on a replay goes once through the list, a dozen
// instructions an action, without programs, checks of their legality, or queues.
#pragma once
#include "schedule/replay.hpp"

namespace rehearsal::schedule {

// What replay() gives. Safe to call from several threads, which share what is recorded.
Replay replay_again(const Schedule& schedule, const Problem& problem, Transfers transfers);

}  // namespace rehearsal::schedule
