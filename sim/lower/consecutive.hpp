// Graph of one iteration -> graph of several iterations without a global barrier between them, with the messages of
// optimizer post-validation (sim/design/optimizer-sync.md).
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::lower {

struct Consecutive {
  graph::TaskGraph graph;
  // at[program][k * n + i]: the copy in iteration k of task i of a program with n tasks.
  std::vector<std::vector<LocalTask>> at;
};

// [p]: the replicas of pipeline rank p. The i-th replicas of consecutive ranks are neighbours in one pipeline.
std::vector<std::vector<RankId>> by_pipeline_rank(const graph::TaskGraph& graph, std::uint32_t pipeline);

// The messages that carry the optimizer's state: entry r, between pipeline ranks r and r+1, is as large as a sum of
// squares and a flag.
std::vector<graph::Work> state_messages(const graph::TaskGraph& one, std::uint32_t pipeline);

// Endpoints that carry the state: partial sums up the pipeline ranks, the full state back down. They are numbered after
// the endpoints that the program already has.
struct StateEnds {
  std::optional<graph::EndpointId> partial_in, partial_out, full_in, full_out;
};
StateEnds state_ends(graph::ProgramBuilder& program, bool has_previous, bool has_next);

// A builder that holds the works of a graph under the same ids.
graph::GraphBuilder with_works(const graph::TaskGraph& one);
// Rebuilds `one` (ranks, channels, groups) with other programs, one per pipeline rank, and adds the channels of the
// state. The first endpoints of each program must be those of the program that it replaces.
graph::TaskGraph rejoined(const graph::TaskGraph& one, const std::vector<std::vector<RankId>>& ranks,
                          std::vector<graph::Program> programs, std::span<const StateEnds> ends,
                          graph::GraphBuilder builder);

// `validate_before[r]`: in every iteration but the first, pipeline rank r waits before this task for the full state of
// the previous iteration. Works keep their numbers; new ones are appended.
Consecutive consecutive(const graph::TaskGraph& one, std::uint32_t pipeline, std::uint32_t iterations,
                        std::span<const graph::Work> messages, std::span<const LocalTask> validate_before);

}  // namespace rehearsal::lower
