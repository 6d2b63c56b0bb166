// `faults`, which the machine must have the parts for.
#include "base/error.hpp"
#include "cluster/fields.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
std::vector<cluster::Fault> load_faults(Context& context, const Node& node, const cluster::ClusterSpec* cluster) {
  auto& problems = context.problems;
  std::vector<cluster::Fault> faults;
  std::optional<cluster::Machine> machine;
  if (cluster) machine.emplace(*cluster);
  for (auto& [fault, at] : read_entries<cluster::Fault>(problems, node, "faults", cluster::fault_list())) {
    faults.push_back(std::move(fault));
    if (!machine) continue;
    try {
      const cluster::Health health(*machine, faults);
    } catch (const UserError& e) {
      problems.error(at->where(), e.diagnostics()[0].message);
      faults.pop_back();
    }
  }
  return faults;
}

std::vector<cluster::Fault> named_faults(const std::string& text, const cluster::ClusterSpec& machine,
                                         const Files& files) {
  Context context(files);
  const Node* list = context.documents.read_text(text, "--faults");
  auto faults = list ? load_faults(context, *list, &machine) : std::vector<cluster::Fault>();
  context.problems.throw_if_any();
  return faults;
}

}  // namespace rehearsal::scenario
