#include "balance/registry.hpp"
#include "balance/search/layers.hpp"

namespace rehearsal::balance {

void register_best(Registry& registry) {
  Method method;
  method.name = "best";
  method.summary =
      "Our search: which groups share a node, how many copies an expert has and where they stand, decided together; "
      "never "
      "worse than eplb on any layer, with a lower bound.";
  method.searches = true;
  method.plan = [](const Problem& problem, const Effort& effort) {
    check(problem, false);
    return search::best(problem, effort);
  };
  registry.add(method);
}

}  // namespace rehearsal::balance
