#include "explore/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include "base/error.hpp"

namespace rehearsal::explore {
namespace {

// NaN must not pass as small.
double relative(double difference, double scale) {
  if (difference == 0) return 0;
  const double quotient = std::abs(difference) / scale;
  return std::isfinite(quotient) ? quotient : HUGE_VAL;
}

std::string name_of(const backend::TrainedTensor& tensor) {
  const std::string kind = name(tensor.kind);
  return is_of_layer(tensor.kind) ? fmt::format("layer {} {}", tensor.layer, kind) : kind;
}

// `smallest`: lower bound of the mean element size assumed for a reference tensor.
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

// One micro-batch after another through all stages, forward and backward.
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
  // A stage runs p-1-s forwards before its first backward, and updates once per backward.
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
  const bool delayed = scenario.concrete->training.offload.delayed_update;
  const auto updates = delayed ? schedule::Updates::late : scenario.schedule.schedule().updates;
  serial.parallelism = {};
  // The staleness of parameter servers is kept on one rank, with the same number of iterations per graph.
  serial.data_parallel = {};
  if (scenario.data_parallel.served())
    serial.data_parallel.delay = scenario.data_parallel.delay,
    serial.data_parallel.performed = scenario.data_parallel.performed;
  serial.schedule = {};
  serial.schedule.name = "naive";
  serial.optimizer_sync = {};
  auto& c = *serial.concrete;
  c.training.recompute = models::Recompute::none;
  // All tokens at once: the other way to the same loss.
  if (c.framework.native_kernels) c.framework.loss = models::Framework{}.loss, c.framework.loss_chunks = 0;
  c.training.offload = {}, c.training.partition_activations = models::CutCheckpoints::none;
  if (c.training.updates_at_once()) {
    // If nothing is clipped, LOMO equals plain SGD, which may accumulate micro-batches. Below fp32 SGD would keep a
    // master copy, which LOMO has not. In all other cases the optimizer stays and there is one micro-batch.
    const char* serially = c.training.optimizer->serially;
    if (serially && c.training.precision == Precision::fp32 && !c.training.norms_first())
      c.training.optimizer = &models::optimizer(serially);
    else
      serial.batch.micro = serial.batch.global;
  }
  // Capacity slots are per micro-batch, so a larger micro-batch drops other rows.
  if (c.model.is_moe() && c.experts.capacity && serial.batch.micro != scenario.batch.micro)
    throw UserError(
        "optimizer lomo below fp32 is compared with one rank that takes the whole batch at once, where 'capacity' "
        "drops "
        "other tokens; set experts.capacity to dropless, or training.precision to fp32");
  if (c.model.is_moe() && c.experts.capacity &&
      scenario.parallelism.context * scenario.parallelism.tensor * scenario.schedule.cut() > 1)
    throw UserError(
        "ranks of a tensor or context group, and pieces of sequences, send tokens of their own, and are compared with "
        "one rank that sends all, where 'capacity' drops others; set experts.capacity to dropless, or "
        "parallelism.tensor and context to 1 and choose a schedule of whole sequences");
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
                              static_cast<std::uint32_t>(scenario.microbatches())));
  return serial;
}

namespace {

// In bf16 different layouts differ by up to 4e-3 (SGD), 1.6e-2 (LOMO, which rounds every step into the weights) and
// 9e-2 (AdamW, biases, whose gradients nearly vanish).
double weight_tolerance(const models::Optimizer& optimizer, Precision precision) {
  return precision == Precision::fp32 ? Limits{}.weights : optimizer.bf16_tolerance;
}

}  // namespace

Limits limits(const scenario::Scenario& scenario) {
  const auto& training = scenario.concrete->training;
  return {.weights = weight_tolerance(*training.optimizer, training.precision),
          .gradients = training.precision == Precision::fp32 ? kWideGatheredTolerance : kGatheredTolerance,
          .learning_rate = training.learning_rate,
          .precision = training.precision,
          .steps_each = std::max({1, scenario.optimizer_sync.performed, scenario.data_parallel.performed}),
          .pending = training.offload.delayed_update ? 1 : 0,
          .vectors_may_turn = training.optimizer->turns_vectors};
}

std::optional<scenario::Scenario> wide_reference(const scenario::Scenario& scenario, bool other_kernels) {
  const auto& layouts = scenario.parallelism.layouts;
  const bool tensor = scenario.parallelism.tensor > 1 ||
                      std::any_of(layouts.begin(), layouts.end(), [](const auto& layout) { return layout.tensor > 1; });
  const auto rows = models::layer_table(scenario.concrete->model).rows;
  const bool states = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.spec.mixer.recurrent(); });
  const bool cuts =
      other_kernels || tensor || (states && (scenario.parallelism.context > 1 || scenario.schedule.cut() > 1));
  if (scenario.concrete->training.precision == Precision::fp32 || !cuts) return std::nullopt;
  auto wide = serial_reference(scenario);
  wide.concrete->training.precision = wide.concrete->training.gradient_precision = Precision::fp32;
  return wide;
}

backend::RunOptions serial_options(backend::RunOptions options, const scenario::Scenario& scenario) {
  const int pending = limits(scenario).pending;
  if (options.iterations <= pending)
    throw UserError("a delayed update (training.offload.delayed_update) takes place in the step after: train for more");
  options.fault_injection = {}, options.starts = {}, options.recorded = false;
  options.responses = true;
  options.iterations = options.iterations * std::max(1, scenario.optimizer_sync.performed) - pending;
  return options;
}

namespace {

// A gradient error d moves a step by at most d times its response if s = sqrt(vhat) is above 2 d, times up to
// s / (s - d) <= 2; otherwise by at most two full steps, while the response is at least 1/2d of one: 4 times.
constexpr double kAnswers = 4;
// The largest of a tensor's rounding errors over the root of their mean square: 4.9 for a million normal ones (Cramer,
// Mathematical Methods of Statistics, 28.6), and tensors whose rows have unequal gradients have unequal errors. Errors
// of several steps add up to less in the first moment than one of them: 1.7 times for three steps.
constexpr double kPeak = 16;

double mean_square(std::span<const float> values) {
  double squares = 0;
  for (const float x : values) squares += double(x) * double(x);
  return values.empty() ? 0 : squares / double(values.size());
}

// kSmallestGathered times the accumulated gradient of an average tensor (root mean square).
double smallest_gathered(const backend::TrainingResult& reference) {
  double squares = 0, elements = 0;
  for (const auto& tensor : reference.tensors) {
    squares += mean_square(tensor.gathered) * double(tensor.gathered.size());
    elements += double(tensor.gathered.size());
  }
  return elements > 0 ? kSmallestGathered * std::sqrt(squares / elements) : 0;
}

// For single numbers, the rounding error of the reference; 0 if no fp32 reference was trained.
double rounding_of_numbers(const std::vector<double>& reference, const std::vector<double>* wide) {
  return wide && wide->size() == reference.size() ? kRoundingOfNumbers * largest_difference(reference, *wide) : 0;
}

// The rounding error of a tensor, by its index.
class Rounding {
 public:
  Rounding(const backend::TrainingResult& reference, const backend::TrainingResult* wide)
      : reference_(reference), wide_(wide) {
    if (wide_ && wide_->tensors.size() != reference_.tensors.size()) wide_ = nullptr;
  }
  double of_weights(std::size_t i, double smallest) const {
    return wide_ ? between(reference_.tensors[i].values, wide_->tensors[i].values, smallest) : 0;
  }
  double of_gathered(std::size_t i, double smallest) const {
    if (!wide_) return 0;
    const auto& narrow = reference_.tensors[i];
    auto gathered = wide_->tensors[i].gathered;
    // Without moments, the distance that the parameters moved from their common start.
    const auto& values = wide_->tensors[i].values;
    for (std::size_t e = 0; gathered.size() < values.size() && e < narrow.master.size(); ++e)
      gathered.push_back(narrow.master[e] + narrow.gathered[e] - values[e]);
    return between(narrow.gathered, gathered, smallest);
  }

 private:
  static double between(std::span<const float> narrow, std::span<const float> wide, double smallest) {
    return narrow.size() == wide.size() ? kRoundingOfTensors * difference(narrow, wide, smallest) : 0;
  }
  const backend::TrainingResult& reference_;
  const backend::TrainingResult* wide_;
};

void compare_gathered(const backend::TrainingResult& trained, const backend::TrainingResult& reference,
                      const Limits& limits, answer::Verification& v) {
  const bool narrow = limits.precision != Precision::fp32;
  const double smallest = smallest_gathered(reference);
  const Rounding rounding(reference, limits.wide);
  std::string worst;
  double worst_difference = 0, allowed = limits.gradients;  // of the tensor that exceeds its limit most
  for (std::size_t i = 0; i < trained.tensors.size(); ++i) {
    const auto& tensor = trained.tensors[i];
    const auto& other = reference.tensors[i];
    // Below fp32 without a master copy it is rounded into the weights and says no more than they do.
    if (other.gathered.empty() || (narrow && other.master.empty())) continue;
    const double d = tensor.gathered.size() == other.gathered.size()
                         ? difference(tensor.gathered, other.gathered, smallest)
                         : HUGE_VAL;
    v.max_gathered_difference = std::max(v.max_gathered_difference, d);
    const double limit = std::max(limits.gradients, d > limits.gradients ? rounding.of_gathered(i, smallest) : 0);
    if (!(d / limit <= worst_difference / allowed)) worst = name_of(tensor), worst_difference = d, allowed = limit;
  }
  if (!(worst_difference <= allowed))
    v.failures.push_back(
        fmt::format("what was gathered of the gradients of {} differs by {:.2g} relative, allowed are {:.2g}", worst,
                    worst_difference, allowed));
}

// How far each element of a weight may be off because of its gradients; empty if no responses were recorded.
std::vector<double> explained(const backend::TrainedTensor& tensor, const backend::TrainedTensor& reference,
                              const Limits& limits, std::size_t steps, answer::Verification& v) {
  std::vector<double> off;
  if (reference.response.empty() || tensor.gathered.size() != reference.gathered.size()) return off;
  std::vector<float> apart(tensor.gathered.size());
  std::transform(tensor.gathered.begin(), tensor.gathered.end(), reference.gathered.begin(), apart.begin(),
                 std::minus<float>());
  // With the same gradient at every step, the first moment holds 1 - beta1^steps of it.
  const backend::TrainingData adamw;
  const double error = kPeak * std::sqrt(mean_square(apart)) / (1 - std::pow(double(adamw.beta1), double(steps)));
  // The longest step is rate (1 - beta1) / sqrt(1 - beta2) (Kingma and Ba, arXiv 1412.6980, section 2.1).
  const double full = limits.learning_rate * double(steps);
  const double most = 2 * full * (1 - double(adamw.beta1)) / std::sqrt(1 - double(adamw.beta2));
  for (const float response : reference.response) {
    off.push_back(std::min(kAnswers * double(response) * error, most));
    v.ill_conditioned += off.back() >= full;
  }
  return off;
}

// Excludes the elements of a vector that may have moved in the opposite direction.
void leave_out(std::vector<float>& values, const std::vector<float>& reference) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto off = [&](std::size_t e) { return std::abs(double(values[e]) - double(reference[e])); };
  const auto count = std::ptrdiff_t(kMayTurn * double(values.size()));
  std::nth_element(order.begin(), order.begin() + count, order.end(),
                   [&](std::size_t a, std::size_t b) { return off(a) > off(b); });
  std::for_each(order.begin(), order.begin() + count, [&](std::size_t e) { values[e] = reference[e]; });
}

bool is_vector(TensorKind kind) {
  const std::string_view tensor = name(kind);
  return tensor.ends_with("_bias") || tensor.ends_with("_gain");
}

void compare_weights(const backend::TrainingResult& trained, const backend::TrainingResult& reference,
                     const Limits& limits, answer::Verification& v) {
  const bool narrow = limits.precision != Precision::fp32;
  const double smallest = narrow ? kNarrowSmallestWeight : kSmallestWeight;
  const Rounding rounding(reference, limits.wide);
  for (std::size_t i = 0; i < trained.tensors.size(); ++i) {
    const auto& tensor = trained.tensors[i];
    const auto& other = reference.tensors[i];
    const auto off = narrow ? std::vector<double>()
                            : explained(tensor, other, limits, v.loss.size() * std::size_t(limits.steps_each), v);
    std::vector<float> rest = tensor.values;
    for (std::size_t e = 0; e < off.size(); ++e) {
      const double d = double(rest[e]) - double(other.values[e]);
      if (std::abs(d) <= off[e])
        rest[e] = other.values[e];
      else if (std::isfinite(d))
        rest[e] = float(double(other.values[e]) + d - std::copysign(off[e], d));
    }
    v.elements += tensor.values.size();
    if (limits.vectors_may_turn && is_vector(tensor.kind)) leave_out(rest, other.values);
    const double d = difference(tensor.values, other.values, smallest);
    double left = difference(rest, other.values, smallest);
    // If rounding exceeds the limit, relative to it.
    if (left > limits.weights) left /= std::max(1., rounding.of_weights(i, smallest) / limits.weights);
    if (v.worst_tensor.empty() || d > v.max_relative_difference)
      v.max_relative_difference = d, v.worst_tensor = name_of(tensor);
    if (v.worst_unexplained.empty() || left > v.max_unexplained_difference)
      v.max_unexplained_difference = left, v.worst_unexplained = name_of(tensor);
  }
}

// Merges `each` reference steps into one step of the performed run: adds losses and squared gradient norms.
void add_up(answer::Verification& v, std::size_t each) {
  std::vector<double> losses, norms;
  for (std::size_t i = 0; i < v.reference_loss.size(); ++i) {
    if (i % each == 0) losses.push_back(0), norms.push_back(0);
    losses.back() += v.reference_loss[i];
    norms.back() = std::hypot(norms.back(), v.reference_gradient_norm[i]);
  }
  v.reference_loss = std::move(losses), v.reference_gradient_norm = std::move(norms);
}

}  // namespace

answer::Verification verify(const backend::TrainingResult& trained, const backend::TrainingResult& reference,
                            const Limits& limits) {
  answer::Verification v;
  v.steps = static_cast<int>(trained.loss.size());
  v.loss = trained.loss, v.reference_loss = reference.loss;
  v.gradient_norm = trained.gradient_norm, v.reference_gradient_norm = reference.gradient_norm;
  // Pending updates check their gradients one step later.
  for (int i = 0; i < limits.pending && !v.loss.empty(); ++i)
    v.loss.pop_back(), v.gradient_norm.erase(v.gradient_norm.begin());
  if (const auto each = reference.loss.size() / std::max<std::size_t>(1, v.loss.size()); each > 1) add_up(v, each);
  v.tolerance = limits.weights;
  const auto require = [&](bool holds, std::string otherwise) {
    if (!holds) v.failures.push_back(std::move(otherwise));
  };

  v.max_loss_difference = largest_difference(v.loss, v.reference_loss);
  v.max_norm_difference = largest_difference(v.gradient_norm, v.reference_gradient_norm);
  require(v.steps > 0 && !trained.tensors.empty(), "nothing was trained");
  const bool narrow = limits.precision != Precision::fp32;
  const double loss_tolerance =
      std::max(narrow ? kNarrowLossTolerance : kLossTolerance,
               rounding_of_numbers(reference.loss, limits.wide ? &limits.wide->loss : nullptr));
  const double norm_tolerance =
      std::max(narrow ? kNarrowNormTolerance : kLossTolerance,
               rounding_of_numbers(reference.gradient_norm, limits.wide ? &limits.wide->gradient_norm : nullptr));
  require(
      v.max_loss_difference <= loss_tolerance,
      fmt::format("the loss differs by {:.2g} relative, allowed are {:.2g}", v.max_loss_difference, loss_tolerance));
  require(v.max_norm_difference <= norm_tolerance,
          fmt::format("the norm of the gradient differs by {:.2g} relative, allowed are {:.2g}", v.max_norm_difference,
                      norm_tolerance));

  const auto same_tensors =
      std::equal(trained.tensors.begin(), trained.tensors.end(), reference.tensors.begin(), reference.tensors.end(),
                 [](const auto& a, const auto& b) {
                   return a.kind == b.kind && a.layer == b.layer && a.values.size() == b.values.size();
                 });
  require(same_tensors, fmt::format("{} tensors were trained, {} serially, and they are not the same ones",
                                    trained.tensors.size(), reference.tensors.size()));
  if (same_tensors) {
    for (const auto& tensor : trained.tensors) {
      v.replica_difference = std::max(v.replica_difference, double(tensor.replica_difference));
      // All members of a group sum in the same order, so replicas stay bitwise equal.
      require(tensor.replica_difference == 0,
              fmt::format("replicas of {} differ by {:.2g}", name_of(tensor), double(tensor.replica_difference)));
    }
    compare_gathered(trained, reference, limits, v);
    compare_weights(trained, reference, limits, v);
    require(v.max_unexplained_difference <= limits.weights,
            fmt::format("{} differs by {:.2g} relative, allowed are {:g}", v.worst_unexplained,
                        v.max_unexplained_difference, limits.weights));
  }
  v.ok = v.failures.empty();
  if (v.steps > 1 && !(v.loss.back() < v.loss.front()))
    v.warnings.push_back(fmt::format("the loss did not fall: {:.6g} at the first step, {:.6g} at the last",
                                     v.loss.front(), v.loss.back()));
  return v;
}

}  // namespace rehearsal::explore
