#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

// The n-th part of every rank's array meets in the switch, the sum goes to the part's owner, who hands it back to be
// copied to everyone. Loads are the answer of the switch to a read, so a rank sends S for them and S/n as an owner.
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
  nvls.nccl_since = Version{2, 17};
  nvls.applies = [](Shape s, const NvLink& links, Version) {
    return s.nodes() == 1 && links.in_switch > 0 && s.ranks >= links.nvls_from;
  };
  nvls.needs = "one node whose NVSwitch adds (NVLink 4 and 5), and 5 or 6 GPUs of it";
  // Its four steps are in the fitted start of the call.
  nvls.protocol = [](const NvLink& links, const Fit& fit) {
    return Protocol{fit.nvls_launch - 4 * fit.step, links.in_switch * fit.nvls, fit.nvls_ramp};
  };
  nvls.why = [](Shape) { return std::string("the switch adds"); };
  registry.add(std::move(nvls));
}

}  // namespace rehearsal::collective
