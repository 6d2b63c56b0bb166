#include "lower/joined.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "lower/cast.hpp"
#include "lower/programs.hpp"

namespace rehearsal::lower {
namespace {

// A graph of one rank from each class of a cast.
class Joiner {
 public:
  Joiner(const Cast& cast, const std::vector<std::uint32_t>& class_of)
      : cast_(cast), of_(class_of), size_(cast.size()), at_(cast.size(), kNone), first_of_(cast.size()) {
    for (auto a = cast.size(); a-- > 0;) ++size_[of_[a]], first_of_[of_[a]] = a;
  }

  void ranks(Programs& programs, const plan::Mesh& mesh, const plan::Plan* plan, graph::GraphBuilder& builder) {
    const auto& whole = plan ? plan->mesh : mesh;
    const auto stands_for = whole.ranks() / mesh.ranks();
    for (std::uint32_t r = 0; r < cast_.ranks(); ++r) {
      if (!first(r)) continue;
      auto place = mesh.at(r);
      const auto job_rank = whole.rank(place);
      const auto stages = mesh.size(Axis::pipeline);
      if (plan && plan->job.copies > 1 && 2 * place[Axis::pipeline] >= stages) {  // behind those that it mirrors
        place.replica += mesh.size(Axis::data) * mesh.size(Axis::context);
        place.expert_replica += mesh.size(Axis::expert_data);
      }
      const auto node = plan ? plan->job.gpu(job_rank) / plan->job.cluster.gpus_per_node : 0;
      at_[of_[r]] =
          builder
              .add_rank(programs.of(r), size_[of_[r]] * stands_for, job_rank, static_cast<std::uint32_t>(node), place)
              .value;
    }
  }

  void connect(graph::GraphBuilder& builder) {
    for (std::size_t c = 0; c < cast_.channels.size(); ++c) {
      const auto actor = cast_.channel(c);
      if (!first(actor)) continue;
      const auto& channel = cast_.channels[c];
      at_[of_[actor]] = 0;
      builder.connect(rank(channel.from), channel.send, rank(channel.to), channel.receive);
    }
    for (std::size_t g = 0; g < cast_.groups.size(); ++g) {
      const auto actor = cast_.group(g);
      if (!first(actor)) continue;
      at_[of_[actor]] = groups_++;
      std::vector<graph::GroupMember> members;
      for (const auto r : cast_.groups[g].ranks) {
        const graph::GroupMember member{rank(r), cast_.endpoint(cast_.groups[g], r)};
        const auto same = [&](const graph::GroupMember& m) { return m.rank == member.rank; };
        if (std::none_of(members.begin(), members.end(), same)) members.push_back(member);
      }
      builder.add_group(cast_.groups[g].axes, std::move(members));
    }
  }

  // What all members of a class load the first resource of each class with.
  graph::Places places(const Csr<ActorLoad>& loads, const std::vector<cluster::Resource>& resources,
                       const Classes* classes, const cluster::Machine& machine) const {
    graph::Places places;
    std::vector<std::uint32_t> number(resources.size(), kNone);  // in the graph, of those that stand for a class
    for (std::uint32_t r = 0; r < resources.size(); ++r) {
      if (classes && classes->first_resource[classes->of_resource[r]] != r) continue;
      number[r] = static_cast<std::uint32_t>(places.resources.size());
      const bool processors = resources[r].kind == cluster::Resource::Kind::processors;
      places.resources.push_back({processors
                                      ? graph::capacity(machine.spec().gpu_at(machine.rank(resources[r].from)).sms)
                                      : graph::capacity(resources[r].rate),
                                  r, 0});
    }
    for (std::uint32_t r = 0; r < resources.size(); ++r) {
      places.of_machine.push_back(number[classes ? classes->first_resource[classes->of_resource[r]] : r]);
      ++places.resources[places.of_machine.back()].count;
    }

    std::vector<std::vector<ActorLoad>> of(cast_.size());  // by class, on resources of the graph
    for (std::uint32_t a = 0; a < cast_.size(); ++a)
      for (const auto& load : loads[a])
        if (number[load.resource] != kNone) of[of_[a]].push_back({load.way, number[load.resource], load.parts});
    std::vector<graph::Load> row;
    const auto add = [&](std::vector<ActorLoad>& all) {
      std::sort(all.begin(), all.end(), [](const ActorLoad& a, const ActorLoad& b) {
        return std::pair(a.way, a.resource) < std::pair(b.way, b.resource);
      });
      auto load = all.begin();
      for (std::size_t w = 0; w < graph::kWays; ++w) {
        row.clear();
        for (; load != all.end() && load->way == static_cast<graph::Way>(w); ++load) {
          if (!row.empty() && row.back().resource == load->resource)
            row.back().parts += load->parts;
          else
            row.push_back({load->resource, load->parts});
        }
        places.add(row);
      }
    };
    for (std::uint32_t r = 0; r < cast_.ranks(); ++r)
      if (first(r)) add(of[of_[r]]);
    places.begin_groups();
    for (std::size_t g = 0; g < cast_.groups.size(); ++g)
      if (first(cast_.group(g))) add(of[of_[cast_.group(g)]]);
    // Channels by the endpoint of their sender.
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> sends(cast_.ranks());  // endpoint, class
    for (std::size_t c = 0; c < cast_.channels.size(); ++c)
      if (first(cast_.channel(c)))
        sends[cast_.channels[c].from].emplace_back(cast_.channels[c].send.value, of_[cast_.channel(c)]);
    std::vector<ActorLoad> nothing;
    for (std::uint32_t r = 0; r < cast_.ranks(); ++r) {
      if (!first(r)) continue;
      places.begin_endpoints();
      std::uint32_t endpoints = 0;
      for (const auto& [endpoint, channel] : sends[r]) endpoints = std::max(endpoints, endpoint + 1);
      for (std::uint32_t e = 0; e < endpoints; ++e) {
        const auto at = std::find_if(sends[r].begin(), sends[r].end(), [&](const auto& s) { return s.first == e; });
        add(at == sends[r].end() ? nothing : of[at->second]);
      }
    }
    return places;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  bool first(std::uint32_t actor) const { return first_of_[of_[actor]] == actor; }
  RankId rank(std::uint32_t job_rank) const { return RankId(at_[of_[job_rank]]); }

  const Cast& cast_;
  const std::vector<std::uint32_t>& of_;
  std::vector<std::uint32_t> size_, at_;  // by class: members; its number in the graph
  std::vector<std::uint32_t> first_of_;
  std::uint32_t groups_ = 0;
};

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
  joiner.ranks(variants, mesh, plan, builder);
  joiner.connect(builder);
  if (!shares) return std::nullopt;
  return Surroundings{joiner.places(loaded, resources->all(), classes ? &*classes : nullptr, *plan->machine),
                      resources->all(), unlike};
}

}  // namespace rehearsal::lower
