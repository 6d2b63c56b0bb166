// Checks that a distributed run trains the same network as a single rank on the same data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "backend/backend.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::explore {

// The same model and global batch on one rank: no parallelism, no recomputation, one micro-batch at a time, a barrier
// before the optimizer, and no padding of vocabularies. Schedules that compute with old weights are
// reproduced: each stage of each micro-batch uses the version that the papers specify, serially (PipeDream: after i -
// (p-1-s) updates; 2BW: one update late). So are parameter servers with a delay of d: w_{t+1} = w_t - u(g_t(w_{t-d})),
// starting with w_0 in every graph. Throws UserError for PipeDream with data parallelism, whose updates mix
// micro-batches.
scenario::Scenario serial_reference(const scenario::Scenario& scenario);

// Losses and gradient norms are float sums over the same numbers in another order.
inline constexpr double kLossTolerance = 1e-5;
// A tensor of zeros has no relative error; if the elements are this small on average, they change activations of order
// one by no more than float32 rounding. Biases start at zero.
inline constexpr double kSmallestWeight = 1e-6;

// For bf16, whose rounding is at most 2^-8 of a number. Tensor parallelism rounds partial sums that a single rank never
// forms; all other parallelism only reorders fp32 sums. Measured over GPTs of 4 layers, 3 steps, tensor 1 to 4, ZeRO 0
// to 3, with recomputation: losses differ by up to 3e-4 and norms by up to 9e-3.
inline constexpr double kNarrowLossTolerance = 2e-3, kNarrowNormTolerance = 3e-2;
// Weights hide errors in a few gradients, and AdamW makes full steps out of rounded zeros. So the optimizer's
// accumulated gradients (TrainedTensor::gathered) are compared too, tensor by tensor: layouts differ by up to 2.7e-2
// (SGD) and 3.2e-2 (AdamW). Among runs broken on purpose, the smallest difference comes from omitting the weight
// gradient of one micro-batch of 16 in one step of three: 1.0e-1 and 8.6e-2; then an omitted update, 0.42; swapped
// micro-batches, 0.60; an omitted average, 0.73. The limit is the geometric middle.
inline constexpr double kGatheredTolerance = 5e-2;
// The smallest share of an average tensor that a tensor counts as, so that one without gradient does not decide.
inline constexpr double kSmallestGathered = 1e-2;
// Weights of average size below this rounding change activations of order one by no more than bf16 rounding.
inline constexpr double kNarrowSmallestWeight = 0x1p-8;

// In fp32, layouts differ by 5e-7 if no bias element steps in the opposite direction, and by up to 9e-5 if one does,
// which changes all later gradients (200 seeds of a GPT of 4 layers, tensor 2). Runs broken on purpose differ as in
// bf16, by 8.6e-2 at least; the limit is about the geometric middle.
inline constexpr double kWideGatheredTolerance = 2e-3;

// In a very small network, or with few tokens, rounding alone may exceed these limits (120 random ones of 2 and 4
// layers, tensor 2 and 4: losses by up to 1.5e-2, accumulated gradients by up to 0.21). So it is measured: the
// reference is also trained in fp32, and its distance to the narrow reference is the rounding error of one training.
// Two narrow trainings may differ by this many such errors: for tensors, whose errors are means over many elements, and
// for single numbers, whose errors may be small by chance.
inline constexpr double kRoundingOfTensors = 5, kRoundingOfNumbers = 8;

// AdaLOMO divides the gradient of a vector element by element, so for a nearly zero gradient rounding decides the
// direction of a full step (matrices are divided by row and column means). Few elements are that small: this share of a
// vector, the elements with the largest errors, is excluded. A real fault moves whole tensors.
inline constexpr double kMayTurn = 1. / 16;

// Allowed differences between a training and its reference.
struct Limits {
  double weights = 1e-5;  // of the unexplained part, relative, per tensor
  // For the optimizer's accumulated gradients, relative, per tensor. AdamW divides the mean of the gradient by its
  // deviation, which turns rounding of near-zero gradients into full steps. The weight of such an element says nothing,
  // but its gradient does: so gradients are judged by this limit, and fp32 weights only by the difference that
  // gradients this far apart cannot explain (sim/design/performing.md).
  double gradients = kWideGatheredTolerance;
  double learning_rate = 1e-3;  // of AdamW: no step is much longer
  Precision precision = Precision::fp32;
  int steps_each = 1;  // optimizer steps per step of the performed graph
  int pending = 0;     // updates still outstanding after the last steps; the reference has not started them either
  bool vectors_may_turn = false;                  // models::Optimizer::turns_vectors
  const backend::TrainingResult* wide = nullptr;  // wide_reference() after training
};
Limits limits(const scenario::Scenario& scenario);

// The reference in fp32, if rounding may affect the scenario more than the order of sums does: below fp32 with tensor
// parallelism, where sequences are cut of layers with a state, whose norms of few columns have steep gradients, and
// where ranks compute with other kernels than the reference (a GPU's), which round elsewhere.
std::optional<scenario::Scenario> wide_reference(const scenario::Scenario& scenario, bool other_kernels = false);

// The options for training the reference of such a run.
backend::RunOptions serial_options(backend::RunOptions options, const scenario::Scenario& scenario);

// `reference`: trained with RunOptions::responses.
answer::Verification verify(const backend::TrainingResult& trained, const backend::TrainingResult& reference,
                            const Limits& limits);

}  // namespace rehearsal::explore
