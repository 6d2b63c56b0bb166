// One pass of one stage and micro-batch as tasks with buffers: one task (stage), one per part (layer) or one per
// operation, as made by fused_tasks.hpp.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/builder.hpp"
#include "lower/fused_tasks.hpp"
#include "lower/lowering.hpp"
#include "lower/rank_program.hpp"

namespace rehearsal::lower {

class PassTasks {
 public:
  PassTasks(const Parts& parts, Detail detail, graph::GraphBuilder& works, graph::ProgramBuilder& program, Ends& ends)
      : parts_(parts), detail_(detail), works_(works), program_(program), ends_(ends), folds_(parts, works, program) {}

  // Announces that a pass of this stage and micro-batch will come part by part (emit_part) even at stage detail, so its
  // buffers must not be merged.
  void split(std::uint32_t stage, std::uint32_t microbatch) { split_.insert({stage, microbatch}); }
  void split_all() { split_all_ = true; }

  // Called around each part of a pass: before() may add to what it waits for, after() gets its last task. Either may be
  // empty.
  struct AroundParts {
    std::function<void(std::size_t use, std::vector<LocalTask>& waits)> before;
    std::function<void(std::size_t use, LocalTask done)> after;
  };

  // The whole stage. `after`: what the first task waits for. Returns the last task.
  LocalTask emit(const graph::Coordinates& at, std::vector<LocalTask> after);
  // The same part by part: a forward from the first part, all other passes from the last.
  LocalTask emit_parts(const graph::Coordinates& at, std::vector<LocalTask> after, const AroundParts& around = {});

  // Frees what the forward of a micro-batch has kept, if no backward consumes it.
  void release(const graph::Coordinates& at);

  // Buffer uses of a pass's first and last task, in addition to those of the pass itself.
  struct Extra {
    std::vector<graph::BufferUse> first, last;
  };
  // Called around each task of a part at operator detail: may add to what the task waits for and uses.
  struct Around {
    virtual ~Around() = default;
    virtual void before(const TaskRecipe& task, std::vector<LocalTask>& after, Extra& extra) = 0;
    virtual void after(const TaskRecipe& task, LocalTask done) = 0;
  };
  // A single part of the stage (index into its uses), at detail `layer` or finer.
  LocalTask emit_part(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask> after,
                      const Extra& extra = {}, Around* around = nullptr);
  // The input that a part got from the one before it; empty while it is kept elsewhere, between forward and backward.
  // For passes that are emitted part by part.
  std::optional<BufferId>& input_of(const graph::Coordinates& at, std::size_t use) {
    auto& held = live(at);
    return slot_of(held, at, folds_.input_slot(parts_.staged(at), held.grouping, use));
  }
  // Likewise, what a use keeps and sends away meanwhile.
  std::vector<std::optional<BufferId>*> leaving_of(const graph::Coordinates& at, std::size_t use);
  // A collective of the tensor group between two parts; only at operator detail do its ranks meet in the graph.
  LocalTask tensor_collective(WorkId work, const graph::Coordinates& at, std::span<const LocalTask> after,
                              std::span<const graph::BufferUse> uses) {
    const auto group = detail_ == Detail::operators ? ends_.group(Axis::tensor, program_) : graph::kNoEndpoint;
    return program_.add({work, graph::Lane::compute, at, group}, after, uses);
  }

 private:
  // The buffers of one (stage, micro-batch), by the slots of their grouping.
  struct Live {
    Grouping grouping;
    std::vector<std::optional<BufferId>> slots;
  };
  Live& live(const graph::Coordinates& at);
  std::optional<BufferId>& slot_of(Live& live, const graph::Coordinates& at, std::uint32_t slot);
  LocalTask emit(const graph::Coordinates& at, FusedTasks::Recipe& recipe, Live& live, std::vector<LocalTask> after,
                 const Extra& extra, Around* around = nullptr);
  std::uint32_t fold(const TaskRecipe& task, const std::vector<graph::BufferUse>& uses, const Extra& extra);

  const Parts& parts_;
  Detail detail_;
  graph::GraphBuilder& works_;
  graph::ProgramBuilder& program_;
  Ends& ends_;
  FusedTasks folds_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Live> live_;  // by (stage, micro-batch)
  // Buffers that the pieces of a micro-batch share: by stage, micro-batch and slot.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::optional<BufferId>> shared_;
  // Folds of tasks with extra buffers: the sizes of those before its own, and the number of those after.
  std::map<std::tuple<const TaskRecipe*, std::vector<Bytes>, std::size_t>, std::uint32_t> known_folds_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> split_;  // (stage, micro-batch) emitted part by part
  bool split_all_ = false;
};

}  // namespace rehearsal::lower
