#include "lower/alone.hpp"

#include <utility>

#include "graph/builder.hpp"

namespace rehearsal::lower {

Alone one_collective(const graph::Work& work, std::uint32_t ranks, std::uint32_t per_node, Time lasts) {
  graph::GraphBuilder builder;
  graph::ProgramBuilder member("member");
  const auto endpoint = member.endpoint(graph::EndpointKind::group);
  member.add({builder.intern(work), graph::Lane::data_comm, {}, endpoint.value, {}});
  const auto program = builder.add(std::move(member).finish());
  std::vector<graph::GroupMember> members;
  for (std::uint32_t r = 0; r < ranks; ++r)
    members.push_back({builder.add_rank(program, 1, r, r / per_node), endpoint});
  builder.add_group(Axis::data, std::move(members));
  Alone made{std::move(builder).finish(), {}, {}};
  made.durations.assign(made.graph.works().size(), lasts);
  made.held.resize(made.graph.works().size());
  return made;
}

}  // namespace rehearsal::lower
