#include "explore/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.hpp"

namespace rehearsal::explore {
namespace {

// A quotient that is not a number must not pass as small.
double relative(double difference, double scale) {
  if (difference == 0) return 0;
  const double quotient = std::abs(difference) / scale;
  return std::isfinite(quotient) ? quotient : HUGE_VAL;
}

std::string name_of(const backend::TrainedTensor& tensor) {
  const std::string kind = name(tensor.kind);
  return is_of_layer(tensor.kind) ? fmt::format("layer {} {}", tensor.layer, kind) : kind;
}

// `smallest`: mean element that a tensor of the reference has at least.
double difference(std::span<const float> values, std::span<const float> reference, double smallest) {
  double off = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double d = double(values[i]) - double(reference[i]);
    off += d * d;
    norm += double(reference[i]) * double(reference[i]);
  }
  return relative(std::sqrt(off), std::max(std::sqrt(norm), smallest * std::sqrt(double(values.size()))));
}

double largest_difference(const std::vector<double>& values, const std::vector<double>& reference) {
  if (values.size() != reference.size()) return HUGE_VAL;
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, relative(values[i] - reference[i], std::abs(reference[i])));
  return largest;
}

}  // namespace

namespace {

// One micro-batch after the other through all stages, forward and back.
schedule::Order one_by_one(const schedule::Problem& problem, std::uint32_t) {
  const auto stages = static_cast<std::uint16_t>(problem.stages());
  for (std::uint32_t m = 0; m < problem.microbatches; ++m) {
    for (std::uint16_t s = 0; s < stages; ++s) co_yield {m, s, schedule::Op::forward};
    for (std::uint16_t s = stages; s-- > 0;) co_yield {m, s, schedule::Op::backward};
  }
}

schedule::Imported serial_with_old_weights(schedule::Updates updates, std::uint32_t stages,
                                           std::uint32_t microbatches) {
  schedule::Imported result;
  result.schedule = {.name = "one by one with old weights",
                     .summary = "Serial reference of schedules without a flush.",
                     .max_chunks = schedule::kMaxStages,
                     .order = one_by_one,
                     .updates = updates};
  // A stage has p-1-s forwards ahead of its first backward, and updates once per backward.
  result.schedule.weight_version = [=](std::uint32_t stage, std::uint32_t m) {
    const std::uint32_t ahead = std::min(stages - 1 - stage, microbatches);
    return m > ahead ? m - ahead : 0u;
  };
  return result;
}

}  // namespace

scenario::Scenario serial_reference(const scenario::Scenario& scenario) {
  INVARIANT(scenario.concrete, "only a model can be trained serially");
  scenario::Scenario serial = scenario;
  serial.name += ", serially";
  const auto updates = scenario.schedule.schedule().updates;
  serial.parallelism = {};
  serial.microbatches = scenario.batch.global / scenario.batch.micro;
  serial.schedule = {};
  serial.schedule.name = "naive";
  serial.optimizer_sync = {};
  auto& c = *serial.concrete;
  c.training.recompute = models::Recompute::none;
  if (c.training.optimizer == models::OptimizerKind::lomo) {
    if (c.training.precision == Precision::fp32)  // the same steps as plain SGD, which may add up micro-batches
      c.training.optimizer = models::OptimizerKind::sgd;
    else  // which keeps a master copy below fp32, where LOMO has none: itself, with one micro-batch
      serial.batch.micro = serial.batch.global, serial.microbatches = 1;
  }
  if (updates == schedule::Updates::at_flush) {
    c.partition = {};
    return serial;
  }
  const bool by_stage = updates == schedule::Updates::every_backward;
  if (by_stage && scenario.parallelism.data > 1)
    throw UserError(
        fmt::format("schedule {} updates from one micro-batch of each replica at a time, which has no serial reference "
                    "yet; set parallelism.data to 1",
                    scenario.schedule.name));
  if (by_stage)
    serial.parallelism.chunks = scenario.parallelism.stages();
  else
    c.partition = {};
  serial.schedule.imported = std::make_shared<const schedule::Imported>(
      serial_with_old_weights(updates, static_cast<std::uint32_t>(scenario.parallelism.stages()),
                              static_cast<std::uint32_t>(scenario.microbatches)));
  return serial;
}

// In bf16 layouts differ by up to 4e-3 (SGD), 1.6e-2 (LOMO, which rounds every step into the weights) and 9e-2 (AdamW,
// biases, whose gradients nearly vanish).
double weight_tolerance(models::OptimizerKind optimizer, Precision precision) {
  if (precision != Precision::fp32)
    return optimizer == models::OptimizerKind::adamw ? .2 : optimizer == models::OptimizerKind::lomo ? .05 : .02;
  return optimizer == models::OptimizerKind::adamw ? 1e-4 : 1e-5;
}

namespace {

// Without a master copy what was gathered is what rounding left of it, which says no more than the weights.
void compare_gathered(const backend::Trained& trained, const backend::Trained& reference, Verified& v) {
  double squares = 0, elements = 0;
  for (const auto& tensor : reference.tensors) {
    for (const float x : tensor.gathered) squares += double(x) * double(x);
    elements += double(tensor.gathered.size());
  }
  const double smallest = kSmallestGathered * std::sqrt(squares / elements);
  std::string worst;
  for (std::size_t i = 0; i < trained.tensors.size(); ++i) {
    const auto& tensor = trained.tensors[i];
    const auto& other = reference.tensors[i];
    if (other.master.empty()) continue;
    const double d = tensor.gathered.size() == other.gathered.size()
                         ? difference(tensor.gathered, other.gathered, smallest)
                         : HUGE_VAL;
    if (d > v.max_gathered_difference) v.max_gathered_difference = d, worst = name_of(tensor);
  }
  if (!(v.max_gathered_difference <= kGatheredTolerance))
    v.failures.push_back(
        fmt::format("what was gathered of the gradients of {} differs by {:.2g} relative, allowed are {:g}", worst,
                    v.max_gathered_difference, kGatheredTolerance));
}

}  // namespace

Verified verify(const backend::Trained& trained, const backend::Trained& reference, double tolerance) {
  Verified v;
  v.steps = static_cast<int>(trained.loss.size());
  v.loss = trained.loss, v.reference_loss = reference.loss;
  v.gradient_norm = trained.gradient_norm, v.reference_gradient_norm = reference.gradient_norm;
  v.tolerance = tolerance;
  const auto require = [&](bool holds, std::string otherwise) {
    if (!holds) v.failures.push_back(std::move(otherwise));
  };

  v.max_loss_difference = largest_difference(v.loss, v.reference_loss);
  v.max_norm_difference = largest_difference(v.gradient_norm, v.reference_gradient_norm);
  require(v.steps > 0 && !trained.tensors.empty(), "nothing was trained");
  const bool narrow = !reference.tensors.empty() && !reference.tensors.front().gathered.empty();
  const double loss_tolerance = narrow ? kNarrowLossTolerance : kLossTolerance;
  const double norm_tolerance = narrow ? kNarrowNormTolerance : kLossTolerance;
  require(v.max_loss_difference <= loss_tolerance,
          fmt::format("the loss differs by {:.2g} relative, allowed are {:g}", v.max_loss_difference, loss_tolerance));
  require(v.max_norm_difference <= norm_tolerance,
          fmt::format("the norm of the gradient differs by {:.2g} relative, allowed are {:g}", v.max_norm_difference,
                      norm_tolerance));

  const auto same_tensors =
      std::equal(trained.tensors.begin(), trained.tensors.end(), reference.tensors.begin(), reference.tensors.end(),
                 [](const auto& a, const auto& b) {
                   return a.kind == b.kind && a.layer == b.layer && a.values.size() == b.values.size();
                 });
  require(same_tensors, fmt::format("{} tensors were trained, {} serially, and they are not the same ones",
                                    trained.tensors.size(), reference.tensors.size()));
  if (same_tensors) {
    for (std::size_t i = 0; i < trained.tensors.size(); ++i) {
      const auto& tensor = trained.tensors[i];
      const double d =
          difference(tensor.values, reference.tensors[i].values, narrow ? kNarrowSmallestWeight : kSmallestWeight);
      if (v.worst_tensor.empty() || d > v.max_relative_difference)
        v.max_relative_difference = d, v.worst_tensor = name_of(tensor);
      v.replica_difference = std::max(v.replica_difference, double(tensor.replica_difference));
      // Sums are made in the same order on all members of a group, so replicas stay equal to the last bit.
      require(tensor.replica_difference == 0,
              fmt::format("replicas of {} differ by {:.2g}", name_of(tensor), double(tensor.replica_difference)));
    }
    if (narrow) compare_gathered(trained, reference, v);
    require(v.max_relative_difference <= tolerance, fmt::format("{} differs by {:.2g} relative, allowed are {:g}",
                                                                v.worst_tensor, v.max_relative_difference, tolerance));
  }
  v.ok = v.failures.empty();
  if (v.steps > 1 && !(v.loss.back() < v.loss.front()))
    v.warnings.push_back(fmt::format("the loss did not fall: {:.6g} at the first step, {:.6g} at the last",
                                     v.loss.front(), v.loss.back()));
  return v;
}

}  // namespace rehearsal::explore
