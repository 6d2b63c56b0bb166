#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

// The n-th part of every rank's array is reduced in the switch; the sum goes to the part's owner, which returns it for
// multicast. Loads are the answer of the switch to a read, so a rank sends S for them and S/n as an owner.
std::vector<std::vector<Transfer>> through_switch(std::uint32_t n) {
  if (n <= 1) return {};
  std::vector<std::vector<Transfer>> steps(4);
  for (std::uint32_t part = 0; part < n; ++part) {
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      steps[0].push_back({rank, n, part, true});
      steps[3].push_back({n, rank, part, false});
    }
    steps[1].push_back({n, part, part, false});
    steps[2].push_back({part, n, part, false});
  }
  return steps;
}

}  // namespace

void register_nvls_all_reduce(Registry& registry) {
  Algorithm nvls;
  nvls.name = "nvls-all-reduce";
  nvls.summary =
      "The NVLink switch adds and copies (NVLink SHARP): S(1+1/n) bytes per rank each way instead of a ring's "
      "2(n-1)/n S, in steps whose number does not depend on n.";
  nvls.kind = CollectiveKind::all_reduce;
  nvls.switches = 1;
  nvls.pipelined = true;
  nvls.steps = [](Shape s) { return s.ranks > 1 ? 4U : 0U; };
  nvls.bytes_sent_per_rank = [](Shape s, Bytes size) {
    return s.ranks > 1 ? bytes(double(size.count()) * (1 + 1. / s.ranks)) : Bytes();
  };
  nvls.time = [](Shape s, Bytes size, const Wires& w) {
    return s.ranks > 1 ? w.fixed + 4 * w.latency + (1 + 1. / s.ranks) * seconds_for(size, w.rate) : 0.;
  };
  nvls.schedule = [](Shape s) { return through_switch(s.ranks); };
  nvls.applies = [](Shape s, const cluster::Interconnect& links) {
    return s.nodes() == 1 && links.switch_share > 0 && s.ranks >= links.switch_ranks;
  };
  nvls.needs = "one node whose switches add (NVSwitch with NVLink 4 and 5), and 5 or 6 GPUs of it";
  nvls.protocol = [](const cluster::Interconnect& links) {
    return Protocol{to_seconds(links.switch_launch), links.switch_share, to_seconds(links.switch_ramp)};
  };
  nvls.why = [](Shape) { return std::string("the switch adds"); };
  registry.add(std::move(nvls));
}

}  // namespace rehearsal::collective
