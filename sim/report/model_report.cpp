#include "report/model_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/closed_forms.hpp"

namespace rehearsal::report {
namespace {

// Common numbers of GPUs that share the experts.
template <class Act>
void each_sharing(const models::Transformer& model, Act&& act) {
  for (std::int64_t groups = 2; groups <= std::min<std::int64_t>(64, model.experts); groups *= 2)
    if (model.experts % groups == 0)
      act(groups, models::expected_groups(model.experts, model.experts_per_token, groups));
}

}  // namespace

std::string model_text(const models::Transformer& model) {
  const double all = models::parameters(model), active = models::active_parameters(model);
  auto text =
      fmt::format("{}: {} layers, hidden {}, {:.2f} B parameters", model.name, model.layers, model.hidden, all / 1e9);
  if (active < all) text += fmt::format(", {:.2f} B active", active / 1e9);
  text += fmt::format("\n\nA layer of one sequence of {} tokens, attention counted as the whole square:\n\n",
                      model.sequence);
  const auto table = models::layer_table(model);
  std::size_t width = 8;
  for (const auto& row : table.rows) width = std::max(width, label(row.spec).size());
  text += fmt::format("{:<{}} {:>5} {:>12} {:>8} {:>8} {:>8} {:>11} {:>11}\n", "layers", width, "count", "entries a",
                      "forward", "input", "weight", "kept F to B", "kept B to W");
  text += fmt::format("{:<{}} {:>5} {:>12} {:>8} {:>8} {:>8} {:>11} {:>11}\n", "", width, "", "token meets", "TFLOP",
                      "gradient", "gradient", "MB", "MB");
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto forms = models::layer_forms(model, row, model.sequence);
    const auto kept = [](const std::optional<Bytes>& bytes) {
      return bytes ? fmt::format("{:.1f}", double(bytes->count()) / 1e6) : std::string("-");
    };
    text += fmt::format("{:<{}} {:>5} {:>12.0f} {:>8.3f} {:>8.3f} {:>8.3f} {:>11} {:>11}\n",
                        label(table.rows[row].spec), width, table.rows[row].count, forms.met,
                        forms.forward.value() / 1e12, forms.input_gradient.value() / 1e12,
                        forms.weight_gradient.value() / 1e12, kept(forms.activation), kept(forms.weight_hold));
  }
  if (!model.is_moe()) return text;
  text += fmt::format(
      "\nA token meets {} of {} experts. Where n GPUs or nodes share them evenly and all\n"
      "choices are equally likely, its experts are on this many of the n, and on this\n"
      "many other than its own:\n\n{:>4} {:>8} {:>8}\n",
      model.experts_per_token, model.experts, "n", "of n", "others");
  each_sharing(model, [&](std::int64_t n, double met) {
    text += fmt::format("{:>4} {:>8.3f} {:>8.3f}\n", n, met, met * double(n - 1) / double(n));
  });
  return text;
}

Json model_json(const models::Transformer& model) {
  Json json{{"name", model.name},
            {"parameters", std::llround(models::parameters(model))},
            {"active_parameters", std::llround(models::active_parameters(model))},
            {"sequence", model.sequence},
            {"layers", Json::array()}};
  const auto table = models::layer_table(model);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto forms = models::layer_forms(model, row, model.sequence);
    Json shown{{"kind", label(table.rows[row].spec)},
               {"count", table.rows[row].count},
               {"entries_met", forms.met},
               {"forward_flop", forms.forward.value()},
               {"input_gradient_flop", forms.input_gradient.value()},
               {"weight_gradient_flop", forms.weight_gradient.value()}};
    if (forms.activation) shown["activation_bytes"] = forms.activation->count();
    if (forms.weight_hold) shown["weight_hold_bytes"] = forms.weight_hold->count();
    json["layers"].push_back(std::move(shown));
  }
  if (model.is_moe()) {
    json["expected_groups"] = Json::array();
    each_sharing(model, [&](std::int64_t n, double met) {
      json["expected_groups"].push_back({{"groups", n}, {"met", met}, {"others", met * double(n - 1) / double(n)}});
    });
  }
  return json;
}

}  // namespace rehearsal::report
