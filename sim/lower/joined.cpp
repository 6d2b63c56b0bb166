#include "lower/joined.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "lower/cast.hpp"
#include "lower/joiner.hpp"
#include "lower/programs.hpp"

namespace rehearsal::lower {
namespace {

// All of them, where some group that meets within passes has members of two; else 0.
std::uint32_t classes_in_groups(const plan::Formation& formation, const Classes& classes) {
  std::uint32_t all = 0;
  for (std::uint32_t r = 0; r < formation.ranks(); ++r) all += classes.first_actor[classes.of_actor[r]] == r;
  for (const Axis axis : kInside) {
    if (!formation.meets(axis)) continue;
    for (std::uint32_t r = 0; r < formation.ranks(); ++r)
      if (classes.of_actor[r] != classes.of_actor[formation.first(axis, r)]) return all;
  }
  return 0;
}

Cast cast_of(const plan::Formation& formation, const std::vector<Ends>& ends, const Crossings& crossings,
             bool mirrored) {
  if (crossings.role_of().empty()) return {formation, ends, mirrored};
  std::vector<Cast::Channel> channels;
  for (const auto& channel : crossings.channels()) {
    const auto& [kind, from, to] = channel;
    const auto of = [&](const ChannelEnd& end) -> const Ends& { return ends[crossings.role_of()[end.rank]]; };
    channels.push_back({from.rank, to.rank, of(from).sends.at({from.peer, kind, from.number}),
                        of(to).receives.at({to.peer, kind, to.number})});
  }
  return {formation, ends, crossings.role_of(), std::move(channels)};
}

}  // namespace

std::optional<Surroundings> join(std::vector<LoweredRank> roles, const Crossings& crossings, const plan::Plan* plan,
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
  // Without anything to share or to go wrong all replicas of a pipeline rank are alike.
  const bool laid_out = plan && plan->laid_out();
  const plan::Formation formation = plan && (shares || uneven || laid_out || !options.symmetry)
                                        ? plan->formation
                                        : plan::Mesh({1, 1, 1, static_cast<std::uint32_t>(ends.size())});
  const Cast cast = cast_of(formation, ends, crossings, plan && plan->job.copies > 1);
  std::optional<Conditions> under;
  std::vector<std::uint32_t> jitters;
  if (uneven) {
    under = conditions(cast, *plan, options.detail != Detail::operators);
    if (health && health->jitters())
      for (std::uint32_t r = 0; r < cast.ranks(); ++r) jitters.push_back(formation.group(Axis::tensor, r).front());
  }
  std::vector<std::uint32_t> of(cast.size());
  std::iota(of.begin(), of.end(), 0u);
  std::optional<cluster::Resources> resources;
  std::optional<Classes> classes;
  Csr<ActorLoad> loaded;
  std::uint32_t unlike = 0;
  if (shares) {
    resources.emplace(*plan->machine, health);
    loaded = loads(cast, formation, plan->job, *resources);
  } else {
    for (std::uint32_t a = 0; a < cast.size(); ++a) loaded.push_row({});
  }
  const bool meets = std::any_of(kInside.begin(), kInside.end(), [&](Axis axis) { return formation.meets(axis); });
  if ((shares && meets) || (options.symmetry && (shares || uneven || laid_out))) {
    classes = equitable_classes(actors(cast, loaded, resources ? resources->all() : std::vector<cluster::Resource>{},
                                       under ? &*under : nullptr, jitters));
    unlike = classes_in_groups(formation, *classes);
    if (options.symmetry)
      of = classes->of_actor;
    else
      classes.reset();
  }
  Programs variants(std::move(programs), cast, under ? &*under : nullptr, health, std::move(jitters), builder);
  Joiner joiner(cast, of);
  const auto all = plan ? plan->formation.ranks() : formation.ranks();
  joiner.ranks(builder, [&](std::uint32_t r) {
    auto place = formation.at(r);
    const auto job_rank = formation.ranks() == all ? r : plan->mesh.rank(place);
    if (plan && plan->job.copies > 1 && 2 * place[Axis::pipeline] >= formation.pipeline()) {  // behind those it mirrors
      place.replica += formation.size(Axis::data, r) * formation.size(Axis::context, r);
      place.expert_replica += formation.size(Axis::expert_data, r);
    }
    const auto node = plan ? plan->job.gpu(job_rank) / plan->job.cluster.gpus_per_node : 0;
    return Joiner::Seat{variants.of(r), all / formation.ranks(), job_rank, static_cast<std::uint32_t>(node), place};
  });
  joiner.connect(builder);
  if (!shares) return std::nullopt;
  return Surroundings{joiner.places(loaded, resources->all(), classes ? &*classes : nullptr, *plan->machine),
                      resources->all(), unlike};
}

}  // namespace rehearsal::lower
