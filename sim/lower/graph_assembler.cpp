#include "lower/graph_assembler.hpp"

#include <algorithm>

namespace rehearsal::lower {

void GraphAssembler::ranks(graph::GraphBuilder& builder, const std::function<GpuSlot(std::uint32_t rank)>& seat) {
  for (std::uint32_t r = 0; r < actors_.ranks(); ++r) {
    if (!first(r)) continue;
    const GpuSlot at = seat(r);
    at_[of_[r]] = builder.add_rank(at.program, size_[of_[r]] * at.stands_for, at.job_rank, at.node, at.place).value;
  }
}

void GraphAssembler::connect(graph::GraphBuilder& builder) {
  for (std::size_t c = 0; c < actors_.channels.size(); ++c) {
    const auto actor = actors_.channel(c);
    if (!first(actor)) continue;
    const auto& channel = actors_.channels[c];
    at_[of_[actor]] = 0;
    builder.connect(rank(channel.from), channel.send, rank(channel.to), channel.receive);
  }
  for (std::size_t g = 0; g < actors_.groups.size(); ++g) {
    const auto actor = actors_.group(g);
    if (!first(actor)) continue;
    at_[of_[actor]] = groups_++;
    std::vector<graph::GroupMember> members;
    for (const auto r : actors_.groups[g].ranks) {
      const graph::GroupMember member{rank(r), actors_.endpoint(actors_.groups[g], r)};
      const auto same = [&](const graph::GroupMember& m) { return m.rank == member.rank; };
      if (std::none_of(members.begin(), members.end(), same)) members.push_back(member);
    }
    builder.add_group(actors_.groups[g].axes, std::move(members));
  }
}

graph::ResourceTable GraphAssembler::places(const Csr<ActorLoad>& loads,
                                            const std::vector<cluster::Resource>& resources, const Classes* classes,
                                            const cluster::Machine& machine) const {
  graph::ResourceTable places;
  std::vector<std::uint32_t> number(resources.size(), kNone);  // in the graph, of resources that represent a class
  for (std::uint32_t r = 0; r < resources.size(); ++r) {
    if (classes && classes->first_resource[classes->of_resource[r]] != r) continue;
    number[r] = static_cast<std::uint32_t>(places.resources.size());
    const auto& resource = resources[r];
    places.resources.push_back({resource.counts_processors()
                                    ? graph::capacity(machine.spec().gpu_at(machine.rank(resource.from)).sms)
                                    : graph::capacity(resource.rate),
                                r, 0});
  }
  for (std::uint32_t r = 0; r < resources.size(); ++r) {
    places.of_machine.push_back(number[classes ? classes->first_resource[classes->of_resource[r]] : r]);
    ++places.resources[places.of_machine.back()].count;
  }

  std::vector<std::vector<ActorLoad>> of(actors_.size());  // by class, on resources of the graph
  for (std::uint32_t a = 0; a < actors_.size(); ++a)
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
  for (std::uint32_t r = 0; r < actors_.ranks(); ++r)
    if (first(r)) add(of[of_[r]]);
  places.begin_groups();
  for (std::size_t g = 0; g < actors_.groups.size(); ++g)
    if (first(actors_.group(g))) add(of[of_[actors_.group(g)]]);
  // Channels by the send endpoint of their sender, or of the rank that represents it.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> sends(actors_.ranks());  // endpoint, class
  for (std::size_t c = 0; c < actors_.channels.size(); ++c)
    if (first(actors_.channel(c)))
      sends[first_of_[of_[actors_.channels[c].from]]].emplace_back(actors_.channels[c].send.value,
                                                                   of_[actors_.channel(c)]);
  std::vector<ActorLoad> nothing;
  for (std::uint32_t r = 0; r < actors_.ranks(); ++r) {
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

}  // namespace rehearsal::lower
