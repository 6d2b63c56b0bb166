// Turns a pass of a stage into tasks: one per operation, one per part, or one for the whole pass. One function makes
// all of them from the same operations: a coarse task lasts as long as the works in it, its buffers are those that
// outlive it, and values that live within it are in its fold (graph::FusedTask). Computed once, for all micro-batches.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "lower/parts.hpp"

namespace rehearsal::lower {

// Which values of a stage and a micro-batch share a buffer: none; or those of a part, or of the stage, that are made in
// one pass, die in one pass and have the same category. With `parts`, what one part passes to the next has its own
// buffer.
enum class Grouping : std::uint8_t { values, parts, stage };

// Slots from here on belong to a micro-batch, whose pieces share the values (models::Carried).
inline constexpr std::uint32_t kSharedSlots = 0x80000000;

struct TaskRecipe {
  struct Allocation {
    std::uint32_t slot;
    graph::Buffer buffer;
  };
  WorkId work;
  graph::Pass pass{};
  std::uint16_t layer = graph::kNoLayer;
  std::optional<Axis> group = {};
  std::optional<WorkId> beside = {};
  Axis beside_along = Axis::tensor;
  std::size_t beside_tasks = 1;                            // until it has ended, including this one
  std::optional<std::uint16_t> tile = {}, completes = {};  // of a single operation: as models::Step
  std::vector<Allocation> allocates;                       // slots of a stage and a micro-batch
  std::vector<std::uint32_t> frees;
  std::optional<graph::FusedTask> fold = {};  // uses: first the allocations, then the frees
  std::size_t first_births = 0;               // steps of the fold that allocate for its first operation
};

class FusedTasks {
 public:
  FusedTasks(const Parts& parts, graph::GraphBuilder& works, graph::ProgramBuilder& program)
      : parts_(parts), works_(works), program_(program) {}

  // `staged`: whose pass it is (Parts::staged). Recipe of the whole pass as one task, or of one use: one task, or one
  // per operation if values are not grouped.
  using Recipe = std::vector<TaskRecipe>;
  Recipe& recipe(std::uint32_t staged, graph::Pass pass, Grouping grouping, std::optional<std::size_t> use);
  std::size_t slots(std::uint32_t staged, Grouping grouping) { return layout(staged, grouping).known.size(); }
  // Slot of the input that a use takes from the one before it; the use must have an input.
  std::uint32_t input_slot(std::uint32_t staged, Grouping grouping, std::size_t use);
  // Slots of what leaves the device between forward and backward of a use, ascending.
  std::vector<std::uint32_t> leaving_slots(std::uint32_t staged, Grouping grouping, std::size_t use);

 private:
  // A value of a stage and a micro-batch: inside one part, or between two.
  struct Instance {
    Bytes size;
    graph::MemoryCategory category, again;
    Crosses crosses = Crosses::no;
    std::size_t use;  // that it belongs to; past the last one for values between two parts
    bool contiguous = false, leaves = false;
  };
  struct Layout {
    std::vector<Instance> instances;
    std::vector<std::size_t> first;  // the first value of each use
    using Key = std::tuple<std::size_t, graph::MemoryCategory, Crosses, bool, bool>;
    std::map<Key, std::uint32_t> known;    // slots
    std::vector<std::uint32_t> slot;       // of each instance
    std::vector<std::uint32_t> in_buffer;  // which tensor of its buffer it is
    // Scratch data of the fold being built, empty between two folds: a pass that is emitted part by part has one fold
    // per part.
    std::vector<std::uint8_t> born, dies;
    std::vector<std::uint32_t> place;
  };
  Layout& layout(std::uint32_t staged, Grouping grouping);
  Layout made(std::uint32_t staged, Grouping grouping) const;
  std::optional<std::uint32_t> shared_slot(const Part& part, std::size_t value, std::size_t use) const;

  struct Event {
    std::size_t instance;
    bool born;
    std::size_t operation;
  };
  std::vector<Event> events(std::uint32_t staged, graph::Pass pass, std::size_t use, const Layout& layout) const;
  std::size_t instance(std::uint32_t staged, std::size_t use, std::uint16_t value, const Layout& layout) const;
  Recipe steps(std::uint32_t staged, graph::Pass pass, std::size_t use, const Layout& layout) const;
  TaskRecipe folded(std::uint32_t staged, graph::Pass pass, const std::vector<std::size_t>& uses, Layout& layout);

  const Parts& parts_;
  graph::GraphBuilder& works_;
  graph::ProgramBuilder& program_;
  std::map<std::pair<std::uint32_t, Grouping>, Layout> layouts_;
  std::map<std::tuple<std::uint32_t, graph::Pass, Grouping, std::size_t>, Recipe> recipes_;
};

}  // namespace rehearsal::lower
