// What a step keeps for its backward, as far as it is asked for: the loss in chunks, and values in fewer bits.
#include <fmt/format.h>

#include <algorithm>

#include "models/shapes.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using models::LossKernels;
using models::RecomputeModule;
using models::StoredValue;

void check_loss(Context& context, const Node& root, const models::Training& training,
                const models::Framework& framework, std::int64_t tensor) {
  const auto refuse = [&](std::string_view path, bool wrong, const std::string& why) {
    if (wrong) context.problems.error(place_of(root, path), why);
  };
  const bool fused = framework.loss == LossKernels::linear_fused,
             rows = fused || framework.loss == LossKernels::classifier,
             chunks = rows || framework.loss == LossKernels::chunked;
  refuse("framework.loss_chunks", framework.loss_chunks > 0 && !chunks,
         "'loss_chunks' needs a loss that works in chunks: chunked, classifier or linear-fused; set 'loss' to one of "
         "them, or leave 'loss_chunks' out");
  if (!chunks) return;
  refuse("framework.loss", framework.native_kernels && rows,
         "native kernels compute the gradients of the output layer in the backward pass, from logits; set 'loss' to "
         "chunked, or leave it out");
  refuse("framework.loss", rows && tensor > 1,
         fmt::format("'{}' computes loss and gradients from whole rows of logits, but each of {} tensor ranks has only "
                     "a slice of them; set 'loss' to chunked, or 'tensor' to 1",
                     fused ? "linear-fused" : "classifier", tensor));
  refuse("framework.loss", training.updates_at_once(),
         "an optimizer that steps inside the backward pass needs each gradient complete, but a chunked loss adds up "
         "that of the output layer chunk by chunk; choose another 'loss'");
}

void check_storage(Context& context, const Node& root, const models::Transformer& model,
                   const models::Training& training, const models::Framework& framework) {
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) context.problems.error(place_of(root, "training.activation_storage"), why);
  };
  if (training.stored_fp8.empty() && training.stored_e5m6.empty()) return;
  if (framework.native_kernels)
    return refuse(true, "native kernels store activations as they compute them; leave 'activation_storage' out");
  if (training.recompute == models::Recompute::full)
    return refuse(true,
                  "'recompute: full' stores only the inputs of layers; leave 'activation_storage' out, or recompute "
                  "single modules");
  refuse(bytes_per_element(training.precision) > 2,
         "activations can be stored in 8 bits only when training in 16 bits or less; set 'precision' to bf16, fp16 or "
         "fp8");
  const auto rows = models::layer_table(model).rows;
  const auto any = [&](auto&& holds) { return std::any_of(rows.begin(), rows.end(), holds); };
  const auto again = [&](RecomputeModule module) { return training.recompute_modules.contains(module); };
  const auto idle = [&](StoredValue value, const char* name, bool there, const char* needs, bool repeated,
                        const char* module) {
    if (!training.stores(value)) return;
    refuse(training.stored_fp8.contains(value) && training.stored_e5m6.contains(value),
           fmt::format("'{}' is listed under 'fp8' and under 'e5m6'; leave one of them out", name));
    refuse(!there, fmt::format("'{}' belongs to {}, and model '{}' has none; leave it out", name, needs, model.name));
    refuse(repeated, fmt::format("'{}' in 'training.recompute.modules' recomputes '{}' in the backward pass, so it is "
                                 "not stored; leave one of them out",
                                 module, name));
  };
  const bool moe = model.is_moe();
  idle(StoredValue::latents, "latents", model.mla.has_value(), "latent attention ('mla')", false, "");
  idle(StoredValue::attention_out, "attention_out",
       any([](const auto& row) { return row.spec.mixer.kind == models::MixerKind::attention; }), "attention", false,
       "");
  idle(StoredValue::dispatched, "dispatched", moe, "experts", again(RecomputeModule::moe), "moe");
  idle(StoredValue::moe_act, "moe_act", moe, "experts", again(RecomputeModule::moe), "moe");
  idle(StoredValue::mlp_act, "mlp_act", any([](const auto& row) { return row.spec.ffn.width > 0; }), "dense layers",
       again(RecomputeModule::mlp), "mlp");
  refuse(training.stored_fp8.contains(StoredValue::dispatched) && framework.saves_casts &&
             models::scaled(training.precision),
         "'framework.saves_casts' already stores dispatched tokens in 8 bits, as the experts' GEMMs read them; set it "
         "to false, or leave 'dispatched' out");
}

}  // namespace

void check_kept(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                const models::Training& training, const models::Framework& framework, std::int64_t tensor) {
  check_loss(context, root, training, framework, tensor);
  if (model) check_storage(context, root, *model, training, framework);
}

}  // namespace rehearsal::scenario
