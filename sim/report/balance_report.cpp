#include "report/balance_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/decimal.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

std::string_view policy_name(const balance::Answer& answer) {
  return balance::name(answer.shape.hierarchical ? balance::Policy::hierarchical : balance::Policy::global);
}

using balance::Answer, balance::LayerBalance, balance::TraceStep;

Json by_layer(const std::vector<std::int32_t>& flat, std::uint32_t layers) {
  Json all = Json::array();
  const auto width = std::ptrdiff_t(flat.size() / layers);
  for (auto at = flat.begin(); at != flat.end(); at += width) all.push_back(std::vector<std::int32_t>(at, at + width));
  return all;
}

Json copies(const balance::Placement& placement) {
  Json all = Json::array();
  for (std::uint32_t l = 0; l < placement.layers; l++) {
    auto& layer = all.push_back(Json::array());
    for (std::uint32_t e = 0; e < placement.experts; e++) layer.push_back(placement.copies(l, e));
  }
  return all;
}

Shown<LayerBalance> layer_balance() {
  return Shown<LayerBalance>()
      .figure("layer", &LayerBalance::layer)
      .figure("before_max_over_mean", Unit::ratio, "before", "", &LayerBalance::before_max_over_mean)
      .figure("max_over_mean", Unit::ratio, "after", "", &LayerBalance::max_over_mean)
      .figure("lower_bound", Unit::ratio, "", &LayerBalance::lower_bound)
      .figure("moved_replicas", Unit::none, "moved", "", [](auto& l) { return l.moves.replicas; });
}
Shown<balance::Held> held() {
  using balance::Held;
  return Shown<Held>("Bytes of the GPU with the most slots: weights, and keys and values; nothing that training keeps.")
      .figures(Unit::none, "experts", &Held::experts, "redundant", &Held::redundant, "others", &Held::others)
      .figures(Unit::none, "cache", &Held::cache, "all", &Held::all, "fits", &Held::fits)
      .figure("tokens", Unit::none, "that the cache has room for", &Held::tokens);
}
constexpr auto kLayerColumns = {"layer", "before_max_over_mean", "max_over_mean", "lower_bound", "moved_replicas"};

Shown<TraceStep> trace_step() {
  return Shown<TraceStep>("Steps of a trace.")
      .figure("rebalanced", &TraceStep::rebalanced)
      .figure("moved_replicas", [](auto& s) { return s.moves.replicas; })
      .figure("moving_s", Unit::seconds, "until all weights are there", &TraceStep::moving)
      .figure("max_over_mean", Unit::ratio, "by layer", &TraceStep::max_over_mean)
      .figure("static_max_over_mean", Unit::ratio, "had the first placement stayed", &TraceStep::kept_max_over_mean);
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

Shown<Balanced> balance_answer() {
  const auto placed = [](auto get) { return [get](const Balanced& b) { return get(b.answer.placement); }; };
  const auto of_layers = [](auto member) {
    return [member](const Balanced& b) { return each(b.answer.layers, member); };
  };
  return Shown<Balanced>("Experts on GPUs. Lists are by layer; slots, GPUs and experts are in their order.")
      .figure("name", [](auto& b) { return b.question.name; })
      .figure("method", [](auto& b) { return b.question.method; })
      .figure("policy", [](auto& b) { return policy_name(b.answer); })
      .figure("phy2log", Unit::none, "experts of slots", placed([](auto& p) { return by_layer(p.phy2log, p.layers); }))
      .figure("log2phy", Unit::none, "slots of an expert's copies; -1: none", placed(copies))
      .figure("logcnt", Unit::none, "copies of experts", placed([](auto& p) { return by_layer(p.logcnt, p.layers); }))
      .figure("gpu_load", of_layers(&LayerBalance::after))
      .figure("max_over_mean", Unit::ratio, "load of the heaviest GPU", of_layers(&LayerBalance::max_over_mean))
      .figure("lower_bound", Unit::ratio, "of any placement", of_layers(&LayerBalance::lower_bound))
      .figure("before_max_over_mean", Unit::ratio, "with the previous placement, or experts in order",
              of_layers(&LayerBalance::before_max_over_mean))
      .figure("moved_replicas", [](auto& b) { return b.answer.moves.replicas; })
      .figure("moved_between_nodes", Unit::none, "of those", [](auto& b) { return b.answer.moves.between_nodes; })
      .figure("moved_bytes", [](auto& b) { return b.answer.moved_bytes.count(); })
      .figure("moving_s", Unit::seconds, "until all weights are there", [](auto& b) { return b.answer.moving; })
      .figure("saved_s", Unit::seconds, "of the trace, beside the first placement kept",
              [](auto& b) { return b.answer.saved; })
      .group("memory", held(), [](auto& b) { return b.answer.held ? &*b.answer.held : nullptr; })
      .rows("steps", trace_step(), [](auto& b) { return b.answer.steps.empty() ? nullptr : &b.answer.steps; })
      .or_left_out();
}

std::string to_csv(const Answer& answer) { return csv(layer_balance(), answer.layers, kLayerColumns); }
Table layer_table(const Answer& answer) { return report::table(layer_balance(), answer.layers, kLayerColumns); }

std::string to_text(const balance::Question& question, const balance::Answer& answer, const page::TextStyle& style) {
  const auto& shape = answer.shape;
  std::string text = fmt::format("{}\n{} layers of {} experts, {} replicas on {} GPUs in {} node{}; {}, method {}\n\n",
                                 question.name, answer.layers.size(), shape.experts, shape.replicas, shape.gpus,
                                 shape.nodes, shape.nodes == 1 ? "" : "s", policy_name(answer), question.method);
  const char* before = answer.from_previous ? "the previous placement" : "experts in order";
  text += fmt::format("Load of the heaviest GPU over the mean; before: {}\n", before);
  auto table = layer_table(answer);
  elide(table, 24);
  text += page::text(table, Paint{style.color}, style.width);
  double most = 1;
  for (const auto& layer : answer.layers) most = std::max(most, layer.before_max_over_mean);
  const std::size_t width = static_cast<std::size_t>(std::max(20, style.width - 14));
  text += fmt::format("\nLoads of the GPUs of layer 0, ' ' none to '@' {:.2f} times the mean and more\n", most);
  text += fmt::format("before  |{}|\nafter   |{}|\n", heat(answer.layers.front().before, most, width),
                      heat(answer.layers.front().after, most, width));
  text += fmt::format("\nMoved: {} replicas, {} of them to nodes that did not have that expert", answer.moves.replicas,
                      answer.moves.between_nodes);
  if (answer.moved_bytes.count() > 0) text += fmt::format("; {:.3f} GB", double(answer.moved_bytes.count()) / 1e9);
  if (answer.moving) text += fmt::format(", {}", show(seconds(*answer.moving)));
  text += "\n";
  if (answer.saved) {
    text += fmt::format("Saved beside the first placement: {}", show(seconds(std::abs(*answer.saved))));
    text += *answer.saved < 0 ? " less than nothing\n" : "\n";
  }
  if (answer.held) {
    const auto& h = *answer.held;
    text += fmt::format(
        "Memory of a GPU: experts {} (copies beyond the first {}), other weights {}, keys and values {}; {}{}\n",
        decimal(h.experts, "B"), decimal(h.redundant, "B"), decimal(h.others, "B"), decimal(h.cache, "B"),
        decimal(h.all(), "B"), h.fits ? *h.fits ? " fit" : " DO NOT FIT" : " in all");
    if (h.tokens) text += fmt::format("Its cache has room for {:.0f} tokens\n", *h.tokens);
  }
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
