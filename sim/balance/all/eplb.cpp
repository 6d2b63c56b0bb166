#include "balance/eplb.hpp"
#include "balance/registry.hpp"

namespace rehearsal::balance {

void register_eplb(Registry& registry) {
  Method method;
  method.name = "eplb";
  method.summary =
      "DeepSeek's Expert Parallelism Load Balancer, bit for bit: groups to nodes, copies of the heaviest experts, then "
      "copies to GPUs, each heaviest first.";
  method.even = true;
  method.plan = [](const Problem& problem, const Effort&) {
    check(problem, true);
    return Plan{eplb(problem), {}};
  };
  registry.add(method);
}

}  // namespace rehearsal::balance
