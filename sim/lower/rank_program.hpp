// The program of one pipeline rank: its part of the schedule as tasks with messages, buffers and the end of the step.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/lowering.hpp"

namespace rehearsal::lower {

enum class MessageKind : std::uint8_t { activation, gradient };

// The open ends of a program, for joining ranks.
struct Ends {
  std::map<std::pair<std::uint32_t, MessageKind>, graph::EndpointId> sends,
      receives;  // by pipeline rank at the other end
  // Groups along the axes, and behind them that of a tied embedding.
  static constexpr std::size_t kEmbedding = kAxes;
  std::array<std::optional<graph::EndpointId>, kAxes + 1> groups;

  // With parameter servers. Of a worker: to and from each of them, beginning with its own number, so that no server is
  // asked by all at once; of a server likewise, turn after turn. And what goes through each once: parameters.
  std::vector<graph::EndpointId> out, in;
  std::vector<double> pushed;

  std::uint32_t group(std::size_t which, graph::ProgramBuilder& program) {
    if (!groups[which]) groups[which] = program.endpoint(graph::EndpointKind::group);
    return groups[which]->value;
  }
  std::uint32_t group(Axis axis, graph::ProgramBuilder& program) { return group(index(axis), program); }
};

// What a rank program needs to know of the whole pipeline.
struct Pipeline {
  const Parts& parts;
  const plan::Plan* plan;  // null for a given pipeline
  const schedule::Schedule& schedule;
  const schedule::Problem& problem;
  const std::vector<Hop>& hops;  // hops[s]: between stages s and s+1
  bool blocking_sends;
  Detail detail;
};

struct LoweredRank {
  graph::Program program;
  Ends ends;
};

LoweredRank lower_rank(const Pipeline& pipeline, std::uint32_t rank, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
