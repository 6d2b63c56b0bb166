// Where the time of a measured step went: by class of kernel, in communication, and idle.
//
// Busy: some kernel or copy runs. Computing: one that does not communicate runs (copies included). Exposed: only
// communication runs; waiting: the part of it that is longer than the transfer, which is the shortest such kernel:
// among the ranks of its group for the same collective where their traces are given, else, of messages alone, among
// those of equal size. So a window is computing + exposed + idle.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "traces/launching.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

struct Shares {
  Time window, computing, copying, communicating, exposed;  // copying: copies while nothing else runs
  Time waiting;                                             // zero also where no transfer is known
  Time idle() const { return window - computing - exposed; }
  Time busy() const { return computing + exposed; }
};

struct ClassTime {
  std::string name;
  Kind kind = Kind::other;
  std::uint64_t kernels = 0;
  Time time;  // summed; kernels at the same time count each
};

// Kernels that compute, by the pass that they are of.
struct PassTime {
  Pass pass = Pass::unknown;
  Kind kind = Kind::other;
  std::uint64_t kernels = 0;
  Time time;
};
// Likewise of a micro-batch.
using TimeByPass = std::array<Time, kPasses>;
using TimeByMicrobatch = std::map<std::uint32_t, TimeByPass>;

struct UnknownKernel {
  std::string name;
  std::uint64_t kernels = 0;
  Time time;
};

// Kernels of one collective, size and group.
struct Moved {
  Transfer what;
  std::uint64_t count = 0;
  Time total, median, shortest;  // on this rank
  Time transfer;                 // mean time without waiting (Transfers); zero: unknown
  std::uint32_t ranks_seen = 1;  // of its group, those whose traces are given
};

// Pauses between two kernels of the busiest stream, while no other stream works, that are shorter than kLongestPause;
// whether the host was late is another question (launching.hpp).
struct Gaps {
  std::uint64_t count = 0;
  Time total, median;
};

// How long communication kernels take when nobody is waited for.
class Transfers {
 public:
  explicit Transfers(std::span<const Trace> traces);
  // Of a kernel of one of the traces; nothing: unknown.
  std::optional<Time> of(std::size_t trace, std::size_t kernel) const;
  // Traces in which the collectives of a trace's transfer were found.
  std::uint32_t seen(std::size_t trace, std::size_t transfer) const { return seen_[trace][transfer]; }

 private:
  std::vector<std::map<std::size_t, Time>> alone_;  // by trace and kernel
  std::vector<std::vector<std::uint32_t>> seen_;    // by trace and transfer
};

// Categories of communication, in the order in which what is exposed at once counts: as timeline::breakdown does.
inline constexpr std::array kGroupOrder{graph::Category::data_comm, graph::Category::tensor_comm,
                                        graph::Category::context_comm, graph::Category::expert_comm,
                                        graph::Category::pipeline_comm};

// Communication of one kind of group, in the mean step.
struct GroupTime {
  std::optional<graph::Category> category;  // nothing: nobody knows
  std::uint64_t kernels = 0;
  Time total;             // summed; kernels at the same time count each
  Time exposed, waiting;  // as in Shares; where several kinds are exposed at once, the first in the order of this list
};
// What a communication kernel is for.
using GroupOf = std::function<std::optional<graph::Category>(const Trace&, const LaunchedKernel&)>;

struct Analysis {
  Shares whole;                        // from the first kernel to the last
  Shares steps;                        // the mean step; all of `whole` where none is marked
  std::size_t step_count = 0;          // 0: none is marked
  Time step;                           // the median step: from one's start to the next one's
  std::vector<Time> lengths;           // of every step
  std::vector<ClassTime> classes;      // of the mean step, longest first
  std::vector<PassTime> passes;        // of the mean step, where the trace tells passes
  TimeByMicrobatch microbatches;       // likewise; empty where no range names any
  std::vector<UnknownKernel> unknown;  // ten at most, longest first, of all steps
  Time unknown_time;                   // of all of them
  std::vector<GroupTime> groups;       // gradients first, messages last, then those that nobody knows
  std::vector<Moved> moved;            // of all steps, longest first
  Gaps gaps;
  Launching launching;
  bool waiting_known = false;  // of some communication kernel, or there is none

  TimeByKind by_kind() const;
  std::uint64_t kernels(Kind kind) const;  // of the mean step
};

// One for each trace.
std::vector<Analysis> analyse(
    std::span<const Trace> traces, const KernelClasses& classes,
    const GroupOf& group_of = [](auto&, auto&) { return std::nullopt; });

}  // namespace rehearsal::traces
