// The network in front of a model that makes rows of pictures (Vision): its blocks, and what it costs.
#pragma once
#include "models/block.hpp"
#include "models/framework_rewrite.hpp"

namespace rehearsal::models {

// What one GPU computes of it. The ranks of a context group deal pictures among themselves; a tower is not cut over the
// sequence (Megatron-LM, examples/multimodal/model.py: sequence_parallel is off for it).
Shard tower_shard(const Vision& vision, const Shard& shard);

// Each part reads what the one before it gives; what the projector gives, [tokens, h], is written over rows of the
// embedding.
struct TowerBlocks {
  Block front, layer, projector;
};
TowerBlocks tower_blocks(const Vision& vision, std::int64_t hidden, const BlockOptions& options);

// An embedding whose rows of pictures come from a tower: patches, layers, projector, and a copy into their places.
Part with_pictures(Part embedding, const FrameworkRun& run);

}  // namespace rehearsal::models
