// A graph given as a list of operations in a legal global order; the ranks can be added in any order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::engine {

// One task of one rank, before ids exist. Tasks are numbered in the order of the list.
struct Op {
  std::size_t rank = 0;
  graph::Lane lane = graph::Lane::compute;
  std::int64_t duration = 0;       // ps; ignored for a receive
  std::vector<std::size_t> after;  // earlier ops of the same rank
  graph::EndpointKind kind = graph::EndpointKind::send;
  std::size_t joint = SIZE_MAX;  // channel or group; SIZE_MAX = no endpoint
};

struct Recipe {
  std::size_t ranks = 0;
  std::vector<Op> ops;
  std::size_t joints = 0;
  std::int64_t latency = INT64_MAX;  // of every message; the rest of its duration occupies its wire
};

// The graph, and the task of every op. `order`: in which ranks are added.
struct Built {
  graph::TaskGraph graph;
  std::vector<TaskId> task;
  std::vector<Time> durations, held;
};

inline Built build(const Recipe& recipe, const std::vector<std::size_t>& order) {
  graph::GraphBuilder builder;
  std::vector<LocalTask> local(recipe.ops.size());
  std::vector<RankId> rank_id(recipe.ranks);
  struct End {
    std::size_t rank;
    graph::EndpointId id;
    graph::EndpointKind kind;
  };
  std::vector<std::vector<End>> ends(recipe.joints);
  for (std::size_t rank : order) {
    graph::ProgramBuilder program("rank");
    std::vector<std::uint32_t> endpoint(recipe.joints, graph::kNoEndpoint);
    for (std::size_t i = 0; i < recipe.ops.size(); ++i) {
      const Op& op = recipe.ops[i];
      if (op.rank != rank) continue;
      graph::TaskSpec spec{builder.intern(graph::FixedDelay{Time(op.duration)}), op.lane, {}, graph::kNoEndpoint, {}};
      if (op.joint != SIZE_MAX) {
        if (endpoint[op.joint] == graph::kNoEndpoint) {
          endpoint[op.joint] = program.endpoint(op.kind).value;
          ends[op.joint].push_back({rank, graph::EndpointId(endpoint[op.joint]), op.kind});
        }
        spec.endpoint = endpoint[op.joint];
      }
      std::vector<LocalTask> after;
      for (std::size_t before : op.after) after.push_back(local[before]);
      local[i] = program.add(spec, after);
    }
    rank_id[rank] = builder.add_rank(builder.add(std::move(program).finish()));
  }
  for (const auto& joint : ends) {
    if (joint.empty()) continue;
    if (joint[0].kind == graph::EndpointKind::group) {
      std::vector<graph::GroupMember> members;
      for (const End& end : joint) members.push_back({rank_id[end.rank], end.id});
      builder.add_group(Axis::data, members);
    } else {
      const End& send = joint[joint[0].kind == graph::EndpointKind::send ? 0 : 1];
      const End& receive = joint[joint[0].kind == graph::EndpointKind::send ? 1 : 0];
      builder.connect(rank_id[send.rank], send.id, rank_id[receive.rank], receive.id);
    }
  }
  Built built{std::move(builder).finish(), {}, {}, {}};
  for (std::size_t i = 0; i < recipe.ops.size(); ++i)
    built.task.push_back(built.graph.task(rank_id[recipe.ops[i].rank], local[i]));
  for (const graph::Work& work : built.graph.works()) {
    built.durations.push_back(std::get<graph::FixedDelay>(work).duration);
    built.held.push_back(std::max(Time(), built.durations.back() - Time(recipe.latency)));
  }
  return built;
}

inline Built build(const Recipe& recipe) {
  std::vector<std::size_t> order(recipe.ranks);
  for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
  return build(recipe, order);
}

}  // namespace rehearsal::engine
