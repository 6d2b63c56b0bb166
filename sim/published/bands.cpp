#include "published/bands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/parallel.hpp"

namespace rehearsal::published {
namespace {

using scenario::BandModel;
using scenario::Sides;
using scenario::Unseen;

// Of runs, on either side. A tenth is aimed at; a family that no factor was fitted to lies beyond more often than those
// that one was (coverage() below: .1 leaves 21 to 22 % of such runs outside, .09 20 to 21).
constexpr double kBeyond = .09;
constexpr std::size_t kRowsOfATable = 60;  // as samples; evenly taken from tables that have more
constexpr int kRounds = 12;
constexpr double kNarrowest = .02, kLeastFactor = .25, kMostFactor = 8;

// A coordinate of the fit: a feature, or what is not known of a run.
struct Coordinate {
  std::string key;
  bool widens;  // never narrows
};
const std::vector<Coordinate>& coordinates() {
  static const auto all = [] {
    std::vector<Coordinate> list;
    for (const auto& feature : scenario::features()) list.push_back({feature.key, false});
    for (const auto unseen : scenario::kUnseen) list.push_back({scenario::key_of(unseen), true});
    return list;
  }();
  return all;
}

struct Sample {
  const Prediction* of;
  std::size_t family;
  double ratio;  // ln of measured over predicted
  double weight;
  std::vector<double> strengths;  // by coordinate
};

struct Fit {
  Sides base{.05, .05};
  std::vector<Sides> factors = std::vector<Sides>(coordinates().size());
};

// Where a share `q` of the weight lies below; of (value, weight).
double weighted_quantile(std::vector<std::pair<double, double>>& values, double q) {
  std::sort(values.begin(), values.end());
  double whole = 0, sum = 0;
  for (const auto& [value, weight] : values) whole += weight;
  for (const auto& [value, weight] : values)
    if ((sum += weight) >= q * whole) return value;
  return values.back().first;
}

// Half widths of one side. Every factor is set in turn so that the share beyond is right for the samples that have the
// feature wholly. Of n families the share is that of n + 1 (conformal prediction): few say less of the next one, and
// tables of one publisher, GPU and framework err alike.
void fit_side(const std::vector<const Sample*>& samples, bool above, Fit& fit) {
  const auto side = [above](Sides& s) -> double& { return above ? s.high : s.low; };
  const auto beyond = [above](const Sample& s) { return std::max(1e-3, above ? s.ratio : -s.ratio); };
  const std::size_t n = coordinates().size();
  std::vector<double> scales(samples.size(), 1);  // the product of the factors of a sample
  const auto rescale = [&] {
    for (std::size_t i = 0; i < samples.size(); i++) {
      double log = 0;
      for (std::size_t f = 0; f < n; f++)
        if (samples[i]->strengths[f] > 0) log += samples[i]->strengths[f] * std::log(side(fit.factors[f]));
      scales[i] = std::exp(log);
    }
  };
  std::vector<std::pair<double, double>> values;
  for (int round = 0; round < kRounds; round++) {
    rescale();
    values.clear();
    for (std::size_t i = 0; i < samples.size(); i++)
      values.emplace_back(beyond(*samples[i]) / scales[i], samples[i]->weight);
    side(fit.base) = std::max(kNarrowest, weighted_quantile(values, 1 - kBeyond));
    for (std::size_t f = 0; f < n; f++) {
      values.clear();
      std::set<std::size_t> families;
      for (std::size_t i = 0; i < samples.size(); i++)
        if (samples[i]->strengths[f] >= 1) {
          values.emplace_back(beyond(*samples[i]) / (side(fit.base) * scales[i]), samples[i]->weight);
          families.insert(samples[i]->family);
        }
      if (values.empty()) continue;
      const double few = double(families.size()) / (double(families.size()) + 1);
      const double was = side(fit.factors[f]);
      const double now = std::clamp(was * weighted_quantile(values, 1 - kBeyond * few),
                                    coordinates()[f].widens ? 1 : kLeastFactor, kMostFactor);
      side(fit.factors[f]) = now;
      for (std::size_t i = 0; i < samples.size(); i++)
        if (const double s = samples[i]->strengths[f]; s > 0) scales[i] *= std::pow(now / was, s);
    }
  }
}

// Samples of all runs.
std::vector<Sample> samples_of(const std::vector<Prediction>& predictions) {
  std::map<std::string, std::vector<const Prediction*>> tables;
  std::map<std::string, std::size_t> families;
  for (const auto& p : predictions)
    if (p.timed()) tables[p.run.table].push_back(&p), families.emplace(p.family, families.size());
  std::vector<Sample> samples;
  for (const auto& [name, rows] : tables) {
    const auto kept = std::min(rows.size(), kRowsOfATable);
    for (std::size_t k = 0; k < kept; k++) {
      const auto& p = *rows[k * rows.size() / kept];
      std::vector<double> strengths;
      for (const auto& feature : scenario::features()) strengths.push_back(feature.strength(p.kind));
      const auto known = strengths.size();
      strengths.resize(coordinates().size());
      const auto add = [&](double seconds) {
        samples.push_back(
            {&p, families.at(p.family), std::log(*p.run.iteration_s / seconds), 1 / double(kept), strengths});
      };
      add(p.iteration_s);
      for (const auto unseen : scenario::kUnseen) {
        const auto& forecast = p.forecast(left_of(unseen));
        if (!forecast.missing.empty()) continue;
        const auto at = known + static_cast<std::size_t>(unseen);
        strengths[at] = 1;
        add(forecast.seconds);
        strengths[at] = 0;
      }
    }
  }
  return samples;
}

BandModel model_of(const std::vector<Sample>& all, const std::vector<Prediction>& predictions,
                   const std::function<bool(const Prediction&)>& counts) {
  std::vector<const Sample*> samples;
  for (const auto& sample : all)
    if (counts(*sample.of)) samples.push_back(&sample);
  Fit fit;
  if (!samples.empty()) fit_side(samples, false, fit), fit_side(samples, true, fit);
  BandModel model;
  model.base = fit.base;
  for (std::size_t f = 0; f < coordinates().size(); f++) model.factors[coordinates()[f].key] = fit.factors[f];
  std::map<std::string, std::map<std::string, std::size_t>> tables;  // of a class
  for (const auto& p : predictions) {
    if (!p.timed() || !counts(p)) continue;
    auto& known = model.classes[scenario::class_of(p.kind)];
    known.sizes.add(p.kind), known.rows++;
    tables[scenario::class_of(p.kind)][p.run.table]++;
    model.sizes.add(p.kind);
    model.gpus[p.kind.gpu]++, model.frameworks[p.kind.framework]++;
  }
  for (auto& [name, known] : model.classes)
    for (const auto& [table, rows] : tables[name])
      known.tables += fmt::format("{}{} {}", known.tables.empty() ? "" : ", ", rows, table);
  return model;
}

const auto kAny = [](const Prediction&) { return true; };

std::string range_text(const std::pair<double, double>& range, const char* between = " ") {
  return fmt::format("{:.4g}{}{:.4g}", range.first, between, range.second);
}

}  // namespace

BandModel fit_bands(const std::vector<Prediction>& predictions) {
  return model_of(samples_of(predictions), predictions, kAny);
}

std::vector<Coverage> coverage(const std::vector<Prediction>& predictions, unsigned jobs) {
  struct Group {
    std::string what;
    std::function<bool(const Prediction&)> holds;
  };
  std::vector<Group> groups{{"all", kAny}};
  const auto dense = [](const scenario::RunClass& run, const char* key) {
    bool on = false;
    for (const auto& feature : scenario::features()) on |= feature.key == std::string(key) && feature.strength(run) > 0;
    return on && run.experts == "none" && !run.eager && !run.adapters;
  };
  groups.push_back({"dense models on Hopper", [=](const auto& p) { return dense(p.kind, "hopper"); }});
  groups.push_back({"dense models on Blackwell", [=](const auto& p) { return dense(p.kind, "blackwell"); }});
  groups.push_back({"of fine-tuning, of all weights or of adapters", [](const auto& p) {
                      return std::find(p.causes.begin(), p.causes.end(), "fine-tuning") != p.causes.end();
                    }});
  for (const auto& feature : scenario::features())
    groups.push_back({feature.words, [&](const auto& p) { return feature.strength(p.kind) >= 1; }});

  const auto samples = samples_of(predictions);
  std::set<std::string> names;
  for (const auto& p : predictions)
    if (p.timed() && p.forecast(Left::family).missing.empty()) names.insert(p.family);
  const std::vector<std::string> families(names.begin(), names.end());
  struct Seen {
    const Prediction* of;
    bool inside;
    double width;
  };
  std::vector<std::vector<Seen>> seen(families.size());
  in_parallel(families.size(), jobs, [&](std::size_t i) {
    const auto model = model_of(samples, predictions, [&](const auto& p) { return p.family != families[i]; });
    if (model.classes.empty()) return;
    for (const auto& p : predictions) {
      if (!p.timed() || p.family != families[i] || !p.forecast(Left::family).missing.empty()) continue;
      auto range = told(p.kind, model).range;
      range.low *= p.recipes.low, range.high *= p.recipes.high;
      seen[i].push_back(
          {&p, range.holds(*p.run.iteration_s / p.forecast(Left::family).seconds), range.high / range.low - 1});
    }
  });
  std::vector<Coverage> all;
  for (const auto& group : groups) {
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> tables;
    for (const auto& family : seen)
      for (const auto& each : family)
        if (group.holds(*each.of)) {
          auto& [inside, width] = tables[each.of->run.table];
          inside.push_back(each.inside), width.push_back(each.width);
        }
    Coverage c{group.what, tables.size()};
    for (const auto& [name, of] : tables)
      c.inside += mean(of.first) / double(tables.size()), c.width += mean(of.second) / double(tables.size());
    if (c.tables || all.empty()) all.push_back(c);
  }
  return all;
}

std::string bands_yaml(const std::vector<Prediction>& predictions) {
  const auto samples = samples_of(predictions);
  const auto model = model_of(samples, predictions, kAny);
  std::string text = fmt::format("base: {{low: {:.4f}, high: {:.4f}}}\nfactors:\n", model.base.low, model.base.high);
  for (std::size_t f = 0; f < coordinates().size(); f++) {
    std::set<std::size_t> families;
    for (const auto& sample : samples)
      if (sample.strengths[f] >= 1) families.insert(sample.family);
    const auto& factor = model.factors.at(coordinates()[f].key);
    text += fmt::format("  - {{feature: {}, low: {:.3f}, high: {:.3f}, families: {}}}\n", coordinates()[f].key,
                        factor.low, factor.high, families.size());
  }
  const auto& all = model.sizes;
  text += fmt::format("sizes: {{sequence: [{}], parameters: [{}], gpus: [{}]}}\nruns: |\n",
                      range_text(all.sequence, ", "), range_text(all.parameters, ", "), range_text(all.gpus, ", "));
  for (const auto& [name, known] : model.classes)
    text += fmt::format("  {} | {} | {} | {} | {} | {}\n", name, range_text(known.sizes.sequence),
                        range_text(known.sizes.parameters), range_text(known.sizes.gpus), known.rows, known.tables);
  return text;
}

}  // namespace rehearsal::published
