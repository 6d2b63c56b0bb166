#include "lower/job_actors.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <set>

#include "base/error.hpp"

namespace rehearsal::lower {
namespace {

using graph::Way;

// A hop from one seat of the job to another; one per stripe if it leaves the domain. Ways are those of the tensor axis.
struct MemberHop {
  Way way;
  std::int64_t from, to, stripe;
};

// Hops of channels name GPUs, since parameter servers have no seats.
std::uint32_t gpu_of(const plan::Job& job, const MemberHop& hop, std::int64_t end) {
  const auto at = static_cast<std::uint32_t>(end);
  return hop.way == Way::path ? at : job.gpu_of_seat(at);
}

// The hops of the members of a group, ring by ring: inside each domain from one member to the next, and from each
// member to its counterpart in the next domain of the group. If domains have different numbers of members, there are as
// many inter-domain hops as the price assumes. For all members, by seat, or for `only` one. `pairs`: also to the
// counterpart in every other domain. `mirrored`: a group of both pipeline directions, whose members are not evenly
// spaced.
template <class Each>
void for_each_hop(const cluster::Machine& machine, const plan::Job& job, std::vector<std::uint32_t> ranks, bool pairs,
                  const Each& each, std::optional<std::uint32_t> only = std::nullopt, bool mirrored = false) {
  for (auto& rank : ranks) rank = job.seat(rank);
  if (only) only = job.seat(*only);
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::vector<std::int64_t>> domains;
  for (const auto rank : ranks) {
    if (domains.empty() || domains.back().front() / machine.domain() != rank / machine.domain()) domains.emplace_back();
    domains.back().push_back(rank);
  }
  std::size_t rings = ranks.size();
  if (mirrored)
    for (const auto& members : domains) rings = std::min(rings, members.size());
  else
    rings = static_cast<std::size_t>(
        machine.reach(GroupShape{static_cast<std::uint32_t>(ranks.size()), ranks[1] - ranks[0]}).in_domain);
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const auto& here = domains[d];
    const auto& next = domains[(d + 1) % domains.size()];
    const auto counts = [&](std::size_t i) { return !only || here[i % here.size()] == *only; };
    for (std::size_t i = 0; i < here.size() && here.size() > 1; ++i)
      if (counts(i)) each(MemberHop{Way::port, here[i], here[(i + 1) % here.size()], 0});
    for (std::size_t i = 0; i < rings && domains.size() > 1; ++i)
      for (std::int64_t stripe = 0; stripe < machine.stripes() && counts(i); ++stripe)
        each(MemberHop{Way::wire, here[i % here.size()], next[i % next.size()], stripe});
    for (std::size_t i = 0; i < rings && pairs; ++i)
      for (std::size_t other = 0; other < domains.size(); ++other)
        for (std::int64_t stripe = 0; stripe < machine.stripes() && other != d && counts(i); ++stripe)
          each(MemberHop{Way::spread, here[i % here.size()], domains[other][i % domains[other].size()], stripe});
  }
}

// Groups of replicas in both directions of the pipeline.
bool both_ways(Axes axes) { return axes.holds(Axis::pipeline) && axes != Axes(Axis::pipeline); }
// Groups whose members exchange parts pairwise.
constexpr bool exchanges(Axes axes) {
  return axes.holds(Axis::expert) || axes.holds(Axis::context) || axes.holds(Axis::near) || axes.holds(Axis::across);
}

template <class Each>
void for_each_hop(const cluster::Machine& machine, const plan::Job& job, const JobActors::Channel& channel,
                  const Each& each) {
  const auto from = job.gpu(channel.from), to = job.gpu(channel.to);
  if (from == to) return;  // a server on the GPU of its worker
  const bool inside = from / machine.domain() == to / machine.domain();
  for (std::int64_t stripe = 0; stripe < (inside ? 1 : machine.stripes()); ++stripe)
    each(MemberHop{Way::path, from, to, stripe});
}

Way way_of(cluster::Resource::Kind of_host) {
  using Kind = cluster::Resource::Kind;
  return of_host == Kind::copy_out      ? Way::copy_out
         : of_host == Kind::copy_in     ? Way::copy_in
         : of_host == Kind::host_memory ? Way::host_memory
         : of_host == Kind::disk_read   ? Way::disk_read
                                        : Way::disk_write;
}

// The loads of one actor, with entries of the same way and resource merged. Routes of a group share most of their
// links, so loads are summed as they are added.
class Row {
 public:
  void add(Way way, std::uint32_t resource) {
    const auto key = resource * graph::kWays + static_cast<std::size_t>(way);
    if (key >= at_.size()) at_.resize(std::max(key + 1, 2 * at_.size()));
    auto& at = at_[key];
    if (at == 0) loads_.push_back({way, resource, 0}), at = static_cast<std::uint32_t>(loads_.size());
    ++loads_[at - 1].parts;
  }
  void close(Csr<ActorLoad>& all) {
    for (const auto& load : loads_) at_[load.resource * graph::kWays + static_cast<std::size_t>(load.way)] = 0;
    const auto key = [](const ActorLoad& l) { return std::pair(l.way, l.resource); };
    std::sort(loads_.begin(), loads_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    all.push_row(loads_);
    loads_.clear();
  }

 private:
  std::vector<ActorLoad> loads_;
  std::vector<std::uint32_t> at_;  // by resource and way: its index in loads_ plus 1; 0: none yet
};

}  // namespace

JobActors::JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_stages, bool mirrored)
    : ends(of_stages) {
  for (std::uint32_t r = 0; r < rank_layout.ranks(); r++) programs.push_back(rank_layout.stage(r));
  for (std::uint32_t p = 0; p < ends.size(); p++) {
    for (const auto& [key, send] : ends[p].sends) {
      const auto peer = key.pipeline_rank;
      const auto receive = ends[peer].receives.find({p, key.kind, key.number});
      INVARIANT(receive != ends[peer].receives.end(), "a send without a receive");
      for (std::uint32_t i = 0; i < rank_layout.members(p); i++)
        channels.push_back({rank_layout.member(p, i), rank_layout.member(peer, i), send, receive->second});
    }
  }
  add_all_groups(rank_layout, mirrored);
}

JobActors::JobActors(const plan::RankLayout& rank_layout, const std::vector<Ends>& of_programs,
                     std::vector<std::uint32_t> program, std::vector<Channel> between)
    : ends(of_programs), programs(std::move(program)), channels(std::move(between)) {
  add_all_groups(rank_layout, false);
}

void JobActors::add_all_groups(const plan::RankLayout& rank_layout, bool mirrored) {
  const bool contexts = rank_layout.meets(Axis::context);
  for (const auto axis : {Axis::tensor, Axis::context, Axis::data, Axis::expert_tensor, Axis::expert, Axis::expert_data,
                          Axis::shard, Axis::copy, Axis::secondary, Axis::near, Axis::across}) {
    const bool of_data = axis == Axis::data || axis == Axis::shard || axis == Axis::secondary;
    const auto axes = of_data && contexts ? Axis::context | axis : Axes(axis);
    if (mirrored && (axis == Axis::data || axis == Axis::expert_data))
      add_mirrored_groups(rank_layout.mesh(), axes, index(axis));
    else
      add_groups(rank_layout, axes, index(axis));
  }
  for (const auto end : {index(Axis::pipeline), Ends::kVocabularySums, Ends::kVocabularyOut})
    add_groups(rank_layout, Axis::pipeline, end);
}

void JobActors::add_group(Axes axes, std::size_t end, std::vector<std::uint32_t> ranks) {
  std::erase_if(ranks, [&](std::uint32_t r) { return !ends[programs[r]].groups[end].has_value(); });
  if (!ranks.empty()) groups.push_back({axes, end, std::move(ranks)});
}

void JobActors::add_groups(const plan::RankLayout& rank_layout, Axes axes, std::size_t end) {
  if (std::none_of(ends.begin(), ends.end(), [&](const Ends& stage) { return stage.groups[end].has_value(); })) return;
  for (auto& all : rank_layout.groups(axes)) add_group(axes, end, std::move(all));
}

void JobActors::add_mirrored_groups(const plan::Mesh& mesh, Axes axes, std::size_t end) {
  if (std::none_of(ends.begin(), ends.end(), [&](const Ends& stage) { return stage.groups[end].has_value(); })) return;
  const auto last = mesh.size(Axis::pipeline) - 1, stride = mesh.stride(Axis::pipeline);
  for (const auto& all : mesh.groups(axes)) {
    const auto p = programs[all.front()];
    if (p > last - p) continue;
    std::vector<std::uint32_t> ranks;
    for (const auto mirror : {p, last - p})
      for (const auto r : all) ranks.push_back(r + mirror * stride - p * stride);
    add_group(axes | Axis::pipeline, end, std::move(ranks));
  }
}

Csr<ActorLoad> loads(const JobActors& actors, const plan::RankLayout& rank_layout, const plan::Job& job,
                     cluster::Resources& resources) {
  Csr<ActorLoad> all;
  Row row;
  const auto device = [&](std::uint32_t rank) {
    const auto gpu = job.gpu(rank);
    row.add(Way::processors, resources.processors(gpu));
    row.add(Way::memory, resources.memory(gpu));
    if (job.cluster.gpu_at(gpu).persistent_gemms) row.add(Way::rounds, resources.rounds(gpu));
  };
  std::vector<std::pair<cluster::Resource::Kind, std::uint32_t>> of_host;
  const auto host = [&](std::uint32_t rank) {
    of_host.clear();
    if (job.training.leaves_device()) resources.add_host(job.gpu(rank), of_host);
    for (const auto& [kind, resource] : of_host) row.add(way_of(kind), resource);
  };
  std::vector<std::uint32_t> route;
  Axis axis = Axis::tensor;
  const auto cross = [&](const MemberHop& hop) {
    route.clear();
    resources.add_route(gpu_of(job, hop, hop.from), gpu_of(job, hop, hop.to), hop.stripe, route);
    for (const auto resource : route) row.add(hop.way == Way::path ? hop.way : along(axis, hop.way), resource);
  };
  const auto& machine = resources.machine();
  for (std::uint32_t r = 0; r < actors.ranks(); ++r) {
    device(r);
    host(r);
    for (const Axis inside : kInside)
      if (rank_layout.size(inside, r) > 1)
        axis = inside, for_each_hop(machine, job, rank_layout.group(inside, r), exchanges(inside), cross, r);
    row.close(all);
  }
  for (const auto& group : actors.groups) {
    for (const auto r : group.ranks) device(r);
    const auto inside = std::find_if(kInside.begin(), kInside.end(), [&](Axis a) { return group.axes == a; });
    axis = inside == kInside.end() ? Axis::tensor : *inside;
    if (group.ranks.size() > 1)
      for_each_hop(machine, job, group.ranks, exchanges(group.axes), cross, std::nullopt, both_ways(group.axes));
    row.close(all);
  }
  for (const auto& channel : actors.channels) {
    device(channel.from), device(channel.to);
    for_each_hop(machine, job, channel, cross);
    row.close(all);
  }
  return all;
}

Conditions conditions(const JobActors& actors, const plan::Plan& plan, bool in_step) {
  Conditions all{std::vector<graph::Condition>(actors.size()), std::vector<graph::Condition>(actors.ranks())};
  const auto& job = plan.job;
  const auto& rank_layout = plan.rank_layout;
  const auto& machine = *plan.machine;
  for (std::uint32_t r = 0; r < actors.ranks(); ++r) {
    all.of[r].gpu = job.cluster.kind_of(job.gpu(r));
    if (plan.health) all.of[r].slowdown = plan.health->slowdown(job.gpu(r));
  }
  const bool several =
      rank_layout.meets(Axis::context) || rank_layout.meets(Axis::expert) || rank_layout.meets(Axis::expert_tensor);
  if (in_step && several)
    throw UserError(
        "passes wait for the slowest of their context and expert groups, which reach beyond a tensor group: set "
        "simulate.detail to operator, where they meet");
  if (in_step && rank_layout.meets(Axis::tensor))
    for (std::uint32_t r = 0; r < actors.ranks(); ++r)
      for (const auto other : rank_layout.group(Axis::tensor, r)) {
        if (all.of[r].gpu != all.of[other].gpu)
          throw UserError(
              "a tensor group has GPUs of several kinds; set simulate.detail to operator, or cut the job so that each "
              "tensor group stays among nodes of one kind");
        if (plan.health) all.of[r].slowdown = std::max(all.of[r].slowdown, plan.health->slowdown(other));
      }
  if (!plan.health) return all;
  const auto& health = *plan.health;
  if (health.links_sound()) return all;

  std::set<std::pair<cluster::Device, cluster::Device>> crossed;
  const auto narrow = [&](graph::Condition& condition) {
    return [&](const MemberHop& hop) {
      const std::int64_t from = gpu_of(job, hop, hop.from), to = gpu_of(job, hop, hop.to);
      double& share = from / machine.domain() == to / machine.domain() ? condition.port : condition.wire;
      share = std::min(share, health.left(machine, from, to, hop.stripe, crossed));
    };
  };
  for (std::uint32_t r = 0; r < actors.ranks(); ++r)
    for (const Axis axis : kInside)
      if (rank_layout.size(axis, r) > 1)
        for_each_hop(machine, job, rank_layout.group(axis, r), exchanges(axis), narrow(all.inside[r]));
  for (std::size_t g = 0; g < actors.groups.size(); ++g)
    if (actors.groups[g].ranks.size() > 1)
      for_each_hop(machine, job, actors.groups[g].ranks, exchanges(actors.groups[g].axes),
                   narrow(all.of[actors.group(g)]), std::nullopt, both_ways(actors.groups[g].axes));
  for (std::size_t c = 0; c < actors.channels.size(); ++c)
    for_each_hop(machine, job, actors.channels[c], narrow(all.of[actors.channel(c)]));
  health.check_crossed(crossed);
  return all;
}

Actors loaded_actors(const JobActors& actors, Csr<ActorLoad> loads, const std::vector<cluster::Resource>& resources,
                     const Conditions* conditions, const std::vector<std::uint32_t>& own_times) {
  Actors all;
  all.loads = std::move(loads);
  std::vector<std::vector<ActorLink>> links(actors.size());
  // Roles: groups by what they are for, then channels by the endpoint at either end.
  constexpr auto kRoles = static_cast<std::uint32_t>(std::tuple_size_v<decltype(Ends::groups)>);
  const auto both = [&](std::uint32_t actor, std::uint32_t rank, std::uint32_t as) {
    links[actor].push_back({as, rank}), links[rank].push_back({as, actor});
  };
  for (std::size_t g = 0; g < actors.groups.size(); ++g)
    for (const auto r : actors.groups[g].ranks)
      both(actors.group(g), r, static_cast<std::uint32_t>(actors.groups[g].end));
  for (std::size_t c = 0; c < actors.channels.size(); ++c) {
    const auto& channel = actors.channels[c];
    both(actors.channel(c), channel.from, kRoles + 2 * channel.send.value);
    both(actors.channel(c), channel.to, kRoles + 1 + 2 * channel.receive.value);
  }
  for (const auto& list : links) all.links.push_row(list);

  for (const auto program : actors.programs) all.colour.push_back(program);
  for (const auto& group : actors.groups) all.colour.push_back(std::uint64_t{1} << 32 | group.end);
  for (const auto& channel : actors.channels)
    all.colour.push_back(std::uint64_t{2} << 32 | std::uint64_t{channel.send.value} << 16 | channel.receive.value);
  if (conditions) {
    std::map<std::pair<graph::Condition, graph::Condition>, std::uint64_t> known;
    for (std::uint32_t a = 0; a < actors.size(); ++a) {
      const auto inside = a < actors.ranks() ? conditions->inside[a] : graph::Condition{};
      all.colour[a] |= known.try_emplace({conditions->of[a], inside}, known.size()).first->second << 34;
    }
    INVARIANT(known.size() < 1024, "more conditions than colours have room for");
  }
  for (std::uint32_t r = 0; r < own_times.size(); ++r) all.colour[r] |= std::uint64_t{own_times[r]} << 44;
  for (const auto& resource : resources)
    all.resource_colour.push_back(std::bit_cast<std::uint64_t>(resource.rate.value()) * 16 +
                                  static_cast<std::uint64_t>(resource.kind));
  return all;
}

}  // namespace rehearsal::lower
