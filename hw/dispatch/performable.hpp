// Whether a graph can be computed for real, and which tasks carry its messages.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// The reason why not, in one sentence with the remedy: a work without a kernel, a message without a staging copy, a
// rank that stands for several. Nothing when the graph can be computed.
std::optional<std::string> why_not_real(const graph::TaskGraph& graph);
// The same for one rank alone.
std::optional<std::string> why_not_real(const graph::TaskGraph& graph, RankId rank);

// The same for timed compute over real wires: what moves no bytes by steps or by a library.
std::optional<std::string> why_not_over_wires(const graph::TaskGraph& graph, RankId rank);

// What a rank does with a task. Staging copies copy only in real compute; in timed compute they are waited out like
// other tasks, and so are the tasks beside compute: copies between tiers, steps of the host.
enum class Act : std::uint8_t { compute, send, receive, collective, hand_out, take_in, beside };
Act act_of(const graph::TaskGraph& graph, const graph::Program& program, LocalTask task, bool real);

// For a StagingCopy: the send that it posts, or the receive that it takes from. For a message: its StagingCopy. kNoTask
// for all other tasks. Indexed by LocalTask.
inline constexpr LocalTask kNoTask{0xffffffff};
std::vector<LocalTask> staging_copies(const graph::TaskGraph& graph, const graph::Program& program);

}  // namespace rehearsal::dispatch
