// Balanced senders, natural order (the original's load balance by size, where size is that of the slice sent).
#include <algorithm>

#include "reshard/registry.hpp"

namespace rehearsal::reshard {

void register_load_balance(Registry& registry) {
  registry.add({"load-balance", "The NIC that has sent least sends, in the order in which the tasks are listed.",
                [](const Problem& problem) {
                  std::vector<std::int64_t> load(problem.senders);
                  std::vector<std::uint32_t> sender;
                  for (const auto& task : problem.tasks) {
                    const auto least = *std::min_element(task.senders.begin(), task.senders.end(),
                                                         [&](auto a, auto b) { return load[a] < load[b]; });
                    load[least] += task.work;
                    sender.push_back(least);
                  }
                  return Found{in_order(problem, natural_order(problem), sender)};
                }});
}

}  // namespace rehearsal::reshard
