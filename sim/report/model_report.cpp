#include "report/model_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/closed_forms.hpp"

namespace rehearsal::report {
namespace {

struct Layers {
  models::LayerTable::Row row;
  models::LayerForms forms;
};
std::vector<Layers> layers_of(const models::Transformer& model) {
  std::vector<Layers> all;
  for (const auto& row : models::layer_table(model).rows)
    all.push_back({row, models::layer_forms(model, all.size(), model.sequence)});
  return all;
}

// Where n GPUs share the experts, for common n: how many of them have one that a token meets.
struct Sharing {
  std::int64_t groups;
  double met;
  double others() const { return met * double(groups - 1) / double(groups); }
};
std::vector<Sharing> sharings(const models::Transformer& model) {
  std::vector<Sharing> all;
  for (std::int64_t n = 2; model.is_moe() && n <= std::min<std::int64_t>(64, model.experts); n *= 2)
    if (model.experts % n == 0) all.push_back({n, models::expected_groups(model.experts, model.experts_per_token, n)});
  return all;
}

}  // namespace

std::string model_text(const models::Transformer& model) {
  const double all = models::parameters(model), active = models::active_parameters(model);
  auto text =
      fmt::format("{}: {} layers, hidden {}, {:.2f} B parameters", model.name, model.layers, model.hidden, all / 1e9);
  if (active < all) text += fmt::format(", {:.2f} B active", active / 1e9);
  text += fmt::format("\n\nA layer of one sequence of {} tokens, attention counted as the whole square:\n\n",
                      model.sequence);
  const auto layers = layers_of(model);
  std::size_t width = 8;
  for (const auto& [row, forms] : layers) width = std::max(width, label(row.spec).size());
  text += fmt::format("{:<{}} {:>5} {:>12} {:>8} {:>8} {:>8} {:>11} {:>11}\n", "layers", width, "count", "entries a",
                      "forward", "input", "weight", "kept F to B", "kept B to W");
  text += fmt::format("{:<{}} {:>5} {:>12} {:>8} {:>8} {:>8} {:>11} {:>11}\n", "", width, "", "token meets", "TFLOP",
                      "gradient", "gradient", "MB", "MB");
  const auto kept = [](const std::optional<Bytes>& bytes) {
    return bytes ? fmt::format("{:.1f}", double(bytes->count()) / 1e6) : std::string("-");
  };
  for (const auto& [row, forms] : layers)
    text += fmt::format("{:<{}} {:>5} {:>12.0f} {:>8.3f} {:>8.3f} {:>8.3f} {:>11} {:>11}\n", label(row.spec), width,
                        row.count, forms.met, forms.forward.value() / 1e12, forms.input_gradient.value() / 1e12,
                        forms.weight_gradient.value() / 1e12, kept(forms.activation), kept(forms.weight_hold));
  if (!model.is_moe()) return text;
  text += fmt::format(
      "\nA token meets {} of {} experts. Where n GPUs or nodes share them evenly and all\n"
      "choices are equally likely, its experts are on this many of the n, and on this\n"
      "many other than its own:\n\n{:>4} {:>8} {:>8}\n",
      model.experts_per_token, model.experts, "n", "of n", "others");
  for (const auto& at : sharings(model))
    text += fmt::format("{:>4} {:>8.3f} {:>8.3f}\n", at.groups, at.met, at.others());
  return text;
}

Shown<models::Transformer> model_answer() {
  using models::Transformer;
  const auto forms = [](auto get) { return [get](const Layers& l) { return std::invoke(get, l.forms); }; };
  using Forms = models::LayerForms;
  return Shown<Transformer>("What a model computes and keeps, for one sequence.")
      .figure("name", &Transformer::name)
      .figure("parameters", [](auto& m) { return std::llround(models::parameters(m)); })
      .figure("active_parameters", [](auto& m) { return std::llround(models::active_parameters(m)); })
      .figure("sequence", Unit::none, "tokens", &Transformer::sequence)
      .rows(
          "layers",
          Shown<Layers>("Layers that are alike.")
              .figure("kind", [](auto& l) { return label(l.row.spec); })
              .figure("count", [](auto& l) { return l.row.count; })
              .figure("entries_met", Unit::none, "of matrices, by a token", forms(&Forms::met))
              .figure("forward_flop", forms([](auto& f) { return f.forward.value(); }))
              .figure("input_gradient_flop", forms([](auto& f) { return f.input_gradient.value(); }))
              .figure("weight_gradient_flop", forms([](auto& f) { return f.weight_gradient.value(); }))
              .figure("activation_bytes", Unit::bytes, "kept for the input gradient", forms(&Forms::activation))
              .or_left_out()
              .figure("weight_hold_bytes", Unit::bytes, "from there to the weight gradient", forms(&Forms::weight_hold))
              .or_left_out(),
          layers_of)
      .rows("expected_groups",
            Shown<Sharing>("Of GPUs that share the experts evenly, those with an expert that a token meets.")
                .figures(Unit::none, "groups", &Sharing::groups, "met", &Sharing::met, "others", &Sharing::others),
            [](auto& m) { return m.is_moe() ? std::optional(sharings(m)) : std::nullopt; })
      .or_left_out();
}

}  // namespace rehearsal::report
