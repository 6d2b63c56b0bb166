// One pass of one stage and micro-batch as tasks with buffers: one task (stage), one per part (layer) or one per
// operator. The coarse forms are folds of the fine one: same works, same net buffers, and the peak inside as
// `transient`.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/lowering.hpp"

namespace rehearsal::lower {

class PassTasks {
 public:
  PassTasks(const Parts& parts, Detail detail, graph::GraphBuilder& works, graph::ProgramBuilder& program)
      : parts_(parts), detail_(detail), works_(works), program_(program) {}

  // Announces that a pass of this stage and micro-batch will come part by part (emit_part) even at stage detail, so its
  // buffers must not be merged.
  void split(std::uint32_t stage, std::uint32_t microbatch) { split_[stage] = microbatch; }
  void split_all() { split_all_ = true; }

  // The whole stage. `after`: what the first task waits for; `tensor`: endpoint of the tensor group, at operator
  // detail. Returns the last task.
  LocalTask emit(const graph::Coordinates& at, std::vector<LocalTask> after, std::optional<std::uint32_t> tensor);

  // Buffers beyond those of the pass: used by its first task, and by its last.
  struct Extra {
    std::vector<graph::BufferUse> first, last;
  };
  // One part of the stage alone (index into its uses), at no coarser detail than `layer`.
  LocalTask emit_part(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask> after,
                      std::optional<std::uint32_t> tensor, const Extra& extra = {});

 private:
  // What a pass of a part does to memory: taken at its start, given back at its end (which of a micro-batch's buffers).
  // What the weight gradient needs is partly saved activations (kKept) and, beyond them, output gradients (kGradients).
  // kGathered and kWorking, as kRecomputed, live within the pass.
  enum Kind : std::size_t { kReleased, kKept, kGradients, kRecomputed, kGathered, kWorking, kKinds };
  static bool within_pass(Kind kind) { return kind >= kRecomputed; }
  struct Footprint {
    std::vector<Kind> takes, gives;
  };
  static Footprint footprint(graph::Pass pass);
  static Bytes size(const Held& held, Kind kind, graph::Pass pass);
  static std::vector<Bytes> tensors(const Held& held, Kind kind, graph::Pass pass);
  static graph::MemoryCategory category(const Held& held, Kind kind);
  static const PassWork& pass_work(const Part& part, graph::Pass pass);

  // Live buffers of one (stage, micro-batch): slot = part * kKinds + kind. Merged parts are two: those that hold logits
  // (1), and the others (0).
  struct Live {
    bool merged;
    std::vector<std::optional<BufferId>> slots;
  };
  Live& live(const graph::Coordinates& at);
  void take(Live& live, std::size_t part, Kind kind, const graph::Buffer& buffer, std::vector<graph::BufferUse>& uses);
  void give(Live& live, std::size_t part, Kind kind, std::vector<graph::BufferUse>& uses);

  struct Coarse {  // of one (stage, pass): the same for every micro-batch
    WorkId work;
    Bytes transient;
    std::size_t highest;                 // the part that runs at the highest point
    std::vector<graph::Buffer> passing;  // which live within the pass, there
    // What the stage keeps and releases, merged: by slot.
    std::array<graph::Buffer, 2 * kKinds> merged;
    std::array<std::optional<std::uint32_t>, 2> allocation;  // for a micro-batch in parts, and merged
  };
  // The buffer of one part; the same list of tensors for every micro-batch.
  graph::Buffer buffer(std::size_t part, Kind kind, graph::Pass pass);
  Coarse& coarse(const graph::Coordinates& at);
  // By slot: which use of the task allocates or frees that buffer.
  struct Places {
    std::vector<std::uint32_t> allocated, freed;
  };
  std::vector<graph::AllocationStep> allocation_steps(const graph::Coordinates& at, bool merged, const Places& places);
  LocalTask emit_stage(const graph::Coordinates& at, const std::vector<LocalTask>& after);

  const Parts& parts_;
  Detail detail_;
  graph::GraphBuilder& works_;
  graph::ProgramBuilder& program_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Live> live_;  // by (stage, micro-batch)
  std::map<std::pair<std::uint32_t, graph::Pass>, Coarse> coarse_;
  std::vector<std::optional<graph::Buffer>> buffers_;  // forward and other passes, part by part, kind by kind
  std::map<std::uint32_t, std::uint32_t> split_;       // stage -> micro-batch whose passes come part by part
  bool split_all_ = false;
};

}  // namespace rehearsal::lower
