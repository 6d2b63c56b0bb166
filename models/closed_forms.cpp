#include "models/closed_forms.hpp"

#include <algorithm>

#include "models/framework.hpp"
#include "models/lives.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {

LayerForms layer_forms(const Transformer& m, std::size_t row, std::int64_t sequence) {
  const auto layer = layer_table(m).rows.at(row).spec;
  LayerForms forms;
  const double tokens = double(sequence);
  forms.met = mixer_matrices(m.hidden, layer.mixer) + ffn_matrices(m.hidden, layer.ffn, Experts::used);
  // Per token 2 FLOP per entry; scores take 2 s a d and values the same, each with two gradients of that size.
  const double matrices = 2 * forms.met * tokens;
  const double core = mixing_flops(layer.mixer, sequence);
  forms.forward = Flops(matrices + core);
  forms.input_gradient = Flops(matrices + 2 * core);
  forms.weight_gradient = Flops(matrices);
  if (m.family == Family::mlp) return forms;
  const auto network = framework_network(m, Training{}, Framework{}, {.sequence = sequence});
  const auto lives = models::lives(network.layers[row]);
  forms.activation = lives.activations, forms.weight_hold = lives.weight_hold;
  return forms;
}

double expected_groups(std::int64_t experts, std::int64_t k, std::int64_t groups) {
  const double all = double(experts), each = all / double(groups);
  double none = 1;
  for (std::int64_t i = 0; i < k; ++i) none *= std::max(0., all - each - double(i)) / (all - double(i));
  return double(groups) * (1 - none);
}

}  // namespace rehearsal::models
