// Whether a graph can be computed for real, and who carries which message in it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Why not, in one sentence that says what to do instead: a work without a kernel, a message that nobody hands over, a
// rank that stands for several. Nothing when it can.
std::optional<std::string> why_not_real(const graph::TaskGraph& graph);
// The same for one rank alone.
std::optional<std::string> why_not_real(const graph::TaskGraph& graph, RankId rank);

// What a rank does with a task. Handovers copy in real compute alone; timed, they are waited out like other tasks, and
// so is what goes on beside: copies between tiers, steps of the host.
enum class Act : std::uint8_t { compute, send, receive, collective, hand_out, take_in, beside };
Act act_of(const graph::TaskGraph& graph, const graph::Program& program, LocalTask task, bool real);

// Of a StagingCopy: the send that it posts or the receive that it takes from; of a message: its StagingCopy. kNoTask
// elsewhere. Indexed by LocalTask.
inline constexpr LocalTask kNoTask{0xffffffff};
std::vector<LocalTask> staging_copies(const graph::TaskGraph& graph, const graph::Program& program);

}  // namespace rehearsal::dispatch
