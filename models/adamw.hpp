// AdamW, one step forward and one back: what optimizer post-validation does to the weights of a rank that stepped
// before it knew the norm of all gradients (Zero Bubble, arXiv 2401.10241, section 4).
//
// With bias correction and decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101):
//   t' = t + 1;  m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2
//   theta' = theta (1 - lr wd) - lr mhat / (sqrt(vhat) + eps),  mhat = m' / (1 - b1^t'), vhat = v' / (1 - b2^t')
// All of it can be inverted from (theta', m', v', g), but not bit for bit: the step rounds, and so does the way back.
// The relative error of m is about b1 / (1-b1) roundings where the gradient outweighs the momentum, and v loses all
// digits where it was far smaller than g^2. Tensors are fp32, as optimizers keep them; arithmetic is in fp32 too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rehearsal::models {

struct AdamW {
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0.01f;
};

// One tensor with its optimizer state; the three vectors have one length. `steps` taken so far.
struct AdamWState {
  std::vector<float> weight, momentum, variance;
  std::int64_t steps = 0;
};

// `gradient` has the length of the state. Throws UserError for hyperparameters that AdamW does not have (betas outside
// [0, 1), a negative rate) or, in rollback, that cannot be inverted (a beta of 0, rate x decay = 1) or when no step has
// been taken.
void step(const AdamW& options, AdamWState& state, std::span<const float> gradient);
// Undoes the last step, which was taken with this gradient.
void rollback(const AdamW& options, AdamWState& state, std::span<const float> gradient);

// How far a state is from another of the same shape: |a - b|_2 / |b|_2 of each tensor (0 when both are 0), and the
// largest difference of one entry.
struct AdamWDifference {
  double weight = 0, momentum = 0, variance = 0;
  double largest_weight = 0, largest_momentum = 0, largest_variance = 0;
};
AdamWDifference difference(const AdamWState& a, const AdamWState& b);

}  // namespace rehearsal::models
