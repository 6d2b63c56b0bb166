#include "published/bands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rehearsal::published {
namespace {

// Low and high of measured over predicted times.
struct Range {
  double low = 0, high = 0;
  bool holds(double ratio) const { return ratio >= low && ratio <= high; }
};

// Rows of one class, and the sizes that they span.
struct Band {
  std::map<std::string, std::vector<double>> ratios;  // by family
  std::size_t rows = 0;
  std::map<std::string, std::size_t> tables;
  static constexpr double kFar = std::numeric_limits<double>::infinity();
  std::pair<double, double> sequence{kFar, 0}, parameters{kFar, 0}, gpus{kFar, 0};

  void add(const Prediction& p, double seconds) {
    ratios[p.family].push_back(*p.run.iteration_s / seconds), rows++;
    tables[p.run.table]++;
    const auto span = [](auto& range, double value) {
      range = {std::min(range.first, value), std::max(range.second, value)};
    };
    span(sequence, p.kind.sequence), span(parameters, p.kind.parameters), span(gpus, p.kind.gpus);
  }
  bool reaches(const scenario::RunClass& kind) const {
    const auto within = [](const auto& range, double value) {
      return value >= range.first / scenario::kReach && value <= range.second * scenario::kReach;
    };
    return within(sequence, kind.sequence) && within(parameters, kind.parameters) && within(gpus, kind.gpus);
  }
  // `width`: of constants, ln; independent of what the rows scatter by.
  Range range(double width = 0) const {
    const double low = std::log(quantile_by_family(ratios, .1)), high = std::log(quantile_by_family(ratios, .9));
    const double middle = (low + high) / 2, half = std::hypot((high - low) / 2, width);
    return {std::exp(middle - half), std::exp(middle + half)};
  }

  std::string sizes() const {
    return fmt::format("    sequence: [{:.0f}, {:.0f}]\n    parameters: [{:.3g}, {:.3g}]\n    gpus: [{:.0f}, {:.0f}]\n",
                       sequence.first, sequence.second, parameters.first, parameters.second, gpus.first, gpus.second);
  }
  std::string text(double width = 0) const {
    const auto r = range(width);
    return fmt::format("low: {:.3f}\n    high: {:.3f}\n", r.low, r.high);
  }
  std::string names_of_tables() const {
    std::string names;
    for (const auto& [table, count] : tables) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", count, table);
    return names;
  }
};

double width_of(const Widths& widths, const std::string& of_class) {
  const auto found = widths.find(of_class);
  return found == widths.end() ? 0 : found->second;
}

bool is_forecast(const Prediction& p) { return p.timed() && p.not_forecast.empty(); }

// Everything but a family, as a scenario would find it.
class Others {
 public:
  Others(const std::vector<Prediction>& predictions, const std::string& family) {
    for (const auto& p : predictions) {
      if (!p.timed() || p.family == family) continue;
      comparable_[class_of(p.kind)].add(p, p.iteration_s);
      if (!is_forecast(p)) continue;
      generations_[p.kind.generation()].add(p, p.forecast_s), all_.add(p, p.forecast_s);
    }
  }
  bool any() const { return all_.rows > 0; }
  // And whether it is of comparable runs.
  std::pair<Range, bool> of(const scenario::RunClass& kind, const Widths& widths) const {
    const auto name = class_of(kind);
    const auto alike = comparable_.find(name);
    if (alike != comparable_.end() && alike->second.rows >= kFewestRuns && alike->second.reaches(kind))
      return {alike->second.range(width_of(widths, name)), true};
    const auto generation = generations_.find(kind.generation());
    const bool enough = generation != generations_.end() && generation->second.ratios.size() >= kFewestFamilies;
    return {(enough ? generation->second : all_).range(), false};
  }

 private:
  std::map<std::string, Band> comparable_, generations_;
  Band all_;
};

}  // namespace

std::string class_of(const scenario::RunClass& k) {
  return fmt::format(
      "  - gpu: {}\n    software: {}\n    attention: {}\n    recompute: {}\n    precision: {}\n    layout: {}\n", k.gpu,
      k.software, k.attention, k.recompute, k.precision, k.layout);
}

Coverage coverage(const std::vector<Prediction>& predictions, const Widths& widths) {
  std::map<std::string, std::vector<const Prediction*>> families;
  for (const auto& p : predictions)
    if (is_forecast(p)) families[p.family].push_back(&p);
  Coverage c;
  for (const auto& [family, rows] : families) {
    const Others others(predictions, family);
    if (!others.any()) continue;
    const double share = 1 / double(rows.size());
    c.families++;
    for (const auto* p : rows) {
      const auto [range, compared] = others.of(p->kind, widths);
      if (range.holds(*p->run.iteration_s / p->forecast_s)) c.inside += share;
      c.width += share * (range.high / range.low - 1), c.compared += share * double(compared);
    }
  }
  if (const double n = double(c.families); n > 0) c.inside /= n, c.width /= n, c.compared /= n;
  return c;
}

std::string bands_yaml(const std::vector<Prediction>& predictions, const Widths& widths) {
  std::map<std::string, Band> comparable, generations;  // by the text of their class
  Band everything;
  // By attention, of each framework the newest profile that ran: what a scenario without one is told of.
  std::map<std::string, std::map<std::string, std::string>> software;
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    const auto& k = p.kind;
    comparable[class_of(k)].add(p, p.iteration_s);
    if (is_forecast(p)) generations[k.generation()].add(p, p.forecast_s), everything.add(p, p.forecast_s);
    if (const auto dash = k.software.find("-20"); dash != std::string::npos) {
      auto& newest = software[k.attention][k.software.substr(0, dash)];
      newest = std::max(newest, k.software);
    }
  }
  std::string text = "comparable:\n";
  for (const auto& [head, band] : comparable)
    if (band.rows >= kFewestRuns)
      text += fmt::format("{}{}    {}    basis: {} published runs ({})\n", head, band.sizes(),
                          band.text(width_of(widths, head)), band.rows, band.names_of_tables());
  text += "generation:\n";
  for (const auto& [name, band] : generations)
    if (band.ratios.size() >= kFewestFamilies)
      text += fmt::format(
          "  - generation: {}\n    {}    basis: {} published runs of any software and layout on such GPUs ({})\n", name,
          band.text(), band.rows, band.names_of_tables());
  if (!everything.ratios.empty())
    text += fmt::format(
        "all:\n  - {}    basis: none is like this one; all {} published runs, of {} families of publisher, GPU and "
        "software\n",
        everything.text(), everything.rows, everything.ratios.size());
  text += "software:\n";
  for (const auto& [attention, frameworks] : software) {
    std::vector<std::string> names;
    for (const auto& [framework, profile] : frameworks)
      if (framework != "mlperf") names.push_back(profile);  // code for one benchmark
    text += fmt::format("  {}: [{}]\n", attention, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace rehearsal::published
