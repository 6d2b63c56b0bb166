#include "lower/launch_ahead.hpp"

#include <algorithm>

namespace rehearsal::lower {
namespace {

using graph::HostBound;
using graph::Sequence;

// A pass of a layer, and what the host launches for it.
Time launches(const PassWork& pass, std::span<const graph::Work> works) {
  Time host;
  for (const auto& operation : pass.operations)
    if (const auto* bound = std::get_if<HostBound>(&works[operation.work.index()])) host += bound->host;
  return host;
}

bool waits(const Part& part) { return part.model->forward_launches.size() > 1; }

}  // namespace

void launch_ahead(const StageParts& stage, std::vector<Part>& parts, graph::GraphBuilder& builder) {
  auto& front = parts[stage.uses.front().part];
  if (std::any_of(stage.uses.begin() + 1, stage.uses.end(), [&](const auto& use) { return waits(parts[use.part]); }))
    return;
  for (std::size_t kind = 0; kind < models::kPassKinds; ++kind) {
    auto& pass = front.passes[kind];
    for (auto& operation : pass.operations) {
      const auto* found = std::get_if<HostBound>(&builder.works()[operation.work.index()]);
      if (!found) continue;
      HostBound bound = *found;  // interning moves the list
      auto busy = std::get<Sequence>(builder.works()[bound.busy.index()]);
      for (auto use = stage.uses.begin() + 1; use != stage.uses.end(); ++use) {
        const auto& layer = parts[use->part].passes[kind];
        bound.host += launches(layer, builder.works());
        busy.items.push_back({layer.whole, 1, false});
      }
      bound.busy = builder.intern(busy);
      const auto ahead = builder.intern(bound);
      auto whole = std::get<Sequence>(builder.works()[pass.whole.index()]);
      for (auto& item : whole.items)
        if (item.work == operation.work) item.work = ahead;
      operation.work = ahead, pass.whole = builder.intern(whole);
    }
  }
}

}  // namespace rehearsal::lower
