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
  refuse(
      "framework.loss_chunks", framework.loss_chunks > 0 && !chunks,
      "'loss_chunks' cuts the tokens of a loss 'chunked', 'classifier' or 'linear-fused'; choose one, or leave it out");
  if (!chunks) return;
  refuse("framework.loss", framework.native_kernels && rows,
         "this program's own kernels make gradients of the head in the backward, beside the logits; set 'loss' to "
         "chunked, "
         "or leave it out");
  refuse("framework.loss", rows && tensor > 1,
         fmt::format(
             "'{}' makes loss and gradients of whole rows of logits, of which each of {} tensor ranks has a slice; "
             "set 'loss' to chunked, or 'tensor' to 1",
             fused ? "linear-fused" : "classifier", tensor));
  refuse("framework.loss", training.updates_at_once(),
         "an optimizer that steps inside the backward takes each gradient once, and chunks add to that of the head; "
         "choose another 'loss'");
}

void check_storage(Context& context, const Node& root, const models::Transformer& model,
                   const models::Training& training, const models::Framework& framework) {
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) context.problems.error(place_of(root, "training.activation_storage"), why);
  };
  if (training.stored_fp8.empty() && training.stored_e5m6.empty()) return;
  if (framework.native_kernels)
    return refuse(true, "this program's own kernels keep values as they computed them; leave it out");
  if (training.recompute == models::Recompute::full)
    return refuse(true, "recompute full keeps inputs of layers alone; leave it out, or recompute modules");
  refuse(bytes_per_element(training.precision) > 2, "values are stored in less than 16 bits; train in 16 or fewer");
  const auto rows = models::layer_table(model).rows;
  const auto any = [&](auto&& holds) { return std::any_of(rows.begin(), rows.end(), holds); };
  const auto again = [&](RecomputeModule module) { return training.recompute_modules.contains(module); };
  const auto idle = [&](StoredValue value, const char* name, bool there, const char* needs, bool repeated,
                        const char* module) {
    if (!training.stores(value)) return;
    refuse(training.stored_fp8.contains(value) && training.stored_e5m6.contains(value),
           fmt::format("'{}' is stored in fp8 or in e5m6; leave one of them out", name));
    refuse(!there, fmt::format("'{}' is of {}, and model '{}' has none", name, needs, model.name));
    refuse(repeated, fmt::format("'{}' of 'training.recompute.modules' makes '{}' again in the backward, so it is not "
                                 "stored; leave one of them out",
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
         "'framework.saves_casts' keeps rows that were dispatched as experts' products read them, in 8 bits; set it to "
         "false to say which values are stored so, or leave 'dispatched' out");
}

}  // namespace

void check_kept(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                const models::Training& training, const models::Framework& framework, std::int64_t tensor) {
  check_loss(context, root, training, framework, tensor);
  if (model) check_storage(context, root, *model, training, framework);
}

}  // namespace rehearsal::scenario
