#include "lower/gathered_forward.hpp"

#include <algorithm>

namespace rehearsal::lower {

using graph::Coordinates;
using graph::Pass;

GatheredForward::GatheredForward(ProgramDraft& draft, const std::vector<std::uint32_t>& stages) {
  const auto& plan = *draft.pipe.plan;
  // Ranks that gather together need one order: that of the model, as ranks of both directions hold the same stages.
  auto in_order = stages;
  std::stable_sort(in_order.begin(), in_order.end(),
                   [&](auto a, auto b) { return a % plan.stages.size() < b % plan.stages.size(); });
  const auto uses_of = [&](std::uint32_t stage) -> const auto& { return draft.pipe.parts.stages[stage].uses; };
  GradientBuckets filling(plan, draft.pipe.parts, plan.one_table(stages));
  // Buckets of each kind, filled in the order of the backward: their size, and the parts that need them.
  struct Bucket {
    double parameters = 0;
    std::vector<Use> parts;
    bool experts = false;
  };
  std::vector<Bucket> buckets, open(2);
  open[1].experts = true;
  const auto close = [&](Bucket& bucket) { buckets.push_back(std::exchange(bucket, {0, {}, bucket.experts})); };
  for (auto stage = in_order.rbegin(); stage != in_order.rend(); ++stage)
    for (std::size_t use = uses_of(*stage).size(); use-- > 0;)
      for (const auto& share : filling.add(uses_of(*stage)[use])) {
        auto& bucket = open[share.experts ? 1 : 0];
        bucket.parameters += share.added;
        bucket.parts.emplace_back(*stage, use);
        if (share.full) close(bucket);
      }
  for (auto& bucket : open)
    if (bucket.parameters > 0) close(bucket);

  const double each = plan.gathered_bytes();
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    const auto [stage, use] = bucket->parts.back();  // the first in forward order
    const Coordinates at{Pass::parameter_gather, static_cast<std::uint16_t>(stage), uses_of(stage)[use].layer,
                         graph::kNoMicrobatch};
    const auto gathered = draft.data_collective(CollectiveKind::all_gather, bytes(bucket->parameters * each), at, {},
                                                {}, 1, Precision::fp32, replicas(bucket->experts));
    for (const auto& part : bucket->parts) before_[part].push_back(gathered);
  }
}

void GatheredForward::before(const Coordinates& at, std::size_t use, std::vector<LocalTask>& waits) const {
  const auto gathered = before_.find({at.stage, use});
  if (gathered != before_.end()) waits.insert(waits.end(), gathered->second.begin(), gathered->second.end());
}

}  // namespace rehearsal::lower
