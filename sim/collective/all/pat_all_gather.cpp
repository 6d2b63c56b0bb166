#include "collective/doubling.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_pat_all_gather(Registry& registry) {
  Algorithm pat;
  pat.name = "pat-all-gather";
  pat.summary =
      "Each rank ends with the whole array after log2 n steps of doubling messages, as many bytes as a ring (Bruck et "
      "al. 1997; NCCL's PAT with one GPU a node).";
  pat.kind = CollectiveKind::all_gather;
  pat.steps = [](Shape s) { return doubling_steps(s.ranks); };
  pat.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 1); };
  pat.time = [](Shape s, Bytes size, const Wires& w) { return doubling_time(s, size, w); };
  pat.schedule = [](Shape s) { return doubling_all_gather(s.ranks); };
  doubling_in_nccl(pat);
  registry.add(std::move(pat));
}

}  // namespace rehearsal::collective
