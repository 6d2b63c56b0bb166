// Which pass of a step, and which micro-batch, kernels are part of: by what their launches stand in on the host.
//
// A launch is backward on a thread of autograd and inside its nodes, else what the innermost range around it says
// (record_function, NVTX; configs/kernel_classes.yaml), on its own thread, else on another of its process: main threads
// wait in a range while autograd's launch. A forward inside a backward is a recomputation, which counts as backward.
// What stands in nothing is told by what follows it (by_elimination). Kernels without a launch go by ranges on the GPU.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::traces {

struct Trace;

enum class Pass : std::uint8_t { unknown, forward, backward, optimizer };
inline constexpr std::size_t kPasses = 4;
constexpr std::size_t index(Pass pass) { return static_cast<std::size_t>(pass); }
std::string_view name(Pass pass);  // in configs/kernel_classes.yaml, JSON and CSV
Pass pass_of(graph::Pass pass);    // recomputation is backward

// What a range says, or what a kernel is part of.
struct Label {
  Pass pass = Pass::unknown;
  std::uint32_t microbatch = graph::kNoMicrobatch;
  friend auto operator<=>(const Label&, const Label&) = default;
};

// A range on a lane, which is a thread, or a stream of a GPU.
struct Range {
  std::int64_t start = 0, end = 0;
  std::uint32_t lane = 0;
  Label label;
};

// Ranges that are open at times which ascend.
class OpenRanges {
 public:
  // `processes`: of each lane. `backward`: lanes on which all is backward that no range is around.
  OpenRanges(std::vector<Range> ranges, std::vector<std::uint32_t> processes, std::vector<bool> backward);
  Label at(std::uint32_t lane, std::int64_t time);

 private:
  std::vector<std::uint32_t>& open_on(std::uint32_t lane, std::int64_t time);

  std::vector<Range> ranges_;  // in order of their starts, outer ones first
  std::size_t next_ = 0;
  std::vector<std::uint32_t> processes_;
  std::vector<bool> backward_;
  std::vector<std::vector<std::uint32_t>> open_;  // by lane, outer ones first
};

// The call that launched a kernel, on the host.
struct Launch {
  std::int64_t start = 0;
  std::uint32_t duration = 0;
  std::uint16_t thread = 0;  // numbered by HostSide
  std::uint16_t label = 0;   // HostSide::labels
  std::int64_t end() const { return start + duration; }
};

// Launches and ranges of the threads of all processes in a file.
class HostSide {
 public:
  void launch(std::uint32_t process, std::uint32_t correlation, std::int64_t thread, std::int64_t start,
              std::int64_t duration);
  void range(std::uint32_t process, std::int64_t thread, std::int64_t start, std::int64_t end, Label label);
  void autograd(std::uint32_t process, std::int64_t thread, std::int64_t start, std::int64_t end);  // one of its nodes
  void leads(std::uint32_t process, std::int64_t thread) { leads_[lane(process, thread)] = true; }  // marks steps

  // When all is said.
  void settle();
  struct Known {
    std::uint64_t key = 0;  // process and correlation
    Launch launch;
  };
  const Known* find(std::uint32_t process, std::uint32_t correlation) const;
  const std::vector<Label>& labels() const { return labels_; }

 private:
  std::uint32_t lane(std::uint32_t process, std::int64_t thread);

  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> lanes_;
  std::vector<std::uint32_t> processes_;
  std::vector<bool> autograds_, leads_;
  std::vector<std::size_t> last_node_;  // of autograd, by lane: its range, plus one
  std::vector<Range> ranges_;
  std::vector<Known> launches_;
  std::vector<Label> labels_{{}};
};

// Its number in a list that begins with the empty label; 0 where the list is full.
std::uint16_t number_of(const Label& label, std::vector<Label>& all);

// What is launched outside of all ranges, by what is launched next: before a backward pass it is the forward pass,
// before the optimizer it belongs to that (norms of gradients). Kernels of optimizers are the optimizer's. Only where
// some kernel is known to be backward and some to be the optimizer's; else nothing more is claimed.
void by_elimination(Trace& trace);

}  // namespace rehearsal::traces
