#include <algorithm>

#include "collective/pieces.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {

void register_neighbour_shift(Registry& registry) {
  Algorithm shift;
  shift.name = "neighbour-shift";
  shift.summary =
      "Each rank sends its whole array to the next and takes that of the one before, as attention around a ring does "
      "with keys and values (Ring Attention, arXiv 2310.01889).";
  shift.kind = CollectiveKind::shift;
  shift.parts = 1;
  shift.across_nodes = true;
  shift.steps = [](Shape s) { return s.ranks > 1 ? 1U : 0U; };
  shift.bytes_sent_per_rank = [](Shape s, Bytes size) { return s.ranks > 1 ? size : Bytes(); };
  shift.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    if (s.nodes() <= 1) return w.fixed + w.latency + seconds_for(size, w.rate);
    const double out = seconds_for(size, w.net_rate);
    return w.fixed + w.net_latency + (s.per_node > 1 ? std::max(seconds_for(size, w.rate), out) : out);
  };
  shift.schedule = [](Shape s) {
    std::vector<std::vector<Transfer>> steps(s.ranks > 1 ? 1 : 0);
    if (s.ranks > 1)
      for (std::uint32_t r = 0; r < s.ranks; ++r) steps.front().push_back({r, (r + 1) % s.ranks, 0, false});
    return steps;
  };
  shift.why = [](Shape) { return std::string("one send a rank"); };
  shift.pieces = [](Shape, Bytes size, double) { return own_pieces(double(size.count())); };
  registry.add(std::move(shift));
}

}  // namespace rehearsal::collective
