#include "lower/cast.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace rehearsal::lower {
namespace {

using graph::Way;

// The hops of the members of a group, ring by ring: inside each domain from one to the next, and from each to its like
// in the next domain that the group has members in. Where those differ in number there are as many of the latter as its
// price counts on.
class Hops {
 public:
  Hops(cluster::Resources& resources, const std::vector<std::uint32_t>& ranks) : resources_(resources) {
    const auto& machine = resources.machine();
    rings_ = static_cast<std::size_t>(
        machine.reach(GroupShape{static_cast<std::uint32_t>(ranks.size()), ranks[1] - ranks[0]}).in_domain);
    for (const auto rank : ranks) {
      if (domains_.empty() || domains_.back().front() / machine.domain() != rank / machine.domain())
        domains_.emplace_back();
      domains_.back().push_back(rank);
    }
  }

  // Of all members, or of one alone.
  void add(std::vector<ActorLoad>& loads, std::optional<std::uint32_t> only = std::nullopt) {
    for (std::size_t d = 0; d < domains_.size(); ++d) {
      const auto& here = domains_[d];
      const auto& next = domains_[(d + 1) % domains_.size()];
      const auto counts = [&](std::size_t i) { return !only || here[i % here.size()] == *only; };
      for (std::size_t i = 0; i < here.size() && here.size() > 1; ++i)
        if (counts(i)) hop(Way::port, here[i], here[(i + 1) % here.size()], 1, loads);
      for (std::size_t i = 0; i < rings_ && domains_.size() > 1; ++i)
        if (counts(i))
          hop(Way::wire, here[i % here.size()], next[i % next.size()], resources_.machine().stripes(), loads);
    }
  }

 private:
  void hop(Way way, std::int64_t from, std::int64_t to, std::int64_t stripes, std::vector<ActorLoad>& loads) {
    for (std::int64_t stripe = 0; stripe < stripes; ++stripe) {
      route_.clear();
      resources_.add_route(from, to, stripe, route_);
      for (const auto resource : route_) loads.push_back({way, resource, 1});
    }
  }

  cluster::Resources& resources_;
  std::size_t rings_;  // members of a domain, as groups are priced
  std::vector<std::vector<std::int64_t>> domains_;
  std::vector<std::uint32_t> route_;
};

// Entries of one way and resource become one.
void merge(std::vector<ActorLoad>& loads) {
  const auto key = [](const ActorLoad& l) { return std::pair(l.way, l.resource); };
  std::sort(loads.begin(), loads.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (kept > 0 && key(loads[kept - 1]) == key(loads[i]))
      loads[kept - 1].parts += loads[i].parts;
    else
      loads[kept++] = loads[i];
  }
  loads.resize(kept);
}

}  // namespace

Cast::Cast(const plan::Mesh& mesh, const std::vector<Ends>& ends, bool mirrored) {
  for (std::uint32_t r = 0; r < mesh.ranks(); r++) stages.push_back(mesh.along(Axis::pipeline, r));
  const auto replicas = mesh.ranks() / mesh.size(Axis::pipeline), stride = mesh.stride(Axis::pipeline);
  for (std::uint32_t p = 0; p < ends.size(); p++) {
    for (const auto& [key, send] : ends[p].sends) {
      const auto& [peer, kind] = key;
      const auto receive = ends[peer].receives.find({p, kind});
      INVARIANT(receive != ends[peer].receives.end(), "a send without a receive");
      for (std::uint32_t i = 0; i < replicas; i++) {
        const auto first = mesh.lowest(Axis::pipeline, i);
        channels.push_back({first + p * stride, first + peer * stride, send, receive->second});
      }
    }
  }
  add_groups(mesh, ends, Axis::tensor, &Ends::tensor);
  if (mirrored)
    add_mirrored_groups(mesh);
  else
    add_groups(mesh, ends, Axis::data, &Ends::data);
  add_groups(mesh, ends, Axis::pipeline, &Ends::embedding);
}

// One for each group of the mesh along the axis, of its members that have the endpoint.
void Cast::add_groups(const plan::Mesh& mesh, const std::vector<Ends>& ends, Axis axis, Endpoint end) {
  for (const auto& all : mesh.groups(axis)) {
    std::vector<std::uint32_t> ranks;
    for (const auto r : all)
      if (ends[stages[r]].*end) ranks.push_back(r);
    if (!ranks.empty()) groups.push_back({axis, end, std::move(ranks)});
  }
}

void Cast::add_mirrored_groups(const plan::Mesh& mesh) {
  const auto last = mesh.size(Axis::pipeline) - 1, stride = mesh.stride(Axis::pipeline);
  for (const auto& all : mesh.groups(Axis::data)) {
    const auto p = stages[all.front()];
    if (p > last - p) continue;
    std::vector<std::uint32_t> ranks;
    for (const auto mirror : {p, last - p})
      for (const auto r : all) ranks.push_back(r + mirror * stride - p * stride);
    groups.push_back({Axis::data | Axis::pipeline, &Ends::data, std::move(ranks)});
  }
}

Csr<ActorLoad> loads(const Cast& cast, const plan::Mesh& mesh, cluster::Resources& resources) {
  Csr<ActorLoad> all;
  std::vector<ActorLoad> row;
  const auto device = [&](std::uint32_t rank) {
    row.push_back({Way::processors, resources.processors(rank), 1});
    row.push_back({Way::memory, resources.memory(rank), 1});
  };
  const auto close = [&] {
    merge(row);
    all.push_row(row);
    row.clear();
  };
  std::vector<std::uint32_t> tensor;
  for (std::uint32_t r = 0; r < cast.ranks(); ++r) {
    device(r);
    if (mesh.size(Axis::tensor) > 1) {
      tensor.clear();
      for (std::uint32_t i = 0; i < mesh.size(Axis::tensor); ++i)
        tensor.push_back(r + (i - mesh.along(Axis::tensor, r)) * mesh.stride(Axis::tensor));
      Hops(resources, tensor).add(row, r);
    }
    close();
  }
  for (const auto& group : cast.groups) {
    for (const auto r : group.ranks) device(r);
    if (group.ranks.size() > 1) Hops(resources, group.ranks).add(row);
    close();
  }
  std::vector<std::uint32_t> route;
  for (const auto& channel : cast.channels) {
    device(channel.from), device(channel.to);
    const auto& machine = resources.machine();
    const bool inside = channel.from / machine.domain() == channel.to / machine.domain();
    for (std::int64_t stripe = 0; stripe < (inside ? 1 : machine.stripes()); ++stripe) {
      route.clear();
      resources.add_route(channel.from, channel.to, stripe, route);
      for (const auto resource : route) row.push_back({Way::path, resource, 1});
    }
    close();
  }
  return all;
}

Actors actors(const Cast& cast, Csr<ActorLoad> loads, const std::vector<cluster::Resource>& resources) {
  Actors all;
  all.loads = std::move(loads);
  std::vector<std::vector<ActorLink>> links(cast.size());
  // Roles: groups by what they are for, then channels by the endpoint at either end.
  const auto role = [](Cast::Endpoint end) { return end == &Ends::tensor ? 0u : end == &Ends::data ? 1u : 2u; };
  const auto both = [&](std::uint32_t actor, std::uint32_t rank, std::uint32_t as) {
    links[actor].push_back({as, rank}), links[rank].push_back({as, actor});
  };
  for (std::size_t g = 0; g < cast.groups.size(); ++g)
    for (const auto r : cast.groups[g].ranks) both(cast.group(g), r, role(cast.groups[g].end));
  for (std::size_t c = 0; c < cast.channels.size(); ++c) {
    const auto& channel = cast.channels[c];
    both(cast.channel(c), channel.from, 3 + 2 * channel.send.value);
    both(cast.channel(c), channel.to, 4 + 2 * channel.receive.value);
  }
  for (const auto& list : links) all.links.push_row(list);

  for (const auto stage : cast.stages) all.colour.push_back(stage);
  for (const auto& group : cast.groups) all.colour.push_back(std::uint64_t{1} << 32 | role(group.end));
  for (const auto& channel : cast.channels)
    all.colour.push_back(std::uint64_t{2} << 32 | std::uint64_t{channel.send.value} << 16 | channel.receive.value);
  for (const auto& resource : resources)
    all.resource_colour.push_back(std::bit_cast<std::uint64_t>(resource.rate.value()) * 8 +
                                  static_cast<std::uint64_t>(resource.kind));
  return all;
}

}  // namespace rehearsal::lower
