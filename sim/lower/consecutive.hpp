// The graph of one iteration -> the graph of several that follow each other without a global barrier, with the messages
// of optimizer post-validation between them (sim/design/optimizer-sync.md).
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

// [p]: the replicas of pipeline rank p. The i-th of one and the i-th of the next are neighbours in a pipeline.
std::vector<std::vector<RankId>> by_pipeline_rank(const graph::TaskGraph& graph, std::uint32_t pipeline);

// The works of the messages that carry the optimizer's state: entry r joins pipeline ranks r and r+1, as many bytes as
// a sum of squares and a flag.
std::vector<graph::Work> state_messages(const graph::TaskGraph& one, std::uint32_t pipeline);

// The ends of a program through which the state travels: partial sums up the ranks, the full state back down. They come
// behind those that the program has so far.
struct StateEnds {
  std::optional<graph::EndpointId> partial_in, partial_out, full_in, full_out;
};
StateEnds state_ends(graph::ProgramBuilder& program, bool has_previous, bool has_next);

// A builder with the works of a graph, under their numbers.
graph::GraphBuilder with_works(const graph::TaskGraph& one);
// Ranks, channels and groups of `one` around other programs, by pipeline rank, whose first endpoints are those of the
// ones that they come from; and the channels of the state.
graph::TaskGraph rejoined(const graph::TaskGraph& one, const std::vector<std::vector<RankId>>& ranks,
                          std::vector<graph::Program> programs, std::span<const StateEnds> ends,
                          graph::GraphBuilder builder);

// `validate_before[r]`: the task of pipeline rank r before which it waits, in every iteration but the first, for the
// full state of the iteration before. Works keep their numbers; new ones come after them.
Consecutive consecutive(const graph::TaskGraph& one, std::uint32_t pipeline, std::uint32_t iterations,
                        std::span<const graph::Work> messages, std::span<const LocalTask> validate_before);

}  // namespace rehearsal::lower
