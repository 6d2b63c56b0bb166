#include "models/network.hpp"

#include "base/error.hpp"
#include "models/network_builder.hpp"

namespace rehearsal::models {

double NetworkPart::parameters() const {
  double sum = 0;
  for (const auto& segment : segments)
    for (const auto& tensor : segment.tensors) sum += double(tensor.elements());
  return sum;
}

Network network(const Transformer& model, const NetworkShape& shape) {
  const auto refuse = [](const char* what) {
    throw UserError(std::string("software rehearsal has no kernels for ") + what +
                    "; it performs families gpt and mlp with gelu");
  };
  if (model.family == Family::llama) refuse("family llama (RMS norm, rotary embedding)");
  if (model.ffn_kind != FfnKind::gelu) refuse("ffn_kind swiglu");
  if (shape.shard.sequence_parallel) refuse("sequence parallelism");
  if (model.family == Family::mlp) return mlp_network(model, shape);
  if (model.kv_heads != model.heads) refuse("grouped key-value heads");
  if (model.head_dim * model.heads != model.hidden) refuse("heads that do not add up to the hidden size");
  return gpt_network(model, shape);
}

}  // namespace rehearsal::models
