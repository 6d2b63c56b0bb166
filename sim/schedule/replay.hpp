// Gives times to an order: walks all ranks with O(p) state (plus what is in flight) and never stores the order.
//
// Rules: a rank runs its list in order, one action at a time. F(s,k) waits for F(s-1,k), I or B(s,k) for I or B(s+1,k),
// W(s,k) for I(s,k). An overlapped pair starts when both can and gives both results at its end. A result of another
// rank arrives `transfer` after its end. A piece of a micro-batch takes its share of the times and of the memory, but
// `transfer` is that of one message, whatever its size. Transfers are
//   free      no rank time, any number in flight (the evaluator of the papers), or, where the problem says how long a
//             message holds its wire, one after the other onto each wire of the sender, in its program order; or
//   blocking  the sending rank is busy for the transfer: an F or B that sends to another rank is lengthened by it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

enum class Transfers : std::uint8_t { free, blocking };

struct ReplayedAction {
  std::uint32_t rank;
  Action action;
  Time start, end;  // with blocking transfers, end includes the send
};

struct ReplayOptions {
  Transfers transfers = Transfers::free;
  // Called for every action, in the program order of each rank; the ranks interleave as dependencies allow. Both of an
  // overlapped pair have the times of the pair.
  std::function<void(const ReplayedAction&)> visit = {};
};

struct Replay {
  Time cost;               // max over ranks of (last end - first start): the "cost" of the Zero Bubble paper
  Time makespan;           // end of the last action; time 0 = the start of rank 0's first action
  std::vector<Time> end;   // per rank: end of its last action
  std::vector<Time> sent;  // per rank: when the message of its last action has arrived; 0 if that sends none
  std::vector<Time> busy;  // per rank: time in actions (blocking sends excluded)
  std::vector<std::int64_t> in_flight_FW,
      in_flight_FB;                 // per rank: peak activations held until W, until I (B ends both)
  std::vector<double> peak_memory;  // per rank, in program order
  std::uint64_t actions = 0;        // a pair counts as two
  double bubble_rate() const;       // (cost - busiest rank) / cost
};

// Throws UserError when the order is illegal (an action twice, missing, before what it needs on its own rank, on the
// wrong rank) or deadlocks; the message names the first wrong cell or the blocked heads.
Replay replay(const Schedule& schedule, const Problem& problem, const ReplayOptions& options = {});

// Would the order complete if every transfer were a rendezvous with no buffer, each rank with one queue per directed
// channel (pair of ranks x kind)? Throws UserError naming the blocked heads of every rank if not.
void check_zero_buffer(const Schedule& schedule, const Problem& problem);

}  // namespace rehearsal::schedule
