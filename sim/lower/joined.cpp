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
std::uint32_t classes_in_groups(const plan::Mesh& mesh, const Classes& classes) {
  std::uint32_t all = 0;
  for (std::uint32_t r = 0; r < mesh.ranks(); ++r) all += classes.first_actor[classes.of_actor[r]] == r;
  for (const Axis axis : kInside) {
    if (mesh.size(axis) == 1) continue;
    for (std::uint32_t r = 0; r < mesh.ranks(); ++r)
      if (classes.of_actor[r] != classes.of_actor[mesh.first(axis, r)]) return all;
  }
  return 0;
}

}  // namespace

std::optional<Surroundings> join(std::vector<LoweredRank> ranks, const plan::Plan* plan, const Options& options,
                                 graph::GraphBuilder& builder) {
  const bool shares = plan && options.shares;
  const auto* health = plan ? plan->health.get() : nullptr;
  const bool uneven = health || (plan && !plan->job.cluster.groups.empty());
  std::vector<Ends> ends;
  std::vector<graph::Program> programs;
  for (auto& lowered : ranks) {
    ends.push_back(std::move(lowered.ends));
    programs.push_back(std::move(lowered.program));
  }
  // Without anything to share or to go wrong all replicas of a pipeline rank are alike.
  const plan::Mesh mesh = plan && (shares || uneven || !options.symmetry)
                              ? plan->mesh
                              : plan::Mesh({1, 1, 1, static_cast<std::uint32_t>(ends.size())});
  const Cast cast(mesh, ends, plan && plan->job.copies > 1);
  std::optional<Conditions> under;
  std::vector<std::uint32_t> jitters;
  if (uneven) {
    under = conditions(cast, *plan, options.detail != Detail::operators);
    if (health && health->jitters())
      for (std::uint32_t r = 0; r < cast.ranks(); ++r) jitters.push_back(mesh.group(Axis::tensor, r).front());
  }
  std::vector<std::uint32_t> of(cast.size());
  std::iota(of.begin(), of.end(), 0u);
  std::optional<cluster::Resources> resources;
  std::optional<Classes> classes;
  Csr<ActorLoad> loaded;
  std::uint32_t unlike = 0;
  if (shares) {
    resources.emplace(*plan->machine, health);
    loaded = loads(cast, mesh, plan->job, *resources);
  } else {
    for (std::uint32_t a = 0; a < cast.size(); ++a) loaded.push_row({});
  }
  const bool meets = std::any_of(kInside.begin(), kInside.end(), [&](Axis axis) { return mesh.size(axis) > 1; });
  if ((shares && meets) || (options.symmetry && (shares || uneven))) {
    classes = equitable_classes(actors(cast, loaded, resources ? resources->all() : std::vector<cluster::Resource>{},
                                       under ? &*under : nullptr, jitters));
    unlike = classes_in_groups(mesh, *classes);
    if (options.symmetry)
      of = classes->of_actor;
    else
      classes.reset();
  }
  Programs variants(std::move(programs), cast, under ? &*under : nullptr, health, std::move(jitters), builder);
  Joiner joiner(cast, of);
  const auto& whole = plan ? plan->mesh : mesh;
  joiner.ranks(builder, [&](std::uint32_t r) {
    auto place = mesh.at(r);
    const auto job_rank = whole.rank(place);
    const auto stages = mesh.size(Axis::pipeline);
    if (plan && plan->job.copies > 1 && 2 * place[Axis::pipeline] >= stages) {  // behind those that it mirrors
      place.replica += mesh.size(Axis::data) * mesh.size(Axis::context);
      place.expert_replica += mesh.size(Axis::expert_data);
    }
    const auto node = plan ? plan->job.gpu(job_rank) / plan->job.cluster.gpus_per_node : 0;
    return Joiner::Seat{variants.of(r), whole.ranks() / mesh.ranks(), job_rank, static_cast<std::uint32_t>(node),
                        place};
  });
  joiner.connect(builder);
  if (!shares) return std::nullopt;
  return Surroundings{joiner.places(loaded, resources->all(), classes ? &*classes : nullptr, *plan->machine),
                      resources->all(), unlike};
}

}  // namespace rehearsal::lower
