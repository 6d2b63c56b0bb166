// What a rank on a CPU keeps outside the memory it computes in (a second heap and a file, hw/tiers), and the work that
// runs there while the rank computes: copies, and steps of AdamW on the heap.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cpu/arena.hpp"
#include "cpu/operands.hpp"
#include "cpu/training_state.hpp"
#include "tiers/lane.hpp"
#include "tiers/storage.hpp"

namespace rehearsal::cpu {

class OffloadMemory {
 public:
  // Keeps references to all arguments. Throws MachineError when the disk lacks room for its resident buffers.
  OffloadMemory(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, const Arena& arena,
                TrainingState& state);

  static bool keeps(const graph::Buffer& buffer) { return buffer.tier != Tier::device; }
  void allocate(BufferId id);  // both throw MachineError
  void free(BufferId id);

  // Synchronous; no other operation may be in progress there.
  void write(const Extent& to, std::span<const std::byte> bytes);
  std::vector<std::byte> read(const Extent& from);
  void clear(BufferId id);

  // Starts a copy between tiers, or a step of the host.
  void begin(LocalTask task);
  // Its end (dispatch/clock.hpp), reported once; throws MachineError if it failed. Adds the part of the squared norm of
  // all gradients that a step of the host saw to `squared_gradients`.
  std::optional<Time> ended(LocalTask task, double& squared_gradients);

  Bytes high_water(Tier tier) const { return storage_.high_water(tier); }
  dispatch::Learned::Disk disk() const;

 private:
  std::span<std::byte> memory(const Extent& extent) const;  // on the device or the host
  void begin_copy(LocalTask task);
  void begin_step(LocalTask task, const graph::HostStep& work);

  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Program& program_;
  const Arena& arena_;
  TrainingState& state_;
  backend::TrainingData learning_;
  bool poison_;
  unsigned threads_;  // that share a step
  tiers::Storage storage_;
  std::vector<std::optional<tiers::Handle>> handles_;  // by BufferId
  std::map<LocalTask, tiers::Pending> copies_;
  struct Running {
    tiers::Lane::Number job;
    double squares = 0;
  };
  std::map<LocalTask, Running> steps_;
  tiers::Lane host_;  // last: destroyed, and so ended, before the memory it works on
};

}  // namespace rehearsal::cpu
