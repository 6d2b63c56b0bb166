// Performs the program of one rank, one iteration after the other, in one thread: several lanes, each in id order, over
// a Transport and a Worker. The only place that decides what a rank does next; loopback runs one per thread, MPI one
// per process.
//
// Real compute blocks the loop while a kernel runs, so messages of such graphs are posted and taken by tasks of the
// compute lane (graph::StagingCopy). Timed compute never blocks: a busy lane has a deadline, and the loop sleeps inside
// the transport meanwhile, because MPI moves large messages only while somebody is inside it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/transport.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::dispatch {

// How far a rank has come: written by its loop, read by a watchdog in another thread.
struct Progress {
  std::atomic<std::uint64_t> moves{0};            // tasks started and ended
  std::atomic<std::int64_t> busy_until{0};        // clock: the latest deadline or arrival that is being waited out
  std::vector<std::atomic<std::uint32_t>> heads;  // per lane in use: position in its list; sized by RankLoop
  std::atomic<bool> computing{false};             // inside a kernel
  std::atomic<std::uint32_t> iterations{0};       // ended
};

class RankLoop {
 public:
  // Borrows everything. `worker` may be null when options.compute is timed. Throws UserError when the rank's program
  // cannot be computed for real (performable.hpp) but should be.
  RankLoop(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Transport& transport,
           Worker* worker, Progress& progress);

  // One iteration from a common start. Throws Stopped when `stop` became true. Spans are indexed by LocalTask; the end
  // of a send is kSeenByReceiver where only the other end knows it.
  timeline::Spans iterate(int step, const std::atomic<bool>& stop);

  // The heads of all lanes that are not done, one line each; from any thread.
  std::string heads() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace rehearsal::dispatch
