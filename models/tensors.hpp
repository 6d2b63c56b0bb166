// The tensors behind the bytes of a layer or an end of the network: the sizes that an allocator is asked for. They fill
// LayerWork::tensors, and the sums that follow from them. Equations and what is assumed: models/README.md, section 4.
#pragma once
#include "models/operators.hpp"

namespace rehearsal::models {

// After `activations` and `recomputed` are known: they say how many of the tensors are kept.
void add_layer_tensors(LayerWork& work, const Transformer& model, const Training& training, const Software& software,
                       const Shard& shard);
// Sets `activations` too.
void add_head_tensors(LayerWork& work, const Transformer& model, const Software& software, const Shard& shard);
void add_embedding_tensors(LayerWork& work, const Transformer& model, const Shard& shard);

void append(std::vector<Bytes>& list, const std::vector<Bytes>& more);
Bytes sum(const std::vector<Bytes>& sizes);
// The bytes [begin, end) of the tensors laid one behind the other, as tensors.
std::vector<Bytes> part_of(const std::vector<Bytes>& sizes, Bytes begin, Bytes end);

}  // namespace rehearsal::models
