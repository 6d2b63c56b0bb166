#include "lower/joined.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "lower/graph_assembler.hpp"
#include "lower/job_actors.hpp"
#include "lower/programs.hpp"

namespace rehearsal::lower {
namespace {

// Number of all classes, if a group that meets within passes has members of two of them; else 0.
std::uint32_t classes_in_groups(const plan::RankLayout& rank_layout, const Classes& classes) {
  std::uint32_t all = 0;
  for (std::uint32_t r = 0; r < rank_layout.ranks(); ++r) all += classes.first_actor[classes.of_actor[r]] == r;
  for (const Axis axis : kInside) {
    if (!rank_layout.meets(axis)) continue;
    for (std::uint32_t r = 0; r < rank_layout.ranks(); ++r)
      if (classes.of_actor[r] != classes.of_actor[rank_layout.first(axis, r)]) return all;
  }
  return 0;
}

JobActors cast_of(const plan::RankLayout& rank_layout, const std::vector<Ends>& ends, const StageTransfers& transfers,
                  bool mirrored) {
  if (transfers.role_of().empty()) return {rank_layout, ends, mirrored};
  std::vector<JobActors::Channel> channels;
  for (const auto& channel : transfers.channels()) {
    const auto& [kind, from, to] = channel;
    const auto of = [&](const ChannelEnd& end) -> const Ends& { return ends[transfers.role_of()[end.rank]]; };
    channels.push_back({from.rank, to.rank, of(from).sends.at({from.peer, kind, from.number}),
                        of(to).receives.at({to.peer, kind, to.number})});
  }
  return {rank_layout, ends, transfers.role_of(), std::move(channels)};
}

}  // namespace

std::optional<ResourceMap> join(std::vector<LoweredRank> roles, const StageTransfers& transfers, const plan::Plan* plan,
                                const Options& options, graph::GraphBuilder& builder) {
  const bool shares = plan && options.shares;
  const auto* health = plan ? plan->health.get() : nullptr;
  const bool uneven = health || (plan && !plan->job.cluster.groups.empty());
  std::vector<Ends> ends;
  std::vector<graph::Program> programs;
  for (auto& lowered : roles) {
    ends.push_back(std::move(lowered.ends));
    programs.push_back(std::move(lowered.program));
  }
  // If nothing is shared and nothing is faulty, all replicas of a pipeline rank are equivalent.
  const bool laid_out = plan && plan->laid_out();
  const plan::RankLayout rank_layout = plan && (shares || uneven || laid_out || !options.symmetry)
                                           ? plan->rank_layout
                                           : plan::Mesh({1, 1, 1, static_cast<std::uint32_t>(ends.size())});
  const JobActors actors = cast_of(rank_layout, ends, transfers, plan && plan->job.copies > 1);
  std::optional<Conditions> under;
  std::vector<std::uint32_t> jitters;
  if (uneven) {
    under = conditions(actors, *plan, options.detail != Detail::operators);
    if (health && health->jitters())
      for (std::uint32_t r = 0; r < actors.ranks(); ++r) jitters.push_back(rank_layout.group(Axis::tensor, r).front());
  }
  std::vector<std::uint32_t> of(actors.size());
  std::iota(of.begin(), of.end(), 0u);
  std::optional<cluster::Resources> resources;
  std::optional<Classes> classes;
  Csr<ActorLoad> loaded;
  std::uint32_t unlike = 0;
  if (shares) {
    resources.emplace(*plan->machine, health);
    loaded = loads(actors, rank_layout, plan->job, *resources);
  } else {
    for (std::uint32_t a = 0; a < actors.size(); ++a) loaded.push_row({});
  }
  const bool meets = std::any_of(kInside.begin(), kInside.end(), [&](Axis axis) { return rank_layout.meets(axis); });
  if ((shares && meets) || (options.symmetry && (shares || uneven || laid_out))) {
    classes =
        equitable_classes(loaded_actors(actors, loaded, resources ? resources->all() : std::vector<cluster::Resource>{},
                                        under ? &*under : nullptr, jitters));
    unlike = classes_in_groups(rank_layout, *classes);
    if (options.symmetry)
      of = classes->of_actor;
    else
      classes.reset();
  }
  Programs variants(std::move(programs), actors, under ? &*under : nullptr, health, std::move(jitters), builder);
  GraphAssembler assembler(actors, of);
  const auto all = plan ? plan->rank_layout.ranks() : rank_layout.ranks();
  assembler.ranks(builder, [&](std::uint32_t r) {
    auto place = rank_layout.at(r);
    const auto job_rank = rank_layout.ranks() == all ? r : plan->mesh.rank(place);
    if (plan && plan->job.copies > 1 && 2 * place[Axis::pipeline] >= rank_layout.pipeline()) {  // after its mirrors
      place.replica += rank_layout.size(Axis::data, r) * rank_layout.size(Axis::context, r);
      place.expert_replica += rank_layout.size(Axis::expert_data, r);
    }
    const auto node = plan ? plan->job.gpu(job_rank) / plan->job.cluster.gpus_per_node : 0;
    return GraphAssembler::GpuSlot{variants.of(r), all / rank_layout.ranks(), job_rank,
                                   static_cast<std::uint32_t>(node), place};
  });
  assembler.connect(builder);
  if (!shares) return std::nullopt;
  return ResourceMap{assembler.places(loaded, resources->all(), classes ? &*classes : nullptr, *plan->machine),
                     resources->all(), unlike};
}

}  // namespace rehearsal::lower
