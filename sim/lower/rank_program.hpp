// The program of one pipeline rank: its part of the schedule as tasks with messages, buffers and the end of the step.
#pragma once
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
  std::optional<graph::EndpointId> tensor, data, embedding;
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
