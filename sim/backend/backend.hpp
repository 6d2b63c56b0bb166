// The seam: the same graph is rehearsed or performed. The simulator is one backend among others.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "cluster/cluster.hpp"
#include "graph/task_graph.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::backend {

using timeline::Fidelity;
using timeline::Timeline;

struct RunOptions {
  // One Time per WorkId of the graph. The simulator takes its prices from here; timed tasks wait them out; real compute
  // ignores them. Plain numbers, so that hw needs neither cost nor engine.
  std::span<const Time> durations;
  int warmup = 0, iterations = 1;
  Time timeout = seconds(60);   // real backends give up with the unmatched heads after this long without progress
  std::string engine = "auto";  // simulator: "auto", "replay" or "events"
};

// What a backend can do with a kind of work, with the reason where it cannot.
struct Capability {
  std::string kind;  // "compute", "message", "collective"
  Fidelity fidelity = Fidelity::unsupported;
  std::string note;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual Timeline run(const RunOptions& options) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual std::vector<Capability> capabilities() const = 0;
  // Validates, allocates, connects. The graph and the cluster outlive the session.
  // Throws MachineError when this machine cannot perform the graph.
  virtual std::unique_ptr<Session> prepare(const graph::TaskGraph& graph, const cluster::Cluster& cluster) = 0;
};

}  // namespace rehearsal::backend
