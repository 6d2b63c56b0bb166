// Whether a distributed run trains the network that one rank alone would have trained on the same data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "backend/backend.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::explore {

// The same model and the same global batch on one rank: no parallelism, no recomputation, one micro-batch at a time, a
// barrier before the optimizer. Vocabularies are not padded there. Schedules that compute with old weights are
// followed: each stage of each micro-batch with the version that the papers promise, serially (PipeDream: after i -
// (p-1-s) updates; 2BW: one update late). So are parameter servers with a delay of d: w_{t+1} = w_t - u(g_t(w_{t-d})),
// beginning with w_0 in every graph. Throws UserError for PipeDream with data parallelism, whose updates mix
// micro-batches.
scenario::Scenario serial_reference(const scenario::Scenario& scenario);

// Losses and gradient norms are sums of float over the same numbers in another order.
inline constexpr double kLossTolerance = 1e-5;
// A tensor of nothing but zeros has no relative error; one whose elements are this small on average changes activations
// of order one by no more than float32 rounds them. Biases begin as zeros.
inline constexpr double kSmallestWeight = 1e-6;

// In bf16, whose rounding is at most 2^-8 of a number. Tensor parallelism rounds partial sums that one rank never sees;
// what else cuts a network changes the order of fp32 sums alone. Measured over GPTs of 4 layers, 3 steps, tensor 1 to
// 4, ZeRO 0 to 3, with recomputation: losses differ by up to 3e-4 and norms by up to 9e-3.
inline constexpr double kNarrowLossTolerance = 2e-3, kNarrowNormTolerance = 3e-2;
// Weights hide what went wrong in a few gradients, and AdamW makes full steps of rounded zeros. So what the optimizer
// gathered of the gradients (TrainedTensor::gathered) is compared too, tensor by tensor: layouts differ by up to 2.7e-2
// (SGD) and 3.2e-2 (AdamW). Of runs broken on purpose the least is a weight gradient of one micro-batch of 16 left out
// in one step of three: 1.0e-1 and 8.6e-2; then an update left out, 0.42; an average left out, 0.73; swapped
// micro-batches, 0.60. The limit is half way between, by their ratio.
inline constexpr double kGatheredTolerance = 5e-2;
// A tensor counts as at least this share of an average one, so that one without a gradient does not decide.
inline constexpr double kSmallestGathered = 1e-2;
// Weights below a rounding of one change activations of order one by no more than bf16 rounds them.
inline constexpr double kNarrowSmallestWeight = 0x1p-8;

// In fp32 layouts differ by 5e-7 where no element of a bias steps the other way, and by up to 9e-5 where one does,
// which makes the gradients after it others (200 seeds of a GPT of 4 layers, tensor 2). Runs broken on purpose differ
// as in bf16, by 8.6e-2 at least; about half way between, by their ratio.
inline constexpr double kWideGatheredTolerance = 2e-3;

// A network may be so small, or have so few tokens, that rounding alone moves it further than that (120 random ones of
// 2 and 4 layers, tensor 2 and 4: losses by up to 1.5e-2, what was gathered by up to 0.21). How far is measured: the
// reference is trained in fp32 too, and the way from there to the narrow reference is what the rounding of one training
// is worth. Two narrow trainings are apart by no more than so many such ways: tensor by tensor, whose errors are means
// over many elements, and of single numbers, whose errors may be small by chance.
inline constexpr double kRoundingOfTensors = 5, kRoundingOfNumbers = 8;

// AdaLOMO divides the gradient of a vector element by element, so where a gradient is next to nothing its rounding
// decides the way of a whole step (matrices it divides by means of rows and columns). So small are few: of a vector,
// this share of its elements is left out, the furthest first. What breaks a run moves whole tensors.
inline constexpr double kMayTurn = 1. / 16;

// How far a training may be from its reference.
struct Limits {
  double weights = 1e-5;  // of what is not explained, relative, tensor by tensor
  // Of what the optimizer gathered of the gradients, relative, tensor by tensor. AdamW divides the mean of the gradient
  // by its deviation, and so turns the rounding of gradients near zero into steps of full length. Such an element of a
  // weight says nothing, but its gradient does: so gradients are judged by this, and the weights in fp32 are asked for
  // what gradients can promise that are as far apart as these are (sim/design/performing.md).
  double gradients = kWideGatheredTolerance;
  double learning_rate = 1e-3;  // of AdamW: no step is much longer
  Precision precision = Precision::fp32;
  int steps_each = 1;  // of the optimizer, in what is one step of the graph that was performed
  int pending = 0;     // updates that the last steps have left undone: those of the reference have not begun
  models::OptimizerKind optimizer = models::OptimizerKind::adamw;
  const backend::TrainingResult* wide = nullptr;  // wide_reference() as it was trained
};
Limits limits(const scenario::Scenario& scenario);

// The reference in fp32, where rounding may move the scenario by more than the order of sums: below fp32 with tensor
// parallelism.
std::optional<scenario::Scenario> wide_reference(const scenario::Scenario& scenario);

// How the reference of such a run is trained.
backend::RunOptions serial_options(backend::RunOptions options, const scenario::Scenario& scenario);

// `reference` with RunOptions::responses.
answer::Verification verify(const backend::TrainingResult& trained, const backend::TrainingResult& reference, const Limits& limits);

}  // namespace rehearsal::explore
