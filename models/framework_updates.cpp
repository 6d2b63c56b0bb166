// Updates inside the backward: LOMO (arXiv 2306.09782) as its authors run it (OpenLMLab/LOMO, src/lomo.py,
// fuse_update). A hook on each gradient updates the tensor before it, so the gradient of one waits until that of the
// next is there. The update is eager: a look for infinities (a cast to fp32, 6 bytes, and its sum, 4), casts of the
// gradient and of the parameters (6 each), the product with the rate and the difference (12), a copy back (6). In fp32
// nothing is cast.
#include <algorithm>

#include "models/framework_rewrite.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {

UpdateTraffic lomo_update(Precision precision) {
  return bytes_per_element(precision) == 4 ? UpdateTraffic{4, 12, 0} : UpdateTraffic{16, 24, 8};
}

// A gradient of its own for each tensor that a step completes; vectors come with the last matrix.
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

std::int64_t FrameworkRewrite::update_launches() const { return kUpdateKernels * std::int64_t(updates_.size()); }

void FrameworkRewrite::update(List& steps) {
  if (updates_.empty()) return;
  const auto traffic = lomo_update(run_.training.precision);
  List all;
  std::optional<Index> waits;
  const auto make = [&] {
    if (!waits) return;
    const double parameters = updates_.at(*waits);
    Operands operands{read(*waits)};
    if (traffic.casts > 0) operands.push_back(write(value(traffic.casts * parameters)));
    all.push_back(plain("update", traffic.all() * parameters, kUpdateKernels, std::move(operands)));
    waits.reset();
  };
  for (auto& step : steps) {
    const auto made = std::find_if(step.operands.begin(), step.operands.end(),
                                   [&](const Operand& o) { return o.written && updates_.count(o.index) > 0; });
    const auto next = made == step.operands.end() ? std::nullopt : std::optional(made->index);
    all.push_back(std::move(step));
    if (next) make(), waits = next;
  }
  make();
  steps = std::move(all);
}

}  // namespace rehearsal::models
