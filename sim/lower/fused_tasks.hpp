// What a pass of a stage is as tasks: one for each operation, one for a part, or one for the whole pass. All are made
// of the same operations by one function: a coarse task takes as long as the works that it holds, its buffers are those
// that outlive it, and what lives within it is its fold (graph::FusedTask). Worked out once, for all micro-batches.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "lower/parts.hpp"

namespace rehearsal::lower {

// Which values of a stage and a micro-batch share a buffer: none; those of a part, or of the stage, that are made in
// one pass, die in one pass and count as the same. What one part hands to the next is a buffer of its own among parts.
enum class Grouping : std::uint8_t { values, parts, stage };

// Slots from here on are of a micro-batch, whose pieces share what they hold (models::Carried).
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
  std::size_t beside_tasks = 1;                            // until it has ended, this one counted
  std::optional<std::uint16_t> tile = {}, completes = {};  // of an operation by itself: as models::Step
  std::vector<Allocation> allocates;                       // numbers of a stage and a micro-batch, below FusedTasks::slots()
  std::vector<std::uint32_t> frees;
  std::optional<graph::FusedTask> fold = {};  // uses: first what it allocates, then what it frees
  std::size_t first_births = 0;          // steps of the fold that are what its first operation makes
};

class FusedTasks {
 public:
  FusedTasks(const Parts& parts, graph::GraphBuilder& works, graph::ProgramBuilder& program)
      : parts_(parts), works_(works), program_(program) {}

  // `staged`: whose pass it is (Parts::staged). Of the whole pass as one task, or of one use: as one task, or one for
  // each operation where values are not grouped.
  using Recipe = std::vector<TaskRecipe>;
  Recipe& recipe(std::uint32_t staged, graph::Pass pass, Grouping grouping, std::optional<std::size_t> use);
  std::size_t slots(std::uint32_t staged, Grouping grouping) { return layout(staged, grouping).known.size(); }
  // Of what a use takes from the one before it; it has an input.
  std::uint32_t input_slot(std::uint32_t staged, Grouping grouping, std::size_t use);

 private:
  // A value of a stage and a micro-batch: of one part, or between two.
  struct Instance {
    Bytes size;
    graph::MemoryCategory category, again;
    Crosses crosses = Crosses::no;
    std::size_t use;  // that it belongs to; of what stands between two parts: beyond all
    bool contiguous = false;
  };
  struct Layout {
    std::vector<Instance> instances;
    std::vector<std::size_t> first;  // of the values of each use
    using Key = std::tuple<std::size_t, graph::MemoryCategory, Crosses, bool>;
    std::map<Key, std::uint32_t> known;    // slots
    std::vector<std::uint32_t> slot;       // of each instance
    std::vector<std::uint32_t> in_buffer;  // which tensor of its buffer it is
    // Of the fold that is being made, and nothing between two of them: a pass that comes part by part is as many folds
    // as it has parts.
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
