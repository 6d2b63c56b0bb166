// The first device that holds the data sends it, tasks in natural order.
#include "reshard/registry.hpp"

namespace rehearsal::reshard {

void register_naive(Registry& registry) {
  registry.add(
      {"naive", "The first replica sends, in the order in which the tasks are listed.", [](const Problem& problem) {
         std::vector<std::uint32_t> sender;
         for (const auto& task : problem.tasks) sender.push_back(task.replicas.front().sender);
         return Found{in_order(problem, natural_order(problem), sender)};
       }});
}

}  // namespace rehearsal::reshard
