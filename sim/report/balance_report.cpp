#include "report/balance_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

std::string_view policy_name(const balance::Answer& answer) {
  return balance::name(answer.shape.hierarchical ? balance::Policy::hierarchical : balance::Policy::global);
}

Json rows(const std::vector<std::int32_t>& flat, std::uint32_t count, std::size_t width) {
  Json all = Json::array();
  for (std::uint32_t l = 0; l < count; l++)
    all.push_back(std::vector<std::int32_t>(flat.begin() + std::ptrdiff_t(l * width),
                                            flat.begin() + std::ptrdiff_t((l + 1) * width)));
  return all;
}

Json copies(const balance::Placement& placement) {
  Json all = Json::array();
  for (std::uint32_t l = 0; l < placement.layers; l++) {
    Json layer = Json::array();
    for (std::uint32_t e = 0; e < placement.experts; e++) {
      const auto slots = placement.copies(l, e);
      layer.push_back(std::vector<std::int32_t>(slots.begin(), slots.end()));
    }
    all.push_back(std::move(layer));
  }
  return all;
}

// One character per GPU, or per group of neighbours (by the heaviest of them): load over mean load, from ' ' for none
// to
// '@' for `most` and more.
std::string heat(const balance::Loads& loads, double most, std::size_t width) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(loads.size());
  const std::size_t cells = std::min(width, loads.size());
  std::string text;
  for (std::size_t c = 0; c < cells; c++) {
    const auto from = loads.begin() + std::ptrdiff_t(c * loads.size() / cells),
               to = loads.begin() + std::ptrdiff_t((c + 1) * loads.size() / cells);
    const double share = mean > 0 ? *std::max_element(from, to) / mean / most : 0;
    text += kShades[std::min(kShades.size() - 1, static_cast<std::size_t>(share * double(kShades.size())))];
  }
  return text;
}

}  // namespace

Json to_json(const balance::Question& question, const balance::Answer& answer) {
  const auto& placement = answer.placement;
  Json json{{"name", question.name},         {"method", question.method},
            {"policy", policy_name(answer)}, {"phy2log", rows(placement.phy2log, placement.layers, placement.replicas)},
            {"log2phy", copies(placement)},  {"logcnt", rows(placement.logcnt, placement.layers, placement.experts)}};
  for (const auto& layer : answer.layers) {
    json["gpu_load"].push_back(layer.after);
    json["max_over_mean"].push_back(layer.max_over_mean);
    json["lower_bound"].push_back(layer.lower_bound);
    json["before_max_over_mean"].push_back(layer.before_max_over_mean);
  }
  json["moved_replicas"] = answer.moves.replicas;
  json["moved_between_nodes"] = answer.moves.between_nodes;
  json["moved_bytes"] = answer.moved_bytes.count();
  for (const auto& step : answer.steps)
    json["steps"].push_back({{"rebalanced", step.rebalanced},
                             {"moved_replicas", step.moves.replicas},
                             {"max_over_mean", step.max_over_mean},
                             {"static_max_over_mean", step.kept_max_over_mean}});
  return json;
}

std::string to_csv(const balance::Answer& answer) {
  std::string text = "layer,before_max_over_mean,max_over_mean,lower_bound,moved_replicas\n";
  for (std::size_t l = 0; l < answer.layers.size(); l++) {
    const auto& layer = answer.layers[l];
    text += fmt::format("{},{:.9g},{:.9g},{:.9g},{}\n", l, layer.before_max_over_mean, layer.max_over_mean,
                        layer.lower_bound, layer.moves.replicas);
  }
  return text;
}

std::string to_text(const balance::Question& question, const balance::Answer& answer, const page::TextStyle& style) {
  const auto& shape = answer.shape;
  std::string text = fmt::format("{}\n{} layers of {} experts, {} replicas on {} GPUs in {} node{}; {}, method {}\n\n",
                                 question.name, answer.layers.size(), shape.experts, shape.replicas, shape.gpus,
                                 shape.nodes, shape.nodes == 1 ? "" : "s", policy_name(answer), question.method);
  const char* before = answer.from_previous ? "the previous placement" : "experts in order";
  text += fmt::format("Load of the heaviest GPU over the mean; before: {}\n", before);
  text += fmt::format("{:>5} {:>9} {:>9} {:>11} {:>7}\n", "layer", "before", "after", "lower bound", "moved");
  const auto fold = elided_rows(static_cast<std::uint32_t>(answer.layers.size()), 24);
  double most = 1;
  for (const auto& layer : answer.layers) most = std::max(most, layer.before_max_over_mean);
  for (std::size_t l = 0; l < answer.layers.size(); l++) {
    if (l == fold.first && fold.hidden) text += fmt::format("  ... {} more\n", fold.hidden), l += fold.hidden;
    const auto& layer = answer.layers[l];
    text += fmt::format("{:>5} {:>9.4f} {:>9.4f} {:>11.4f} {:>7}\n", l, layer.before_max_over_mean, layer.max_over_mean,
                        layer.lower_bound, layer.moves.replicas);
  }
  const std::size_t width = static_cast<std::size_t>(std::max(20, style.width - 14));
  text += fmt::format("\nLoads of the GPUs of layer 0, ' ' none to '@' {:.2f} times the mean and more\n", most);
  text += fmt::format("before  |{}|\nafter   |{}|\n", heat(answer.layers.front().before, most, width),
                      heat(answer.layers.front().after, most, width));
  text += fmt::format("\nMoved: {} replicas, {} of them to nodes without that expert", answer.moves.replicas,
                      answer.moves.between_nodes);
  if (answer.moved_bytes.count() > 0) text += fmt::format("; {:.3f} GB", double(answer.moved_bytes.count()) / 1e9);
  text += "\n";
  if (answer.steps.empty()) return fit(text, style.width);
  text += fmt::format("\n{:>5} {:>14} {:>14}   moved\n", "step", "mean of layers", "first kept");
  for (std::size_t s = 0; s < answer.steps.size(); s++) {
    const auto& step = answer.steps[s];
    const auto mean = [](const balance::Loads& v) {
      return std::accumulate(v.begin(), v.end(), 0.) / double(v.size());
    };
    text += fmt::format("{:>5} {:>14.4f} {:>14.4f} {:>7}{}\n", s, mean(step.max_over_mean),
                        mean(step.kept_max_over_mean), step.moves.replicas, step.rebalanced ? "  rebalanced" : "");
  }
  return fit(text, style.width);
}

}  // namespace rehearsal::report
