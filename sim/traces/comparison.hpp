// A measured step of one rank beside the predicted one, in the same words.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "plan/mesh.hpp"
#include "timeline/timeline.hpp"
#include "traces/analysis.hpp"

namespace rehearsal::traces {

// The parts of a step; they sum up to it. A collective that waits for its last rank and a message that waits for its
// sender count as idle.
struct Parts {
  Time step, computing, exposed, offload, idle;
};

struct GroupSide {
  Time total, exposed;
};

// A rank of the prediction, or a rank that stands for it.
struct Predicted {
  Parts parts;
  TimeByKind by_kind{};
  std::array<TimeByKind, kPasses> by_pass{};           // of kernels that compute
  TimeByMicrobatch microbatches;                       // likewise
  std::array<GroupSide, graph::kCategories> groups{};  // of categories that communicate
};
Predicted predicted_step(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                         std::span<const Time> durations);

Parts measured_parts(const Analysis& analysis);

// The rank of a graph that is, or stands for, a rank of the job: with symmetry, one of the same stage. `mesh`: of the
// job; null where each stage has a layout of its own or there is none.
RankId rank_for(const graph::TaskGraph& graph, std::int64_t job_rank, const plan::Mesh* mesh);

// What communication kernels are for: sends and receives are messages between stages, and a collective belongs to the
// axis of the mesh whose group has the same ranks, or, where the trace has none, the only axis of that size. The ranks
// of a job must be placed as the scenario says.
GroupOf groups_of(const plan::Mesh& mesh);

}  // namespace rehearsal::traces
