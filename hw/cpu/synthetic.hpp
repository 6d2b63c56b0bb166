// Deterministic weights and data: functions of the seed and of the index in the whole tensor or data set, so that every
// layout of ranks starts from the same network and sees the same samples. Counter-based: no state, no order.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "cpu/kernels.hpp"

namespace rehearsal::cpu {

// Uniform in [0, 1): splitmix64 (Steele et al. 2014) of seed, stream and index. 53 bits.
double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
// Standard normal, by Box-Muller from two of them.
double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// The initial value of element `index` (row major in the whole, unpadded tensor [outer, extent, inner]): gains 1,
// biases 0, tables and matrices normal with deviation 0.02 (tables) or 1/sqrt(inputs) (matrices).
float initial(std::uint64_t seed, const graph::Tensor& tensor, std::uint64_t index);
// Fills `held`, the parameter buffer, with the part of a segment that this rank holds; padding is zero.
void initialise(std::uint64_t seed, const graph::Segment& segment, const graph::Rank& rank, std::span<float> held);

// The data of one micro-batch. Tokens: a Markov chain over the vocabulary that mostly follows one permutation; targets
// are the next tokens, also where a document ends. Rows: normal; their targets are a fixed random linear map of them,
// through tanh.
struct Sample {
  std::vector<std::int32_t> tokens, targets;
  std::vector<float> rows, row_targets;
  std::vector<std::int32_t> documents;  // Batch::documents; empty where sequences are one document
  Batch batch() const { return {tokens, targets, rows, row_targets, documents}; }
};
// `global`: index of the micro-batch in the global batch: data rank x microbatches + micro-batch.
// `part`: of the sequences, when they are split over ranks or into pieces.
Sample sample(const backend::TrainingData& learning, std::int64_t global, std::int64_t part = 0);

}  // namespace rehearsal::cpu
