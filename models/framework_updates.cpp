// Updates inside the backward, as the authors of LOMO (arXiv 2306.09782) run them (OpenLMLab/LOMO). A hook on each
// gradient updates the previous tensor, so a gradient waits until the next one exists. The operations are eager: each
// is a kernel that reads its operands and writes its result.
#include <algorithm>

#include "models/framework_rewrite.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

bool is_vector(const Tensor& tensor) {
  switch (tensor.kind) {
    case TensorKind::qv_bias:  // several in a row
    case TensorKind::qkv_bias:
    case TensorKind::up_bias:
      return true;
    default:
      return tensor.outer == 1 && tensor.inner == 1;
  }
}

// DynamicLossScaler._has_inf_or_nan casts to fp32 and sums, also in the backward that updates; then the gradient is
// divided by the scale.
UpdateTraffic scaled(UpdateTraffic traffic, const Training& training) {
  if (training.scales_loss()) traffic.gradient += kCast + kReduced + kInPlace, traffic.kernels += 3;
  return traffic;
}

}  // namespace

// What steps inside the backward on request is the fused kernel of a step, tensor by tensor (torchtune's
// optimizer_in_bwd).
UpdateTraffic update_at_once(const Training& training, const Framework& framework) {
  if (!training.optimizer->in_backward) return {.parameters = optimizer_bytes(training, framework), .kernels = 1};
  return scaled(training.optimizer->update(training), training);
}

// Work on the norms of all tensors is scalar.
UpdateTraffic norm_at_once(const Training& training) {
  return scaled(training.optimizer->take_norm(training), training);
}

UpdateTraffic norm_of_gradient(const Training& training) {
  UpdateTraffic t{.gradient = kReduced, .kernels = 1};
  if (bytes_per_element(training.precision) < 4) t.gradient += kCast, t.gradient_copies = 4, ++t.kernels;
  return t;
}

// [outer, slice, inner] is `outer` matrices; [outputs, inputs] without an inner dimension is one.
std::vector<MatrixPlace> matrices_of(const Tensor& tensor) {
  if (is_vector(tensor)) return {{tensor.offset, 1, tensor.elements()}};
  if (tensor.inner == 1) return {{tensor.offset, tensor.outer, tensor.slice}};
  std::vector<MatrixPlace> all;
  const std::int64_t rows = std::min(tensor.slice, tensor.extent);  // the rest is padding, excluded from all means
  for (std::int64_t i = 0; i < tensor.outer; ++i)
    all.push_back({tensor.offset + i * tensor.slice * tensor.inner, rows, tensor.inner});
  return all;
}

std::vector<MatrixPlace> matrices_of(std::span<const Tensor> tensors) {
  std::vector<MatrixPlace> all;
  for (const auto& t : tensors)
    for (const auto& m : matrices_of(t)) all.push_back(m);
  return all;
}

std::vector<OneTensor> tensors_of(const std::vector<Segment>& segments) {
  std::vector<OneTensor> all;
  for (const auto& segment : segments)
    for (const auto& t : segment.tensors)
      for (const auto& m : matrices_of(t))
        all.push_back({double(m.rows) * double(m.columns), replicas_of(segment.tensors) == Axis::expert_data});
  return all;
}

double largest(const std::vector<OneTensor>& tensors) {
  double most = 0;
  for (const auto& t : tensors) most = std::max(most, t.elements);
  return most;
}

// A separate gradient for each tensor that a step completes; vectors are completed with the last matrix.
void FrameworkRewrite::gradients_to_update() {
  if (!run_.shard.updates_in_backward) return;
  std::vector<WeightGradient*> completes;
  for (auto& weights : weights_)
    if (std::holds_alternative<Gemm>(weights.step.what)) completes.push_back(&weights);
  if (completes.empty() && !weights_.empty()) completes.push_back(&weights_.back());
  const double element = bytes_per_element(run_.training.precision) == 4 ? 4 : 2;
  for (std::size_t i = 0; i < std::min(completes.size(), part_.gradients.size()); ++i) {
    const double parameters = part_.gradients[i].parameters;
    const Index gradient = value(element * parameters);
    completes[i]->step.operands.push_back(write(gradient));
    completes[i]->kept.push_back(write(gradient));
    updates_[gradient] = parameters;
  }
}

// A product may complete several tensors (queries, keys and values).
std::int64_t FrameworkRewrite::launches_of_one(const UpdateTraffic& traffic) const {
  if (updates_.empty()) return 0;
  return traffic.kernels * static_cast<std::int64_t>(tensors_of(block_.segments).size()) /
         static_cast<std::int64_t>(updates_.size());
}
std::int64_t FrameworkRewrite::update_launches() const {
  return launches_of_one(update_at_once(run_.training, run_.framework)) * static_cast<std::int64_t>(updates_.size());
}

// With ZeRO-3 gradients are reduced between the kernels, and updates do not belong to the part.
void FrameworkRewrite::take_norms() {
  if (!run_.training.norms_first()) return;
  const auto traffic = norm_at_once(run_.training);
  part_.norm_backward = with_each_gradient(part_.backward, "norm of the gradient", traffic);
  part_.norm_launches = part_.backward_launches - update_launches() +
                        launches_of_one(traffic) * static_cast<std::int64_t>(updates_.size());
}

void FrameworkRewrite::update(List& steps) {
  if (!updates_.empty()) steps = with_each_gradient(steps, "update", update_at_once(run_.training, run_.framework));
}

FrameworkRewrite::List FrameworkRewrite::with_each_gradient(const List& steps, std::string_view name,
                                                            const UpdateTraffic& traffic) {
  const double most = largest(tensors_of(block_.segments));
  List all;
  std::optional<Index> waits;
  const auto make = [&] {
    if (!waits) return;
    const double parameters = updates_.at(*waits);
    Operands operands{read(*waits)};
    if (traffic.copies() > 0) operands.push_back(write(value(traffic.copies() * std::min(parameters, most))));
    all.push_back(plain(name, traffic.all() * parameters, launches_of_one(traffic), std::move(operands)));
    waits.reset();
  };
  for (const auto& step : steps) {
    const auto made = std::find_if(step.operands.begin(), step.operands.end(),
                                   [&](const Operand& o) { return o.written && updates_.count(o.index) > 0; });
    const auto next = made == step.operands.end() ? std::nullopt : std::optional(made->index);
    all.push_back(step);
    if (next) make(), waits = next;
  }
  make();
  return all;
}

}  // namespace rehearsal::models
