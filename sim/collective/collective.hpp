// Collective algorithms: what they move and how long they take alone (alpha-beta), independent of any machine but for
// the constants of its links.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"
#include "cluster/interconnect.hpp"

namespace rehearsal::collective {

// The participants: ranks 0..ranks-1, `per_node` neighbours in each node (each domain that NVLink joins). A bare number
// of ranks is one node.
struct Shape {
  std::uint32_t ranks, per_node;
  Shape(std::uint32_t n) : ranks(n), per_node(n) {}  // NOLINT(google-explicit-constructor): "n ranks" is a shape
  Shape(std::uint32_t n, std::uint32_t g) : ranks(n), per_node(g) {}
  friend bool operator==(const Shape&, const Shape&) = default;
  std::uint32_t nodes() const { return per_node > 0 ? ranks / per_node : 0; }
};

// A boundary between domains: the rate at which a domain with `members` of the group sends across it, bytes/s in all.
struct Crossing {
  std::uint32_t members;
  Bandwidth rate;
};

// The links between two ranks, in seconds and bytes/s: `fixed` once, `latency` per step, `rate` of one rank's port; the
// net_ ones between ranks of different nodes, where net_rate is a rank's share of the rate out of its node.
struct Wires {
  double fixed = 0, latency = 0;
  Bandwidth rate;
  double net_latency = 0;
  Bandwidth net_rate;
  // For a group across nodes: the time of the same collective among the members of one node alone (as NCCL runs it, and
  // by a ring), every boundary that it crosses, innermost first, and how many channels share the bytes.
  double inside = 0, ring_inside = 0;
  std::vector<Crossing> crossings{};
  double channels = 1;
  bool nccl_protocols = true;  // cluster::Library: NCCL's sizes of pieces, and what LL128 costs
};

// Where the bytes of a collective go, on average over its ranks and nodes.
struct Split {
  double inside = 0;  // what a rank sends to others of its node, or to its switch
  double out = 0;     // what all ranks of a node together send to other nodes
};

// One transfer of one step: `from` sends part `chunk` (of Algorithm::parts equal parts of the array) to `to`, which
// adds it to its own copy (reduce) or overwrites it. Participants beyond the ranks are switches.
struct Transfer {
  std::uint32_t from, to, chunk;
  bool reduce;
};

// How a library's implementation differs from the alpha-beta form: the start of a call, the share of the link rate sold
// that it reaches, and the ramp r of T = ... + w + sqrt(r w), w = time on the wire: small messages fill neither the
// channels nor their pipelines.
struct Protocol {
  double launch = 0;  // s
  double share = 1;
  double ramp = 0;  // s
};

// One algorithm = one plug-in = one file in all/. Sizes in the sense of nccl-tests (whole array).
struct Algorithm {
  std::string name;     // "ring-all-reduce"
  std::string summary;  // one honest sentence, with the source
  bool point_to_point = false;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::uint32_t parts = 0;  // of the array; 0 = one per rank
  // Switches that take part: they add up what arrives and copy what leaves in one step, and keep nothing after it.
  std::uint32_t switches = 0;
  // Split into many pieces, so that all steps run at the same time: the time is the latency of every step and the bytes
  // of the busiest port. Otherwise steps are sequential.
  bool pipelined = false;
  // Pieces follow each other along a path, and the latency of a hop does not occupy a port.
  bool streamed = false;
  bool across_nodes = false;  // uses two kinds of wire
  bool any_inside = false;    // across nodes: inside one, any algorithm may run (Wires::inside)
  std::function<std::uint32_t(Shape)> steps;
  std::function<Bytes(Shape, Bytes size)> bytes_sent_per_rank;  // by the busiest rank
  // None: as for a ring, or equivalent: the array leaves each node once.
  std::function<Split(Shape, Bytes size)> split{};
  std::function<double(Shape, Bytes size, const Wires& wires)> time;  // closed form, seconds
  // The transfers of every step: checked symbolically, drawn, and performed (routine.hpp).
  std::function<std::vector<std::vector<Transfer>>(Shape)> schedule;
  // Pieces of a part that follow each other from member to member, of an array of this size over this many channels.
  // None: parts move whole.
  std::function<double(Shape, Bytes size, double channels)> pieces{};

  // Where it runs; cluster::Library says since which version. Pricing takes the fastest one that does.
  std::function<bool(Shape, const cluster::Interconnect&)> applies{};  // none: everywhere
  std::string needs{};                                                 // what applies() asks for, in words
  std::function<Protocol(const cluster::Interconnect&)> protocol{};    // none: that of rings
  // "63 hops": what decides its time, for reports.
  std::function<std::string(Shape)> why{};
};

Split split(const Algorithm& algorithm, Shape shape, Bytes size);

Protocol ring_protocol(const cluster::Interconnect& links);

}  // namespace rehearsal::collective
