#include "collective/doubling.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_pat_reduce_scatter(Registry& registry) {
  Algorithm pat;
  pat.name = "pat-reduce-scatter";
  pat.summary =
      "Each rank ends with the sum of one n-th of the array after log2 n steps of halving messages, as many bytes as a "
      "ring (NCCL's PAT with one GPU a node).";
  pat.kind = CollectiveKind::reduce_scatter;
  pat.steps = [](Shape s) { return doubling_steps(s.ranks); };
  pat.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 1); };
  pat.time = [](Shape s, Bytes size, const Wires& w) { return doubling_time(s, size, w); };
  pat.schedule = [](Shape s) { return doubling_reduce_scatter(s.ranks); };
  doubling_in_nccl(pat);
  registry.add(std::move(pat));
}

}  // namespace rehearsal::collective
