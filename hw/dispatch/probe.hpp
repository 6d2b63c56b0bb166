// What messages and collectives cost on this machine, measured over a Transport alone: the numbers of LogGP and SMPI
// (Clauss et al. 2011: overhead of a send, overhead of a late receive, latency to an early receiver), by size, because
// protocols change with it. Buffers rotate, so that messages come from memory and not from a warm cache.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/rank_loop.hpp"
#include "dispatch/transport.hpp"

namespace rehearsal::dispatch {

// Rank 0 sends to rank 1 while the other ranks wait. Medians.
struct LinkSample {
  Bytes size;
  Time post;     // sender time until it may continue
  Time take;     // receiver time, when the message was posted long before
  Time latency;  // from the start of the post until a waiting receiver has the message in its buffer
};
// All ranks enter at the same instant; the median of the time until the last rank is done.
struct CollectiveSample {
  CollectiveKind kind{};
  Bytes size;  // of the whole array
  Time lasts;
};
struct LinkProbe {
  std::size_t ranks = 0;
  bool single_copy = false;       // large messages move while their sender is elsewhere (hw/launch/machine.hpp)
  std::vector<LinkSample> links;  // ascending size; empty for one rank
  std::vector<CollectiveSample> collectives;
};

// A graph with the connections that the probe needs: prepared like any other, but never run. Each rank has a node of
// its own, so that where there are several hosts their links are measured.
graph::TaskGraph probe_graph(std::size_t ranks);

// The algorithm whose steps are sent for a collective of all ranks; one without, or no function: as the transport's
// library performs it. The same in all ranks.
using Algorithms = std::function<collective::Execution(CollectiveKind kind, std::size_t ranks, Bytes size)>;

// The measurements of one rank; all ranks of a probe_graph call it at the same time. Takes a few seconds, and up to a
// minute over a slow network.
LinkProbe probe(Transport& transport, RankId rank, std::size_t ranks, const Algorithms& algorithms, Progress& progress);
LinkProbe merge(const std::vector<LinkProbe>& ranks);

// Lines of text, for probes that cross processes; read_probe() throws MachineError when they are cut short.
std::string write(const LinkProbe& probe);
LinkProbe read_probe(std::string_view text);

// Interface of a Session (of a probe_graph) that can measure its links; obtained by dynamic_cast.
class LinkProber {
 public:
  virtual ~LinkProber() = default;
  virtual LinkProbe probe_links() = 0;
  void by(Algorithms algorithms) { algorithms_ = std::move(algorithms); }

 protected:
  Algorithms algorithms_;
};

}  // namespace rehearsal::dispatch
