// Performs the program of one rank, iteration after iteration, in one thread: several lanes, each in id order, over a
// Transport and a Worker. The only place that decides what a rank does next; loopback runs one per thread, MPI one per
// process.
//
// Real compute blocks the loop while a kernel runs, so in such graphs messages are posted and taken by tasks of the
// compute lane (graph::StagingCopy). Timed compute never blocks: a busy lane has a deadline, and the loop sleeps inside
// the transport, because MPI moves large messages only while a thread is inside it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/transport.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::dispatch {

// Progress of a rank: written by its loop, read by a watchdog in another thread.
struct Progress {
  std::atomic<std::uint64_t> moves{0};            // tasks started and ended
  std::atomic<std::int64_t> busy_until{0};        // on the clock: the latest deadline or arrival being waited out
  std::vector<std::atomic<std::uint32_t>> heads;  // per lane in use: position in its list; sized by RankLoop
  std::atomic<bool> computing{false};             // inside a kernel
  std::atomic<std::uint32_t> iterations{0};       // ended
};

class RankLoop {
 public:
  // Keeps references to all arguments. `worker` may be null when options.compute is timed. Throws UserError when
  // options.compute is real and the rank's program cannot be computed for real (performable.hpp).
  RankLoop(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Transport& transport,
           Worker* worker, Progress& progress);

  // Performs one iteration from a common start. Throws Stopped once `stop` is true. Spans are indexed by LocalTask; the
  // end of a send is kSeenByReceiver when only the receiver knows it.
  timeline::Spans iterate(int step, const std::atomic<bool>& stop);

  // The heads of all unfinished lanes, one line each; any thread may call it.
  std::string heads() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace rehearsal::dispatch
