// What recurrent mixers cost: their sums over a sequence are computed chunk by chunk, as products within a chunk and
// with the state that goes from chunk to chunk.
#pragma once
#include "models/layers.hpp"

namespace rehearsal::models {

// What a kind has besides keys, queries, values and a gate as wide as the values.
struct Recurrence {
  std::int64_t scalars = 0;    // per head and token, from the input: decay, rate, step
  std::int64_t vectors = 0;    // parameters per head
  bool norm_per_head = false;  // one gain for all heads; else one for each column of the values
  bool convolution_bias = false;
  std::int64_t chunk = 64;  // tokens, in the kernels that people run
};
Recurrence recurrence(MixerKind kind);

// Entries of the matrices and of everything else.
double recurrent_matrices(std::int64_t hidden, const Mixer& mixer);
double recurrent_vectors(const Mixer& mixer);

// The scan of one head for one token, forward: bytes moved with elements of 2 bytes, bytes kept for the gradient
// besides its operands and its result, and kernels of a whole pass. Its products, 100 FLOP a byte at most, hide behind
// that and are not counted as FLOPs, neither of the model nor executed.
struct ScanCost {
  double traffic = 0, kept = 0;
  std::int64_t kernels = 0;
};
ScanCost scan_cost(const Mixer& mixer);

}  // namespace rehearsal::models
