#include "models/network.hpp"

#include <utility>

#include "base/error.hpp"
#include "models/network_builder.hpp"

namespace rehearsal::models {

double NetworkPart::parameters() const {
  double sum = 0;
  for (const auto& segment : segments)
    for (const auto& tensor : segment.tensors) sum += double(tensor.elements());
  return sum;
}

NetworkPart PartBuilder::finish() {
  const auto lists = {&part_.forward, &part_.input_gradient_steps, &part_.weight_gradient_steps};
  std::vector<std::optional<Precision>> stored(elements_.size());
  for (auto* steps : lists)
    for (auto& step : *steps) {
      auto* kernel = std::get_if<Kernel>(&step.what);
      if (!kernel) continue;
      kernel->precision = precision_;
      for (std::size_t i = 0; i < step.operands.size(); ++i) {
        if (step.operands[i].of != Operand::Of::value) continue;
        auto& known = stored[step.operands[i].index];
        const Precision here = operand_precision(*kernel, i);
        INVARIANT(!known || *known == here, std::string(name(kernel->kind)) + " finds a value in another precision");
        known = here;
      }
    }
  for (std::size_t v = 0; v < elements_.size(); ++v)
    part_.values.push_back(Bytes(elements_[v] * bytes_per_element(stored[v].value_or(precision_))));
  for (auto* steps : lists)
    for (auto& step : *steps)
      if (auto* collective = std::get_if<TensorCollective>(&step.what)) {
        const auto value = step.operands.front().index;
        collective->size = part_.values[value];
        collective->precision = stored[value].value_or(precision_);
      }
  return std::move(part_);
}

Network network(const Transformer& model, const NetworkShape& shape) {
  const auto refuse = [](const char* what) {
    throw UserError(std::string("software rehearsal has no kernels for ") + what +
                    "; it performs families gpt and mlp with gelu");
  };
  if (model.family == Family::llama) refuse("family llama (RMS norm, rotary embedding)");
  if (model.ffn_kind != FfnKind::gelu) refuse("ffn_kind swiglu");
  if (shape.shard.sequence_parallel) refuse("sequence parallelism");
  if (shape.precision != Precision::fp32 && shape.precision != Precision::bf16)
    throw UserError(std::string("software rehearsal has no kernels for precision ") + name(shape.precision) +
                    "; it computes in fp32 and bf16");
  if (model.family == Family::mlp) return mlp_network(model, shape);
  if (model.kv_heads != model.heads) refuse("grouped key-value heads");
  if (model.head_dim * model.heads != model.hidden) refuse("heads that do not add up to the hidden size");
  return gpt_network(model, shape);
}

}  // namespace rehearsal::models
