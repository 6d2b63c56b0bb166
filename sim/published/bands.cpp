#include "published/bands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace rehearsal::published {
namespace {

using scenario::BandRange;

// The rows of one class, and the range of their sizes.
struct Band {
  std::map<std::string, std::vector<double>> ratios;  // by family
  std::size_t rows = 0;
  std::map<std::string, std::size_t> tables;
  scenario::SizesOfRuns sizes;
  std::vector<BandRange> narrower;  // bands of classes within this one, which it must contain

  void add(const Prediction& p, double seconds) {
    ratios[p.family].push_back(*p.run.iteration_s / seconds), rows++;
    tables[p.run.table]++;
    sizes.add(p.kind);
  }
  // `width`: uncertainty of the constants, in ln; independent of the scatter of the rows.
  scenario::KnownBand known(double width = 0) const {
    const double low = std::log(quantile_by_family(ratios, .1)), high = std::log(quantile_by_family(ratios, .9));
    const double middle = (low + high) / 2, half = std::hypot((high - low) / 2, width);
    scenario::KnownBand band{{std::exp(middle - half), std::exp(middle + half)}, sizes};
    for (const auto& within : narrower) band.range.take_in(within);
    return band;
  }

  std::string text(double width = 0) const {
    const auto range = known(width).range;
    return fmt::format(
        "    sequence: [{:.0f}, {:.0f}]\n    parameters: [{:.3g}, {:.3g}]\n    gpus: [{:.0f}, {:.0f}]\n"
        "    low: {:.3f}\n    high: {:.3f}\n",
        sizes.sequence.first, sizes.sequence.second, sizes.parameters.first, sizes.parameters.second, sizes.gpus.first,
        sizes.gpus.second, range.low, range.high);
  }
  std::string names_of_tables() const {
    std::string names;
    for (const auto& [table, count] : tables) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", count, table);
    return names;
  }
};

bool is_forecast(const Prediction& p) { return p.timed() && p.not_forecast.empty(); }

// Of all runs, or of all except one family; matched as a scenario would be.
struct Bands {
  std::map<std::string, Band> comparable, generations;  // by the text of their class
  Band all, experts;
  const Widths& widths;

  Bands(const std::vector<Prediction>& predictions, const Widths& of_classes, const std::string& without = "")
      : widths(of_classes) {
    std::map<std::string, std::string> generation_of;
    for (const auto& p : predictions) {
      if (!p.timed() || (!without.empty() && p.family == without)) continue;
      if (p.kind.experts) {
        if (is_forecast(p)) experts.add(p, p.forecast_s);
        continue;
      }
      const auto name = class_of(p.kind);
      comparable[name].add(p, p.iteration_s), generation_of[name] = p.kind.generation();
      if (is_forecast(p)) generations[p.kind.generation()].add(p, p.forecast_s), all.add(p, p.forecast_s);
    }
    std::erase_if(comparable, [](const auto& of) { return of.second.rows < kFewestRuns; });
    std::erase_if(generations, [](const auto& of) { return of.second.ratios.size() < kFewestFamilies; });
    for (const auto& [name, band] : comparable) {
      const auto range = band.known(width_of(name)).range;
      if (const auto of = generations.find(generation_of[name]); of != generations.end())
        of->second.narrower.push_back(range), of->second.sizes.take_in(band.sizes);
      all.narrower.push_back(range), all.sizes.take_in(band.sizes);
    }
    for (const auto& [name, band] : generations) all.narrower.push_back(band.known().range);
    if (all.rows) experts.narrower.push_back(all.known().range);
  }
  double width_of(const std::string& of_class) const {
    const auto found = widths.find(of_class);
    return found == widths.end() ? 0 : found->second;
  }
  scenario::Told of(const scenario::RunClass& kind) const {
    const auto known = [](const auto& bands, const std::string& name, double width) {
      const auto found = bands.find(name);
      return found == bands.end() ? std::nullopt : std::optional(found->second.known(width));
    };
    const auto name = class_of(kind);
    const auto alike = known(comparable, name, width_of(name)), such = known(generations, kind.generation(), 0);
    return scenario::told(kind, alike ? &*alike : nullptr, such ? &*such : nullptr,
                          kind.experts ? experts.known() : all.known());
  }
};

}  // namespace

std::string class_of(const scenario::RunClass& k) {
  return fmt::format(
      "  - gpu: {}\n    software: {}\n    attention: {}\n    recompute: {}\n    precision: {}\n    layout: {}\n", k.gpu,
      k.framework, k.attention, k.recompute, k.precision, k.layout);
}

Coverage coverage(const std::vector<Prediction>& predictions, const Widths& widths) {
  std::map<std::string, std::vector<const Prediction*>> families;
  for (const auto& p : predictions)
    if (is_forecast(p)) families[p.family].push_back(&p);
  Coverage c;
  for (const auto& [family, rows] : families) {
    const Bands others(predictions, widths, family);
    const double share = 1 / double(rows.size());
    bool any = false;
    for (const auto* p : rows) {
      if ((p->kind.experts ? others.experts : others.all).rows == 0) continue;
      const auto told = others.of(p->kind);
      any = true;
      if (told.range.holds(*p->run.iteration_s / p->forecast_s)) c.inside += share;
      c.width += share * (told.range.high / told.range.low - 1);
      c.compared += share * double(told.among == scenario::ErrorBand::Among::comparable);
    }
    c.families += any;
  }
  if (const double n = double(c.families); n > 0) c.inside /= n, c.width /= n, c.compared /= n;
  return c;
}

std::string bands_yaml(const std::vector<Prediction>& predictions, const Widths& widths) {
  const Bands bands(predictions, widths);
  std::string text = "comparable:\n";
  for (const auto& [head, band] : bands.comparable)
    text += fmt::format("{}{}    basis: {} published runs ({})\n", head, band.text(bands.width_of(head)), band.rows,
                        band.names_of_tables());
  text += "generation:\n";
  for (const auto& [name, band] : bands.generations)
    text += fmt::format(
        "  - generation: {}\n{}    basis: {} published runs of any framework and layout on such GPUs ({})\n", name,
        band.text(), band.rows, band.names_of_tables());
  const auto one = [&](const char* list, const Band& band, const char* what) {
    if (band.rows)
      text += fmt::format("{}:\n  -{}    basis: {}\n", list, band.text().substr(3),
                          fmt::format(fmt::runtime(what), band.rows, band.ratios.size()));
  };
  one("all", bands.all, "all {} published runs of dense models, of {} families of publisher, GPU and framework");
  one("experts", bands.experts,
      "{} published runs of mixtures of experts, of {} families, and those of dense models, of which more is known");
  return text;
}

}  // namespace rehearsal::published
