// Parameter servers of this program's own kernels (sim/design/parameter-servers.md): what a worker sends at the end of
// an iteration and what comes back, and the programs of servers. Every segment is cut evenly over all servers; the part
// of each is one message, and lies in the worker's flat arrays where it is.
//
// Whoever is ahead of others is so by the order of its program: a worker takes what came of an iteration `delay` ones
// after it has sent its own gradients of that, and messages that nobody has taken yet are in the transport. So a worker
// has one set of parameters and of gradients whatever the delay, and a server one sum.
#pragma once
#include "lower/network_state.hpp"

namespace rehearsal::lower {

// A worker's side, in its program.
class ServedSegments {
 public:
  ServedSegments(ProgramDraft& draft, Sequencer& sequencer);
  // The gradients of a segment are complete: to all servers, each its part.
  void push(std::int64_t elements, BufferId gradients);
  // What comes back of a segment, in the order in which it was pushed: parameters, or sums of gradients in fp32.
  void pull(std::int64_t elements, Precision precision, BufferId into);

 private:
  ProgramDraft& draft_;
  Sequencer& sequencer_;
};

// The program of a server: for each iteration and segment the sum of what `workers` push, in the order of their turns,
// a step of its part where servers update, and what goes back. `worker`: the program of one, which says what is pushed.
LoweredRank network_server(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers,
                           graph::GraphBuilder& works);

// A worker's staging_copies are written as if the part of server s were that of turn s. `servers`: who is asked in which
// turn.
graph::Work handed_over(const graph::Work& work, const std::vector<std::uint32_t>& servers);

}  // namespace rehearsal::lower
