// The original's default mode: loads are counted per device, so two devices behind one NIC count as two senders.
#include <algorithm>

#include "reshard/registry.hpp"

namespace rehearsal::reshard {

void register_normal(Registry& registry) {
  registry.add(
      {"normal", "The device that has sent least sends (the original's default); devices that share a NIC count apart.",
       [](const Problem& problem) {
         std::vector<std::int64_t> load(problem.devices);
         std::vector<std::uint32_t> sender;
         for (const auto& task : problem.tasks) {
           const auto least = std::min_element(task.replicas.begin(), task.replicas.end(),
                                               [&](auto& a, auto& b) { return load[a.device] < load[b.device]; });
           load[least->device] += task.work;
           sender.push_back(least->sender);
         }
         return Found{in_order(problem, natural_order(problem), sender)};
       }});
}

}  // namespace rehearsal::reshard
