// Collective algorithms: what they move and how long they take alone (alpha-beta), independent of any machine.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"

namespace rehearsal::collective {

// Who takes part: ranks 0..ranks-1, `per_node` neighbours in each node. A bare number of ranks sits in one node.
struct Shape {
  std::uint32_t ranks, per_node;
  Shape(std::uint32_t n) : ranks(n), per_node(n) {}  // NOLINT(google-explicit-constructor): "n ranks" is a shape
  Shape(std::uint32_t n, std::uint32_t g) : ranks(n), per_node(g) {}
  std::uint32_t nodes() const { return per_node > 0 ? ranks / per_node : 0; }
};

// What lies between two ranks, in seconds and bytes/s: `fixed` once, `latency` per step, `rate` of one rank's port; the
// net_ ones between ranks of different nodes.
struct Wires {
  double fixed = 0, latency = 0;
  Bandwidth rate;
  double net_latency = 0;
  Bandwidth net_rate;
};

// One transfer of one step: `from` sends part `chunk` (of Algorithm::parts equal parts of the array) to `to`, which
// adds it to its own copy (reduce) or overwrites it. Participants beyond the ranks are switches.
struct Transfer {
  std::uint32_t from, to, chunk;
  bool reduce;
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
  // Cut into many pieces that follow each other, so that all steps are at work at once: the time is the latency of
  // every step and the bytes of the busiest port. Without, steps come one after the other.
  bool pipelined = false;
  bool across_nodes = false;  // uses two kinds of wire
  std::function<std::uint32_t(Shape)> steps;
  std::function<Bytes(Shape, Bytes size)> bytes_sent_per_rank;        // by the busiest rank
  std::function<double(Shape, Bytes size, const Wires& wires)> time;  // closed form, seconds
  std::function<std::vector<std::vector<Transfer>>(Shape)> schedule;  // of every step, for the symbolic check
};

}  // namespace rehearsal::collective
