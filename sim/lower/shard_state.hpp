// What a rank holds of one segment of the network (models::Segment), whole or sharded over the ranks that hold the same
// (ZeRO, arXiv 1910.02054, section 5), and on which tier.
#pragma once
#include <optional>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

inline Bytes sized(std::int64_t elements, Precision precision) {
  return Bytes(bytes_per_element(precision) * elements);
}
inline Bytes floats(std::int64_t elements) { return sized(elements, Precision::fp32); }

struct ShardState {
  const models::Segment* segment = nullptr;
  std::size_t described = 0;  // index of its graph::Segment
  std::int64_t elements = 0;  // padded to the shards
  std::int64_t shards = 1;
  Axis replicas = Axis::data, along = Axis::data;  // of all that hold it; of those that share its states
  BufferId parameters;
  std::optional<BufferId> gradients;
  // Older versions, as many as updates that a pass may lag behind; version v is at [v % their number].
  std::vector<BufferId> older;
  // Optimizer states of the own shard: moments and, after them, the master copy; `master` is separate if the host
  // updates.
  std::optional<BufferId> states, master;
  bool copy = false, tied = false;
  bool both_ends = false;   // a tied table that serves an embedding and a head of this rank
  std::uint16_t stage = 0;  // of the model
  std::int64_t shard() const { return elements / shards; }
  models::OwnShard own(Precision precision) const { return {segment->tensors, shard(), precision, along}; }
  bool copied() const { return along != replicas; }  // other groups share the same states

  // Gradients kept off the device: when the last one of this step has arrived, and what the first one waits for.
  std::vector<LocalTask> stored, may_store;
};

}  // namespace rehearsal::lower
